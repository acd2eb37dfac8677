from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from djgnn.errors import DisconnectedWarning, InputError, NotConvergedWarning
from djgnn.spectral import (
    degrees,
    fiedler_environment,
    laplacian_matrix,
    minimize_trace_ratio,
    smallest_eigenpairs,
    trace_ratio,
    trace_ratio_bounds,
)


def test_never_increases_and_keeps_the_bounds_on_100_graphs(make_graph):
    for seed in range(100):
        a = make_graph(seed, n=8 + seed % 20, connected=True)
        p = 1 + seed % 7
        start = np.random.default_rng(seed).standard_normal((a.shape[0], p))
        for solution in (minimize_trace_ratio(a, p), minimize_trace_ratio(a, p, start=start)):
            assert (np.diff(solution.history) <= 1e-13).all()
            assert solution.converged
            bounds = trace_ratio_bounds(a, p)
            assert bounds.lower - 1e-12 <= solution.ratio <= bounds.upper + 1e-12
            np.testing.assert_allclose(solution.vectors.T @ solution.vectors, np.eye(p), atol=1e-9)
        if 2 * p <= a.shape[0]:
            assert bounds.paper_lower <= bounds.lower + 1e-12


def test_the_papers_lower_bound_fails_below_two_p_nodes():
    complete = np.ones((4, 4)) - np.eye(4)
    bounds, exact = trace_ratio_bounds(complete, 3), minimize_trace_ratio(complete, 3).ratio
    assert exact == pytest.approx(8 / 9)
    assert bounds.lower == pytest.approx(exact)
    assert bounds.paper_lower == pytest.approx(8 / 3)


def test_start_does_not_matter_and_the_minimum_solves_the_scalar_equation(make_graph):
    a = make_graph(11, n=40, connected=True)
    rng = np.random.default_rng(0)
    ratios = [
        minimize_trace_ratio(a, 4, start=rng.standard_normal((40, 4))).ratio for _ in range(5)
    ]
    exact = minimize_trace_ratio(a, 4)
    np.testing.assert_allclose(ratios, exact.ratio, atol=1e-12)
    shifted = laplacian_matrix(a).toarray() - exact.ratio * np.diag(degrees(a))
    assert np.linalg.eigvalsh(shifted)[:4].sum() == pytest.approx(0, abs=1e-9)
    # Theorem 1 wants Delta U = rho D U; the columns satisfy it on average only.
    residual = laplacian_matrix(a) @ exact.vectors
    residual -= exact.ratio * degrees(a)[:, None] * exact.vectors
    assert np.abs(residual).max() > 1e-2


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 100_000))
def test_no_orthonormal_matrix_is_below_the_minimum(seed):
    rng = np.random.default_rng(seed)
    n, p = int(rng.integers(4, 20)), int(rng.integers(1, 4))
    a = np.triu(rng.random((n, n)) < 0.4, 1).astype(float)
    a = a + a.T
    if not a.any():
        return
    exact = minimize_trace_ratio(a, p).ratio
    u = np.tanh(a @ rng.standard_normal((n, p)) + rng.standard_normal(p))  # an untrained pump
    if np.linalg.matrix_rank(u) == p:
        found = trace_ratio(a, u, orthonormalize=True)
        assert np.isnan(found) or found >= exact - 1e-10


def test_without_orthonormal_columns_the_loss_goes_below_the_minimum(make_graph):
    a = make_graph(12, n=20, connected=True)
    constant = np.ones((20, 3))
    assert trace_ratio(a, constant) == pytest.approx(0, abs=1e-12)
    assert minimize_trace_ratio(a, 3).ratio > 0.01
    with pytest.raises(InputError, match="linearly dependent"):
        trace_ratio(a, constant, orthonormalize=True)


def test_p_components_have_ratio_zero_and_isolated_nodes_do_not_break_it():
    a = sp.block_diag([np.ones((3, 3)) - np.eye(3)] * 2 + [np.zeros((2, 2))])
    assert minimize_trace_ratio(a, 1).ratio == pytest.approx(0, abs=1e-12)
    assert minimize_trace_ratio(a, 2).ratio == pytest.approx(0, abs=1e-12)
    on_isolated = np.eye(8)[:, 6:]
    assert np.isnan(trace_ratio(a, on_isolated))
    assert minimize_trace_ratio(a, 2, start=on_isolated).ratio == pytest.approx(0, abs=1e-12)
    assert trace_ratio_bounds(a, 2).upper == np.inf


def test_iterative_and_dense_eigensolvers_reach_the_same_minimum(make_graph, monkeypatch):
    a = make_graph(2, n=500, connected=True)
    dense = minimize_trace_ratio(a, 3)
    monkeypatch.setattr("djgnn.spectral.solvers.DENSE_BELOW", 10)
    sparse = minimize_trace_ratio(a, 3)
    assert sparse.ratio == pytest.approx(dense.ratio, abs=1e-9)


def test_errors_and_the_warning(make_graph):
    a = make_graph(1, n=30, connected=True)
    with pytest.raises(InputError, match=r"between 1 and.*30 \(got 31\)"):
        minimize_trace_ratio(a, 31)
    with pytest.raises(InputError, match=r"p = 2 columns \(got 1\)"):
        minimize_trace_ratio(a, 2, start=np.arange(30.0))
    with pytest.raises(InputError, match="no edge"):
        minimize_trace_ratio(np.zeros((3, 3)), 1)
    start = np.random.default_rng(0).standard_normal((30, 3))
    with pytest.warns(NotConvergedWarning, match="after 1 updates"):
        minimize_trace_ratio(a, 3, start=start, max_iterations=1)


def test_environment_of_the_true_eigenvectors_is_perfect(make_graph):
    a = make_graph(20, n=40, connected=True)
    pairs = smallest_eigenpairs(a, 40, laplacian="random_walk")
    found = fiedler_environment(a, pairs.vectors[:, 1:4])
    np.testing.assert_allclose(found.energies, pairs.values[1:4], atol=1e-10)
    np.testing.assert_allclose(found.centred_energies, pairs.values[1:4], atol=1e-10)
    assert found.fiedler_value == pytest.approx(pairs.values[1])
    assert found.fiedler_distances[0] == pytest.approx(0, abs=1e-6)
    np.testing.assert_allclose(found.fiedler_distances[1:], np.sqrt(2), atol=1e-6)
    assert found.fiedler_share == pytest.approx(1)
    assert found.rank == 3
    # All eigenvectors, scaled as in the formula, give commute times themselves.
    scaled = pairs.vectors[:, 1:] / np.sqrt(pairs.values[1:])
    scaled /= np.sqrt(degrees(a) @ pairs.vectors[:, 1:] ** 2)
    full = fiedler_environment(a, scaled)
    assert full.commute_correlation == pytest.approx(1, abs=1e-9)
    assert full.commute_rank_correlation == pytest.approx(1, abs=1e-6)


def test_centred_energies_never_fall_below_the_fiedler_value_but_raw_ones_do(make_graph):
    for seed in range(20):
        a = make_graph(seed, n=25, connected=True)
        u = 3 + np.random.default_rng(seed).standard_normal((25, 4))
        found = fiedler_environment(a, u)
        assert (found.centred_energies >= found.fiedler_value - 1e-10).all()
        assert found.energies.min() < found.centred_energies.min()
        assert found.trace_ratio_orthonormal >= minimize_trace_ratio(a, 4).ratio - 1e-10


def test_environment_marks_what_is_not_defined():
    a = sp.block_diag([np.ones((4, 4)) - np.eye(4), np.zeros((1, 1))])
    with pytest.warns(DisconnectedWarning, match="4 of 5"):
        found = fiedler_environment(a, np.ones((5, 2)))
    assert np.isnan(found.fiedler_distances).all()
    assert np.isnan(found.trace_ratio_orthonormal)
    assert np.isnan(found.commute_correlation)
    assert found.fiedler_share == pytest.approx(0, abs=1e-9)
    assert found.component_share == pytest.approx(0.8)
    with pytest.raises(InputError, match="finite"):
        fiedler_environment(a, np.full((5, 1), np.nan))
