"""Searching again on a GPU: the lists of points that moved, found with the help of their last ones.

The distances of the former neighbours now bound the distance of the last rank, and the boxes of
tiles of points, taken anew, say which points can be nearer than that: the others are not looked at.
Two launches and no look at a value, so that it can be part of a CUDA graph.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from djgnn.jumps.kd_order import cut_levels, kd_order
from djgnn.jumps.tiles import SearchMemory
from djgnn.jumps.triton_search import FEW_PROGRAMS, nearest_of_few, power, shares

# With fewer points comparing all of them is as fast.
FROM = 4000
# Tiles of this many points.
TILE = 16
# Boxes looked at together; programs that share a tile take turns with them.
CHUNK = 16
# Searches after which the points are sorted anew.
RENEW_EVERY = 16


def warm_search(points: Tensor, q: int, memory: SearchMemory | None) -> tuple[Tensor, Tensor]:
    """The q least (squared distance, index) of every point in float64, and more, in no order.

    Args:
        points: Positions on a GPU.
        q: How many.
        memory: What earlier searches left; it saves time, and changes no result.

    Shapes:
        points ``[m, p]``, results ``[m, several * q]`` (int64 and float64), with empty places as in
        :func:`nearest_of_few`. The next search with the same memory overwrites them.
    """
    if memory is None or points.shape[0] < FROM:
        return nearest_of_few(points, q)
    key = (*points.shape, q, points.dtype, points.device)
    held = memory.former.get(key)
    captured = torch.cuda.is_current_stream_capturing() if points.is_cuda else False
    if held is None:
        names, best = nearest_of_few(points, q)
        if not captured:
            memory.former[key] = FormerLists.start(points, q, names, best)
        return names, best
    if not captured:
        held.grow_older(points)
    return held.search(points)


@dataclass(eq=False)
class FormerLists:
    """The lists of the last search, an order of the points in space, and room for the next search.

    All tensors keep their places in memory: a CUDA graph refers to them.

    Shapes:
        names ``[m, several * q]``, order ``[m]``, label ``[tiles * TILE]``, placed
        ``[p, tiles * TILE]``, low, high ``[p, padded tiles]``, bounds ``[tiles * TILE]``, latest
        ``[m, p]`` (what was sorted last).
    """

    names: Tensor
    order: Tensor
    label: Tensor
    placed: Tensor
    low: Tensor
    high: Tensor
    bounds: Tensor
    latest: Tensor
    q: int
    age: int = 0
    _sorting: torch.cuda.CUDAGraph | None = None
    _cuts: tuple[tuple[Tensor, Tensor], ...] = ()

    @classmethod
    def start(cls, points: Tensor, q: int, names: Tensor, best: Tensor) -> FormerLists:
        """Make room, after a first search that found these lists."""
        m, p = points.shape
        tiles = -(-m // TILE)
        padded = -(-tiles // CHUNK) * CHUNK
        several = shares(tiles, tiles // CHUNK, q, 2 * FEW_PROGRAMS)
        held = names.new_full((m, several * q), 2**31 - 1)
        held[:, :q] = names.gather(1, best.topk(q, dim=1, largest=False).indices)
        real = points.new_empty(0, dtype=torch.float64)
        made = cls(
            names=held,
            order=torch.empty_like(names[:, 0]),
            label=names.new_full((tiles * TILE,), 2**31 - 1, dtype=torch.int32),
            placed=real.new_empty(p, tiles * TILE),
            low=real.new_full((p, padded), torch.inf),
            high=real.new_full((p, padded), torch.inf),
            bounds=real.new_empty(tiles * TILE),
            latest=points.clone(),
            q=q,
        )
        made._sort()
        return made

    @property
    def num_tiles(self) -> int:
        """How many tiles there are."""
        return self.label.numel() // TILE

    def renew(self, points: Tensor) -> None:
        """Sort the points in space anew; on a GPU that is one launch."""
        self.latest.copy_(points)
        self.age = 0
        if points.is_cuda and self._sorting is None:
            self._cuts = cut_levels(self.num_tiles, points.device)  # the graph reads them
            torch.cuda.synchronize()
            self._sorting = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._sorting):
                self._sort()
        if self._sorting is None:
            self._sort()
        else:
            self._sorting.replay()

    def _sort(self) -> None:
        self.order.copy_(kd_order(self.latest, TILE))
        self.label[: self.order.numel()] = self.order

    def grow_older(self, points: Tensor) -> None:
        """Count a search, and sort the points anew when their order has grown old."""
        self.age += 1
        if self.age >= RENEW_EVERY:
            self.renew(points)

    def search(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """The new lists and their squared distances."""
        from djgnn.jumps.triton_kernels import place_kernel, warm_kernel

        m, p = points.shape
        q, listed, tiles = self.q, self.names.shape[1], self.num_tiles
        splits = listed // q
        stride, tile_stride = self.placed.shape[1], self.low.shape[1]
        best = torch.empty(m, listed, dtype=torch.float64, device=points.device)
        # A box distance may be rounded up by less than this.
        slack = 1 - 2 * (p + 4) * torch.finfo(torch.float64).eps
        place_kernel[(tiles,)](
            points.contiguous(), self.order, self.names, self.placed, self.low, self.high,
            self.bounds, m, stride, tile_stride,
            P=p, Q=q, LISTED=listed, SLOTS=power(listed), TILE=TILE, num_warps=1,
        )  # fmt: skip
        warm_kernel[(tiles, splits)](
            self.placed, self.label, self.low, self.high, self.bounds, self.names, best,
            m, tiles, stride, tile_stride, slack, splits,
            P=p, Q=q, SLOTS=power(q), TILE=TILE, CHUNK=CHUNK, num_warps=1,
        )  # fmt: skip
        return self.names, best
