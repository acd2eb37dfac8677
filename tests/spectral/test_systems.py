"""Solvers and their limits: what is factorised, what is iterated, and what is said of the rest."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.cluster import KMeans

from djgnn.errors import NotConvergedWarning
from djgnn.spectral import (
    commute_times,
    fiedler_environment,
    laplacian_matrix,
    smallest_eigenpairs,
    structural_heterophily,
)
from djgnn.spectral.commute import commute_times_among
from djgnn.spectral.systems import SparseSolver, factorised, narrow_order


def path(n: int) -> sp.csr_array:
    return sp.csr_array(sp.diags_array([np.ones(n - 1)] * 2, offsets=[-1, 1], shape=(n, n)))


def star(leaves: int) -> sp.csr_array:
    ends = np.zeros(leaves, dtype=np.int64), np.arange(1, leaves + 1)
    half = sp.coo_array((np.ones(leaves), ends), shape=(leaves + 1, leaves + 1))
    return sp.csr_array(half + half.T)


def random_graph(n: int, edges: int) -> sp.csr_array:
    ends = np.random.default_rng(0).integers(0, n, (2, edges))
    a = sp.csr_array(sp.coo_array((np.ones(edges), ends), shape=(n, n)))
    return sp.csr_array(((a + a.T) > 0).astype(np.float64) + path(n) > 0).astype(np.float64)


def shuffled(a: sp.csr_array) -> sp.csr_array:
    order = np.random.default_rng(1).permutation(a.shape[0])
    return a[order][:, order]


def system(a: sp.csr_array) -> sp.csr_array:
    return sp.csr_array(laplacian_matrix(a) + sp.eye_array(a.shape[0]))


@pytest.mark.parametrize(
    "a",
    [path(3000), star(300), sp.csr_array(sp.kron(sp.eye_array(500), np.ones((4, 4))))],
    ids=["path", "star", "components"],
)
def test_factors_of_long_and_of_scattered_graphs_stay_inside_the_envelope(a):
    matrix = system(shuffled(a))
    order = narrow_order(matrix)
    assert order is not None
    assert sorted(order.tolist()) == list(range(a.shape[0]))
    rhs = np.random.default_rng(0).standard_normal((a.shape[0], 3))
    np.testing.assert_allclose(matrix @ factorised(matrix, order)(rhs), rhs, atol=1e-9)


def test_a_directed_graph_is_ordered_by_its_entries_both_ways():
    upper = sp.csr_array(sp.triu(path(2000)))
    matrix = sp.csr_array(laplacian_matrix(upper) + sp.eye_array(2000))
    solver = SparseSolver(matrix, symmetric=False)
    assert solver.direct is not None
    rhs = np.ones((2000, 1))
    np.testing.assert_allclose(matrix @ solver(rhs), rhs, atol=1e-12)


def test_large_dense_graphs_are_not_factorised_and_solved_all_the_same():
    matrix = system(random_graph(20_000, 100_000))
    solver = SparseSolver(matrix, symmetric=True, tol=1e-10)
    assert solver.direct is None
    rhs = np.random.default_rng(0).standard_normal((20_000, 4))
    assert np.linalg.norm(matrix @ solver(rhs) - rhs) < 1e-9 * np.linalg.norm(rhs)
    assert 0 < solver.work < 10**9


def test_an_iteration_ends_at_its_limit_and_says_so(monkeypatch):
    monkeypatch.setattr("djgnn.spectral.systems.FACTOR_ENTRIES", 0)
    monkeypatch.setattr("djgnn.spectral.systems.WORK", 0)
    solver = SparseSolver(system(path(5000)) - 0.999 * sp.eye_array(5000), symmetric=True)
    with pytest.warns(NotConvergedWarning, match="1 of 1 right-hand sides .* in 50 steps"):
        solver(np.eye(5000)[:, :1])


def test_commute_times_among_nodes_are_those_of_their_pairs():
    a = random_graph(300, 600)
    nodes = np.array([5, 0, 17, 200, 31])
    pairs = [(i, j) for i in nodes for j in nodes]
    expected = commute_times(a, pairs).reshape(5, 5)
    np.testing.assert_allclose(commute_times_among(a, nodes), expected, rtol=1e-7, atol=1e-6)


def test_work_ends_the_list_of_nodes(monkeypatch):
    monkeypatch.setattr("djgnn.spectral.systems.FACTOR_ENTRIES", 0)
    monkeypatch.setattr("djgnn.spectral.commute.MOST_WORK", 1)
    a = random_graph(300, 600)
    nodes = np.arange(100)
    assert commute_times_among(a, nodes).shape == (16, 16)
    found = fiedler_environment(a, np.random.default_rng(0).standard_normal((300, 2)))
    assert found.commute_nodes == 16
    assert 0 < found.commute_error < 0.5


def test_the_error_of_the_rank_correlation_is_that_of_other_nodes():
    a = random_graph(150, 300)
    u = np.random.default_rng(0).standard_normal((150, 2)) / np.sqrt(a.sum(axis=1))[:, None]
    options = {"pairs": smallest_eigenpairs(a, 2)}
    whole = fiedler_environment(a, u, num_pairs=10**5, **options)
    assert whole.commute_nodes == 150
    assert whole.commute_error == 0
    drawn = [fiedler_environment(a, u, num_pairs=300, random_state=s, **options) for s in range(20)]
    off = [each.commute_rank_correlation - whole.commute_rank_correlation for each in drawn]
    error = np.mean([each.commute_error for each in drawn])
    assert 0.5 * error < np.std(off) < 2 * error


def test_a_long_path_has_its_eigenvalues():
    n = 20_000
    pairs = smallest_eigenpairs(shuffled(path(n)), 4, laplacian="combinatorial")
    exact = 2 - 2 * np.cos(np.pi * np.arange(4) / n)
    np.testing.assert_allclose(pairs.values, exact, rtol=1e-5, atol=1e-13)
    assert pairs.residual == 0


def test_many_components_have_constant_vectors():
    a = sp.csr_array(sp.kron(sp.eye_array(1000), np.ones((3, 3)) - np.eye(3)))
    for kind in ("combinatorial", "normalized", "random_walk"):
        pairs = smallest_eigenpairs(a, 5, laplacian=kind)
        np.testing.assert_allclose(laplacian_matrix(a, kind) @ pairs.vectors, 0, atol=1e-12)
        np.testing.assert_allclose(pairs.vectors.T @ pairs.vectors, np.eye(5), atol=1e-12)


def test_pairs_that_do_not_converge_come_with_a_residual(monkeypatch):
    monkeypatch.setattr("djgnn.spectral.solvers.WORK", 0)
    a = random_graph(6000, 30_000)
    with pytest.warns(NotConvergedWarning, match="residual"):
        pairs = smallest_eigenpairs(a, 6)
    operator = laplacian_matrix(a, "normalized")
    off = np.linalg.norm(operator @ pairs.vectors - pairs.vectors * pairs.values, axis=0)
    assert pairs.residual == pytest.approx(off.max())
    assert 1e-7 < pairs.residual < 0.1


def test_centres_from_a_part_of_the_nodes_give_nearly_the_same_heterophily(monkeypatch):
    fit = KMeans.fit
    y = np.arange(1500) % 3
    a = sp.csr_array(sp.block_diag([random_graph(500, 4000)] * 3) + path(1500))
    whole = structural_heterophily(a, y)
    monkeypatch.setattr("djgnn.spectral.communities.WORK", 9 * 100 * 10 * 200)
    fitted = []
    monkeypatch.setattr(
        KMeans, "fit", lambda *given: (fitted.append(len(given[1])), fit(*given))[1]
    )
    part = structural_heterophily(a, y)
    assert set(fitted) == {200}
    assert part.median == pytest.approx(whole.median, rel=0.1)
