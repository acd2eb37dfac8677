"""The Triton aggregation against the CSR product: on a GPU, or in Triton's interpreter."""

from __future__ import annotations

import pytest
import torch

from djgnn.filters import branch_ranks
from djgnn.filters.aggregate import _layout, weighted_sum
from djgnn.filters.triton_aggregate import triton_sum
from djgnn.jumps.triton_search import triton_available

pytest.importorskip("triton")

DEVICE = "cuda" if triton_available() else "cpu"


@pytest.mark.parametrize("hidden", [5, 130])
@pytest.mark.parametrize("support", ["shell", "author"])
@pytest.mark.parametrize("rows", [40, 17])
def test_values_and_gradients(support: str, hidden: int, rows: int) -> None:
    branches, generator = branch_ranks(support, 3), torch.Generator().manual_seed(0)
    layout = _layout(branches, rows, torch.device("cpu"))
    entries, count = layout.branch.numel(), len(branches)
    node = torch.randint(40, (rows, entries), generator=generator)
    index = node * count + layout.branch
    value, h, grad = (
        torch.rand(shape, generator=generator, dtype=torch.float64).requires_grad_()
        for shape in ((rows, entries), (40, hidden * count), (rows, hidden * count))
    )
    plain = weighted_sum(layout.indptr, index.reshape(-1), value.reshape(-1), h, hidden)
    expected = (plain, *torch.autograd.grad(plain, (value, h), grad))
    here = [part.to(DEVICE) for part in (value, h, index, layout.starts, layout.branch)]
    found = triton_sum(*here)
    ours = (found, *torch.autograd.grad(found, here[:2], grad.to(DEVICE)))
    for a, b in zip(ours, expected, strict=True):
        torch.testing.assert_close(a.cpu(), b, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("wanted", [0, 1])
def test_a_gradient_that_nobody_wants_is_left_out(wanted: int) -> None:
    branches = branch_ranks("shell", 1)
    layout = _layout(branches, 3, torch.device(DEVICE))
    index = (torch.arange(3, device=DEVICE) * 2)[:, None] + layout.branch
    value = torch.rand(index.shape, dtype=torch.float64, device=DEVICE)
    h = torch.rand(3, 4, dtype=torch.float64, device=DEVICE)
    (value, h)[wanted].requires_grad_()
    triton_sum(value, h, index, layout.starts, layout.branch).sum().backward()
    assert (value, h)[1 - wanted].grad is None
    assert (value, h)[wanted].grad is not None
