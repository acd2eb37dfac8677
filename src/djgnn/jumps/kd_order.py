"""KD order: points sorted in space, so that a run of neighbours in the order is a small box."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor


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
    m = points.shape[0]
    sorted_points = points.float()
    order = torch.arange(m, device=points.device)
    for owner in _cuts(-(-m // tile), points.device):
        low, high = tile_boxes(sorted_points, tile)
        segments = int(owner.shape[0])
        widest = _widest(low, high, owner, segments)
        place = owner.repeat_interleave(tile)[:m]
        value = sorted_points.gather(1, widest[place][:, None]).squeeze(1)
        cut = torch.sort((place << 32) + _sortable(value), stable=True).indices
        order, sorted_points = order[cut], sorted_points[cut]
    return order


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


def _widest(low: Tensor, high: Tensor, owner: Tensor, segments: int) -> Tensor:
    """The coordinate along which each segment is longest."""
    where = owner[:, None].expand_as(low)
    bottom = low.new_full((segments, low.shape[1]), torch.inf).scatter_reduce(0, where, low, "amin")
    top = low.new_full((segments, low.shape[1]), -torch.inf).scatter_reduce(0, where, high, "amax")
    return (top - bottom).argmax(dim=1)


def _sortable(value: Tensor) -> Tensor:
    """The bits of floats as whole numbers from 0 to 2^32 in the same order."""
    bits = value.contiguous().view(torch.int32).long()
    return torch.where(bits < 0, ~bits & 0x7FFFFFFF, bits + 0x80000000)


@lru_cache(maxsize=8)
def _cuts(tiles: int, device: torch.device) -> tuple[Tensor, ...]:
    """For every level, the segment that each tile belongs to before the level's cut."""
    levels = []
    owner = np.zeros(tiles, dtype=np.int64)
    while tiles and np.bincount(owner).max() > 1:
        levels.append(torch.from_numpy(owner.copy()).to(device))
        size = np.bincount(owner)
        start = np.cumsum(size) - size
        inside = np.arange(tiles) - start[owner]
        right = inside >= (size[owner] + 1) // 2
        owner = np.unique(2 * owner + right, return_inverse=True)[1].reshape(-1)
    return tuple(levels)
