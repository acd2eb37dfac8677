"""Exact nearest neighbours in U: interchangeable engines behind one signature.

Every engine takes the points ``[m, p]``, a width q and queries ``[r, p]`` (the points themselves by
default), and returns the indices ``[r, q]`` of the q nearest points of each query. All of them
compute with differences in float64, so that they agree up to ties, which
:func:`djgnn.jumps.ranks.nearest_nodes` breaks. Triton's search (:mod:`djgnn.jumps.triton_search`)
is not one of them: it breaks its own ties and is taken before, see :func:`on_tiles`.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from djgnn.jumps.triton_search import MAX_DIMENSION, MAX_WIDTH, uses_triton

Engine = Callable[[Tensor, int, Tensor | None], Tensor]

KDTREE_MAX_DIMENSION = 8
LEAF = 32
# With fewer queries times threads, threads cost more than they save: those of torch wait for their
# next work by spinning, and keep the cores busy.
THREADED_WORK = 30_000
# Distances held at a time: 32 MiB on a CPU; a GPU wants more work per launch, 512 MiB.
BLOCK_ELEMENTS = {"cpu": 1 << 22, "cuda": 1 << 26}


def pairwise_distances(rows: Tensor, points: Tensor) -> Tensor:
    """Distances by differences, never through a matrix product, which would break exact ties."""
    return torch.cdist(rows, points, compute_mode="donot_use_mm_for_euclid_dist")


def kdtree(points: Tensor, q: int, queries: Tensor | None = None) -> Tensor:
    """A KD-tree (scipy), O(m log m) for few dimensions; runs on the CPU wherever U lives."""
    from scipy.spatial import cKDTree

    values = points.detach().double().cpu().numpy()
    # Sliding-midpoint splits build faster and cope with repeated points; boxes shrunk to their
    # points and larger leaves make queries faster where points are clustered, as U is.
    tree = cKDTree(values, LEAF, balanced_tree=False, compact_nodes=True)
    # Queried leaf by leaf the tree stays in the cache: three times faster at 169,343 points.
    asked = values[tree.indices] if queries is None else queries.detach().double().cpu().numpy()
    threads = torch.get_num_threads()
    workers = threads if len(asked) * threads >= THREADED_WORK else 1
    _, found = tree.query(asked, k=q, workers=workers)
    index = found.reshape(len(asked), q)
    if queries is None:
        by_leaf, index = index, np.empty_like(index)
        index[tree.indices] = by_leaf
    return torch.from_numpy(index).to(points.device)


def blockwise(points: Tensor, q: int, queries: Tensor | None = None) -> Tensor:
    """Brute force by blocks of queries on any device; never all m x m distances at once."""
    exact = points.detach().double()
    asked = exact if queries is None else queries.detach().double()
    m = exact.shape[0]
    held = BLOCK_ELEMENTS.get(points.device.type, 1 << 22)
    step = max(1, min(held, m * m // 2) // m)
    index = torch.empty(len(asked), q, dtype=torch.int64, device=points.device)
    for begin in range(0, len(asked), step):
        distances = pairwise_distances(asked[begin : begin + step], exact)
        index[begin : begin + step] = distances.topk(q, dim=1, largest=False).indices
    return index


# On a GPU :func:`djgnn.jumps.rank_lists` runs the Triton search itself where :func:`on_tiles` says
# so; elsewhere the name stands for brute force.
ENGINES: dict[str, Engine] = {"kdtree": kdtree, "blockwise": blockwise, "triton": blockwise}


def on_tiles(name: str, points: Tensor, width: int) -> bool:
    """Whether the engine of that name is the Triton search: on a GPU, for lists up to 64."""
    fits = width <= MAX_WIDTH and points.shape[1] <= MAX_DIMENSION
    return name in ("auto", "triton") and fits and uses_triton(points)


def choose_engine(name: str, points: Tensor) -> Engine:
    """The engine of that name.

    ``"auto"`` takes what is fastest by measurement (``benchmarks/crossover.py``): on a CPU the
    KD-tree up to eight dimensions, brute force above. On a GPU Triton's search is taken before this
    function is asked, where it can be.

    Raises:
        ValueError: If there is no such engine.

    Example:
        >>> import torch
        >>> choose_engine("auto", torch.zeros(10, 5)) is ENGINES["kdtree"]
        True
    """
    if name == "auto":
        few_dimensions = points.shape[1] <= KDTREE_MAX_DIMENSION
        name = "kdtree" if points.device.type == "cpu" and few_dimensions else "blockwise"
    if name not in ENGINES:
        raise ValueError(f"engine must be one of auto, {', '.join(ENGINES)} (got '{name}')")
    return ENGINES[name]
