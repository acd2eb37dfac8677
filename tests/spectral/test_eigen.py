from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from djgnn.errors import DisconnectedWarning
from djgnn.spectral import fiedler_pair, laplacian_matrix, smallest_eigenpairs
from djgnn.spectral.solvers import smallest_of_symmetric


def grid_graph(rows: int, columns: int) -> sp.csr_array:
    def path(n: int) -> sp.csr_array:
        return sp.diags_array([np.ones(n - 1), np.ones(n - 1)], offsets=[-1, 1], shape=(n, n))

    return sp.csr_array(
        sp.kron(path(rows), sp.eye_array(columns)) + sp.kron(sp.eye_array(rows), path(columns))
    )


@pytest.mark.parametrize("method", ["lanczos", "lobpcg", "shift_invert"])
@pytest.mark.parametrize("kind", ["normalized", "combinatorial", "random_walk"])
def test_every_solver_agrees_with_the_dense_one(make_graph, method, kind):
    a = make_graph(1, n=400, connected=True)
    dense = smallest_eigenpairs(a, 5, laplacian=kind, method="dense")
    other = smallest_eigenpairs(a, 5, laplacian=kind, method=method)
    np.testing.assert_allclose(other.values, dense.values, atol=1e-9)
    np.testing.assert_allclose(other.vectors, dense.vectors, atol=1e-5)
    residual = laplacian_matrix(a, kind) @ other.vectors - other.vectors * other.values
    assert np.abs(residual).max() < 1e-6


def test_no_eigenvalue_is_missed_next_to_a_nearly_equal_one():
    # Three nearly separate cliques: three eigenvalues within 1e-4 of zero, a known Lanczos trap.
    block = np.ones((600, 600)) - np.eye(600)
    a = sp.block_diag([block] * 3, format="lil")
    for i, j in ((0, 600), (601, 1200)):
        a[i, j] = a[j, i] = 1.0
    pairs = smallest_eigenpairs(sp.csr_array(a), 4, method="lanczos")
    exact = np.linalg.eigvalsh(laplacian_matrix(sp.csr_array(a), "normalized").toarray())[:4]
    np.testing.assert_allclose(pairs.values, exact, atol=1e-9)


def test_repeated_eigenvalues_of_a_square_grid():
    a = grid_graph(45, 45)
    pairs = smallest_eigenpairs(a, 4, laplacian="combinatorial")
    exact = 2 - 2 * np.cos(np.pi / 45)
    np.testing.assert_allclose(pairs.values, [0, exact, exact, 2 * exact], atol=1e-9)


def test_same_seed_same_bits_and_sign_does_not_depend_on_the_seed(make_graph):
    a = make_graph(2, n=1600, connected=True)
    one, two = (smallest_eigenpairs(a, 3, random_state=5) for _ in range(2))
    assert one.vectors.tobytes() == two.vectors.tobytes()
    other = smallest_eigenpairs(a, 3, random_state=6)
    np.testing.assert_allclose(one.vectors, other.vectors, atol=1e-6)


def test_fiedler_vector_of_a_disconnected_graph_is_nan_outside():
    a = np.zeros((5, 5))
    a[0, 1] = a[1, 0] = a[1, 2] = a[2, 1] = 1
    with pytest.warns(DisconnectedWarning, match="3 of 5"):
        value, vector = fiedler_pair(a)
    assert value == pytest.approx(1.0)
    assert np.isnan(vector).tolist() == [False, False, False, True, True]


def test_zero_diagonal_and_indefinite_matrices_are_fine():
    rng = np.random.default_rng(0)
    m = rng.standard_normal((60, 60))
    m = m + m.T
    np.testing.assert_allclose(
        smallest_of_symmetric(sp.csr_array(m), 3, method="lanczos").values,
        np.linalg.eigvalsh(m)[:3],
        atol=1e-8,
    )
