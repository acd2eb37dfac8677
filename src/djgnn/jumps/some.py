"""Rank lists of some nodes only, the same as all of them would give."""

from __future__ import annotations

import torch
from torch import Tensor

from djgnn.jumps.coincident import merge_coincident
from djgnn.jumps.engines import (
    Engine,
    blockwise,
    choose_engine,
    kdtree,
    nearest_of_rows,
    on_tiles,
)
from djgnn.jumps.ranks import check_finite, check_num_ranks, rank_lists, ranks_of_rows
from djgnn.jumps.twins import TwinClasses


@torch.no_grad()
def class_ranks(
    u: Tensor, twins: TwinClasses, num_ranks: int, classes: Tensor, engine: str = "auto"
) -> Tensor:
    """The rank lists of some twin classes among all nodes.

    Equal to ``rank_lists(u, twins, num_ranks, engine).ranks[classes]``. The KD-tree and blocks are
    asked for these classes only; other engines search for all.

    Args:
        u: Positions U of all nodes.
        twins: Classes of nodes with equal rows of A.
        num_ranks: How many ranks R to keep.
        classes: Whose lists.
        engine: Name of an engine, or ``"auto"``.

    Shapes:
        u ``[n, p]``, classes ``[m]``, result ``[m, R]``.

    Raises:
        ValueError: If there are fewer nodes than ranks asked for.
        FloatingPointError: If a position is not a finite number.

    Example:
        >>> from djgnn.jumps import single_classes
        >>> u = torch.tensor([[0.0], [1.0], [0.1]])
        >>> class_ranks(u, single_classes(3), 2, torch.tensor([2])).tolist()
        [[2, 0]]
    """
    check_num_ranks(num_ranks, twins)
    points = u.detach()[twins.representative]
    check_finite(points)
    search = None if on_tiles(engine, points, num_ranks) else choose_engine(engine, points)
    if num_ranks == 0 or search not in (kdtree, blockwise):
        return rank_lists(u, twins, num_ranks, engine).ranks[classes]
    points = points.double()
    inner, merged, group = merge_coincident(points, twins)
    back = None
    if group is not None:
        classes, back = torch.unique(group[classes], return_inverse=True)
    candidates = _nearest(inner, classes, min(num_ranks + 1, merged.num_classes), search)
    ranks = ranks_of_rows(inner, merged, num_ranks, candidates, classes)
    return ranks if back is None else ranks[back]


def _nearest(points: Tensor, classes: Tensor, q: int, search: Engine | None) -> Tensor:
    if classes.numel() == 0:
        return classes.new_empty(0, q)
    if search is kdtree:
        return kdtree(points, q, classes)
    return nearest_of_rows(points, classes, q)
