"""Lazy and rare refresh of the ranks, and activation checkpointing."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from djgnn.graph import heterophilic_sbm
from djgnn.jumps import lazy
from djgnn.model import DJGNN, ModelConfig, held_ranks


def trained(
    steps: int = 4, dropout: float = 0.5, **options: Any
) -> tuple[DJGNN, list[torch.Tensor]]:
    graph = heterophilic_sbm(300)
    x, edge_index = torch.from_numpy(graph.x.copy()), torch.from_numpy(graph.edge_index.copy())
    n, f = x.shape
    model = DJGNN(f, 8, graph.num_classes, n, 3, dropout=dropout, **options)
    model.reset_parameters(torch.Generator().manual_seed(0))
    operators, draws = model.prepare(edge_index), torch.Generator().manual_seed(1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    tables = []
    for _ in range(steps):
        logits, pump_loss = model(x, operators, generator=draws)
        tables.append(model.ranks._held[2].ranks)
        optimizer.zero_grad()
        (logits.logsumexp(dim=1).mean() + pump_loss).backward()
        optimizer.step()
    return model, tables


def same(a: DJGNN, b: DJGNN) -> bool:
    return all(torch.equal(p, q) for p, q in zip(a.parameters(), b.parameters(), strict=True))


def test_lazy_training_is_exact_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lazy.LazyRanks, "fewest", 1)
    plain, lists = trained()
    other, lazy_lists = trained(refresh="lazy")
    assert all(torch.equal(a, b) for a, b in zip(lists, lazy_lists, strict=True))
    assert same(plain, other)
    assert other.ranks.saving.asked == 4 * lists[0].shape[0]


def test_approximate_lists_say_so_even_if_asked_to_be_lazy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(held_ranks, "rank_lists", lambda *args: "measured")
    lists = held_ranks.HeldRanks(ModelConfig(refresh="lazy", engine="approximate"), 3)
    assert lists.search(torch.rand(50, 2), None) == "measured"


def test_every_second_change_is_searched() -> None:
    _, lists = trained(refresh_every=2)
    _, exact = trained()
    assert torch.equal(lists[0], lists[1])
    assert not torch.equal(lists[1], lists[2])
    assert not torch.equal(exact[0], exact[1])


def test_checkpointing_changes_nothing_but_memory() -> None:
    plain, _ = trained()
    other, _ = trained(recompute=True)
    assert same(plain, other)


def test_unknown_refresh_is_refused() -> None:
    with pytest.raises(ValueError, match=r"refresh must be one of exact, lazy \(got 'never'\)"):
        DJGNN(3, 4, 2, 10, 2, refresh="never")
