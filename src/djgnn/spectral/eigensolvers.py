"""Solvers for the smallest eigenpairs of a sparse symmetric matrix, and how one is chosen."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh, lobpcg

from djgnn.errors import InputError, NotConvergedWarning

if TYPE_CHECKING:
    from numpy.typing import NDArray

DENSE_BELOW = 1500
SHIFT_INVERT_BELOW = 30_000
FACTORISE_UP_TO_ROW = 20
UNEVEN_DIAGONAL = 4.0
LANCZOS_RESTARTS = 60

EigenMethod = Literal["auto", "dense", "lanczos", "lobpcg", "shift_invert"]
METHODS = ("auto", "dense", "lanczos", "lobpcg", "shift_invert")


@dataclass(frozen=True, eq=False)
class EigenPairs:
    """Eigenvalues in increasing order, and their eigenvectors in the columns.

    Attributes:
        values: ``[k]``.
        vectors: ``[n, k]``, each column of unit Euclidean length; its largest entry is positive.
    """

    values: NDArray[np.float64]
    vectors: NDArray[np.float64]


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
    if method not in METHODS:
        raise InputError(f"method: choose one of {', '.join(METHODS)} (got {method!r})")
    if method == "dense" or (n < DENSE_BELOW and method == "auto") or num >= n - 1:
        values, vectors = np.linalg.eigh(matrix.toarray())
        return oriented(values[:num], vectors[:, :num])
    if start is None:
        start = np.random.default_rng(random_state).standard_normal(n)
    if method == "shift_invert":
        return _shift_invert(matrix, num, start)
    diagonal = matrix.diagonal()
    uneven = diagonal.min() > 0 and diagonal.max() > UNEVEN_DIAGONAL * diagonal.mean()
    if method == "lobpcg" or (method == "auto" and uneven):
        pairs = _lobpcg(matrix, num, random_state)
        if pairs is not None:
            return pairs
    # Beyond some twenty entries a row the factors of a graph without geometry are nearly dense.
    cheap = n < SHIFT_INVERT_BELOW and matrix.nnz <= FACTORISE_UP_TO_ROW * n
    return _lanczos(matrix, num, start, may_factorise=method == "auto" and cheap)


def _lanczos(
    matrix: sp.csr_array, num: int, start: NDArray[np.float64], *, may_factorise: bool
) -> EigenPairs:
    """Implicitly restarted Lanczos at the lower end; falls back, or says that it did not settle."""
    n = matrix.shape[0]
    width = min(n - 1, 2 * num + 40)
    tol = 1e-10 if n < SHIFT_INVERT_BELOW else 1e-8
    restarts = LANCZOS_RESTARTS if may_factorise else 20 * LANCZOS_RESTARTS
    try:
        values, vectors = eigsh(
            matrix, k=num, which="SA", v0=start, ncv=width, maxiter=restarts, tol=tol
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
    return oriented(values, vectors)


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
    n, width = matrix.shape[0], min(matrix.shape[0] - 1, 40)
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


def _lobpcg(matrix: sp.csr_array, num: int, random_state: int) -> EigenPairs | None:
    """Block iteration preconditioned by the diagonal; None if it did not settle."""
    n = matrix.shape[0]
    block = num + max(4, num // 2)
    if 5 * block > n:
        return None
    start = np.random.default_rng(random_state).standard_normal((n, block))
    inverse = 1.0 / np.maximum(np.abs(matrix.diagonal()), 1e-12)
    with warnings.catch_warnings():
        # It warns about the surplus columns of the block too; the residuals decide below.
        warnings.simplefilter("ignore", UserWarning)
        values, vectors = lobpcg(
            matrix, start, M=sp.diags_array(inverse), tol=1e-9, maxiter=400, largest=False
        )
    best = np.argsort(values)[:num]
    values, vectors = values[best], vectors[:, best]
    residual = np.linalg.norm(matrix @ vectors - vectors * values, axis=0)
    return oriented(values, vectors) if residual.max() < 1e-7 else None


def _shift_invert(matrix: sp.csr_array, num: int, start: NDArray[np.float64]) -> EigenPairs:
    """Lanczos on (M - s I)^-1 with s just below the spectrum (Gershgorin)."""
    diagonal = matrix.diagonal()
    radius = np.asarray(abs(matrix).sum(axis=1)).ravel() - abs(diagonal)
    floor = float((diagonal - radius).min())
    shift = min(floor, 0.0) - 1e-3 * max(1.0, float(abs(diagonal).mean()))
    values, vectors = eigsh(sp.csc_array(matrix), k=num, sigma=shift, which="LM", v0=start)
    return oriented(values, vectors)


def oriented(values: NDArray[np.float64], vectors: NDArray[np.float64]) -> EigenPairs:
    """Ascending order, and a sign that does not depend on the solver.

    Example:
        >>> oriented(np.array([2.0, 1.0]), np.diag([-1.0, 1.0])).values.tolist()
        [1.0, 2.0]
    """
    order = np.argsort(values, kind="stable")
    vectors = vectors[:, order]
    peak = np.abs(vectors).argmax(axis=0)
    sign = np.sign(vectors[peak, np.arange(vectors.shape[1])])
    return EigenPairs(values[order], vectors * np.where(sign == 0, 1.0, sign))
