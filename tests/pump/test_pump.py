"""The pump: its positions, its losses, and what they mean."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from djgnn.graph.operator import SparseOperator
from djgnn.pump import DiffusionPump, orthogonality_loss, pump, trace_ratio_loss


def random_operator(n: int, seed: int = 0, density: float = 0.2) -> SparseOperator:
    matrix = sp.random_array((n, n), density=density, rng=seed)
    matrix.data[:] = 1
    return SparseOperator.from_scipy(matrix, torch.float64)


def test_positions_are_tanh_of_a_linear_map_of_rows() -> None:
    a = random_operator(12)
    weight, bias = torch.randn(3, 12, dtype=torch.float64), torch.randn(3, dtype=torch.float64)
    expected = torch.tanh(a.to_dense() @ weight.t() + bias)
    torch.testing.assert_close(pump(a, weight, bias), expected)


def test_identity_source_ignores_the_graph() -> None:
    weight, bias = torch.randn(3, 12), torch.randn(3)
    torch.testing.assert_close(pump(None, weight, bias), torch.tanh(weight.t() + bias))


def test_trace_ratio_equals_the_dense_formula_and_the_minimised_form_less_one() -> None:
    a = random_operator(15, seed=1)
    dense = a.to_dense()
    degree = dense.sum(dim=1)
    u = torch.randn(15, 4, dtype=torch.float64)
    d = torch.diag(degree)
    expected = -torch.trace(u.t() @ dense @ u) / torch.trace(u.t() @ d @ u)
    found = trace_ratio_loss(u, a, degree)
    torch.testing.assert_close(found, expected)
    laplacian = torch.trace(u.t() @ (d - dense) @ u) / torch.trace(u.t() @ d @ u)
    torch.testing.assert_close(found, laplacian - 1)


def test_constant_positions_have_no_dirichlet_energy() -> None:
    a = random_operator(10, seed=2)
    degree = a.to_dense().sum(dim=1)
    u = torch.ones(10, 1, dtype=torch.float64)
    assert abs(float(trace_ratio_loss(u, a, degree)) + 1) < 1e-12


def test_a_graph_without_edges_has_ratio_zero_and_no_nan() -> None:
    empty = SparseOperator.from_scipy(sp.csr_array((5, 5)))
    u = torch.rand(5, 2, requires_grad=True)
    loss = trace_ratio_loss(u, empty, torch.zeros(5)) + orthogonality_loss(u)
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(u.grad).all()


def test_orthogonality_of_one_column_is_zero_and_scale_does_not_matter() -> None:
    u = torch.randn(9, 3, dtype=torch.float64)
    torch.testing.assert_close(orthogonality_loss(u), orthogonality_loss(7 * u))
    assert float(orthogonality_loss(u[:, :1])) == pytest.approx(0, abs=1e-12)


def test_orthogonal_columns_of_equal_length_reach_the_least_value() -> None:
    least = float(torch.linalg.matrix_norm(torch.eye(3) / 3**0.5 - torch.eye(3)))
    q, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(20, 3)))
    assert float(orthogonality_loss(torch.from_numpy(q))) == pytest.approx(least, abs=1e-6)


def test_gradients_pass_gradcheck() -> None:
    a = random_operator(6, seed=3, density=0.5)
    degree = a.to_dense().sum(dim=1)
    weight = torch.randn(2, 6, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(2, dtype=torch.float64, requires_grad=True)

    def losses(w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        u = pump(a, w, b)
        return trace_ratio_loss(u, a, degree) + orthogonality_loss(u)

    assert torch.autograd.gradcheck(losses, (weight, bias))


def test_module_is_reproducible_and_says_what_it_is() -> None:
    module = DiffusionPump(8, 3)
    module.reset_parameters(torch.Generator().manual_seed(1))
    first = module.weight.detach().clone()
    module.reset_parameters(torch.Generator().manual_seed(1))
    assert torch.equal(first, module.weight)
    assert repr(module) == "DiffusionPump(8, 3, source='adjacency')"
    with pytest.raises(ValueError, match=r"source must be one of .* \(got 'x'\)"):
        DiffusionPump(8, 3, source="x")
