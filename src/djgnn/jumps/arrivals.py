"""Rank lists of nodes that come later: ranked against the stored U, which does not move."""

from __future__ import annotations

import torch
from torch import Tensor

from djgnn.jumps.engines import KDTREE_MAX_DIMENSION, pairwise_distances, query_threads
from djgnn.jumps.ranks import ROW_ELEMENTS, first_nodes, list_candidates
from djgnn.jumps.twins import TwinClasses


@torch.no_grad()
def arrival_ranks(new: Tensor, u: Tensor, twins: TwinClasses, num_ranks: int) -> Tensor:
    r"""Sort, for every new node, the known nodes and itself by :math:`(\|u - U_j\|, j)`.

    A new node i has the number n + i, so it comes after the known nodes at its own position.
    Other new nodes are not in its list: what is said of a node does not depend on who came with
    it.

    Args:
        new: Positions of the new nodes.
        u: Positions of the known nodes.
        twins: Twin classes of the known nodes.
        num_ranks: How many ranks R to keep, at most n + 1.

    Shapes:
        new ``[m, p]``, u ``[n, p]``, result ``[m, R]``.

    Example:
        >>> from djgnn.jumps import single_classes
        >>> u = torch.tensor([[0.0], [1.0]])
        >>> arrival_ranks(torch.tensor([[1.0], [0.2]]), u, single_classes(2), 2).tolist()
        [[1, 2], [3, 0]]
    """
    m, n = new.shape[0], twins.num_nodes
    if num_ranks == 0 or m == 0:
        return torch.empty(m, num_ranks, dtype=torch.int64, device=u.device)
    points, queries = u.detach()[twins.representative].double(), new.detach().double()
    among = min(num_ranks, n)
    ranks, distances = _among_known(queries, points, twins, among)
    itself = n + torch.arange(m, device=u.device)
    before = (distances == 0).sum(dim=1)
    return _insert(ranks, itself, before, num_ranks)


def _insert(ranks: Tensor, itself: Tensor, before: Tensor, num_ranks: int) -> Tensor:
    """Put each node into its own list, after the `before` nodes at its position."""
    place = torch.arange(num_ranks, device=ranks.device)
    shifted = place - (place > before[:, None]).long()
    kept = ranks.gather(1, shifted.clamp_max(ranks.shape[1] - 1))
    return torch.where(place == before[:, None], itself[:, None], kept)


def _among_known(
    queries: Tensor, points: Tensor, twins: TwinClasses, num_ranks: int
) -> tuple[Tensor, Tensor]:
    """The nearest known nodes of each query and their distances, ties by node."""
    q = min(num_ranks + 1, twins.num_classes)
    candidates = _nearest(queries, points, q)
    gaps = queries[:, None, :] - points[candidates]
    distances = gaps.square().sum(dim=2).sqrt()
    ranks, tied = list_candidates(distances, candidates, twins, num_ranks)
    step = max(1, ROW_ELEMENTS // twins.num_nodes)
    for begin in range(0, tied.numel(), step):
        rows = tied[begin : begin + step]
        by_class = pairwise_distances(queries[rows], points)
        ranks[rows] = first_nodes(by_class[:, twins.class_of], num_ranks)
    near = points[twins.class_of[ranks]]
    return ranks, (queries[:, None, :] - near).square().sum(dim=2).sqrt()


def _nearest(queries: Tensor, points: Tensor, q: int) -> Tensor:
    """The q nearest points of each query, in any order among ties."""
    if points.device.type == "cpu" and points.shape[1] <= KDTREE_MAX_DIMENSION:
        from scipy.spatial import cKDTree

        tree = cKDTree(points.numpy(), balanced_tree=False, compact_nodes=False)
        _, index = tree.query(queries.numpy(), k=q, workers=query_threads(len(queries)))
        return torch.from_numpy(index.reshape(len(queries), q))
    index = torch.empty(len(queries), q, dtype=torch.int64, device=points.device)
    step = max(1, ROW_ELEMENTS // len(points))
    for begin in range(0, len(queries), step):
        distances = pairwise_distances(queries[begin : begin + step], points)
        index[begin : begin + step] = distances.topk(q, dim=1, largest=False).indices
    return index
