"""Rare refresh of the ranks, and activation checkpointing."""

from __future__ import annotations

from typing import Any

import torch

from djgnn.graph import heterophilic_sbm
from djgnn.model import DJGNN


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
