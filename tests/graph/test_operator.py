"""The constant sparse operator, against dense products."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from djgnn.graph.operator import SparseOperator, csr_product, csr_tensor


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_product_and_gradient_equal_the_dense_ones(dtype: torch.dtype) -> None:
    matrix = sp.random_array((7, 5), density=0.3, rng=0)
    operator = SparseOperator.from_scipy(matrix, dtype)
    dense = operator.to_dense()
    h = torch.randn(5, 3, dtype=dtype, requires_grad=True)
    weight = torch.randn(7, 3, dtype=dtype)
    (gradient,) = torch.autograd.grad(((operator @ h) * weight).sum(), h)
    torch.testing.assert_close(operator @ h, dense @ h)
    torch.testing.assert_close(gradient, dense.t() @ weight)
    assert repr(operator) == f"SparseOperator(7 x 5, nnz={matrix.nnz})"


def test_empty_rows_and_empty_matrices_give_zeros_not_garbage() -> None:
    empty = SparseOperator.from_scipy(sp.csr_array((4, 3)))
    torch.full((4, 2), float("nan"))  # leave garbage where the next allocation may land
    assert torch.equal(empty @ torch.ones(3, 2), torch.zeros(4, 2))


@pytest.mark.parametrize("kind", [torch.int32, torch.int64])
@pytest.mark.parametrize("width", [0, 1, 5, 64, 100])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_products_of_any_width(kind: torch.dtype, width: int, dtype: torch.dtype) -> None:
    matrix = sp.random_array((9, 6), density=0.15, rng=0).tocsr()
    assert (np.diff(matrix.indptr) == 0).any()  # rows without entries too
    parts = [torch.from_numpy(part).to(kind) for part in (matrix.indptr, matrix.indices)]
    held = csr_tensor(*parts, torch.from_numpy(matrix.data).to(dtype), matrix.shape)
    wide = torch.randn(6, 2 * width, dtype=dtype, requires_grad=True)
    for dense in (wide, wide[:, width:]):  # the second is not contiguous
        found = csr_product(held, dense)
        assert not found.requires_grad
        torch.testing.assert_close(found, held.to_dense() @ dense.detach())


def test_every_torch_layout_is_the_same_operator() -> None:
    dense = torch.tensor([[0.0, 2.0], [1.0, 0.0], [0.0, 0.0]])
    for layout in (dense.to_sparse_coo(), dense.to_sparse_csr(), dense.to_sparse_csc()):
        assert torch.equal(SparseOperator.from_torch(layout).to_dense(), dense)
    back = SparseOperator.from_torch(dense.to_sparse_coo()).to_scipy()
    assert np.array_equal(back.toarray(), dense.numpy())


def test_long_columns_are_multiplied_block_by_block() -> None:
    matrix = sp.random_array((1500, 3), density=0.7, rng=0)
    operator = SparseOperator.from_scipy(matrix, torch.float64)
    assert len(operator.transposed) == 3
    h = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(1500, 4, dtype=torch.float64)
    (gradient,) = torch.autograd.grad(((operator @ h) * weight).sum(), h)
    torch.testing.assert_close(gradient, operator.to_dense().t() @ weight)


@pytest.mark.parametrize("rows", [9, 1500])
def test_other_values_in_the_same_pattern(rows: int) -> None:
    matrix = sp.random_array((rows, 3), density=0.7, rng=0)
    operator = SparseOperator.from_scipy(matrix)
    assert len(operator.transposed) == (3 if rows > 1024 else 1)
    values = torch.rand(matrix.nnz)
    other = operator.with_values(values)
    h, weight = torch.randn(3, 4, requires_grad=True), torch.randn(rows, 4)
    (gradient,) = torch.autograd.grad(((other @ h) * weight).sum(), h)
    assert torch.equal(other.matrix.values(), values)
    torch.testing.assert_close(other @ h, other.to_dense() @ h)
    torch.testing.assert_close(gradient, other.to_dense().t() @ weight, atol=1e-4, rtol=1e-5)
    alone = SparseOperator.from_scipy(matrix, backward=False).with_values(values)
    assert not alone.transposed
    assert torch.equal(alone.to_dense(), other.to_dense())
