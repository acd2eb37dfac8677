"""KD order: a permutation whose tiles are small boxes."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch

from djgnn.jumps.coincident import classes_of, merge_coincident
from djgnn.jumps.kd_order import kd_order, tile_boxes
from djgnn.jumps.tiles import SearchMemory, TiledPoints
from djgnn.jumps.twins import TwinClasses, single_classes


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
    memory = SearchMemory(refresh_every=2)
    points = torch.rand(5000, 2, generator=torch.Generator().manual_seed(0))
    first = memory.order_for(points, 32)
    assert memory.order_for(points + 1, 32) is first
    assert memory.order_for(points, 32) is not first
    assert memory.order_for(points[:4500], 32).numel() == 4500


def test_a_copy_of_a_memory_has_none_of_its_memories() -> None:
    memory = SearchMemory(refresh_every=7)
    memory.order_for(torch.rand(5000, 2), 32)
    memory.former[()] = (each for each in ())  # cannot be copied either
    for copied in (copy.deepcopy(memory), pickle.loads(pickle.dumps(memory))):
        assert copied == SearchMemory(refresh_every=7)


def test_classes_on_the_device_are_those_of_numpy() -> None:
    labels = np.random.default_rng(0).integers(0, 7, 40)
    labels = np.unique(labels, return_inverse=True)[1]
    expected, found = TwinClasses.from_labels(labels), classes_of(torch.from_numpy(labels))
    for part in ("class_of", "members", "start", "count"):
        assert torch.equal(getattr(found, part), getattr(expected, part)), part


def test_classes_at_one_position_are_merged_with_zero_of_either_sign() -> None:
    points = torch.tensor([[0.0, 1.0], [-0.0, 1.0], [2.0, 1.0], [0.0, 1.0]])
    distinct, merged, group = merge_coincident(points, single_classes(4))
    assert distinct.tolist() == [[0.0, 1.0], [2.0, 1.0]]
    assert merged.class_of.tolist() == [0, 0, 1, 0]
    assert group is not None
    assert group.tolist() == [0, 0, 1, 0]
    _, apart, group = merge_coincident(points[1:3], single_classes(2))
    assert group is None
    assert apart.num_classes == 2
