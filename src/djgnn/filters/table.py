"""Structural filters J^k as one fixed-width table: support from the ranks, coefficients from U."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from djgnn.jumps import JumpHierarchy, TwinClasses

LISTS, DEVICE_LISTS = 1 << 15, 1 << 18
"""Lists whose distances are computed at a time on a CPU, and on a GPU."""


@dataclass(frozen=True, eq=False)
class FilterTable:
    """All filters of a graph: branch k keeps the columns ``branches[k]`` (counted from 1).

    Shapes:
        index ``[n, R]`` (node of each rank), weight ``[n, R]`` (its coefficient).

    Example:
        >>> table = FilterTable(torch.tensor([[0, 1], [1, 0]]), torch.ones(2, 2), ((1,), (2,)))
        >>> len(table.branches)  # one keeps rank 1, the other rank 2
        2
    """

    index: Tensor
    weight: Tensor
    branches: tuple[tuple[int, ...], ...]

    @property
    def num_branches(self) -> int:
        """Number of filters."""
        return len(self.branches)

    def to_dense(self) -> Tensor:
        """The filters before self loops and normalisation, ``[branches, n, n]``, for oracles."""
        n = self.index.shape[0]
        filters = self.weight.new_zeros(self.num_branches, n, n)
        for k, ranks in enumerate(self.branches):
            columns = torch.tensor([r - 1 for r in ranks], dtype=torch.int64)
            filters[k].scatter_(1, self.index[:, columns], self.weight[:, columns])
        return filters

    def __repr__(self) -> str:
        n, ranks = self.index.shape
        return f"FilterTable(num_nodes={n}, num_ranks={ranks}, num_branches={self.num_branches})"


def filter_table(
    u: Tensor,
    hierarchy: JumpHierarchy,
    branches: tuple[tuple[int, ...], ...],
    scale: Tensor | float = 1.0,
) -> FilterTable:
    r"""Coefficients :math:`\exp(-s \|U_i - U_j\|)` on the pairs of the hierarchy.

    Differentiable in U and s; the choice of the pairs needs no gradient. Distances are taken
    between twin classes, so that twins are at distance 0 exactly on every device.

    Args:
        u: Positions U.
        hierarchy: Rank lists.
        branches: Ranks of each branch, see :func:`djgnn.filters.branch_ranks`.
        scale: s, a number or a tensor of one element.

    Shapes:
        u ``[n, p]``.

    Example:
        >>> from djgnn.jumps import rank_lists, single_classes
        >>> u = torch.tensor([[0.0], [1.0], [3.0]])
        >>> table = filter_table(u, rank_lists(u, single_classes(3), 2), ((1,), (2,)))
        >>> table.index.tolist()
        [[0, 1], [1, 0], [2, 1]]
        >>> [round(w, 4) for w in table.weight[:, 1].tolist()]  # exp(-1), exp(-1), exp(-2)
        [0.3679, 0.3679, 0.1353]
    """
    twins = hierarchy.twins
    weight = rank_weights(u, twins, hierarchy.ranks, scale)
    return FilterTable(hierarchy.index, weight.index_select(0, twins.class_of), branches)


def rank_weights(
    u: Tensor,
    twins: TwinClasses,
    ranks: Tensor,
    scale: Tensor | float = 1.0,
    classes: Tensor | None = None,
) -> Tensor:
    """Coefficients of rank lists, one list per twin class.

    Args:
        u: Positions U of all nodes.
        twins: The classes.
        ranks: Rank lists, nodes.
        scale: s.
        classes: The classes that the lists belong to; all by default.

    Shapes:
        u ``[n, p]``, ranks and result ``[m, R]``, classes ``[m]``.
    """
    points = u.index_select(0, twins.representative)
    near = twins.class_of[ranks]
    mine = points if classes is None else points.index_select(0, classes)
    distances: Tensor = _Distances.apply(points, mine, near)  # type: ignore[no-untyped-call]
    return torch.exp(-scale * distances)


class _Distances(torch.autograd.Function):
    """Distances of points to those that their lists name.

    The differences, p times as many numbers, are computed again for the gradient instead of kept.
    """

    @staticmethod
    def forward(ctx: Any, points: Tensor, mine: Tensor, near: Tensor) -> Tensor:
        parts = [safe_norm(gap) for gap in _gaps(points, mine, near)]
        distances = parts[0] if len(parts) == 1 else torch.cat(parts)
        ctx.save_for_backward(points, mine, near, distances)
        return distances

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        points, mine, near, distances = ctx.saved_tensors
        pull = torch.where(distances > 0, grads[0] / distances, 0.0)
        to_points, to_mine = torch.zeros_like(points), torch.empty_like(mine)
        size = _lists_at_once(points)
        blocks = (torch.split(each, size) for each in (pull, near, to_mine))
        gaps = _gaps(points, mine, near)
        for gap, weight, some, own in zip(gaps, *blocks, strict=True):
            gap.mul_(weight[:, :, None])
            torch.sum(gap, dim=1, out=own)
            to_points.index_add_(0, some.reshape(-1), gap.view(-1, gap.shape[2]).neg_())
        return to_points, to_mine, None


def _gaps(points: Tensor, mine: Tensor, near: Tensor) -> Iterator[Tensor]:
    """The differences of points to those that their lists name, some lists at a time."""
    size = _lists_at_once(points)
    for own, some in zip(torch.split(mine, size), torch.split(near, size), strict=True):
        theirs = points.index_select(0, some.reshape(-1)).view(*some.shape, points.shape[1])
        yield own[:, None, :] - theirs


def _lists_at_once(points: Tensor) -> int:
    return LISTS if points.device.type == "cpu" else DEVICE_LISTS


def safe_norm(vectors: Tensor) -> Tensor:
    """Euclidean norm over the last dimension whose gradient at zero is zero, not NaN."""
    square = vectors.square().sum(dim=-1)
    positive = square > 0
    return torch.where(positive, square, torch.ones_like(square)).sqrt() * positive
