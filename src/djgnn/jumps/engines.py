"""Exact nearest neighbours in U: interchangeable engines behind one signature.

Every engine takes the points ``[m, p]`` and a width q and returns the indices ``[m, q]`` of the q
nearest points of each point, itself included. All of them compute with differences in float64, so
that they agree up to ties; :mod:`djgnn.jumps.ranks` settles the ties.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

import numpy as np
import torch
from torch import Tensor

from djgnn.jumps.triton_search import MAX_DIMENSION, MAX_WIDTH, triton_available

Engine = Callable[[Tensor, int], Tensor]

KDTREE_MAX_DIMENSION = 8
LEAF = 16
FAISS_FROM = 500
# With fewer queries times threads, threads cost more than they save: those of torch wait for their
# next work by spinning, and are still in the way.
THREADED_WORK = 30_000
# Distances held at a time: 32 MiB on a CPU; a GPU wants more work per launch, 512 MiB.
BLOCK_ELEMENTS = {"cpu": 1 << 22, "cuda": 1 << 26}


def pairwise_distances(rows: Tensor, points: Tensor) -> Tensor:
    """Distances by differences, never through a matrix product, which would break exact ties."""
    return torch.cdist(rows, points, compute_mode="donot_use_mm_for_euclid_dist")


def dense(points: Tensor, q: int) -> Tensor:
    """The oracle: all m x m distances at once, a stable sort."""
    exact = points.double()
    order = torch.argsort(pairwise_distances(exact, exact), dim=1, stable=True)
    return order[:, :q]


def kdtree(points: Tensor, q: int, rows: Tensor | None = None) -> Tensor:
    """A KD-tree (scipy), O(m log m) for few dimensions; runs on the CPU wherever U lives.

    `rows` are the points whose neighbours are wanted; all by default.
    """
    from scipy.spatial import cKDTree

    values = points.detach().double().cpu().numpy()
    # Sliding-midpoint splits build faster and cope with repeated points; boxes shrunk to their
    # points and larger leaves are asked faster where points are clustered, as U is.
    tree = cKDTree(values, LEAF, balanced_tree=False, compact_nodes=True)
    # Asked leaf by leaf the tree stays in the cache: three times faster at 169,343 points.
    order = tree.indices if rows is None else rows.cpu().numpy()
    _, found = tree.query(values[order], k=q, workers=query_threads(len(order)))
    found = found.reshape(len(order), q)
    if rows is None:
        index = np.empty_like(found)
        index[order] = found
        found = index
    return torch.from_numpy(found).to(points.device)


def query_threads(queries: int) -> int:
    """How many threads to ask a KD-tree with."""
    threads = torch.get_num_threads()
    return threads if queries * threads >= THREADED_WORK else 1


def blockwise(points: Tensor, q: int, block_elements: int | None = None) -> Tensor:
    """Brute force by blocks of rows on any device: at most `block_elements` distances at a time.

    However small the graph, never all m x m at once.
    """
    exact = points.detach().double()
    rows = torch.arange(exact.shape[0], device=points.device)
    return nearest_of_rows(exact, rows, q, block_elements)


def nearest_of_rows(
    points: Tensor, rows: Tensor, q: int, block_elements: int | None = None
) -> Tensor:
    """The q nearest of some points by brute force, block by block.

    Shapes:
        points ``[m, p]`` in float64, rows ``[r]``, result ``[r, q]``.
    """
    m = points.shape[0]
    held = block_elements or BLOCK_ELEMENTS.get(points.device.type, 1 << 22)
    step = max(1, min(held, m * m // 2) // m)
    index = torch.empty(rows.numel(), q, dtype=torch.int64, device=points.device)
    for begin in range(0, rows.numel(), step):
        distances = pairwise_distances(points[rows[begin : begin + step]], points)
        index[begin : begin + step] = distances.topk(q, dim=1, largest=False).indices
    return index


def triton(points: Tensor, q: int) -> Tensor:
    """Tiles in KD order searched by a fused kernel on a GPU; blockwise where there is no Triton."""
    if on_tiles("triton", points, q):
        from djgnn.jumps.triton_search import triton_search

        return triton_search(points, q)
    return blockwise(points, q)


def faiss(points: Tensor, q: int) -> Tensor:
    """Exact search by faiss, certified in float64; for many dimensions on a CPU."""
    from djgnn.jumps.faiss_search import faiss_search

    return faiss_search(points, q)


def approximate(points: Tensor, q: int) -> Tensor:
    """About the nearest, by inverted lists of faiss; never chosen by ``"auto"``."""
    from djgnn.jumps.faiss_search import approximate_search

    return approximate_search(points, q)


ENGINES: dict[str, Engine] = {
    "dense": dense,
    "kdtree": kdtree,
    "blockwise": blockwise,
    "triton": triton,
}
# These need the extra `faiss`.
EXTRA_ENGINES: dict[str, Engine] = {"faiss": faiss, "approximate": approximate}


def on_tiles(name: str, points: Tensor, width: int) -> bool:
    """Whether the search of that name runs on the tiles of a GPU: there, with Triton, K <= 64."""
    if name not in ("auto", "triton") or points.device.type != "cuda" or width > MAX_WIDTH:
        return False
    return points.shape[1] <= MAX_DIMENSION and triton_available()


def choose_engine(name: str, points: Tensor) -> Engine:
    """The engine of that name.

    ``"auto"`` takes Triton on a GPU and on a CPU what is fastest by measurement
    (``benchmarks/crossover.py``): brute force for few points, the KD-tree up to eight dimensions,
    and faiss above, if it is there.

    Raises:
        ValueError: If there is no such engine.
    """
    known = ENGINES | EXTRA_ENGINES
    if name == "auto":
        name = _fastest(points)
    if name not in known:
        raise ValueError(f"engine must be one of auto, {', '.join(known)} (got '{name}')")
    return known[name]


def _fastest(points: Tensor) -> str:
    m, p = points.shape
    if points.device.type != "cpu":
        return "triton"
    if p <= KDTREE_MAX_DIMENSION:
        return "kdtree"
    return "faiss" if m > FAISS_FROM and find_spec("faiss") else "blockwise"
