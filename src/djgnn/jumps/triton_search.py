"""Exact nearest neighbours on a GPU: float32 first, float64 wherever float32 cannot decide.

Points are sorted in space (:func:`djgnn.jumps.kd_order.kd_order`) and cut into tiles with boxes.
One program of the kernel serves a few neighbouring points: it keeps their nearest so far in
registers, and visits a tile only if its box is nearer than the last of them. Where no box can be
left out, as with many dimensions, all products are taken by the matrix units instead. No distance
is ever written to memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from djgnn.jumps.kd_order import tile_boxes
from djgnn.jumps.tiles import SearchMemory, TiledPoints
from djgnn.jumps.twins import TwinClasses

MAX_WIDTH = 64
MAX_DIMENSION = 64
# Fetched beyond what is asked for, so that the float64 order of the list can be certified.
SPARE = 2
# Fewer programs than this leave parts of a large GPU idle.
PROGRAMS = 1024
FEW_PROGRAMS = 2048
# Places among which members_kernel looks for the first nodes, at most.
MAX_LISTED = 2048
# Above these, if a sample of points reaches most boxes, products beat skipping.
PRODUCT_DIMENSION = 9
PRODUCT_POINTS = 8192


@dataclass(frozen=True)
class Tiling:
    """How the kernel cuts its work: rows of a program, points of a tile, warps."""

    rows: int = 32
    tile: int = 32
    warps: int = 1


@cache
def triton_available() -> bool:
    """Whether there are a GPU and Triton to write for it."""
    if not torch.cuda.is_available():
        return False
    try:
        import triton  # noqa: F401
    except ImportError:
        return False
    return True


@torch.no_grad()
def triton_search(
    points: Tensor, q: int, memory: SearchMemory | None = None, tiling: Tiling | None = None
) -> tuple[Tensor, Tensor]:
    """The q least (distance, index) of every point, itself included, exactly.

    float32 points are searched in float32, a few more than asked for. The list is sorted anew in
    float64; it is right if the q-th distance is below anything that float32 may have left out.
    The other rows (ties, and distances that differ by less than float32 can see) are searched in
    float64, by (squared distance, index).

    Args:
        points: Positions on a GPU, no two of them equal.
        q: Width of a list, at most 64.
        memory: What an earlier search of nearly the same points left; it saves time, not more.
        tiling: How the work is cut; measured values by default.

    Shapes:
        points ``[m, p]``, results ``[m, q]``: indices (int64), squared distances (float64).
    """
    m = points.shape[0]
    memory = memory or SearchMemory()
    cut = tiling or Tiling()
    tiled = TiledPoints.build(points, cut.tile, memory.order_for(points, cut.tile))
    if points.dtype != torch.float32:
        names, _ = nearest(tiled, _places(points), q, None, cut)
        return _by_point(tiled.order, *in_order(points, tiled.order, names), q)
    wide = min(q + SPARE, m)
    if memory.by_products is None:
        memory.by_products = _products_win(tiled, points, wide)
    if memory.by_products:
        names, outside = products(points, tiled.order, wide)
    else:
        bounds = memory.bounds_for(points, tiled.order, wide)
        names, best = nearest(tiled, _places(points), wide, bounds, cut)
        outside = _left_out(best, points.shape[1])
    memory.keep(tiled, names)
    names, squares = in_order(points, tiled.order, names)
    if wide < m:
        reach = squares[:, q - 1] * (1 + 1e-12)
        unsure = (reach >= outside).nonzero().squeeze(1)
        if unsure.numel():
            exact = TiledPoints.build(points.double(), cut.tile, tiled.order)
            found, _ = nearest(exact, unsure, q, reach[unsure], cut)
            found, near = in_order(points, tiled.order[unsure], found)
            names[unsure, :q], squares[unsure, :q] = found[:, :q], near[:, :q]
    return _by_point(tiled.order, names, squares, q)


def nearest(
    tiled: TiledPoints, rows: Tensor, q: int, bounds: Tensor | None, tiling: Tiling
) -> tuple[Tensor, Tensor]:
    """The q least (squared distance, label) of the points at some places, in no order.

    Where the rows are few, several such lists are given, one after the other, with some places
    empty (a label beyond all points, distance infinite).

    Args:
        tiled: The points.
        rows: Places of the points asked for, increasing.
        q: How many.
        bounds: Squared distances within which q points are known to lie; infinite by default.
        tiling: How the work is cut.

    Shapes:
        rows, bounds ``[r]``, results ``[r, several * q]``.
    """
    from djgnn.jumps.triton_kernels import nearest_kernel

    p, stride = tiled.points.shape
    kind = tiled.points.dtype
    count = rows.numel()
    limit = torch.finfo(kind).max
    bounds = tiled.points.new_full((count,), limit) if bounds is None else bounds.to(kind)
    row_low, row_high = tile_boxes(tiled.points[:, rows].t(), tiling.rows)
    programs = row_low.shape[0]
    splits = max(1, min(PROGRAMS // programs, tiled.low.shape[1] // tiled.CHUNK, 64))
    names = torch.empty(count, splits * q, dtype=torch.int32, device=rows.device)
    best = torch.empty(count, splits * q, dtype=kind, device=rows.device)
    # A box distance may be rounded up by less than this.
    slack = 1 - 2 * (p + 4) * torch.finfo(kind).eps
    nearest_kernel[(programs, splits)](
        tiled.points, tiled.label, tiled.low, tiled.high, rows,
        row_low.t().contiguous(), row_high.t().contiguous(), bounds, names, best,
        count, tiled.num_tiles, stride, tiled.low.shape[1], programs, slack, splits,
        P=p, Q=q, SLOTS=power(q), ROWS=tiling.rows, TILE=tiled.tile, CHUNK=tiled.CHUNK,
        num_warps=tiling.warps,
    )  # fmt: skip
    return names, best


def products(
    points: Tensor, order: Tensor, q: int, rows: int = 32, tile: int = 64, warps: int = 1
) -> tuple[Tensor, Tensor]:
    """The q nearest of all points by matrix products, and a bound of what is left out.

    Args:
        points: Positions in float32.
        order: Which points are asked for, in the order of the result.
        q: How many.
        rows: Rows of a program.
        tile: Points of a tile.
        warps: Warps of a program.

    Shapes:
        points ``[m, p]``, order ``[r]``, results ``[r, q]`` and ``[r]``.
    """
    from djgnn.jumps.triton_kernels import products_kernel

    m, p = points.shape
    width, tiles = max(16, power(p)), -(-m // tile)
    held = points.new_zeros(tiles * tile, width)
    held[:m, :p] = points
    norms = points.new_full((tiles * tile,), torch.inf)
    norms[:m] = points.square().sum(dim=1)
    names = torch.empty(order.numel(), q, dtype=torch.int32, device=points.device)
    best = torch.empty(order.numel(), q, dtype=torch.float32, device=points.device)
    products_kernel[(-(-order.numel() // rows),)](
        held, norms, order, names, best, order.numel(), tiles,
        P=width, Q=q, SLOTS=power(q), ROWS=rows, TILE=tile, STAGES=3, PRECISION="tf32x3",
        num_warps=warps,
    )  # fmt: skip
    norm = points.double().square().sum(dim=1)[order]
    return names, best.amax(dim=1).double() + norm - _product_error(points)


def nearest_of_few(points: Tensor, q: int) -> tuple[Tensor, Tensor]:
    """The q least (squared distance, index) of every point in float64, and more, in no order.

    One launch and no look at the values: it can be captured in a CUDA graph. All pairs are
    compared, which is the fastest for some thousand points. As in :func:`nearest` several lists
    are given where rows are few, with some places empty.

    Shapes:
        points ``[m, p]``, results ``[m, several * q]`` (int64 and float64).
    """
    from djgnn.jumps.triton_kernels import few_kernel

    m, p = points.shape
    programs = -(-m // 32)
    splits = shares(programs, programs // 4, q)
    names = torch.empty(m, splits * q, dtype=torch.int64, device=points.device)
    best = torch.empty(m, splits * q, dtype=torch.float64, device=points.device)
    few_kernel[(programs, splits)](
        points.t().contiguous(), names, best, m, splits,
        P=p, Q=q, SLOTS=power(q), ROWS=32, TILE=32, num_warps=1,
    )  # fmt: skip
    return names, best


def shares(programs: int, most: int, q: int, busy: int = FEW_PROGRAMS) -> int:
    """Among how many programs, at `most`, tiles are shared out so that the GPU is busy."""
    return max(1, min(busy // programs, most, MAX_LISTED // q**2))


def pair_squares(points: Tensor, own: Tensor, names: Tensor) -> Tensor:
    """Squared distances of points `own` to the points of their lists, in float64.

    Shapes:
        points ``[m, p]``, own ``[r]``, names and result ``[r, q]``.
    """
    from djgnn.jumps.triton_kernels import pair_kernel

    count, q = names.shape
    out = torch.empty(count, q, dtype=torch.float64, device=points.device)
    slots = power(q)
    rows = max(1, 512 // slots)
    pair_kernel[(-(-count // rows),)](
        points.contiguous(), own, names.contiguous(), out, count, points.shape[0],
        P=points.shape[1], Q=q, SLOTS=slots, ROWS=rows,
    )  # fmt: skip
    return out


def first_members(twins: TwinClasses, names: Tensor, distances: Tensor, num_ranks: int) -> Tensor:
    """The first nodes by (distance, node) among the members of listed classes, in one launch.

    Shapes:
        names and distances ``[m, q]``, result ``[m, num_ranks]``.
    """
    from djgnn.jumps.triton_kernels import members_kernel

    m, q = names.shape
    each = 1 if twins.num_nodes == twins.num_classes else num_ranks
    places = power(q * each)
    rows = max(1, 512 // places)
    ranks = torch.empty(m, num_ranks, dtype=torch.int64, device=names.device)
    members_kernel[(-(-m // rows),)](
        names, distances, twins.start, twins.count, twins.members, ranks,
        m, twins.num_classes, twins.num_nodes,
        Q=q, J=each, R=num_ranks, PLACES=places, ROWS=rows, num_warps=1 if places <= 512 else 4,
    )  # fmt: skip
    return ranks


def in_order(points: Tensor, own: Tensor, names: Tensor) -> tuple[Tensor, Tensor]:
    """Lists sorted by (float64 distance, label), and the squared distances."""
    names = names.sort(dim=1).values
    squares, order = pair_squares(points, own, names).sort(dim=1, stable=True)
    return names.gather(1, order), squares


def power(q: int) -> int:
    """The least power of two that is at least q."""
    return 1 << max(q - 1, 0).bit_length()


def _left_out(best: Tensor, p: int) -> Tensor:
    """A lower bound of the squared distances that float32 left out of a full list."""
    # Differences, squares and sums of float32 err by less than p + 4 units, relatively.
    kind = torch.finfo(torch.float32)
    return best.amax(dim=1).double() * (1 - (p + 4) * kind.eps) - p * kind.tiny


def _products_win(tiled: TiledPoints, points: Tensor, q: int, samples: int = 64) -> bool:
    """Whether a few points reach many boxes, and products can tell their neighbours apart."""
    m, p = points.shape
    if p < PRODUCT_DIMENSION or m < PRODUCT_POINTS:
        return False
    places = torch.arange(0, m, max(1, m // samples), device=points.device)[:samples]
    here = points[tiled.order[places]]
    found = nearest(tiled, places, q, None, Tiling(tile=tiled.tile))[1]
    far = found.sort(dim=1).values[:, :q].double()
    low, high = (side[:, : tiled.num_tiles].t() for side in (tiled.low, tiled.high))
    gap = torch.maximum(low - here[:, None], here[:, None] - high).clamp_min_(0)
    reached = (gap.square().sum(dim=2) <= far[:, -1:]).double().mean()
    told_apart = far[:, -1] - far[:, max(0, q - 1 - SPARE)] > _product_error(points)
    return bool((reached > 0.1) & (told_apart.double().mean() > 0.9))


def _product_error(points: Tensor) -> Tensor:
    """Bound of the error of a squared distance by products."""
    # Three products of halves (tf32) err by a few units of float32 of |x| |y| per term.
    norm = points.double().square().sum(dim=1).amax()
    return 16 * (points.shape[1] + 8) * torch.finfo(torch.float32).eps * norm


def _places(points: Tensor) -> Tensor:
    return torch.arange(points.shape[0], device=points.device)


def _by_point(order: Tensor, names: Tensor, squares: Tensor, q: int) -> tuple[Tensor, Tensor]:
    """The first q of lists by place as lists by point."""
    found = torch.empty(len(order), q, dtype=torch.int64, device=names.device)
    near = torch.empty(len(order), q, dtype=torch.float64, device=names.device)
    found[order], near[order] = names[:, :q].long(), squares[:, :q]
    return found, near
