"""The Triton aggregation against the CSR product: on a GPU, or in Triton's interpreter."""

from __future__ import annotations

import sys

import pytest
import torch

from djgnn.filters import FilterTable, aggregate, branch_ranks
from djgnn.jumps.triton_search import triton_available

pytest.importorskip("triton")

DEVICE = "cuda" if triton_available() else "cpu"


def results(
    table: FilterTable,
    h: torch.Tensor,
    rows: torch.Tensor | None,
    wanted: tuple[bool, bool],
    shared: bool = False,
) -> list[torch.Tensor]:
    """The aggregation and its wanted gradients, by weight and by h."""
    weight, h = table.weight.clone().requires_grad_(wanted[0]), h.clone().requires_grad_(wanted[1])
    found = aggregate(FilterTable(table.index, weight, table.branches), h, rows, shared)
    grad = torch.linspace(-1, 1, found.numel(), dtype=h.dtype).view_as(found).to(h.device)
    inputs = [part for part, want in zip((weight, h), wanted, strict=True) if want]
    return [part.cpu() for part in (found, *torch.autograd.grad(found, inputs, grad))]


@pytest.mark.parametrize("wanted", [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("hidden", [1, 5, 130])
@pytest.mark.parametrize("support", ["shell", "author"])
@pytest.mark.parametrize("some", [True, False])
@pytest.mark.parametrize("shared", [True, False])
def test_values_and_gradients(
    support: str,
    hidden: int,
    some: bool,
    shared: bool,
    wanted: tuple[bool, bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    branches, generator = branch_ranks(support, 3), torch.Generator().manual_seed(0)
    index = torch.stack([torch.randperm(40, generator=generator)[:3] for _ in range(40)])
    weight = torch.rand(40, 3, generator=generator, dtype=torch.float64)
    h = torch.rand(
        40, hidden * (1 if shared else len(branches)), generator=generator, dtype=torch.float64
    )
    rows = torch.arange(0, 40, 3) if some else None
    expected = results(FilterTable(index, weight, branches), h, rows, wanted, shared)
    monkeypatch.setattr(sys.modules["djgnn.filters.aggregate"], "uses_triton", lambda _: True)
    table = FilterTable(index.to(DEVICE), weight.to(DEVICE), branches)
    found = results(table, h.to(DEVICE), rows if rows is None else rows.to(DEVICE), wanted, shared)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)
