"""Exact rank lists on a GPU: float32 first, float64 wherever float32 cannot decide.

Up to some ten thousand points all pairs are compared in float64, without host synchronisation, so
that a CUDA graph can hold the search. More points are sorted in space and cut into tiles with boxes
(:mod:`djgnn.jumps.tiles`): a program of the kernel keeps the nearest of a few neighbouring points
in registers, and visits a tile only if its box is nearer than the last of them. Where boxes exclude
too little, as with many dimensions, the matrix units compute all products instead. Distances are
never written to memory.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from djgnn.jumps.tiles import SearchMemory, TiledPoints, tile_boxes
from djgnn.jumps.twins import TwinClasses, merge_coincident

MAX_WIDTH = 64
MAX_DIMENSION = 64
# Up to here comparing all pairs in float64 beats sorting them in space first.
ALL_PAIRS = 1 << 15
ALL_PAIRS_ELEMENTS = 1 << 24
# Rows of a program, of few points fewer, and points of a tile, by measurement.
ROWS = 32
FEW_ROWS, FEW_POINTS = 16, 8192
TILE = 32
# Of long lists, which take twice the registers.
LONG, LONG_ROWS, LONG_TILE = 32, 16, 64
PRODUCT_TILE = 64
# Fetched beyond what is asked for, so that the float64 order of the list can be certified.
SPARE = 2
# Fewer programs than this leave parts of a large GPU idle.
PROGRAMS = 1024
ALL_PAIRS_PROGRAMS = 4096
# Places among which members_kernel looks for the first nodes, at most.
MAX_LISTED = 2048
# Above these, if a sample of points reaches many boxes, products beat boxes.
PRODUCT_DIMENSION = 9
PRODUCT_POINTS = 8192
# Points that reach so many times the boxes that they reached in a new order are sorted again,
# unless these are few.
WORN, FEW_BOXES = 2, 8
SAMPLES = 64


@cache
def triton_available() -> bool:
    """Whether there are a GPU and Triton."""
    if not torch.cuda.is_available():
        return False
    try:
        import triton  # noqa: F401
    except ImportError:
        return False
    return True


def uses_triton(values: Tensor) -> bool:
    """Whether Triton's kernels compute with this tensor: on a GPU."""
    return values.is_cuda and triton_available()


def capturable(m: int, num_ranks: int) -> bool:
    """Whether m points are ranked without host synchronisation, so also in a CUDA graph."""
    return m <= ALL_PAIRS and m * num_ranks**2 <= ALL_PAIRS_ELEMENTS


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
        num_ranks: R, at least 1 and at most 64.
        memory: Warm start: what earlier searches left. It changes no result.

    Shapes:
        points ``[m, p]``, result ``[m, R]``.
    """
    if capturable(points.shape[0], num_ranks):
        known = (memory or SearchMemory()).lists_of(twins, num_ranks)
        candidates, squares = nearest_of_all_pairs(points, min(num_ranks, points.shape[0]), known)
        # A root may join two squares, and lists are sorted by distances.
        ranks = first_members(twins, candidates, squares.sqrt(), num_ranks)
        known.copy_(twins.class_of[ranks])
        return ranks
    inner, merged, group = merge_coincident(points, twins)
    if memory is not None:
        memory.renumber(group, len(points), len(inner))
    candidates, squares = triton_search(inner, min(num_ranks, merged.num_classes), memory)
    ranks = _members(merged, candidates, squares.sqrt_(), num_ranks)
    return ranks if group is None else ranks[group]


def _members(twins: TwinClasses, names: Tensor, distances: Tensor, num_ranks: int) -> Tensor:
    """What :func:`first_members` gives for sorted lists, of which most name classes of one node.

    Those are in order already, unless a root joined two squares.
    """
    if names.shape[1] < num_ranks:
        return first_members(twins, names, distances, num_ranks)
    ranks = twins.members[twins.start[names]]
    joined = (distances[:, 1:] == distances[:, :-1]) & (names[:, 1:] < names[:, :-1])
    rest = ((twins.count > 1)[names].any(dim=1) | joined.any(dim=1)).nonzero().squeeze(1)
    if rest.numel():
        ranks[rest] = first_members(twins, names[rest], distances[rest], num_ranks)
    return ranks


@torch.no_grad()
def triton_search(
    points: Tensor, q: int, memory: SearchMemory | None = None
) -> tuple[Tensor, Tensor]:
    """The q least (distance, index) of every point, itself included, exactly.

    float32 points are searched in float32, a few more than asked for. The list is sorted again in
    float64; it is right if the q-th distance is below anything that float32 may have left out.
    The other rows (ties, and distances that differ by less than float32 can see) are searched in
    float64, by (squared distance, index).

    Args:
        points: Positions, no two of them equal.
        q: Width of a list, at most 64.
        memory: Warm start.

    Shapes:
        points ``[m, p]``, results ``[m, q]``: indices (int64), squared distances (float64).
    """
    m, p = points.shape
    memory = memory or SearchMemory()
    single = points.dtype == torch.float32
    wide = min(q + SPARE, m) if single else q
    tile = LONG_TILE if wide > LONG else TILE
    order = memory.order_for(points, tile)
    tiled, bounds = TiledPoints.build(points, tile, order), None
    known = None if memory.by_products or not single else memory.names
    if known is not None and known.shape == (m, wide):
        far = _in_order(points, order, known, wide)[1][:, -1]
        bounds = (far * (1 + 1e-5) + 1e-36).float()  # upwards past what float32 rounds away
        if _reached(tiled, points, far) > WORN * (FEW_BOXES + memory.reached):
            order, bounds = memory.order_for(points, tile, anew=True), None
            tiled = TiledPoints.build(points, tile, order)
    if memory.by_products is None:
        memory.by_products = single and _products_win(tiled, points, wide)
    if memory.by_products:
        names, outside = nearest_by_products(points, order, wide)
    else:
        names, best = nearest_of_tiles(tiled, torch.arange(m, device=points.device), wide, bounds)
        left_out = best.view(m, -1, wide).amax(dim=2).amin(dim=1).double()
        if bounds is None:
            memory.reached = _reached(tiled, points, left_out)
        # Differences, squares and sums of float32 err by less than p + 4 units, relatively.
        kind = torch.finfo(torch.float32)
        outside = left_out * (1 - (p + 4) * kind.eps) - p * kind.tiny
    names, squares = _in_order(points, order, names, wide)
    memory.names = names.clone()
    if single and wide < m:
        reach = squares[:, q - 1] * (1 + 1e-12)
        unsure = (reach >= outside).nonzero().squeeze(1)
        if unsure.numel():
            exact = TiledPoints.build(points.double(), tile, order)
            found, _ = nearest_of_tiles(exact, unsure, q, reach[unsure])
            names[unsure, :q], squares[unsure, :q] = _in_order(points, order[unsure], found, q)
    by_point = torch.empty(m, q, dtype=torch.int64, device=points.device)
    distances = torch.empty(m, q, dtype=torch.float64, device=points.device)
    by_point[order], distances[order] = names[:, :q].long(), squares[:, :q]
    return by_point, distances


def nearest_of_tiles(
    tiled: TiledPoints, rows: Tensor, q: int, bounds: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The q least (squared distance, label) of the points at some places, in no order.

    Where there are too few rows to keep a GPU busy, several such lists are given, one after the
    other, with some places empty (a label beyond all points, distance infinite).

    Args:
        tiled: The points.
        rows: Places of the points asked for, increasing.
        q: How many.
        bounds: Squared distances within which q points are known to lie; infinite by default.

    Shapes:
        rows, bounds ``[r]``, results ``[r, several * q]``.
    """
    from djgnn.jumps.triton_kernels import nearest_kernel

    p, stride = tiled.points.shape
    kind, count = tiled.points.dtype, rows.numel()
    limit = torch.finfo(kind).max
    bounds = tiled.points.new_full((count,), limit) if bounds is None else bounds.to(kind)
    row_count = LONG_ROWS if q > LONG else ROWS
    row_low, row_high = tile_boxes(tiled.points[:, rows].t(), row_count)
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
        P=p, Q=q, SLOTS=_power(q), ROWS=row_count, TILE=tiled.tile, CHUNK=tiled.CHUNK, num_warps=1,
    )  # fmt: skip
    return names, best


def nearest_by_products(points: Tensor, order: Tensor, q: int) -> tuple[Tensor, Tensor]:
    """The q nearest of all points by matrix products, and a bound of what is left out.

    Args:
        points: Positions in float32.
        order: Which points are asked for, in the order of the result.
        q: How many.

    Shapes:
        points ``[m, p]``, order ``[r]``, results ``[r, q]`` and ``[r]``.
    """
    from djgnn.jumps.triton_kernels import products_kernel

    m, p = points.shape
    width, tiles = max(16, _power(p)), -(-m // PRODUCT_TILE)
    held = points.new_zeros(tiles * PRODUCT_TILE, width)
    held[:m, :p] = points
    norms = points.new_full((tiles * PRODUCT_TILE,), torch.inf)
    norms[:m] = points.square().sum(dim=1)
    names = torch.empty(order.numel(), q, dtype=torch.int32, device=points.device)
    best = torch.empty(order.numel(), q, dtype=torch.float32, device=points.device)
    products_kernel[(-(-order.numel() // ROWS),)](
        held, norms, order, names, best, order.numel(), tiles,
        P=width, Q=q, SLOTS=_power(q), ROWS=ROWS, TILE=PRODUCT_TILE, STAGES=3, PRECISION="tf32x3",
        num_warps=1,
    )  # fmt: skip
    norm = points.double().square().sum(dim=1)[order]
    return names, best.amax(dim=1).double() + norm - _product_error(points)


def nearest_of_all_pairs(points: Tensor, q: int, known: Tensor) -> tuple[Tensor, Tensor]:
    """The q least (squared distance, index) of every point in float64, and more, in no order.

    One launch without host synchronisation; the fastest for some thousand points. As in
    :func:`nearest_of_tiles` several lists are given where rows are few, with some places empty.

    Args:
        points: Positions.
        q: How many.
        known: The lists of an earlier search, -1 if there was none. Points that are farther away
            than all of a list are skipped.

    Shapes:
        points ``[m, p]``, known ``[m, width]`` (int32), results ``[m, several * q]`` (int64 and
        float64).
    """
    from djgnn.jumps.triton_kernels import all_pairs_kernel

    m, p = points.shape
    rows = FEW_ROWS if m < FEW_POINTS else ROWS
    programs, tiles = -(-m // rows), -(-m // TILE)
    splits = max(1, min(ALL_PAIRS_PROGRAMS // programs, programs // 4, MAX_LISTED // q**2))
    held = points.new_full((p, tiles * TILE), torch.inf, dtype=torch.float64)
    held[:, :m] = points.t()
    names = torch.empty(m, splits * q, dtype=torch.int64, device=points.device)
    best = torch.empty(m, splits * q, dtype=torch.float64, device=points.device)
    all_pairs_kernel[(programs, splits)](
        held, known, names, best, m, tiles, splits,
        P=p, Q=q, SLOTS=_power(q), ROWS=rows, TILE=TILE, WIDTH=known.shape[1], num_warps=1,
    )  # fmt: skip
    return names, best


def first_members(twins: TwinClasses, names: Tensor, distances: Tensor, num_ranks: int) -> Tensor:
    """The first nodes by (distance, node) among the members of listed classes, in one launch.

    Shapes:
        names and distances ``[m, q]``, result ``[m, num_ranks]``.
    """
    from djgnn.jumps.triton_kernels import members_kernel

    m, q = names.shape
    each = 1 if twins.num_nodes == twins.num_classes else num_ranks
    places = _power(q * each)
    rows = max(1, 512 // places)
    ranks = torch.empty(m, num_ranks, dtype=torch.int64, device=names.device)
    members_kernel[(-(-m // rows),)](
        names, distances, twins.start, twins.count, twins.members, ranks,
        m, twins.num_classes, twins.num_nodes,
        Q=q, J=each, R=num_ranks, PLACES=places, ROWS=rows, num_warps=1 if places <= 512 else 4,
    )  # fmt: skip
    return ranks


def _in_order(points: Tensor, own: Tensor, names: Tensor, keep: int) -> tuple[Tensor, Tensor]:
    """The first of the lists of points `own` by (float64 distance, label), and the squares.

    Shapes:
        points ``[m, p]``, own ``[r]``, names ``[r, q]``, results ``[r, keep]``.
    """
    from djgnn.jumps.triton_kernels import ordered_kernel

    count, q = names.shape
    ordered = torch.empty(count, keep, dtype=torch.int32, device=points.device)
    squares = torch.empty(count, keep, dtype=torch.float64, device=points.device)
    slots = _power(q)
    rows = max(1, 512 // slots)
    ordered_kernel[(-(-count // rows),)](
        points.contiguous(), own, names, ordered, squares, count, points.shape[0],
        P=points.shape[1], Q=q, KEEP=keep, SLOTS=slots, ROWS=rows,
    )  # fmt: skip
    return ordered, squares


def _power(q: int) -> int:
    """The least power of two that is at least q."""
    return 1 << max(q - 1, 0).bit_length()


def _products_win(tiled: TiledPoints, points: Tensor, q: int) -> bool:
    """Whether a few points reach many boxes, and products can tell their neighbours apart."""
    m, p = points.shape
    if p < PRODUCT_DIMENSION or m < PRODUCT_POINTS:
        return False
    places = _samples(points)
    found = nearest_of_tiles(tiled, places, q)[1]
    far = found.sort(dim=1).values[:, :q].double()
    told_apart = far[:, -1] - far[:, max(0, q - 1 - SPARE)] > _product_error(points)
    reached = _reached_by(tiled, points, places, far[:, -1]) / tiled.num_tiles
    return reached > 0.1 and bool(told_apart.double().mean() > 0.9)


def _samples(points: Tensor) -> Tensor:
    """A few places, far from each other."""
    m = points.shape[0]
    return torch.arange(0, m, max(1, m // SAMPLES), device=points.device)[:SAMPLES]


def _reached(tiled: TiledPoints, points: Tensor, far: Tensor) -> float:
    """How many boxes are within these squared distances of a point, on average of a few."""
    places = _samples(points)
    return _reached_by(tiled, points, places, far[places])


def _reached_by(tiled: TiledPoints, points: Tensor, places: Tensor, far: Tensor) -> float:
    """The same of the points at some places."""
    here = points[tiled.order[places]]
    low, high = (side[:, : tiled.num_tiles].t() for side in (tiled.low, tiled.high))
    gap = torch.maximum(low - here[:, None], here[:, None] - high).clamp_min_(0)
    return float((gap.square().sum(dim=2) <= far[:, None]).sum(dim=1).double().mean())


def _product_error(points: Tensor) -> Tensor:
    """Bound of the error of a squared distance by products."""
    # Three products of halves (tf32) err by a few units of float32 of |x| |y| per term.
    norm = points.double().square().sum(dim=1).amax()
    return 16 * (points.shape[1] + 8) * torch.finfo(torch.float32).eps * norm
