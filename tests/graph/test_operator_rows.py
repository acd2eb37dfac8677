"""Rows of sparse operators, forward and backward, by both methods."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from djgnn.graph.operator import SparseOperator, columns_of, distinct, gather_rows, take_rows

N, COLUMNS = 1500, 40


def whole() -> tuple[SparseOperator, torch.Tensor]:
    matrix = sp.random_array((N, COLUMNS), density=0.05, rng=0)
    return SparseOperator.from_scipy(matrix, torch.float64), torch.from_numpy(matrix.toarray())


def product(operator: SparseOperator, h: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """S h and the gradient of a weighted sum of it."""
    own = h.clone().requires_grad_()
    out = operator @ own
    weight = torch.arange(out.numel(), dtype=out.dtype).view_as(out)
    (out * weight).sum().backward()
    assert own.grad is not None
    return out.detach(), own.grad


@pytest.mark.parametrize("take", [take_rows, gather_rows])
@pytest.mark.parametrize("size", [0, 1, 7, N])
def test_rows_are_those_of_the_dense_matrix(take, size: int) -> None:
    operator, dense = whole()
    index = torch.from_numpy(np.random.default_rng(1).permutation(N)[:size])
    h = torch.randn(COLUMNS, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    rows = take(operator, index)
    out, grad = product(rows, h)
    torch.testing.assert_close(rows.to_dense(), dense[index], rtol=0, atol=0)
    torch.testing.assert_close(out, dense[index] @ h)
    weight = torch.arange(out.numel(), dtype=out.dtype).view_as(out)
    torch.testing.assert_close(grad, dense[index].t() @ weight)


@pytest.mark.parametrize("take", [take_rows, gather_rows])
def test_without_gradients_there_is_no_transpose(take) -> None:
    operator, _ = whole()
    with torch.no_grad():
        rows = take(operator, torch.tensor([3, 2]))
    assert rows.transposed == ()
    assert take(operator, torch.tensor([3, 2])).transposed != ()


@pytest.mark.parametrize("take", [take_rows, gather_rows])
@pytest.mark.parametrize("size", [3, N])
def test_empty_columns_are_left_out(take, size: int) -> None:
    operator, dense = whole()
    index = torch.arange(size)
    columns, few = columns_of(take(operator, index))
    filled = (dense[index] != 0).any(dim=0).nonzero().squeeze(1)
    assert torch.equal(columns, filled)
    assert size == N or columns.numel() < COLUMNS
    torch.testing.assert_close(few.to_dense(), dense[index][:, filled], rtol=0, atol=0)
    h = torch.randn(columns.numel(), 2, dtype=torch.float64)
    _, grad = product(few, h)
    weight = torch.arange(2 * size, dtype=torch.float64).view(size, 2)
    torch.testing.assert_close(grad, dense[index][:, filled].t() @ weight)


def test_distinct_is_unique() -> None:
    values = torch.randint(0, 50, (200,), generator=torch.Generator().manual_seed(0))
    found, place = distinct(values, 50)
    wanted, inverse = torch.unique(values, return_inverse=True)
    assert torch.equal(found, wanted)
    assert torch.equal(place, inverse)
