"""Fused aggregation on a GPU against the plain version; skipped without a GPU."""

from __future__ import annotations

import sys

import pytest
import torch

from djgnn.filters import FilterTable, aggregate, branch_ranks
from djgnn.jumps.triton_search import triton_available

pytestmark = pytest.mark.skipif(not triton_available(), reason="no GPU with Triton")


@pytest.mark.parametrize("hidden", [5, 64, 200])
@pytest.mark.parametrize("support", ["shell", "author"])
@pytest.mark.parametrize("some", [True, False])
def test_values_and_gradients(
    support: str, hidden: int, some: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    branches, generator = branch_ranks(support, 4), torch.Generator().manual_seed(0)
    index = torch.stack([torch.randperm(300, generator=generator)[:4] for _ in range(300)])
    weight = torch.rand(300, 4, generator=generator, dtype=torch.float64)
    h = torch.rand(300, hidden * len(branches), generator=generator, dtype=torch.float64)
    weight, h = (part.cuda().requires_grad_() for part in (weight, h))
    table = FilterTable(index.cuda(), weight, branches)
    rows = torch.arange(0, 300, 3, device="cuda") if some else None
    found = aggregate(table, h, rows)
    grad = torch.rand_like(found)
    ours = (found, *torch.autograd.grad(found, (weight, h), grad))
    module = sys.modules["djgnn.filters.aggregate"]
    monkeypatch.setattr(module, "triton_available", lambda: False)
    plain = aggregate(table, h, rows)
    theirs = (plain, *torch.autograd.grad(plain, (weight, h), grad))
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)
