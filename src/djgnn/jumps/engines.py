"""Exact nearest neighbours in U: interchangeable engines behind one signature.

Every engine takes the points ``[m, p]`` and a width q and returns the indices ``[m, q]`` of the q
nearest points of each point, itself included. All of them compute with differences in float64, so
that they agree up to ties; :mod:`djgnn.jumps.ranks` settles the ties.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from djgnn.jumps.triton_search import MAX_DIMENSION, MAX_WIDTH, triton_available

Engine = Callable[[Tensor, int], Tensor]

KDTREE_MAX_DIMENSION = 8
# Below this many queries starting threads costs more than it saves.
THREADED_QUERIES = 2000
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


def kdtree(points: Tensor, q: int) -> Tensor:
    """A KD-tree (scipy), O(m log m) for few dimensions; runs on the CPU wherever U lives."""
    from scipy.spatial import cKDTree

    values = points.detach().double().cpu().numpy()
    # Sliding-midpoint splits without bounding boxes build faster and cope with repeated points.
    tree = cKDTree(values, balanced_tree=False, compact_nodes=False)
    threads = torch.get_num_threads() if len(values) >= THREADED_QUERIES else 1
    _, index = tree.query(values, k=q, workers=threads)
    return torch.from_numpy(index.reshape(len(values), q)).to(points.device)


def blockwise(points: Tensor, q: int, block_elements: int | None = None) -> Tensor:
    """Brute force by blocks of rows on any device: at most `block_elements` distances at a time.

    However small the graph, never all m x m at once.
    """
    exact = points.detach().double()
    m = exact.shape[0]
    held = block_elements or BLOCK_ELEMENTS.get(points.device.type, 1 << 22)
    rows = max(1, min(held, m * m // 2) // m)
    index = torch.empty(m, q, dtype=torch.int64, device=points.device)
    for begin in range(0, m, rows):
        distances = pairwise_distances(exact[begin : begin + rows], exact)
        index[begin : begin + rows] = distances.topk(q, dim=1, largest=False).indices
    return index


def triton(points: Tensor, q: int) -> Tensor:
    """Tiles in KD order searched by a fused kernel on a GPU; blockwise where there is no Triton."""
    if on_tiles("triton", points, q):
        from djgnn.jumps.triton_search import triton_search

        return triton_search(points, q)
    return blockwise(points, q)


ENGINES: dict[str, Engine] = {
    "dense": dense,
    "kdtree": kdtree,
    "blockwise": blockwise,
    "triton": triton,
}


def on_tiles(name: str, points: Tensor, width: int) -> bool:
    """Whether the search of that name runs on the tiles of a GPU: there, with Triton, K <= 64."""
    if name not in ("auto", "triton") or points.device.type != "cuda" or width > MAX_WIDTH:
        return False
    return points.shape[1] <= MAX_DIMENSION and triton_available()


def choose_engine(name: str, points: Tensor) -> Engine:
    """The engine of that name; ``"auto"`` takes the KD-tree on the CPU for p <= 8.

    Raises:
        ValueError: If there is no such engine.
    """
    if name == "auto":
        few = points.shape[1] <= KDTREE_MAX_DIMENSION
        name = "kdtree" if points.device.type == "cpu" and few else "blockwise"
    if name not in ENGINES:
        raise ValueError(f"engine must be one of auto, {', '.join(ENGINES)} (got '{name}')")
    return ENGINES[name]
