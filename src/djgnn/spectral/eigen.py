"""The smallest eigenpairs of a Laplacian, deterministic for a given `random_state`."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from djgnn.errors import DisconnectedWarning, InputError, NotConvergedWarning
from djgnn.spectral.laplacians import (
    LaplacianKind,
    degrees,
    laplacian_matrix,
    largest_component,
    require_undirected,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from djgnn.spectral.laplacians import Adjacency

DENSE_BELOW = 1500
SHIFT_INVERT_BELOW = 30_000
FACTORISE_UP_TO_ROW = 20
LANCZOS_RESTARTS = 60

EigenMethod = Literal["auto", "dense", "lanczos", "shift_invert"]


@dataclass(frozen=True, eq=False)
class EigenPairs:
    """Eigenvalues in increasing order, and their eigenvectors in the columns.

    Attributes:
        values: ``[k]``.
        vectors: ``[n, k]``, each column of unit Euclidean length; its largest entry is positive.
    """

    values: NDArray[np.float64]
    vectors: NDArray[np.float64]


def smallest_eigenpairs(
    adjacency: Adjacency,
    num: int,
    *,
    laplacian: LaplacianKind = "normalized",
    random_state: int = 0,
    method: EigenMethod = "auto",
) -> EigenPairs:
    r"""The `num` smallest eigenpairs of a Laplacian, the trivial ones included.

    .. math:: \tilde\Delta \phi_r = \lambda_r \phi_r, \qquad 0 = \lambda_1 \le \lambda_2 \le \dots

    The random-walk Laplacian has the eigenvalues of the normalised one and the right eigenvectors
    :math:`\psi_r = D^{-1/2} \phi_r`; :math:`1 - \lambda_r` are the eigenvalues of :math:`P`.

    Args:
        adjacency: An undirected graph, connected or not.
        num: How many pairs.
        laplacian: Which Laplacian.
        random_state: Seed of the starting vector of the iterative methods.
        method: ``dense`` is the plain oracle; ``lanczos`` needs matrix products only;
            ``shift_invert`` factorises the matrix and finds tiny eigenvalues fast; ``auto`` takes
            the dense one for small graphs, else Lanczos, and where that stalls (long, thin graphs)
            shift-invert.

    Shapes:
        values ``[num]``, vectors ``[n, num]``.

    Returns:
        The pairs, ascending.

    Raises:
        InputError: If the graph is directed, or `num` is not between 1 and n.

    Example:
        >>> pairs = smallest_eigenpairs([[0, 1], [1, 0]], 2)
        >>> pairs.values.round(12).tolist()
        [0.0, 2.0]
    """
    matrix = require_undirected(adjacency, where="eigenpairs")
    n = matrix.shape[0]
    if not 1 <= num <= n:
        raise InputError(f"num: must be between 1 and the number of nodes, {n} (got {num})")
    kind: LaplacianKind = "normalized" if laplacian == "random_walk" else laplacian
    pairs = smallest_of_symmetric(
        laplacian_matrix(matrix, kind), num, random_state=random_state, method=method
    )
    if laplacian != "random_walk":
        return pairs
    root = np.sqrt(degrees(matrix))
    vectors = pairs.vectors / np.where(root > 0, root, 1.0)[:, None]
    return _oriented(pairs.values, vectors / np.linalg.norm(vectors, axis=0))


def smallest_of_symmetric(
    matrix: sp.csr_array,
    num: int,
    *,
    random_state: int = 0,
    method: EigenMethod = "auto",
    start: NDArray[np.float64] | None = None,
) -> EigenPairs:
    """The `num` algebraically smallest eigenpairs of any sparse symmetric matrix.

    Args:
        matrix: Symmetric.
        num: How many.
        random_state: Seed of the starting vector, unless `start` is given.
        method: As in :func:`smallest_eigenpairs`.
        start: Starting vector ``[n]`` of the iteration, for a sequence of similar problems.

    Returns:
        The pairs, ascending.

    Example:
        >>> smallest_of_symmetric(sp.csr_array(np.diag([3.0, 1.0, 2.0])), 2).values.tolist()
        [1.0, 2.0]
    """
    n = matrix.shape[0]
    if method not in ("auto", "dense", "lanczos", "shift_invert"):
        raise InputError(f"method: choose auto, dense, lanczos or shift_invert (got {method!r})")
    if method == "dense" or (n < DENSE_BELOW and method == "auto") or num >= n - 1:
        values, vectors = np.linalg.eigh(matrix.toarray())
        return _oriented(values[:num], vectors[:, :num])
    if start is None:
        start = np.random.default_rng(random_state).standard_normal(n)
    if method == "shift_invert":
        return _shift_invert(matrix, num, start)
    # Beyond some twenty entries a row the factors of a graph without geometry are nearly dense.
    cheap = n < SHIFT_INVERT_BELOW and matrix.nnz <= FACTORISE_UP_TO_ROW * n
    return _lanczos(matrix, num, start, may_factorise=method == "auto" and cheap)


def _lanczos(
    matrix: sp.csr_array, num: int, start: NDArray[np.float64], *, may_factorise: bool
) -> EigenPairs:
    """Implicitly restarted Lanczos at the lower end; falls back, or says that it did not settle."""
    n = matrix.shape[0]
    width = min(n - 1, max(2 * num + 20, 60))
    restarts = LANCZOS_RESTARTS if may_factorise else 20 * LANCZOS_RESTARTS
    try:
        values, vectors = eigsh(
            matrix, k=num, which="SA", v0=start, ncv=width, maxiter=restarts, tol=1e-10
        )
        values, vectors = _with_missed(matrix, values, vectors, start, restarts)
    except ArpackNoConvergence as stalled:
        if may_factorise:
            return _shift_invert(matrix, num, start)
        found = stalled.eigenvalues.size
        warnings.warn(
            f"eigenpairs: Lanczos settled {found} of {num} pairs in {restarts} restarts on {n} "
            "nodes; the rest come from a looser run, use method='shift_invert' if memory allows",
            NotConvergedWarning,
            stacklevel=2,
        )
        values, vectors = eigsh(matrix, k=num, which="SA", v0=start, ncv=width, tol=1e-3)
    return _oriented(values, vectors)


def _with_missed(
    matrix: sp.csr_array,
    values: NDArray[np.float64],
    vectors: NDArray[np.float64],
    start: NDArray[np.float64],
    restarts: int,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Look below what Lanczos found: it can miss one of two nearly equal eigenvalues.

    What was found is shifted out of the way; as long as the smallest of what is left lies below
    the largest found, it takes that one's place.
    """
    n, width = matrix.shape[0], min(matrix.shape[0] - 1, 60)
    above = 2.0 * float(abs(matrix).sum(axis=1).max())
    for _ in range(values.size):
        found = vectors

        def shifted(x: NDArray[np.float64], found: NDArray[np.float64] = found) -> object:
            return matrix @ x + above * (found @ (found.T @ x))

        operator = LinearOperator((n, n), matvec=shifted, dtype=np.float64)
        fresh = start - found @ (found.T @ start)
        worst = int(values.argmax())
        slack = 1e-8 * above
        loose = eigsh(operator, k=1, which="SA", v0=fresh, ncv=width, maxiter=restarts, tol=1e-2)
        if loose[0][0] >= values[worst] - slack:
            break
        tight = eigsh(
            operator, k=1, which="SA", v0=loose[1][:, 0], ncv=width, maxiter=restarts, tol=1e-10
        )
        values, vectors = values.copy(), vectors.copy()
        values[worst], vectors[:, worst] = tight[0][0], tight[1][:, 0]
    return values, vectors


def _shift_invert(matrix: sp.csr_array, num: int, start: NDArray[np.float64]) -> EigenPairs:
    """Lanczos on (M - s I)^-1 with s just below the spectrum (Gershgorin)."""
    diagonal = matrix.diagonal()
    radius = np.asarray(abs(matrix).sum(axis=1)).ravel() - abs(diagonal)
    floor = float((diagonal - radius).min())
    shift = min(floor, 0.0) - 1e-3 * max(1.0, float(abs(diagonal).mean()))
    values, vectors = eigsh(sp.csc_array(matrix), k=num, sigma=shift, which="LM", v0=start)
    return _oriented(values, vectors)


def _oriented(values: NDArray[np.float64], vectors: NDArray[np.float64]) -> EigenPairs:
    """Ascending order, and a sign that does not depend on the solver."""
    order = np.argsort(values, kind="stable")
    vectors = vectors[:, order]
    peak = np.abs(vectors).argmax(axis=0)
    sign = np.sign(vectors[peak, np.arange(vectors.shape[1])])
    return EigenPairs(values[order], vectors * np.where(sign == 0, 1.0, sign))


def fiedler_pair(
    adjacency: Adjacency,
    *,
    laplacian: LaplacianKind = "normalized",
    random_state: int = 0,
) -> tuple[float, NDArray[np.float64]]:
    r"""The Fiedler value :math:`\lambda_2` and vector of the largest component.

    .. math:: \phi_2 = \arg\min_{x \ne 0,\; x \perp \phi_1} \frac{x^T \tilde\Delta x}{x^T x}

    For the normalised Laplacian :math:`\phi_1 \propto D^{1/2} 1`, so the orthogonality of the
    paper's Section 2 (to the constant vector) holds for the combinatorial Laplacian only.

    Args:
        adjacency: An undirected graph.
        laplacian: Which Laplacian.
        random_state: Seed of the starting vector.

    Shapes:
        vector ``[n]``.

    Returns:
        The value and the vector; nodes outside the largest component are NaN in the vector.

    Raises:
        InputError: If the graph is directed or its largest component has one node.

    Example:
        >>> path = np.diag([1.0, 1.0, 1.0], 1)
        >>> value, vector = fiedler_pair(path + path.T, laplacian="combinatorial")
        >>> round(value, 6), (vector > 0).tolist() in ([True, True, False, False],
        ...                                            [False, False, True, True])
        (0.585786, True)

    Reference:
        Fiedler, Algebraic connectivity of graphs, 1973.
    """
    matrix = require_undirected(adjacency, where="fiedler pair")
    inside = largest_component(matrix)
    if inside.size < 2:
        raise InputError("fiedler pair: needs a component of at least two nodes (got 1)")
    if inside.size < matrix.shape[0]:
        warnings.warn(
            f"fiedler pair: speaks of the largest component only, {inside.size} of "
            f"{matrix.shape[0]} nodes; the others are NaN",
            DisconnectedWarning,
            stacklevel=2,
        )
    pairs = smallest_eigenpairs(
        matrix[inside][:, inside], 2, laplacian=laplacian, random_state=random_state
    )
    vector = np.full(matrix.shape[0], np.nan)
    vector[inside] = pairs.vectors[:, 1]
    return float(pairs.values[1]), vector
