"""Rank lists on a GPU: coincident points merged, tiles searched, ties settled, all in place."""

from __future__ import annotations

import torch
from torch import Tensor

from djgnn.jumps.again import nearest_once_more
from djgnn.jumps.coincident import merge_coincident
from djgnn.jumps.engines import pairwise_distances
from djgnn.jumps.ranks import ROUNDING, ROW_ELEMENTS, flatten
from djgnn.jumps.tiles import SearchMemory
from djgnn.jumps.triton_search import first_members, pair_squares, triton_search
from djgnn.jumps.twins import TwinClasses

# Up to here comparing all pairs in float64 beats sorting them in space first.
FEW = 1 << 15
FEW_ELEMENTS = 1 << 24


@torch.no_grad()
def gpu_rank_lists(
    points: Tensor, twins: TwinClasses, num_ranks: int, memory: SearchMemory | None = None
) -> Tensor:
    """The first ranks of every class, the nodes sorted by (distance, node).

    Classes at the same position are merged first. Lists of classes sorted by (distance, class) are
    long enough: a node of rank r belongs to one of the r first classes, since every class before
    its own, by distance or by smallest node, has a node before it.

    Args:
        points: Position of every class, in the precision of U.
        twins: Classes of nodes with equal positions.
        num_ranks: R, at least 1.
        memory: What earlier searches left.

    Shapes:
        points ``[m, p]``, result ``[m, R]``.
    """
    if few(points.shape[0], num_ranks):
        return _rank_few(points, twins, num_ranks, memory)
    inner, merged, group = merge_coincident(points, twins)
    width = min(num_ranks, merged.num_classes)
    candidates = triton_search(inner, width, memory)
    ranks = _expand(inner, merged, candidates, num_ranks)
    return ranks if group is None else ranks[group]


def few(m: int, num_ranks: int) -> bool:
    """Whether lists of m points are found without a look at the values, so in a CUDA graph too."""
    return m <= FEW and m * num_ranks**2 <= FEW_ELEMENTS


def _rank_few(
    points: Tensor, twins: TwinClasses, num_ranks: int, memory: SearchMemory | None
) -> Tensor:
    """In float64 from the start; ties between classes are always settled node by node."""
    width = min(num_ranks, points.shape[0])
    candidates, squares = nearest_once_more(points, width, memory)
    # A root may join two squares, and the oracle sorts roots.
    return first_members(twins, candidates, squares.sqrt(), num_ranks)


def _expand(points: Tensor, twins: TwinClasses, candidates: Tensor, num_ranks: int) -> Tensor:
    """Members of the candidate classes one after the other; equidistant classes by node."""
    m = points.shape[0]
    own = torch.arange(m, device=points.device)
    distances = pair_squares(points, own, candidates).sqrt()
    ends = twins.count[candidates].cumsum(dim=1)
    ranks = flatten(candidates, ends, twins, num_ranks)
    close = distances[:, 1:] - distances[:, :-1] <= ROUNDING * distances[:, 1:]
    tied = (close & (ends[:, :-1] - twins.count[candidates[:, :-1]] < num_ranks)).any(dim=1)
    rows = tied.nonzero().squeeze(1)
    step = max(1, ROW_ELEMENTS // (candidates.shape[1] * num_ranks))
    for begin in range(0, rows.numel(), step):
        part = rows[begin : begin + step]
        ranks[part] = _settle(points, twins, part, candidates[part], num_ranks)
    return ranks


def _settle(
    points: Tensor, twins: TwinClasses, rows: Tensor, candidates: Tensor, num_ranks: int
) -> Tensor:
    """Lists of nodes sorted by (distance, node), from the first members of candidate classes."""
    exact = points.double()
    distances = pairwise_distances(exact[rows][:, None], exact[candidates]).squeeze(1)
    return _sorted_nodes(*_members(twins, candidates, distances, num_ranks), num_ranks)


def _members(
    twins: TwinClasses, candidates: Tensor, distances: Tensor, num_ranks: int
) -> tuple[Tensor, Tensor]:
    """The first members of candidate classes and their distances, infinite beyond the last."""
    place = torch.arange(num_ranks, device=candidates.device)
    count = twins.count[candidates][..., None]
    there = twins.start[candidates][..., None] + torch.minimum(place, count - 1)
    far = torch.where(place < count, distances[..., None], torch.inf)
    return twins.members[there].flatten(1), far.flatten(1)


def _sorted_nodes(nodes: Tensor, distances: Tensor, num_ranks: int) -> Tensor:
    """The first nodes by (distance, node)."""
    nodes, order = nodes.sort(dim=1)
    order = distances.gather(1, order).sort(dim=1, stable=True).indices
    return nodes.gather(1, order[:, :num_ranks])
