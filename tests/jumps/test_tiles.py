"""KD order: a permutation whose tiles are small boxes."""

from __future__ import annotations

import pytest
import torch

from djgnn.jumps.tiles import SearchMemory, TiledPoints, kd_order, tile_boxes


@pytest.mark.parametrize("m", [1, 31, 32, 33, 1000])
@pytest.mark.parametrize("p", [1, 5])
def test_every_point_once(m: int, p: int) -> None:
    points = torch.rand(m, p, generator=torch.Generator().manual_seed(m))
    assert sorted(kd_order(points, 32).tolist()) == list(range(m))


def test_tiles_of_uniform_points_are_nearly_cubes() -> None:
    points = torch.rand(4096, 2, generator=torch.Generator().manual_seed(0))
    low, high = tile_boxes(points[kd_order(points, 16)], 16)
    ideal = (16 / 4096) ** 0.5
    assert (high - low).mean() < 1.3 * ideal
    assert (high - low).amax() < 4 * ideal


def test_clusters_are_not_mixed() -> None:
    generator = torch.Generator().manual_seed(0)
    centers = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    points = centers.repeat(64, 1) + 1e-6 * torch.rand(256, 2, generator=generator)
    low, high = tile_boxes(points[kd_order(points, 32)], 32)
    assert (high - low).amax() < 1e-5


def test_clusters_are_cut_however_small_they_are() -> None:
    generator = torch.Generator().manual_seed(0)
    inside = 1e-9 * torch.rand(4096, 2, generator=generator, dtype=torch.float64)
    points = inside + (torch.arange(4096) % 4)[:, None]
    low, high = tile_boxes(points[kd_order(points, 16)], 16)
    assert (high - low).mean() < 1.3e-9 * (16 / 1024) ** 0.5


def test_coincident_and_constant_points_are_no_problem() -> None:
    assert sorted(kd_order(torch.zeros(100, 3), 8).tolist()) == list(range(100))


def test_tiles_hold_all_points_and_fill_up_with_infinity() -> None:
    points = torch.rand(70, 3, generator=torch.Generator().manual_seed(0))
    tiled = TiledPoints.build(points, 32, kd_order(points, 32))
    assert tiled.num_tiles == 3
    assert torch.equal(tiled.points[:, :70].t(), points[tiled.label[:70].long()])
    assert torch.isinf(tiled.points[:, 70:]).all()
    inside = tiled.points[:, :64].view(3, 2, 32)
    assert (inside >= tiled.low[:, :2, None]).all()
    assert (inside <= tiled.high[:, :2, None]).all()


def test_an_order_is_kept_until_it_is_old_or_does_not_fit() -> None:
    memory = SearchMemory(max_age=2)
    points = torch.rand(500, 2, generator=torch.Generator().manual_seed(0))
    first = memory.order_for(points, 32)
    assert memory.order_for(points + 1, 32) is first
    assert memory.order_for(points, 32) is not first
    assert memory.order_for(points[:450], 32).numel() == 450
