"""Triton kernels of the exact search: running top-K in registers, far tiles skipped."""
# mypy: ignore-errors

from __future__ import annotations

try:
    import triton.language as tl
    from triton import jit
except ImportError:  # these are called on a GPU only, and only with Triton
    tl = None

    def jit(kernel=None, **options):
        """Leave a kernel as it is."""
        return jit if kernel is None else kernel


# Sizes that change from call to call: Triton would compile a kernel anew for 1, and for multiples
# of 16, which takes seconds.
SIZES = ["num_rows", "num_tiles", "num_points", "num_classes", "num_nodes", "row_tiles", "splits"]


def kernel(function):
    """A kernel that is compiled once for all sizes."""
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    return jit(do_not_specialize=[name for name in names if name in SIZES])(function)


@jit
def _squares(points, stride, here, columns, kind, P: tl.constexpr):
    """Squared distances of some columns to some rows, by differences, ``[columns, rows]``."""
    total = tl.zeros([columns.shape[0], here.shape[0]], kind)
    for d in tl.static_range(P):
        x = tl.load(points + d * stride + here)
        y = tl.load(points + d * stride + columns)
        gap = y[:, None] - x[None, :]
        total += gap * gap
    return total


@jit
def _box_squares(
    low, high, stride, other_low, other_high, other_stride, like, kind, P: tl.constexpr
):
    """Squared distances between boxes (points are boxes too), as many as `like` has elements."""
    total = tl.zeros([like.shape[0]], kind)
    for d in tl.static_range(P):
        above = tl.load(other_low + d * other_stride) - tl.load(high + d * stride)
        below = tl.load(low + d * stride) - tl.load(other_high + d * other_stride)
        gap = tl.maximum(tl.maximum(above, below), 0.0)
        total += gap * gap
    return total


@jit
def _empty_lists(Q: tl.constexpr, SLOTS: tl.constexpr, ROWS: tl.constexpr, kind):
    """Lists without points: infinite distances, distinct labels beyond all points."""
    slot = tl.arange(0, SLOTS)
    empty = tl.where(slot < Q, float("inf"), -float("inf")).to(kind)
    best = tl.zeros([SLOTS, ROWS], kind) + empty[:, None]
    names = tl.zeros([SLOTS, ROWS], tl.int32) + (2147483647 - slot)[:, None]
    return best, names


@jit
def _nearest_of(squares, label):
    """The least (distance, label) of each row."""
    near = tl.min(squares, axis=0)
    who = tl.min(tl.where(squares == near[None, :], label[:, None], 2147483647), axis=0)
    return near, who


@jit
def _worst_of(best, names):
    """The greatest (distance, label) of each list."""
    worst = tl.max(best, axis=0)
    return worst, tl.max(tl.where(best == worst[None, :], names, -1), axis=0)


@jit
def _better(near, who, worst, worst_name, bound):
    return (near <= bound) & ((near < worst) | ((near == worst) & (who < worst_name)))


@jit
def _insert(squares, label, best, names, worst, worst_name, bound):
    """Insert into the lists whatever of a tile belongs there."""
    near, who = _nearest_of(squares, label)
    better = _better(near, who, worst, worst_name, bound)
    while tl.max(better.to(tl.int32), axis=0) > 0:
        leaves = (best == worst[None, :]) & (names == worst_name[None, :]) & better[None, :]
        best = tl.where(leaves, near[None, :], best)
        names = tl.where(leaves, who[None, :], names)
        worst, worst_name = _worst_of(best, names)
        squares = tl.where(label[:, None] == who[None, :], float("inf"), squares)
        near, who = _nearest_of(squares, label)
        better = _better(near, who, worst, worst_name, bound)
    return best, names, worst, worst_name


@jit
def _store(out_names, out_best, names, best, r, num_rows, split, splits, Q: tl.constexpr):
    """Write the lists of rows r, which share their places with those of other splits."""
    slot = tl.arange(0, best.shape[0])
    place = (r[None, :].to(tl.int64) * splits + split) * Q + slot[:, None]
    keep = (r < num_rows)[None, :] & (slot < Q)[:, None]
    tl.store(out_names + place, names.to(out_names.dtype.element_ty), mask=keep)
    tl.store(out_best + place, best, mask=keep)


@kernel
def nearest_kernel(
    points, label, low, high, rows, row_low, row_high, bounds, out_names, out_best,
    num_rows, num_tiles, stride, tile_stride, row_tiles, slack, splits,
    P: tl.constexpr, Q: tl.constexpr, SLOTS: tl.constexpr,
    ROWS: tl.constexpr, TILE: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """The Q least (squared distance, label) of each of ROWS rows.

    Tiles are visited only if their box is nearer to the box of the rows, and then to some row,
    than the Q-th distance found so far. Where rows are few, several programs share the tiles, and
    each leaves a list of its own.
    """
    pid = tl.program_id(0)
    split = tl.program_id(1)
    kind = points.dtype.element_ty
    r = pid * ROWS + tl.arange(0, ROWS)
    here = tl.load(rows + tl.minimum(r, num_rows - 1))
    bound = tl.load(bounds + tl.minimum(r, num_rows - 1))
    own = (tl.min(here, axis=0) // TILE).to(tl.int32)
    best, names = _empty_lists(Q, SLOTS, ROWS, kind)
    worst, worst_name = _worst_of(best, names)

    first = tl.maximum(own - 1, 0)
    last = tl.minimum(own + 2, num_tiles)
    for near_tile in range(first, tl.where(split == 0, last, first)):
        columns = near_tile * TILE + tl.arange(0, TILE)
        squares = _squares(points, stride, here, columns, kind, P)
        best, names, worst, worst_name = _insert(
            squares, tl.load(label + columns), best, names, worst, worst_name, bound
        )

    chunks = tl.cdiv(num_tiles, CHUNK)
    own_chunk = own // CHUNK
    for i in range(split, chunks, splits):
        c = (own_chunk + i) % chunks
        t = c * CHUNK + tl.arange(0, CHUNK)
        box = slack * _box_squares(
            low + t, high + t, tile_stride, row_low + pid, row_high + pid, row_tiles, t, kind, P
        )
        far = tl.max(tl.minimum(worst, bound), axis=0)
        wanted = (box <= far) & ((t < first) | (t >= last)) & (t < num_tiles)
        following = tl.min(tl.where(wanted, t, 2147483647), axis=0)
        while following < num_tiles:
            touch = _box_squares(
                points + here, points + here, stride,
                low + following, high + following, tile_stride, here, kind, P,
            )  # fmt: skip
            reached = (touch * slack <= tl.minimum(worst, bound)).to(tl.int32)
            if tl.max(reached, axis=0) > 0:
                columns = following * TILE + tl.arange(0, TILE)
                squares = _squares(points, stride, here, columns, kind, P)
                passing = tl.min(squares, axis=0) <= tl.minimum(worst, bound)
                if tl.max(passing.to(tl.int32), axis=0) > 0:
                    best, names, worst, worst_name = _insert(
                        squares, tl.load(label + columns), best, names, worst, worst_name, bound
                    )
            far = tl.max(tl.minimum(worst, bound), axis=0)
            wanted = wanted & (t > following) & (box <= far)
            following = tl.min(tl.where(wanted, t, 2147483647), axis=0)
    _store(out_names, out_best, names, best, r, num_rows, split, splits, Q)


@kernel
def all_pairs_kernel(
    points, known, out_names, out_best, num_points, num_tiles, splits,
    P: tl.constexpr, Q: tl.constexpr, SLOTS: tl.constexpr, ROWS: tl.constexpr, TILE: tl.constexpr,
    WIDTH: tl.constexpr,
):  # fmt: skip
    """The Q least (squared distance in float64, point) of ROWS points among a share of all.

    Points that are farther away than all of WIDTH known ones are skipped; -1: none is known.
    """
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    split = tl.program_id(1)
    here = tl.minimum(r, num_points - 1)
    best, names = _empty_lists(Q, SLOTS, ROWS, tl.float64)
    worst, worst_name = _worst_of(best, names)
    stride = num_tiles * TILE
    bound = tl.zeros([ROWS], tl.float64)
    for k in range(WIDTH):
        who = tl.load(known + here.to(tl.int64) * WIDTH + k)
        far = tl.zeros([ROWS], tl.float64)
        for d in tl.static_range(P):
            gap = tl.load(points + d * stride + tl.maximum(who, 0)) - tl.load(
                points + d * stride + here
            )
            far += gap * gap
        bound = tl.maximum(bound, tl.where(who < 0, 1.0e300, far))
    bound = tl.minimum(bound + bound * 1e-9, 1.0e300)  # two ways to round, and to take roots
    for t in range(split, num_tiles, splits):
        columns = t * TILE + tl.arange(0, TILE)
        squares = _squares(points, stride, here, columns, tl.float64, P)
        passing = tl.min(squares, axis=0) <= tl.minimum(worst, bound)
        if tl.max(passing.to(tl.int32), axis=0) > 0:
            best, names, worst, worst_name = _insert(
                squares, columns, best, names, worst, worst_name, bound
            )
    _store(out_names, out_best, names, best, r, num_points, split, splits, Q)


@kernel
def products_kernel(
    points, norms, rows, out_names, out_best, num_rows, num_tiles,
    P: tl.constexpr, Q: tl.constexpr, SLOTS: tl.constexpr,
    ROWS: tl.constexpr, TILE: tl.constexpr, STAGES: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """The Q least ``|y|^2 - 2 x y`` of each of ROWS rows, by matrix products, over all points."""
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    here = tl.load(rows + tl.minimum(r, num_rows - 1))
    d = tl.arange(0, P)
    x = tl.load(points + here[None, :] * P + d[:, None]) * -2.0
    best, names = _empty_lists(Q, SLOTS, ROWS, tl.float32)
    worst, worst_name = _worst_of(best, names)
    bound = tl.zeros([ROWS], tl.float32) + 3.0e38
    for t in tl.range(0, num_tiles, num_stages=STAGES):
        columns = t * TILE + tl.arange(0, TILE)
        y = tl.load(points + columns[:, None] * P + d[None, :])
        squares = tl.dot(y, x, input_precision=PRECISION) + tl.load(norms + columns)[:, None]
        passing = tl.min(squares, axis=0) < worst
        if tl.max(passing.to(tl.int32), axis=0) > 0:
            best, names, worst, worst_name = _insert(
                squares, columns, best, names, worst, worst_name, bound
            )
    _store(out_names, out_best, names, best, r, num_rows, 0, 1, Q)


@kernel
def ordered_kernel(
    points, own, names, out_names, out_squares, num_rows, num_points,
    P: tl.constexpr, Q: tl.constexpr, KEEP: tl.constexpr, SLOTS: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """The first KEEP of each row's list by (squared distance in float64, label)."""
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    slot = tl.arange(0, SLOTS)
    listed = (r < num_rows)[:, None] & (slot < Q)[None, :]
    place = r[:, None].to(tl.int64) * Q + slot[None, :]
    mine = tl.load(own + r, mask=r < num_rows, other=0).to(tl.int64)
    theirs = tl.load(names + place, mask=listed, other=2147483647)
    there = theirs < num_points  # the labels of empty places are larger
    far = tl.zeros([ROWS, SLOTS], tl.float64)
    for d in range(P):
        x = tl.load(points + mine * P + d).to(tl.float64)
        at = theirs.to(tl.int64) * P + d
        y = tl.load(points + at, mask=there, other=float("inf")).to(tl.float64)
        gap = x[:, None] - y
        far += gap * gap
    for k in range(KEEP):
        near = tl.min(far, axis=1)
        first = tl.min(tl.where(far == near[:, None], theirs, 2147483647), axis=1)
        to = r.to(tl.int64) * KEEP + k
        tl.store(out_names + to, first, mask=r < num_rows)
        tl.store(out_squares + to, near, mask=r < num_rows)
        far = tl.where(theirs == first[:, None], float("inf"), far)


@kernel
def members_kernel(
    names, distances, start, count, members, out, num_rows, num_classes, num_nodes,
    Q: tl.constexpr, J: tl.constexpr, R: tl.constexpr, PLACES: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """The first R nodes by (distance, node) among the first J members of Q classes."""
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    row = tl.minimum(r, num_rows - 1).to(tl.int64)
    place = tl.arange(0, PLACES)
    listed = row[:, None] * Q + tl.minimum(place // J, Q - 1)[None, :]
    own = tl.minimum(tl.load(names + listed), num_classes - 1)
    size = tl.load(count + own)
    nth = (place % J)[None, :]
    node = tl.load(members + tl.load(start + own) + tl.minimum(nth, size - 1))
    there = (place < Q * J)[None, :] & (nth < size)
    far = tl.where(there, tl.load(distances + listed), float("inf"))
    for k in range(R):
        near = tl.min(far, axis=1)
        first = tl.min(tl.where(far == near[:, None], node, num_nodes - 1), axis=1)
        tl.store(out + row * R + k, first, mask=r < num_rows)
        far = tl.where(node == first[:, None], float("inf"), far)
