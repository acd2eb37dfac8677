"""Tiles: points in KD order with the box of every few, and what one search leaves to the next."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from djgnn.jumps.kd_order import kd_order, tile_boxes

if TYPE_CHECKING:
    from djgnn.jumps.warm_search import FormerLists

# Below this many points sorting them costs more than it saves.
UNSORTED = 4096


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

    CHUNK: ClassVar[int] = 128

    @classmethod
    def build(cls, points: Tensor, tile: int, order: Tensor) -> TiledPoints:
        """Place points and cut them into tiles; the last is filled with points at infinity."""
        m, p = points.shape
        placed = points[order]
        tiles = -(-m // tile)
        low, high = tile_boxes(placed, tile)
        padded = -(-tiles // cls.CHUNK) * cls.CHUNK
        inside = placed.new_full((p, tiles * tile), torch.inf)
        inside[:, :m] = placed.t()
        label = torch.full((tiles * tile,), 2**31 - 1, dtype=torch.int32, device=points.device)
        label[:m] = order
        boxes = [side.new_full((p, padded), torch.inf) for side in (low, high)]
        boxes[0][:, :tiles], boxes[1][:, :tiles] = low.t(), high.t()
        return cls(inside, label, boxes[0], boxes[1], order, tile)

    @property
    def num_tiles(self) -> int:
        """Number of tiles that hold points."""
        return -(-self.order.numel() // self.tile)


@dataclass
class SearchMemory:
    """The order of an earlier search, and its lists, which bound the distances of the next one.

    Points that moved a little are still nearly sorted, and their former neighbours are still
    near. Nothing here changes a result: boxes are taken anew, and bounds are true distances.
    `by_products` remembers which of two exact kernels was found faster, `former` the lists of few
    points.
    """

    refresh_every: int = 50
    by_products: bool | None = None
    former: dict[tuple[Any, ...], FormerLists] = field(default_factory=dict, repr=False)
    _order: Tensor | None = field(default=None, repr=False)
    _names: Tensor | None = field(default=None, repr=False)
    _age: int = 0

    def __reduce__(self) -> tuple[type[SearchMemory], tuple[int]]:
        """A copy starts without memories: CUDA graphs, which refer to them, cannot be copied."""
        return SearchMemory, (self.refresh_every,)

    def order_for(self, points: Tensor, tile: int) -> Tensor:
        """The order to search these points in; sorted anew when it has grown old."""
        m, held = points.shape[0], self._order
        if m <= UNSORTED:
            self.by_products = False
            return torch.arange(m, device=points.device)
        stale = self._age >= self.refresh_every
        if held is None or held.numel() != m or held.device != points.device or stale:
            held = self._order = kd_order(points, tile)
            self._names, self.by_products, self._age = None, None, 0
        self._age += 1
        return held

    def renew(self, points: Tensor) -> None:
        """Sort few points in space anew, for searches in a CUDA graph, which cannot do so."""
        for held in self.former.values():
            if held.latest.shape == points.shape:
                held.renew(points)

    def bounds_for(self, points: Tensor, order: Tensor, q: int) -> Tensor | None:
        """Squared distances within which every point, in order, has q others."""
        from djgnn.jumps.triton_search import pair_squares

        if self._names is None or self._names.shape != (points.shape[0], q):
            return None
        far = pair_squares(points, order, self._names).amax(dim=1)
        # Upwards past what float32 may round away.
        return (far * (1 + 1e-5) + 1e-36).float()

    def keep(self, tiled: TiledPoints, names: Tensor) -> None:
        """Remember the lists of a search, if its order was remembered."""
        if self._order is tiled.order:
            self._names = names
