"""The engines of the extra `faiss`."""

from __future__ import annotations

import sys

import pytest
import torch

from djgnn.jumps import choose_engine, rank_lists, single_classes
from djgnn.jumps.faiss_search import recall


def draw(kind: str, m: int = 600, p: int = 12) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    points = torch.randn(m, p, generator=generator)
    if kind == "clustered":
        return torch.tanh(points[:6].repeat(m // 6, 1) + 1e-3 * points)
    return torch.tanh(points * (9.0 if kind == "saturated" else 1.0))


@pytest.mark.parametrize("kind", ["spread", "clustered", "saturated"])
def test_faiss_is_exact_although_it_computes_products_in_float32(kind: str) -> None:
    pytest.importorskip("faiss")
    u, alone = draw(kind), single_classes(600)
    expected = rank_lists(u, alone, 6, "dense").ranks
    assert torch.equal(rank_lists(u, alone, 6, "faiss").ranks, expected)


def test_auto_takes_faiss_for_many_points_of_many_dimensions() -> None:
    pytest.importorskip("faiss")
    assert choose_engine("auto", torch.zeros(600, 9)) is choose_engine("faiss", torch.zeros(1, 1))
    assert choose_engine("auto", torch.zeros(600, 8)) is choose_engine("kdtree", torch.zeros(1, 1))


def test_approximate_lists_say_how_many_neighbours_they_found() -> None:
    pytest.importorskip("faiss")
    u, alone = draw("spread", m=900, p=4), single_classes(900)
    found = rank_lists(u, alone, 5, "approximate")
    exact = rank_lists(u, alone, 5)
    assert exact.recall is None
    assert found.recall == pytest.approx(recall(u.double(), found.ranks), abs=1e-12)
    hit = (found.ranks[:, :, None] == exact.ranks[:, None, :]).any(dim=2).double().mean()
    assert found.recall == pytest.approx(float(hit), abs=0.05)
    assert 0.8 < found.recall <= 1


def test_without_faiss_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(ImportError, match=r"pip install djgnn\[faiss\]"):
        rank_lists(torch.zeros(4, 2), single_classes(4), 2, "faiss")
