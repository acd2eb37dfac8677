"""Tiles: points sorted in space (KD order) and cut into tiles with bounding boxes."""

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from djgnn.jumps.twins import TwinClasses

# Parts of a cut. Four give tiles as small as two do, with half of the sorts.
WAYS = 4
# Bits of a sort's keys: a radix sort of 32-bit numbers takes half the passes of one of 64.
BITS = 31


@torch.no_grad()
def kd_order(points: Tensor, tile: int) -> Tensor:
    """An order of the points in which every `tile` successive ones lie close together.

    The set is cut in four along its widest coordinate, each part likewise, down to single tiles;
    all cuts of a level are one sort. Unlike a Morton curve it follows the density of the points:
    all tiles but the last are full, and clusters are cut as finely as they need.

    Args:
        points: Positions.
        tile: Points in a tile.

    Shapes:
        points ``[m, p]``, result ``[m]``.

    Example:
        >>> kd_order(torch.tensor([[0.0], [9.0], [1.0], [8.0]]), 2).tolist()
        [0, 2, 3, 1]
    """
    m, p = points.shape
    tiles = -(-m // tile)
    order = torch.arange(m, device=points.device)
    placed = points.new_empty(tiles * tile, p)
    for owner, segments in cut_levels(tiles, points.device):
        torch.index_select(points, 0, order, out=placed[:m])
        placed[m:] = placed[m - 1 : m]
        keys = _keys(placed.view(tiles, tile, p), owner, segments)
        order = order.index_select(0, torch.sort(keys.view(-1)[:m]).indices)
    return order


def _keys(grouped: Tensor, owner: Tensor, segments: Tensor) -> Tensor:
    """Whole numbers that sort by segment, then by the widest coordinate of the segment.

    Shapes:
        grouped ``[tiles, tile, p]``, owner ``[tiles]``, segments ``[segments, most tiles]``,
        result ``[tiles, tile]`` (int32).
    """
    count, most = segments.shape
    bits = BITS - (count - 1).bit_length()
    low, high = grouped.aminmax(dim=1)
    bottom = low.index_select(0, segments.view(-1)).view(count, most, -1).amin(dim=1)
    top = high.index_select(0, segments.view(-1)).view(count, most, -1).amax(dim=1)
    extent, widest = (top - bottom).double().max(dim=1, keepdim=True)
    scale = (2**bits - 1) / extent.clamp_min(1e-30)
    axis, start = widest.index_select(0, owner), bottom.gather(1, widest).index_select(0, owner)
    value = grouped.gather(2, axis[:, :, None].expand(-1, grouped.shape[1], 1)).squeeze(2)
    cell = (value - start).double() * scale.index_select(0, owner)
    keys: Tensor = cell.int() + (owner << bits).int()[:, None]
    return keys


def tile_boxes(points: Tensor, tile: int) -> tuple[Tensor, Tensor]:
    """The smallest and the largest coordinates of every `tile` successive points.

    Shapes:
        points ``[m, p]``, results ``[tiles, p]``.
    """
    m, p = points.shape
    tiles = -(-m // tile)
    if tiles * tile > m:
        points = torch.cat([points, points[-1:].expand(tiles * tile - m, p)])
    grouped = points.view(tiles, tile, p)
    return grouped.amin(dim=1), grouped.amax(dim=1)


@lru_cache(maxsize=8)
def cut_levels(tiles: int, device: torch.device) -> tuple[tuple[Tensor, Tensor], ...]:
    """For every level the segment of each tile before the cut, and the tiles of each segment.

    Segments differ by one tile at most; a shorter one names its last tile twice.
    """
    levels = []
    owner = np.zeros(tiles, dtype=np.int64)
    while tiles and np.bincount(owner).max() > 1:
        size = np.bincount(owner)
        start = np.cumsum(size) - size
        segments = start[:, None] + np.minimum(np.arange(size.max()), size[:, None] - 1)
        levels.append((torch.from_numpy(owner).to(device), torch.from_numpy(segments).to(device)))
        part = (np.arange(tiles) - start[owner]) * WAYS // np.maximum(size[owner], WAYS)
        owner = np.unique(WAYS * owner + part, return_inverse=True)[1].reshape(-1)
    return tuple(levels)


@dataclass
class SearchMemory:
    """Warm start: the KD order and the lists of an earlier search of slowly moving points.

    Points that moved a little are still nearly sorted, and the distances to the former neighbours
    bound those to the new ones. The result depends on neither: boxes and bounds are computed from
    the new positions. `by_products` says which of two exact kernels was found faster for this
    order, `reached` how many boxes a search in the new order had to look into for a point, and
    `group` which points coincided. `lists` are the classes of all lists, where all pairs are
    compared, and `twins` what they are classes of.

    Example:
        >>> SearchMemory().age
        0
    """

    max_age: int = 50
    order: Tensor | None = None
    names: Tensor | None = None
    by_products: bool | None = None
    reached: float = 0.0
    age: int = 0
    group: Tensor | None = None
    lists: Tensor | None = None
    twins: TwinClasses | None = None

    def lists_of(self, twins: TwinClasses, width: int) -> Tensor:
        """The lists of the last search among these classes, -1 before the first, ``[m, width]``.

        The next ones are written over them, also by a CUDA graph.
        """
        held, shape = self.lists, (twins.num_classes, width)
        if held is None or self.twins is not twins or held.shape != shape:
            device = twins.class_of.device
            held = torch.full(shape, -1, dtype=torch.int32, device=device)
            self.lists, self.twins = held, twins
        return held

    def renumber(self, group: Tensor | None, points: int, count: int) -> None:
        """Name points as the next search does: other ones may coincide than in the last.

        Args:
            group: The number that the next search gives to every point; ``None``: its own.
            points: How many there are.
            count: How many places they have.
        """
        before, self.group = self.group, group
        if self.order is None or (before is None and group is None):
            return
        own = torch.arange(points, device=self.order.device)
        old, new = (own if numbers is None else numbers for numbers in (before, group))
        if len(old) != points:  # of another graph
            self.order = self.names = None
            return
        place = torch.empty_like(self.order)
        place[self.order] = own[: len(place)]
        kept = place[old[_one_of(new, own, count)]]  # where a point of every new number was
        self.order = kept.argsort(stable=True)
        if self.names is not None:
            named = self.names[kept[self.order]].long()
            self.names = new[_one_of(old, own, len(place))[named]].int()

    def order_for(self, points: Tensor, tile: int, anew: bool = False) -> Tensor:
        """The order to search these points in; sorted again every `max_age` searches."""
        held = self.order
        if anew or held is None or held.numel() != len(points) or held.device != points.device:
            held = None
        if held is None or self.age >= self.max_age:
            held, self.names, self.by_products = kd_order(points, tile), None, None
            self.age = 0
        self.order, self.age = held, self.age + 1
        return held


def _one_of(numbers: Tensor, points: Tensor, count: int) -> Tensor:
    """The first point of every number."""
    first = points.new_full((count,), len(points))
    return first.scatter_reduce_(0, numbers, points, "amin")


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
    def build(cls, points: Tensor, tile: int, order: Tensor) -> Self:
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
