"""Dense products by another library, against the usual ones."""

from __future__ import annotations

import pytest
import torch

from djgnn.model.products import (
    FEWEST_ROWS,
    block_products,
    crossed,
    narrow_product,
    product,
    times,
)

SIZES = [(3, 64, 64), (FEWEST_ROWS, 64, 64), (FEWEST_ROWS + 3, 100, 7), (FEWEST_ROWS, 5, 130)]


@pytest.mark.parametrize(("rows", "inner", "outer"), SIZES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_products_and_gradients_are_the_usual_ones(
    rows: int, inner: int, outer: int, dtype: torch.dtype
) -> None:
    x = torch.randn(rows, inner, dtype=dtype, requires_grad=True)
    wide = torch.randn(inner, 2 * outer, dtype=dtype, requires_grad=True)
    slope = torch.randn(rows, outer, dtype=dtype)
    for weight in (wide[:, :outer], wide[:, outer:], wide.t()[:outer].t()):
        usual = x @ weight
        wanted = torch.autograd.grad((usual * slope).sum(), (x, wide), retain_graph=True)
        for found in (product(x, weight), narrow_product(x, weight.t())):
            torch.testing.assert_close(found, usual, rtol=1e-5, atol=1e-4)
            got = torch.autograd.grad((found * slope).sum(), (x, wide), retain_graph=True)
            torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-3)
    assert not product(x.detach(), wide.detach()).requires_grad


@pytest.mark.parametrize(("rows", "inner", "outer"), SIZES)
def test_sums_over_rows(rows: int, inner: int, outer: int) -> None:
    x, *others = (torch.randn(rows, width) for width in (inner, outer, outer))
    for found, y in zip(crossed(x, *others), others, strict=True):
        torch.testing.assert_close(found, x.t() @ y, rtol=1e-4, atol=1e-3)
    bias = torch.randn(outer)
    found = times(x, x[:3].t() @ others[0][:3], bias)
    torch.testing.assert_close(found, x @ (x[:3].t() @ others[0][:3]) + bias, rtol=1e-4, atol=1e-3)
    strided = torch.randn(rows, 2 * inner)[:, ::2]
    torch.testing.assert_close(times(strided, x.t()[:, :4]), strided @ x.t()[:, :4])


@pytest.mark.parametrize(("rows", "inner", "outer"), SIZES)
def test_blocks_are_multiplied_one_by_one(rows: int, inner: int, outer: int) -> None:
    x = torch.randn(rows, 3 * inner, requires_grad=True)
    weight = torch.randn(inner, 3 * outer, requires_grad=True)
    pairs = zip(x.chunk(3, dim=1), weight.chunk(3, dim=1), strict=True)
    found, wanted = block_products(x, weight, 3), torch.cat([a @ b for a, b in pairs], dim=1)
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-4)
    slope = torch.randn_like(found)
    gradients = (torch.autograd.grad(each, (x, weight), slope) for each in (found, wanted))
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-3)
