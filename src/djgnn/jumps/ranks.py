"""Rank lists: the nearest nodes of every node in U, ties broken by node index.

On a CPU :func:`nearest_nodes` finds ties and `_first_nodes` breaks them; on a GPU
:func:`djgnn.jumps.triton_search.gpu_rank_lists` does both. The lists are the same.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from djgnn.jumps.engines import Engine, choose_engine, on_tiles, pairwise_distances
from djgnn.jumps.tiles import SearchMemory
from djgnn.jumps.triton_search import gpu_rank_lists
from djgnn.jumps.twins import TwinClasses, merge_coincident

# Distances held at a time while ties are settled.
ROW_ELEMENTS = 1 << 22
# Queries whose candidates are put in order at a time.
LISTS = 1 << 15
# Two distances this close, relatively, may come out of two engines in either order.
ROUNDING = 1e-14


@dataclass(frozen=True, eq=False)
class JumpHierarchy:
    """The first ranks of every node, one row per twin class (twins share their list).

    Rank r of node i is ``ranks[class_of[i], r - 1]``, a node.

    Shapes:
        ranks ``[m, R]``, with twins.class_of ``[n]``.

    Example:
        >>> from djgnn.jumps import single_classes
        >>> found = rank_lists(torch.tensor([[0.0], [1.0], [3.0]]), single_classes(3), 2)
        >>> found.index.tolist()  # each node comes first in its own list
        [[0, 1], [1, 0], [2, 1]]
    """

    ranks: Tensor
    twins: TwinClasses

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
    engine: str = "auto",
    memory: SearchMemory | None = None,
    classes: Tensor | None = None,
) -> JumpHierarchy:
    r"""Sort, for every node i, all nodes (i too) by :math:`(\|U_i - U_j\|, j)`; keep the first.

    The search runs on one point per twin class, so rounding cannot separate twins, and classes at
    the same position are merged. An engine proposes one class more than needed; distances are
    recomputed in float64 and rows in which a tie could change the list are settled by brute force.

    Args:
        u: Positions U of all nodes.
        twins: Classes of nodes with equal rows of A (hence of U).
        num_ranks: How many ranks R to keep.
        engine: Name of an engine, or ``"auto"``.
        memory: Warm start on a GPU: what earlier searches of slowly moving positions left.
        classes: The twin classes whose lists are wanted; all by default. `ranks` of the result
            then has one row for each of them, in this order.

    Shapes:
        u ``[n, p]``, classes ``[c]``.

    Raises:
        ValueError: If there are fewer nodes than ranks asked for.
        FloatingPointError: If a position is not a finite number.

    Example:
        >>> from djgnn.jumps import single_classes
        >>> u = torch.tensor([[0.0], [1.0], [0.1]])
        >>> rank_lists(u, single_classes(3), 2).index.tolist()
        [[0, 2], [1, 2], [2, 0]]
        >>> rank_lists(u, single_classes(3), 2, classes=torch.tensor([2])).ranks.tolist()
        [[2, 0]]
    """
    if not 0 <= num_ranks <= twins.num_nodes:
        raise ValueError(
            f"num_ranks must be between 0 and the number of nodes, {twins.num_nodes} "
            f"(got {num_ranks})"
        )
    points = u.detach()[twins.representative]
    if not capturing(u):
        check_finite(points)
    if num_ranks and on_tiles(engine, points, num_ranks):
        ranks = gpu_rank_lists(points, twins, num_ranks, memory)
        return JumpHierarchy(ranks if classes is None else ranks[classes], twins)
    search = choose_engine(engine, points)
    inner, merged, group = merge_coincident(points.double(), twins)
    queries, back = None, group
    if classes is not None:
        if group is not None:
            classes, back = torch.unique(group[classes], return_inverse=True)
        queries = inner[classes]
    ranks = nearest_nodes(inner, merged, num_ranks, search, queries)
    return JumpHierarchy(ranks if back is None else ranks[back], twins)


@torch.no_grad()
def arrival_ranks(new: Tensor, u: Tensor, twins: TwinClasses, num_ranks: int) -> Tensor:
    r"""Sort, for every new node, the known nodes and itself by :math:`(\|u - U_j\|, j)`.

    A new node i has the number n + i, so it comes after the known nodes at its own position.
    Other new nodes are not in its list: its prediction does not depend on which nodes arrive with
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
    points, twins, _ = merge_coincident(points, twins)
    # Also beside a GPU: to compare all pairs takes longer there than a tree does here.
    search = choose_engine("auto", points.cpu())
    known = nearest_nodes(points, twins, min(num_ranks, n), search, queries)
    squares = (points[twins.class_of[known]] - queries[:, None]).square().sum(dim=2)
    own_place = (squares == 0).sum(dim=1)[:, None]
    place = torch.arange(num_ranks, device=u.device)
    shifted = (place - (place > own_place).long()).clamp_max(known.shape[1] - 1)
    itself = n + torch.arange(m, device=u.device)[:, None]
    return torch.where(place == own_place, itself, known.gather(1, shifted))


def check_finite(u: Tensor) -> None:
    """Refuse positions that are not finite.

    Raises:
        FloatingPointError: If there are any.
    """
    if not bool(torch.isfinite(u).all()):
        raise FloatingPointError(
            "positions U are no longer finite: training diverged; lower the learning rate"
        )


def capturing(u: Tensor) -> bool:
    """Whether a CUDA graph is being captured: then nothing may synchronise with the host."""
    return u.is_cuda and torch.cuda.is_current_stream_capturing()


def nearest_nodes(
    points: Tensor,
    twins: TwinClasses,
    num_ranks: int,
    search: Engine,
    queries: Tensor | None = None,
) -> Tensor:
    """The first nodes by (distance, node) of every query.

    Args:
        points: Position of every class in float64.
        twins: The classes.
        num_ranks: R.
        search: The engine that proposes classes.
        queries: Positions whose lists are wanted; those of all classes by default.

    Shapes:
        points ``[m, p]``, queries ``[r, p]``, result ``[r, R]``.
    """
    own = points if queries is None else queries
    if num_ranks == 0:
        return torch.empty(own.shape[0], 0, dtype=torch.int64, device=points.device)
    # One class more than the ranks, so that a tie at the end is seen.
    candidates = search(points, min(num_ranks + 1, twins.num_classes), queries)
    blocks = (torch.split(own, LISTS), torch.split(candidates, LISTS))
    parts = [_ordered(points, *block, twins, num_ranks) for block in zip(*blocks, strict=True)]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _ordered(
    points: Tensor, own: Tensor, candidates: Tensor, twins: TwinClasses, num_ranks: int
) -> Tensor:
    """The first nodes of some queries, from the classes that an engine proposes for them."""
    # Coordinate by coordinate: a third of the time of one gather of whole points, and a p-th of
    # its memory.
    squares = points.new_zeros(candidates.shape)
    for column, mine in zip(points.t().contiguous(), own.t().contiguous(), strict=True):
        gap = column.take(candidates).sub_(mine[:, None])
        squares.addcmul_(gap, gap)
    distances, order = squares.sqrt_().sort(dim=1, stable=True)
    candidates = candidates.gather(1, order)
    ends = twins.count[candidates].cumsum(dim=1)
    ranks = _expand(candidates, ends, twins, num_ranks)
    scale = distances[:, -1:].clamp_min(torch.finfo(distances.dtype).tiny)
    close = distances[:, 1:] - distances[:, :-1] <= ROUNDING * scale
    # A tie matters if its first class still adds to the list.
    tied = (close & (ends[:, :-1] - twins.count[candidates[:, :-1]] < num_ranks)).any(dim=1)
    rows, n = tied.nonzero().squeeze(1), twins.num_nodes
    step = max(1, min(ROW_ELEMENTS, n * n // 2) // n)
    for begin in range(0, rows.numel(), step):
        part = rows[begin : begin + step]
        by_class = pairwise_distances(own[part], points)
        ranks[part] = _first_nodes(by_class[:, twins.class_of], num_ranks)
    return ranks


def _expand(candidates: Tensor, ends: Tensor, twins: TwinClasses, num_ranks: int) -> Tensor:
    """Write out the members of the candidate classes, one after the other, up to `num_ranks`."""
    place = torch.arange(num_ranks, device=ends.device).expand(ends.shape[0], -1).contiguous()
    slot = torch.searchsorted(ends, place, right=True).clamp_max_(ends.shape[1] - 1)
    chosen = candidates.gather(1, slot)
    offset = place - (ends.gather(1, slot) - twins.count[chosen])
    return twins.members[twins.start[chosen] + offset]


def _first_nodes(distances: Tensor, num_ranks: int) -> Tensor:
    """The first nodes by (distance, node); only those within the last distance are sorted."""
    last = distances.topk(num_ranks, dim=1, largest=False).values[:, -1:]
    row, node = (distances <= last).nonzero(as_tuple=True)  # nodes in increasing order
    order = distances[row, node].argsort(stable=True)
    order = order[row[order].argsort(stable=True)]
    count = torch.bincount(row, minlength=distances.shape[0])
    place = torch.arange(num_ranks, device=row.device)
    return node[order[(count.cumsum(0) - count)[:, None] + place]]
