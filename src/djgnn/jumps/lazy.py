"""Lazy refresh: rank lists searched anew only where positions moved enough to change them."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import torch
from torch import Tensor

from djgnn.jumps.coincident import merge_coincident
from djgnn.jumps.engines import Engine, choose_engine
from djgnn.jumps.kd_order import kd_order, tile_boxes
from djgnn.jumps.ranks import (
    ROW_ELEMENTS,
    JumpHierarchy,
    candidate_distances,
    check_finite,
    check_num_ranks,
    ranks_of_rows,
    ranks_of_some,
)
from djgnn.jumps.tiles import Saving
from djgnn.jumps.twins import TwinClasses

# Candidates kept beyond the ranks: how far positions may move before they run out.
SKIN = 12
CELL = 32
# Below this many classes a search costs less than asking whether it is needed.
FEWEST = 1000
# Rounding of distances, relative; generous.
ROUNDING = 1e-12


@dataclass(eq=False)
class _Reference:
    """A full search: positions, candidates, the distance of the first point that is none.

    Shapes:
        points ``[m, p]``, candidates ``[m, several]``, beyond, order ``[m]``, near ``[2, pairs]``
        (a cell, one near it), reach ``[cells]``.
    """

    points: Tensor
    candidates: Tensor
    beyond: Tensor
    order: Tensor
    near: Tensor
    reach: Tensor

    def fits(self, points: Tensor, num_ranks: int) -> bool:
        """Whether it says something of these positions and so many ranks."""
        return self.points.shape == points.shape and num_ranks < self.candidates.shape[1]


@dataclass(eq=False)
class LazyRanks:
    r"""Exact rank lists of slowly moving positions, most of them without a search.

    A full search keeps some more candidates than needed, and the distance :math:`\rho_i` of the
    first point beyond them. Let the positions since have moved from V to U. Distances do not
    notice a common motion: with :math:`T` the similarity (turn, shift and scale c) that fits best
    and :math:`\delta_i = \|U_i - T V_i\|`, the triangle inequality gives for every j beyond

    .. math:: \|U_i - U_j\| \ge c\, \rho_i - \delta_i - \max_j \delta_j

    so the list of i can be read off its candidates if its last rank is nearer than that. The
    maximum runs over cells of points near i only. The other rows are searched; when they are many,
    all are, and if a reference does not last, references rest for a while.

    Args:
        engine: Name of an engine for the searches.
        fewest: With fewer classes than this everything is searched every time.

    Example:
        >>> from djgnn.jumps import single_classes
        >>> u = torch.rand(200, 2, generator=torch.Generator().manual_seed(0))
        >>> lazy = LazyRanks(fewest=1)
        >>> first = lazy(u, single_classes(200), 3)
        >>> again = lazy(1.001 * u + 0.5, single_classes(200), 3)
        >>> bool((first.ranks == again.ranks).all()), lazy.saving.searched
        (True, 200)
    """

    engine: str = "auto"
    fewest: int = FEWEST
    saving: Saving = field(default_factory=Saving)
    _reference: _Reference | None = field(default=None, repr=False)
    _group: Tensor | None = field(default=None, repr=False)
    _rest: int = 0
    _pause: int = 1
    _age: int = 0

    @torch.no_grad()
    def __call__(self, u: Tensor, twins: TwinClasses, num_ranks: int) -> JumpHierarchy:
        """Rank lists of these positions, the same as :func:`djgnn.jumps.rank_lists` gives."""
        check_num_ranks(num_ranks, twins)
        begun = time.perf_counter()
        points = u.detach()[twins.representative].double()
        check_finite(points)
        inner, merged, group = merge_coincident(points, twins)
        if not _same(group, self._group):  # candidates are numbers of merged classes
            self._reference, self._group = None, group
        ranks = self._ranks(inner, merged, num_ranks)
        self.saving.asked += inner.shape[0]
        self.saving.seconds += time.perf_counter() - begun
        return JumpHierarchy(ranks if group is None else ranks[group], twins)

    def _ranks(self, points: Tensor, twins: TwinClasses, num_ranks: int) -> Tensor:
        m, held = points.shape[0], self._reference
        wide = num_ranks + SKIN + 1
        if held is not None and held.fits(points, num_ranks):
            candidates, sure = _still_sure(held, points, num_ranks)
            stale = (~sure).nonzero().squeeze(1)
            self._age += 1
            if stale.numel() <= m // 3:
                ranks = ranks_of_rows(points, twins, num_ranks, candidates)
                if stale.numel():
                    some = ranks_of_some(points, twins, num_ranks, stale, self._search(points))
                    ranks[stale] = some
                self.saving.searched += stale.numel()
                return ranks
            self._reference = None
            self._pause = 1 if self._age > 3 else min(2 * self._pause, 64)
            self._rest = self._pause if self._age <= 2 else 0
        self.saving.searched += m
        if self._rest > 0 or wide > m or m < self.fewest:
            self._rest -= 1
            rows = torch.arange(m, device=points.device)
            return ranks_of_some(points, twins, num_ranks, rows, self._search(points))
        self._reference = _refer(points, self._search(points)(points, wide))
        self._age = 0
        return ranks_of_rows(points, twins, num_ranks, self._reference.candidates)

    def _search(self, points: Tensor) -> Engine:
        return choose_engine(self.engine, points)


def _same(a: Tensor | None, b: Tensor | None) -> bool:
    return a is b or (a is not None and b is not None and torch.equal(a, b))


def _refer(points: Tensor, candidates: Tensor) -> _Reference:
    distances, by = candidate_distances(points, candidates).sort(dim=1, stable=True)
    candidates = candidates.gather(1, by)
    order = kd_order(points, CELL)
    low, high = tile_boxes(points[order], CELL)
    beyond = distances[:, -1]
    # Cells within twice the distance of the candidates are watched, the others are far.
    reach = 2 * _per_cell(beyond[order])
    near = _near_cells(low, high, reach)
    return _Reference(points, candidates[:, :-1], beyond, order, near, reach)


def _near_cells(low: Tensor, high: Tensor, reach: Tensor) -> Tensor:
    """Pairs of a cell and one within its reach; some rows of all pairs at a time."""
    step = max(1, ROW_ELEMENTS // max(low.numel(), 1))
    found = []
    for begin in range(0, low.shape[0], step):
        rows = slice(begin, begin + step)
        gap = torch.maximum(low[rows, None] - high, low - high[rows, None]).clamp_min_(0)
        pairs = (gap.square().sum(dim=2) <= reach[rows, None].square()).nonzero().t()
        pairs[0] += begin
        found.append(pairs)
    return torch.cat(found, dim=1)


def _still_sure(held: _Reference, points: Tensor, num_ranks: int) -> tuple[Tensor, Tensor]:
    """Candidates by their distances now, and which rows cannot have missed a point."""
    moved, scale = _residual(held.points, points)
    fastest = _per_cell(moved[held.order])
    mine, theirs = held.near
    around = torch.zeros_like(fastest).scatter_reduce_(0, mine, fastest[theirs], "amax")
    cell = torch.empty_like(held.order)
    cell[held.order] = torch.arange(held.order.numel(), device=points.device) // CELL
    near_limit = scale * held.beyond - moved - around[cell]
    far_limit = scale * held.reach[cell] - moved - fastest.amax()
    distances, by = candidate_distances(points, held.candidates).sort(dim=1, stable=True)
    # One class more than the ranks, so that ties at the end are seen.
    last = distances[:, num_ranks]
    sure = last * (1 + ROUNDING) < torch.minimum(near_limit, far_limit) * (1 - ROUNDING)
    return held.candidates.gather(1, by[:, : num_ranks + 1]), sure


def _residual(before: Tensor, now: Tensor) -> tuple[Tensor, Tensor]:
    """How far each point moved beside the similarity that fits best, and the scale of that."""
    a, b = before - before.mean(dim=0), now - now.mean(dim=0)
    left, values, right = torch.linalg.svd(a.t() @ b)
    scale = values.sum() / a.square().sum().clamp_min(torch.finfo(a.dtype).tiny)
    return (b - scale * (a @ (left @ right))).norm(dim=1), scale


def _per_cell(values: Tensor) -> Tensor:
    """The largest of every CELL successive values."""
    return tile_boxes(values[:, None], CELL)[1].squeeze(1)
