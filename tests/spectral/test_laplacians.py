from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from djgnn.errors import InputError
from djgnn.graph import Graph
from djgnn.spectral import (
    components,
    dirichlet_energy,
    laplacian_matrix,
    rayleigh_quotients,
    smallest_eigenpairs,
    symmetrize,
    transition_matrix,
)


@pytest.mark.parametrize("seed", range(12))
def test_three_laplacians_against_dense_formulas(make_graph, seed):
    a = make_graph(seed).toarray()
    d = a.sum(axis=1)
    inverse = np.where(d > 0, 1 / np.where(d > 0, d, 1), 0)
    delta = np.diag(d) - a
    root = np.diag(np.sqrt(inverse))
    np.testing.assert_allclose(laplacian_matrix(a).toarray(), delta, atol=1e-12)
    np.testing.assert_allclose(
        laplacian_matrix(a, "normalized").toarray(), root @ delta @ root, atol=1e-12
    )
    np.testing.assert_allclose(
        laplacian_matrix(a, "random_walk").toarray(), np.diag(inverse) @ delta, atol=1e-12
    )
    rows = transition_matrix(a).sum(axis=1)
    np.testing.assert_allclose(rows, (d > 0).astype(float), atol=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_energy_is_the_sum_of_squared_differences_over_edges(make_graph, seed):
    a = make_graph(seed, directed=False)
    x = np.random.default_rng(seed).standard_normal((a.shape[0], 3))
    edges = sp.triu(a, 1).tocoo()
    by_edge = (edges.data[:, None] * (x[edges.row] - x[edges.col]) ** 2).sum(axis=0)
    for column, energy in zip(x.T, by_edge, strict=True):
        assert dirichlet_energy(a, column) == pytest.approx(energy, abs=1e-10)
    assert dirichlet_energy(a, x) == pytest.approx(by_edge.sum())
    assert dirichlet_energy(a, np.ones(a.shape[0])) == pytest.approx(0, abs=1e-12)


def test_rayleigh_quotients_of_walk_eigenvectors_are_the_eigenvalues(make_graph):
    a = make_graph(3, n=30, connected=True)
    pairs = smallest_eigenpairs(a, 30, laplacian="random_walk")
    np.testing.assert_allclose(rayleigh_quotients(a, pairs.vectors), pairs.values, atol=1e-10)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000))
def test_energies_do_not_depend_on_the_order_of_the_nodes(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 15))
    a = np.triu(rng.random((n, n)) < 0.4).astype(float)
    a = a + np.triu(a, 1).T
    x, order = rng.standard_normal(n), rng.permutation(n)
    for kind in ("combinatorial", "normalized", "random_walk"):
        before = dirichlet_energy(a, x, laplacian=kind)
        after = dirichlet_energy(a[np.ix_(order, order)], x[order], laplacian=kind)
        assert after == pytest.approx(before, abs=1e-10)


def test_graph_and_matrix_inputs_agree():
    graph = Graph(edge_index=np.array([[0, 1, 1], [1, 2, 1]]), num_nodes=4)
    np.testing.assert_array_equal(
        laplacian_matrix(graph).toarray(), laplacian_matrix(graph.adjacency.toarray()).toarray()
    )
    assert components(graph).tolist() == [0, 0, 0, 1]
    assert symmetrize(graph).toarray()[1, 0] == 1
    assert graph.adjacency.dtype == np.float32


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: laplacian_matrix(np.ones((2, 3))), r"must be square.*\(got shape \(2, 3\)\)"),
        (lambda: laplacian_matrix([[0, -1], [0, 0]]), r"row 0, column 1.*\(got -1.0\)"),
        (lambda: laplacian_matrix([[0, np.nan], [0, 0]]), r"finite.*\(got nan\)"),
        (lambda: laplacian_matrix([[0]], "signless"), r"combinatorial.*\(got 'signless'\)"),
        (lambda: smallest_eigenpairs([[0, 1], [0, 0]], 1), r"symmetrize.*\(got 2 entries"),
        (lambda: smallest_eigenpairs([[0, 1], [1, 0]], 3), r"between 1 and.*2 \(got 3\)"),
        (lambda: dirichlet_energy([[0]], [1.0, 2.0]), r"1 rows \(got shape \(2,\)\)"),
    ],
)
def test_errors_say_what_came_and_how_to_mend_it(call, message):
    with pytest.raises(InputError, match=message):
        call()
