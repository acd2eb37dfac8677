"""Rank lists on a GPU: coincident points merged, tiles searched, ties settled, all in place."""

from __future__ import annotations

import torch
from torch import Tensor

from djgnn.jumps.coincident import merge_coincident
from djgnn.jumps.tiles import SearchMemory
from djgnn.jumps.triton_search import first_members, triton_search
from djgnn.jumps.twins import TwinClasses
from djgnn.jumps.warm_search import warm_search

# Up to here comparing all pairs in float64 beats sorting them in space first.
ALL_PAIRS = 1 << 15
ALL_PAIRS_ELEMENTS = 1 << 24


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
    if capturable(points.shape[0], num_ranks):
        candidates, squares = warm_search(points, min(num_ranks, points.shape[0]), memory)
        # A root may join two squares, and lists are sorted by distances.
        return first_members(twins, candidates, squares.sqrt(), num_ranks)
    inner, merged, group = merge_coincident(points, twins)
    candidates, squares = triton_search(inner, min(num_ranks, merged.num_classes), memory)
    ranks = first_members(merged, candidates, squares.sqrt(), num_ranks)
    return ranks if group is None else ranks[group]


def capturable(m: int, num_ranks: int) -> bool:
    """Whether m points are ranked without host synchronisation, so also in a CUDA graph."""
    return m <= ALL_PAIRS and m * num_ranks**2 <= ALL_PAIRS_ELEMENTS
