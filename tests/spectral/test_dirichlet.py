from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from djgnn.errors import InputError
from djgnn.spectral import dirichlet_energy, harmonic_extension


def dense_extension(a, border, values):
    """All inner nodes at once, by least squares: where the border determines a value, it has it."""
    matrix = a.toarray()
    inner = np.setdiff1d(np.arange(a.shape[0]), border)
    system = np.diag(matrix.sum(axis=1)) - matrix
    out = np.zeros((a.shape[0], values.shape[1]))
    out[border] = values
    right = matrix[np.ix_(inner, border)] @ values
    out[inner] = np.linalg.lstsq(system[np.ix_(inner, inner)], right, rcond=None)[0]
    return out


def border_of(a, seed):
    rng = np.random.default_rng(seed + 1000)
    border = rng.choice(a.shape[0], size=int(rng.integers(1, 5)), replace=False)
    return border, rng.standard_normal((border.size, 3))


@pytest.mark.parametrize("entries", [2**24, 0], ids=["direct", "iterative"])
def test_agrees_with_dense_algebra_on_200_graphs(make_graph, entries, monkeypatch):
    monkeypatch.setattr("djgnn.spectral.systems.FACTOR_ENTRIES", entries)
    determined_nodes = undetermined_nodes = 0
    for seed in range(200):
        a = make_graph(seed)
        border, values = border_of(a, seed)
        found = harmonic_extension(a, border, values)
        dense = dense_extension(a, border, values)
        inner = ~np.isnan(found).any(axis=1)
        determined_nodes += int(inner.sum())
        undetermined_nodes += int((~inner).sum())
        np.testing.assert_allclose(found[inner], dense[inner], atol=1e-9)
        assert np.isnan(found[~inner]).all()
    assert determined_nodes > 1000
    assert undetermined_nodes > 1000


def test_undetermined_is_exactly_where_the_dense_system_leaves_freedom(make_graph):
    for seed in range(200):
        a = make_graph(seed)
        border, values = border_of(a, seed)
        mask = ~np.isnan(harmonic_extension(a, border, values)).any(axis=1)
        inner = np.setdiff1d(np.arange(a.shape[0]), border)
        dense = a.toarray()
        system = (np.diag(dense.sum(axis=1)) - dense)[np.ix_(inner, inner)]
        _, size, right = np.linalg.svd(system)
        free = right[size < 1e-10] if size.size else np.zeros((0, 0))
        moved = np.abs(free).max(axis=0) > 1e-8 if free.size else np.zeros(inner.size, bool)
        np.testing.assert_array_equal(mask[inner], ~moved)


def test_is_the_average_of_the_neighbours_and_minimises_the_energy(make_graph):
    a = make_graph(5, n=30, connected=True)
    border, values = np.array([0, 7, 19]), np.array([1.0, -2.0, 0.5])
    f = harmonic_extension(a, border, values)
    inner = np.setdiff1d(np.arange(30), border)
    mean = (a @ f) / np.asarray(a.sum(axis=1)).ravel()
    np.testing.assert_allclose(f[inner], mean[inner], atol=1e-10)
    assert f[inner].min() >= -2 - 1e-12  # maximum principle
    assert f[inner].max() <= 1 + 1e-12
    rng = np.random.default_rng(0)
    for _ in range(20):
        other = f.copy()
        other[inner] += 0.1 * rng.standard_normal(inner.size)
        assert dirichlet_energy(a, other) > dirichlet_energy(a, f)


def test_agrees_with_scikit_network(make_graph):
    regression = pytest.importorskip(
        "sknetwork.regression", reason="scikit-network is an optional test oracle"
    )
    for seed in range(10):
        a = make_graph(seed, n=25, connected=True)
        values = {0: 1.0, 9: 0.0, 17: 3.0}
        theirs = regression.Dirichlet(n_iter=5000).fit_predict(sp.csr_matrix(a), values)
        ours = harmonic_extension(a, list(values), list(values.values()))
        np.testing.assert_allclose(ours, theirs, atol=1e-9)


def test_a_dead_end_of_a_directed_graph_leaves_its_predecessors_open():
    # 0 -> border, 0 -> 2 (dead end); 3 -> border only.
    a = np.zeros((4, 4))
    a[0, 1] = a[0, 2] = a[3, 1] = 1
    found = harmonic_extension(a, [1], [5.0])
    assert (~np.isnan(found)).tolist() == [False, True, False, True]
    assert found[3] == 5.0


@pytest.mark.parametrize(
    ("border", "values", "message"),
    [
        ([], [], "at least one node"),
        ([0, 0], [1.0, 2.0], r"once \(got 2 ids, 1 distinct\)"),
        ([0, 9], [1.0, 2.0], r"between 0 and 2 \(got 9\)"),
        ([0], [1.0, 2.0], r"1 rows \(got shape \(2,\)\)"),
        ([0], [np.nan], "finite"),
        ([0.5], [1.0], "whole numbers"),
    ],
)
def test_errors(border, values, message):
    with pytest.raises(InputError, match=message):
        harmonic_extension(np.ones((3, 3)), border, values)
