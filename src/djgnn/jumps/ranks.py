"""Rank lists: who is near whom in U, with ties settled by node index on every engine and device."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from djgnn.jumps.coincident import merge_coincident
from djgnn.jumps.engines import (
    Engine,
    approximate,
    choose_engine,
    kdtree,
    on_tiles,
    pairwise_distances,
)
from djgnn.jumps.tiles import SearchMemory
from djgnn.jumps.twins import TwinClasses

ROW_ELEMENTS = 1 << 22
# Two distances this close, relatively, may come out of two engines in either order.
ROUNDING = 1e-14


@dataclass(frozen=True, eq=False)
class JumpHierarchy:
    """The first ranks of every node, one row per twin class (twins share their list).

    Rank r of node i is ``ranks[class_of[i], r - 1]``, a node. Lists of an approximate engine come
    with their `recall`, measured on some rows; it is ``None`` for exact ones.

    Shapes:
        ranks ``[m, R]``, with twins.class_of ``[n]``.
    """

    ranks: Tensor
    twins: TwinClasses
    recall: float | None = None

    @property
    def num_ranks(self) -> int:
        """Number of ranks R kept."""
        return self.ranks.shape[1]

    @property
    def index(self) -> Tensor:
        """The rank list of every node, ``[n, R]``."""
        return self.ranks[self.twins.class_of]

    def __repr__(self) -> str:
        return f"JumpHierarchy(num_nodes={self.twins.num_nodes}, num_ranks={self.num_ranks})"


@torch.no_grad()
def rank_lists(
    u: Tensor,
    twins: TwinClasses,
    num_ranks: int,
    engine: str | Engine = "auto",
    memory: SearchMemory | None = None,
) -> JumpHierarchy:
    r"""Sort, for every node i, all nodes (i too) by :math:`(\|U_i - U_j\|, j)`; keep the first.

    The search runs on one point per twin class, so no rounding can part twins, and classes at the
    same position are merged. An engine proposes one class more than needed; distances are
    recomputed in float64 and rows in which a tie could change the list are settled by brute force.

    Args:
        u: Positions U.
        twins: Classes of nodes with equal rows of A (hence of U).
        num_ranks: How many ranks R to keep.
        engine: Name of an engine, ``"auto"``, or a function of its signature.
        memory: What earlier searches of slowly moving positions left, to save time on a GPU.

    Shapes:
        u ``[n, p]``.

    Raises:
        ValueError: If there are fewer nodes than ranks asked for.
        FloatingPointError: If a position is not a finite number.

    Example:
        >>> from djgnn.jumps import single_classes
        >>> u = torch.tensor([[0.0], [1.0], [0.1]])
        >>> rank_lists(u, single_classes(3), 2).index.tolist()
        [[0, 2], [1, 2], [2, 0]]
    """
    check_num_ranks(num_ranks, twins)
    points = u.detach()[twins.representative]
    if not capturing(u):
        check_finite(points)
    if num_ranks == 0:
        empty = torch.empty(points.shape[0], 0, dtype=torch.int64, device=u.device)
        return JumpHierarchy(empty, twins)
    if isinstance(engine, str) and on_tiles(engine, points, num_ranks):
        from djgnn.jumps.gpu_ranks import gpu_rank_lists

        return JumpHierarchy(gpu_rank_lists(points, twins, num_ranks, memory), twins)
    points = points.double()
    search = choose_engine(engine, points) if isinstance(engine, str) else engine
    if search is approximate:
        return _approximate_lists(points, twins, num_ranks)
    inner, merged, group = merge_coincident(points, twins)
    candidates = search(inner, min(num_ranks + 1, merged.num_classes))
    ranks = ranks_of_rows(inner, merged, num_ranks, candidates)
    return JumpHierarchy(ranks if group is None else ranks[group], twins)


def check_num_ranks(num_ranks: int, twins: TwinClasses) -> None:
    """Refuse more ranks than there are nodes."""
    n = twins.num_nodes
    if not 0 <= num_ranks <= n:
        raise ValueError(
            f"num_ranks must be between 0 and the number of nodes, {n} (got {num_ranks})"
        )


def _approximate_lists(points: Tensor, twins: TwinClasses, num_ranks: int) -> JumpHierarchy:
    """Lists in the order of their distances; ties with what was not found stay unsettled."""
    from djgnn.jumps.faiss_search import recall

    candidates = approximate(points, min(num_ranks + 1, twins.num_classes))
    distances = candidate_distances(points, candidates)
    candidates = candidates.gather(1, distances.sort(dim=1, stable=True).indices)
    ends = twins.count[candidates].cumsum(dim=1)
    ranks = flatten(candidates, ends, twins, num_ranks)
    return JumpHierarchy(ranks, twins, recall(points, candidates[:, :num_ranks]))


def check_finite(u: Tensor) -> None:
    """Refuse positions that are no numbers.

    Raises:
        FloatingPointError: If there are any.
    """
    if not bool(torch.isfinite(u).all()):
        raise FloatingPointError(
            "positions U are no longer finite: training diverged; lower the learning rate"
        )


def capturing(u: Tensor) -> bool:
    """Whether a CUDA graph is being captured: then no value may be looked at."""
    return u.is_cuda and torch.cuda.is_current_stream_capturing()


def ranks_of_rows(
    points: Tensor,
    twins: TwinClasses,
    num_ranks: int,
    candidates: Tensor,
    rows: Tensor | None = None,
) -> Tensor:
    """Rank lists from candidate classes that hold all but farther ones.

    Args:
        points: Position of every class in float64.
        twins: The classes.
        num_ranks: R.
        candidates: At least one class more than the ranks, in any order.
        rows: Classes whose lists are wanted; all by default.

    Shapes:
        points ``[m, p]``, candidates ``[rows, q]``, result ``[rows, R]``.
    """
    distances = candidate_distances(points, candidates, rows)
    ranks, places = list_candidates(distances, candidates, twins, num_ranks)
    if places.numel():
        wanted = places if rows is None else rows[places]
        ranks[places] = settle_rows(points, twins, wanted, num_ranks)
    return ranks


def list_candidates(
    distances: Tensor, candidates: Tensor, twins: TwinClasses, num_ranks: int
) -> tuple[Tensor, Tensor]:
    """The nodes of the candidate classes by distance, and the rows in which a tie could matter.

    Shapes:
        distances and candidates ``[r, q]``, result ``[r, R]`` and ``[t]``.
    """
    distances, order = distances.sort(dim=1, stable=True)
    candidates = candidates.gather(1, order)
    ends = twins.count[candidates].cumsum(dim=1)
    ranks = flatten(candidates, ends, twins, num_ranks)
    scale = distances[:, -1:].clamp_min(torch.finfo(distances.dtype).tiny)
    close = distances[:, 1:] - distances[:, :-1] <= ROUNDING * scale
    # A tie matters if its first class still adds to the list.
    tied = (close & (ends[:, :-1] - twins.count[candidates[:, :-1]] < num_ranks)).any(dim=1)
    return ranks, tied.nonzero().squeeze(1)


def candidate_distances(points: Tensor, candidates: Tensor, rows: Tensor | None = None) -> Tensor:
    """Distances of points to their candidates, coordinate by coordinate.

    A third of the time of one gather of whole points, and a p-th of its memory.

    Shapes:
        points ``[m, p]``, rows ``[r]`` (all by default), candidates and result ``[r, q]``.
    """
    total = points.new_zeros(candidates.shape)
    for column in points.t().contiguous():
        mine = column if rows is None else column[rows]
        gap = column.take(candidates).sub_(mine[:, None])
        total.addcmul_(gap, gap)
    return total.sqrt_()


def ranks_of_some(
    points: Tensor, twins: TwinClasses, num_ranks: int, rows: Tensor, search: Engine
) -> Tensor:
    """Rank lists of some classes by a search of their own.

    Shapes:
        points ``[m, p]``, rows ``[r]``, result ``[r, R]``.
    """
    q = min(num_ranks + 1, twins.num_classes)
    candidates = kdtree(points, q, rows) if search is kdtree else search(points, q)[rows]
    return ranks_of_rows(points, twins, num_ranks, candidates, rows)


def flatten(candidates: Tensor, ends: Tensor, twins: TwinClasses, num_ranks: int) -> Tensor:
    """Write out the members of the candidate classes, one after the other, up to `num_ranks`."""
    place = torch.arange(num_ranks, device=ends.device).expand(ends.shape[0], -1).contiguous()
    slot = torch.searchsorted(ends, place, right=True).clamp_max_(ends.shape[1] - 1)
    chosen = candidates.gather(1, slot)
    offset = place - (ends.gather(1, slot) - twins.count[chosen])
    return twins.members[twins.start[chosen] + offset]


def settle_rows(points: Tensor, twins: TwinClasses, rows: Tensor, num_ranks: int) -> Tensor:
    """The rank lists of some classes by brute force: all nodes sorted by (distance, node)."""
    ranks = torch.empty(rows.numel(), num_ranks, dtype=torch.int64, device=points.device)
    n = twins.num_nodes
    step = max(1, min(ROW_ELEMENTS, n * n // 2) // n)
    for begin in range(0, rows.numel(), step):
        by_class = pairwise_distances(points[rows[begin : begin + step]], points)
        ranks[begin : begin + step] = first_nodes(by_class[:, twins.class_of], num_ranks)
    return ranks


def first_nodes(distances: Tensor, num_ranks: int) -> Tensor:
    """The first nodes by (distance, node); only those within the last distance are sorted."""
    last = distances.topk(num_ranks, dim=1, largest=False).values[:, -1:]
    row, node = (distances <= last).nonzero(as_tuple=True)  # nodes in increasing order
    order = distances[row, node].argsort(stable=True)
    order = order[row[order].argsort(stable=True)]
    count = torch.bincount(row, minlength=distances.shape[0])
    place = torch.arange(num_ranks, device=row.device)
    return node[order[(count.cumsum(0) - count)[:, None] + place]]


@torch.no_grad()
def dense_rank_lists(u: Tensor, num_ranks: int) -> Tensor:
    """The oracle: sort all n x n distances by (distance, node), twins told apart by rounding only.

    Shapes:
        u ``[n, p]``, result ``[n, num_ranks]``.
    """
    exact = u.detach().double()
    order = torch.argsort(pairwise_distances(exact, exact), dim=1, stable=True)
    return order[:, :num_ranks]
