"""Exact nearest neighbours on a GPU: float32 first, float64 wherever float32 cannot decide.

Points are sorted in space (:func:`djgnn.jumps.kd_order.kd_order`) and cut into tiles with boxes.
One program of the kernel serves a few neighbouring points: it keeps their nearest so far in
registers, and visits a tile only if its box is nearer than the last of them. No distance is ever
written to memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from djgnn.jumps.kd_order import kd_order, tile_boxes

MAX_WIDTH = 64
MAX_DIMENSION = 64
# Fetched beyond what is asked for, so that the float64 order of the list can be certified.
SPARE = 2
CHUNK = 128


@dataclass(frozen=True)
class Tiling:
    """How the kernel cuts its work: rows of a program, points of a tile, warps."""

    rows: int
    tile: int
    warps: int


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


def default_tiling(p: int, kind: torch.dtype, width: int) -> Tiling:
    """Measured on an H200: few dimensions prune well with small tiles, many want large ones."""
    return Tiling(32, 32, 1) if kind == torch.float64 or width > 16 else Tiling(32, 64, 1)


@dataclass(frozen=True, eq=False)
class TiledPoints:
    """Points in KD order, coordinates in rows, with the boxes of their tiles.

    Shapes:
        points ``[p, padded]``, label ``[padded]`` (int32), low, high ``[p, padded tiles]``,
        order ``[m]`` (place -> point).
    """

    points: Tensor
    label: Tensor
    low: Tensor
    high: Tensor
    order: Tensor
    tile: int

    @classmethod
    def build(cls, points: Tensor, tile: int, order: Tensor | None = None) -> TiledPoints:
        """Sort points and cut them into tiles; the last tile is filled with points at infinity."""
        m, p = points.shape
        order = kd_order(points, tile) if order is None else order
        placed = points[order]
        tiles = -(-m // tile)
        low, high = tile_boxes(placed, tile)
        padded = -(-tiles // CHUNK) * CHUNK
        inside = placed.new_full((p, tiles * tile), torch.inf)
        inside[:, :m] = placed.t()
        label = torch.full((tiles * tile,), 2**31 - 1, dtype=torch.int32, device=points.device)
        label[:m] = order
        boxes = [side.new_full((p, padded), torch.inf) for side in (low, high)]
        boxes[0][:, :tiles], boxes[1][:, :tiles] = low.t(), high.t()
        return cls(inside, label, boxes[0], boxes[1], order, tile)


def nearest(
    tiled: TiledPoints, rows: Tensor, q: int, bounds: Tensor | None, tiling: Tiling
) -> tuple[Tensor, Tensor]:
    """The q least (squared distance, label) of the points at some places, in no order.

    Args:
        tiled: The points.
        rows: Places of the points asked for, increasing.
        q: How many.
        bounds: Squared distances within which q points are known to lie; infinite by default.
        tiling: How the work is cut.

    Shapes:
        rows, bounds ``[r]``, results ``[r, q]``.
    """
    from djgnn.jumps.triton_kernels import nearest_kernel

    p, stride = tiled.points.shape
    kind = tiled.points.dtype
    count = rows.numel()
    limit = torch.finfo(kind).max
    bounds = tiled.points.new_full((count,), limit) if bounds is None else bounds.to(kind)
    row_low, row_high = tile_boxes(tiled.points[:, rows].t(), tiling.rows)
    names = torch.empty(count, q, dtype=torch.int32, device=rows.device)
    best = torch.empty(count, q, dtype=kind, device=rows.device)
    # A box distance may be rounded up by less than this.
    slack = 1 - 2 * (p + 4) * torch.finfo(kind).eps
    nearest_kernel[(row_low.shape[0],)](
        tiled.points, tiled.label, tiled.low, tiled.high, rows,
        row_low.t().contiguous(), row_high.t().contiguous(), bounds, names, best,
        count, -(-tiled.order.numel() // tiled.tile), stride, tiled.low.shape[1],
        row_low.shape[0], slack,
        P=p, Q=q, SLOTS=_power(q), ROWS=tiling.rows, TILE=tiled.tile, CHUNK=CHUNK,
        num_warps=tiling.warps,
    )  # fmt: skip
    return names, best


def pair_squares(points: Tensor, own: Tensor, names: Tensor) -> Tensor:
    """Squared distances of points `own` to the points of their lists, in float64.

    Shapes:
        points ``[m, p]``, own ``[r]``, names and result ``[r, q]``.
    """
    from djgnn.jumps.triton_kernels import pair_kernel

    count, q = names.shape
    out = torch.empty(count, q, dtype=torch.float64, device=points.device)
    slots = _power(q)
    rows = max(1, 512 // slots)
    grid = (-(-count // rows),)
    pair_kernel[grid](
        points.contiguous(), own, names.contiguous(), out, count,
        P=points.shape[1], Q=q, SLOTS=slots, ROWS=rows,
    )  # fmt: skip
    return out


def in_order(points: Tensor, own: Tensor, names: Tensor) -> tuple[Tensor, Tensor]:
    """Lists sorted by (float64 distance, label), and the squared distances."""
    names = names.sort(dim=1).values
    squares, order = pair_squares(points, own, names).sort(dim=1, stable=True)
    return names.gather(1, order), squares


@torch.no_grad()
def triton_search(points: Tensor, q: int, tiling: Tiling | None = None) -> Tensor:
    """The q least (distance, index) of every point, itself included, exactly.

    float32 points are searched in float32, a few more than asked for. The list is sorted anew in
    float64; it is right if the q-th distance is below anything that float32 may have left out.
    The other rows (ties, and distances that differ by less than float32 can see) are searched in
    float64, by (squared distance, index).

    Args:
        points: Positions on a GPU, no two of them equal.
        q: Width of a list, at most 64.
        tiling: How the work is cut; measured values by default.

    Shapes:
        points ``[m, p]``, result ``[m, q]`` (int64).
    """
    m, p = points.shape
    if points.dtype != torch.float32:
        return _search_exactly(points, q, tiling)
    wide = min(q + SPARE, m)
    cut = tiling or default_tiling(p, torch.float32, wide)
    tiled = TiledPoints.build(points, cut.tile)
    places = torch.arange(m, device=points.device)
    names, best = nearest(tiled, places, wide, None, cut)
    seen = best.amax(dim=1).double()
    names, squares = in_order(points, tiled.order, names)
    found = torch.empty(m, q, dtype=torch.int64, device=points.device)
    found[tiled.order] = names[:, :q].long()
    if wide == m:
        return found
    # Differences, squares and sums of float32 err by less than p + 4 units, relatively.
    eps = torch.finfo(torch.float32).eps
    outside = seen * (1 - (p + 4) * eps) - p * torch.finfo(torch.float32).tiny
    unsure = (squares[:, q - 1] * (1 + 1e-12) >= outside).nonzero().squeeze(1)
    if unsure.numel():
        bounds = squares[unsure, q - 1] * (1 + 1e-12)
        names = _settle_exactly(points, tiled, unsure, q, bounds, tiling)
        found[tiled.order[unsure]] = names.long()
    return found


def _settle_exactly(
    points: Tensor,
    tiled: TiledPoints,
    rows: Tensor,
    q: int,
    bounds: Tensor | None,
    tiling: Tiling | None,
) -> Tensor:
    exact = points.double()
    cut = tiling or default_tiling(points.shape[1], torch.float64, q)
    again = TiledPoints.build(exact, cut.tile, tiled.order)
    names, _ = nearest(again, rows, q, bounds, cut)
    return in_order(points, tiled.order[rows], names)[0]


def _search_exactly(points: Tensor, q: int, tiling: Tiling | None) -> Tensor:
    m = points.shape[0]
    cut = tiling or default_tiling(points.shape[1], points.dtype, q)
    tiled = TiledPoints.build(points, cut.tile)
    places = torch.arange(m, device=points.device)
    names, _ = nearest(tiled, places, q, None, cut)
    names = in_order(points, tiled.order, names)[0]
    found = torch.empty(m, q, dtype=torch.int64, device=points.device)
    found[tiled.order] = names.long()
    return found


def _power(q: int) -> int:
    return 1 << max(q - 1, 0).bit_length()
