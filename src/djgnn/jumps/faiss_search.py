"""Nearest neighbours through faiss: exact for many dimensions on a CPU, or approximate.

faiss computes in float32 through matrix products. The exact search fetches a few more than asked,
sorts them in float64, and searches those rows by brute force in which products cannot tell the
last of the list from what they left out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

# Fetched beyond what is asked for.
SPARE = 4
# Inverted lists: about this many times the root of the number of points, and how many are read.
LISTS_PER_ROOT = 4
PROBES = 16


def import_faiss() -> Any:
    """The faiss module.

    Raises:
        ImportError: If it is not installed.
    """
    try:
        import faiss
    except ImportError as error:
        raise ImportError(
            "engine 'faiss' and 'approximate' need faiss; pip install djgnn[faiss]"
        ) from error
    faiss.omp_set_num_threads(torch.get_num_threads())
    return faiss


def faiss_search(points: Tensor, q: int) -> Tensor:
    """The q nearest of every point, exactly up to ties.

    Shapes:
        points ``[m, p]``, result ``[m, q]``.
    """
    from djgnn.jumps.engines import nearest_of_rows

    exact = points.detach().double().cpu()
    values = exact.float().numpy()
    m, p = values.shape
    index = import_faiss().IndexFlatL2(p)
    index.add(values)
    wide = min(q + SPARE, m)
    seen, found = index.search(values, wide)
    candidates = torch.from_numpy(found)
    # faiss pads with -1 where a product rounded to no number; such rows are searched again.
    broken = (candidates < 0).any(dim=1)
    squares = (exact[:, None] - exact[candidates.clamp_min(0)]).square().sum(dim=2)
    squares, order = squares.sort(dim=1, stable=True)
    candidates = candidates.gather(1, order)[:, :q]
    if wide < m:
        norm = float(exact.square().sum(dim=1).max())
        error = 8 * (p + 8) * float(np.finfo(np.float32).eps) * norm
        outside = torch.from_numpy(seen).double().amax(dim=1) - error
        rows = (broken | (squares[:, q - 1] >= outside)).nonzero().squeeze(1)
        candidates[rows] = nearest_of_rows(exact, rows, q)
    return candidates.to(points.device)


def approximate_search(points: Tensor, q: int) -> Tensor:
    """About the q nearest of every point: inverted lists of faiss, only the nearest are read.

    Shapes:
        points ``[m, p]``, result ``[m, q]``.
    """
    faiss = import_faiss()
    values = points.detach().float().cpu().numpy()
    m, p = values.shape
    lists = max(1, min(int(LISTS_PER_ROOT * m**0.5), m // 39))
    index = faiss.IndexIVFFlat(faiss.IndexFlatL2(p), p, lists)
    index.train(values)
    index.add(values)
    index.nprobe = min(PROBES, lists)
    _, found = index.search(values, q)
    candidates = torch.from_numpy(found)
    # Too few points in the lists read: whoever is missing is replaced by the point itself.
    itself = torch.arange(m)[:, None].expand_as(candidates)
    return torch.where(candidates < 0, itself, candidates).to(points.device)


def recall(points: Tensor, found: Tensor, samples: int = 256) -> float:
    """Share of the true nearest that lists hold, on evenly spaced rows.

    Shapes:
        points ``[m, p]``, found ``[m, q]``.

    Example:
        >>> points = torch.tensor([[0.0], [1.0], [3.0]])
        >>> recall(points, torch.tensor([[0, 1], [1, 0], [2, 0]]))
        0.8333333333333334
    """
    from djgnn.jumps.engines import nearest_of_rows

    m, q = found.shape
    rows = torch.arange(0, m, max(1, m // samples), device=points.device)
    true = nearest_of_rows(points.double(), rows, q)
    hit = (found[rows][:, :, None] == true[:, None, :]).any(dim=2)
    return float(hit.double().mean())
