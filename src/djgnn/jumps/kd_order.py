"""KD order: points sorted in space, so that a run of neighbours in the order is a small box."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

TOP = 2**32 - 1


@torch.no_grad()
def kd_order(points: Tensor, tile: int) -> Tensor:
    """An order of the points in which every `tile` successive ones lie close together.

    The set is halved at the median of its widest coordinate, its halves likewise, down to single
    tiles; all cuts of a level are one sort. Unlike a Morton curve it follows the density of the
    points: all tiles but the last are full, and clusters are cut as finely as they need.

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
    codes = points.new_full((tiles * tile, p), TOP, dtype=torch.float64)
    codes[:m] = _grid(points)  # what fills the last tile stays behind all points
    order = torch.arange(tiles * tile, device=points.device)
    for owner, sizes in cut_levels(tiles, points.device):
        grouped = codes.view(tiles, tile, p)
        low, high = grouped.aminmax(dim=1)
        bottom = torch.segment_reduce(low, "min", lengths=sizes, unsafe=True)
        top = torch.segment_reduce(high, "max", lengths=sizes, unsafe=True)
        widest = (top - bottom).argmax(dim=1).index_select(0, owner)
        value = grouped.gather(2, widest[:, None, None].expand(-1, tile, 1)).squeeze(2)
        # Whole numbers below 2^53: the segment first, then the coordinate.
        cut = torch.sort(torch.add(value, owner[:, None], alpha=2**32).view(-1)).indices
        order, codes = order.index_select(0, cut), codes.index_select(0, cut)
    return order[:m]


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


def _grid(points: Tensor) -> Tensor:
    """Whole numbers below 2^32 - 1 in proportion to the coordinates, as float64."""
    low, high = points.double().aminmax(dim=0)
    scale = (TOP - 1) / (high - low).amax().clamp_min(1e-30)
    return ((points - low) * scale).floor()


@lru_cache(maxsize=8)
def cut_levels(tiles: int, device: torch.device) -> tuple[tuple[Tensor, Tensor], ...]:
    """For every level the segment of each tile before the cut, and the tiles of each segment."""
    levels = []
    owner = np.zeros(tiles, dtype=np.int64)
    while tiles and np.bincount(owner).max() > 1:
        size = np.bincount(owner)
        levels.append((torch.from_numpy(owner).to(device), torch.from_numpy(size).to(device)))
        start = np.cumsum(size) - size
        right = np.arange(tiles) - start[owner] >= (size[owner] + 1) // 2
        owner = np.unique(2 * owner + right, return_inverse=True)[1].reshape(-1)
    return tuple(levels)
