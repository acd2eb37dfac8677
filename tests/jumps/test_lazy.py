"""Lazy refresh: the same lists, fewer searches."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from djgnn.jumps import LazyRanks, class_ranks, lazy, rank_lists, single_classes
from djgnn.jumps.engines import kdtree
from djgnn.jumps.lazy import _refer
from djgnn.jumps.twins import TwinClasses


def draw(n: int, p: int = 3, seed: int = 0) -> torch.Tensor:
    return torch.tanh(torch.randn(n, p, generator=torch.Generator().manual_seed(seed)))


@pytest.mark.parametrize("speed", [1e-4, 1e-3, 3e-2])
@pytest.mark.parametrize("classes", [300, 120])
def test_no_rank_differs_however_positions_move(speed: float, classes: int) -> None:
    generator = torch.Generator().manual_seed(1)
    labels = np.random.default_rng(0).permutation(np.arange(300) % classes)
    twins, u, lazy = TwinClasses.from_labels(labels), draw(300), LazyRanks(fewest=1)
    for _ in range(12):
        expected = rank_lists(u, twins, 4).ranks
        assert torch.equal(lazy(u, twins, 4).ranks, expected)
        # Some points run, the others crawl.
        pace = speed * torch.rand(300, 1, generator=generator) ** 6
        u = u + pace * torch.randn(300, 3, generator=generator)


def test_a_common_motion_needs_no_search() -> None:
    u, twins, lazy = draw(400), single_classes(400), LazyRanks(fewest=1)
    expected = lazy(u, twins, 3).ranks
    turn = torch.linalg.qr(torch.randn(3, 3, generator=torch.Generator().manual_seed(2)))[0]
    found = lazy(0.7 * u @ turn + 2, twins, 3).ranks
    assert torch.equal(found, rank_lists(0.7 * u @ turn + 2, twins, 3).ranks)
    assert torch.equal(found, expected)
    assert lazy.saving.searched <= 404
    assert lazy.saving.share > 0.49


def test_one_point_that_jumps_is_found_by_its_new_neighbours() -> None:
    u, twins, lazy = draw(400), single_classes(400), LazyRanks(fewest=1)
    lazy(u, twins, 3)
    u = u.clone()
    u[0] = u[7] + 1e-6
    found = lazy(u, twins, 3).ranks
    assert torch.equal(found, rank_lists(u, twins, 3).ranks)
    assert found[7].tolist()[:2] == [7, 0]


def test_more_ranks_than_the_reference_holds_are_searched() -> None:
    u, twins, lazy = draw(400), single_classes(400), LazyRanks(fewest=1)
    for ranks in (3, 40, 3):
        assert torch.equal(lazy(u, twins, ranks).ranks, rank_lists(u, twins, ranks).ranks)


def test_more_ranks_than_nodes_are_refused() -> None:
    for search in (LazyRanks(), lambda *given: class_ranks(*given, torch.arange(3))):
        with pytest.raises(ValueError, match="between 0 and the number of nodes, 5"):
            search(draw(5), single_classes(5), 6)


def test_cells_are_compared_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    points = draw(3000, 3).double()
    candidates = kdtree(points, 16)
    whole = _refer(points, candidates).near
    monkeypatch.setattr(lazy, "ROW_ELEMENTS", 500)
    assert torch.equal(_refer(points, candidates).near, whole)
    assert whole.shape[1] < 94**2


def test_few_classes_are_always_searched() -> None:
    u, twins, lazy = draw(100), single_classes(100), LazyRanks()
    for _ in range(3):
        lazy(u, twins, 3)
    assert lazy.saving.share == 0


def test_positions_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(FloatingPointError, match="no longer finite"):
        LazyRanks()(torch.full((4, 2), torch.nan), single_classes(4), 2)
