"""Sparse solvers: the smallest eigenpairs, deterministic for a `random_state`; linear systems."""

import warnings
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, cg, eigsh, gmres, lobpcg, splu

from djgnn.errors import InputError, NotConvergedWarning
from djgnn.spectral.laplacians import (
    Adjacency,
    Floats,
    LaplacianKind,
    connected_part,
    degrees,
    laplacian_matrix,
    require_undirected,
)

DENSE_BELOW = 1500
SHIFT_INVERT_BELOW = 30_000
FACTORISE_UP_TO_ROW = 20
UNEVEN_DIAGONAL = 4.0
LANCZOS_RESTARTS = 60
DIRECT_BELOW = 20_000
GMRES_RESTART = 50

EigenMethod = Literal["auto", "dense", "lanczos", "lobpcg", "shift_invert"]


@dataclass(frozen=True, eq=False)
class EigenPairs:
    """Eigenvalues in increasing order, and their eigenvectors in the columns.

    Attributes:
        values: ``[k]``.
        vectors: ``[n, k]``, each column of unit Euclidean length; its largest entry is positive.
    """

    values: Floats
    vectors: Floats


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

    Args:
        adjacency: An undirected graph, connected or not.
        num: How many pairs.
        laplacian: Which Laplacian.
        random_state: Seed of the starting vector of the iterative methods.
        method: A solver (``dense`` is the plain oracle), or ``auto``: docs/theory/energies.md.

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
    if not 1 <= num <= matrix.shape[0]:
        raise InputError(
            f"num: must be between 1 and the number of nodes, {matrix.shape[0]} (got {num})"
        )
    kind: LaplacianKind = "normalized" if laplacian == "random_walk" else laplacian
    pairs = smallest_of_symmetric(
        laplacian_matrix(matrix, kind), num, random_state=random_state, method=method
    )
    if laplacian != "random_walk":
        return pairs
    root = np.sqrt(degrees(matrix))
    vectors = pairs.vectors / np.where(root > 0, root, 1.0)[:, None]
    return _oriented(pairs.values, vectors / np.linalg.norm(vectors, axis=0))


def fiedler_pair(
    adjacency: Adjacency, *, laplacian: LaplacianKind = "normalized"
) -> tuple[float, Floats]:
    r"""The Fiedler value :math:`\lambda_2` and vector of the largest component.

    .. math:: \phi_2 = \arg\min_{x \ne 0,\; x \perp \phi_1} \frac{x^T \tilde\Delta x}{x^T x}

    Args:
        adjacency: An undirected graph.
        laplacian: Which Laplacian.

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
    inside, part = connected_part(adjacency, where="fiedler pair")
    pairs = smallest_eigenpairs(part, 2, laplacian=laplacian)
    vector = np.full(inside.size, np.nan)
    vector[inside] = pairs.vectors[:, 1]
    return float(pairs.values[1]), vector


def smallest_of_symmetric(
    matrix: sp.csr_array,
    num: int,
    *,
    random_state: int = 0,
    method: EigenMethod = "auto",
    start: Floats | None = None,
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
    if method not in get_args(EigenMethod):
        methods = ", ".join(get_args(EigenMethod))
        raise InputError(f"method: choose one of {methods} (got {method!r})")
    if method == "dense" or (n < DENSE_BELOW and method == "auto") or num >= n - 1:
        values, vectors = np.linalg.eigh(matrix.toarray())
        return _oriented(values[:num], vectors[:, :num])
    if start is None:
        start = np.random.default_rng(random_state).standard_normal(n)
    diagonal = matrix.diagonal()
    uneven = diagonal.min() > 0 and diagonal.max() > UNEVEN_DIAGONAL * diagonal.mean()
    if method == "lobpcg" or (method == "auto" and uneven):
        pairs = _lobpcg(matrix, num, random_state)
        if pairs is not None:
            return pairs
    # Beyond some twenty entries a row the factors of a graph without geometry are nearly dense.
    cheap = n < SHIFT_INVERT_BELOW and matrix.nnz <= FACTORISE_UP_TO_ROW * n
    if method != "shift_invert":
        pairs = _lanczos(matrix, num, start, last_resort=not (method == "auto" and cheap))
        if pairs is not None:
            return pairs
    # Lanczos on (M - s I)^-1 with s just below the spectrum (Gershgorin).
    radius = np.asarray(abs(matrix).sum(axis=1)).ravel() - abs(diagonal)
    shift = min(float((diagonal - radius).min()), 0.0) - 1e-3 * max(1.0, abs(diagonal).mean())
    return _oriented(*eigsh(sp.csc_array(matrix), k=num, sigma=shift, which="LM", v0=start))


def _lobpcg(matrix: sp.csr_array, num: int, random_state: int) -> EigenPairs | None:
    """Block iteration preconditioned by the diagonal; None if it did not converge."""
    n, block = matrix.shape[0], num + max(4, num // 2)
    if 5 * block > n:
        return None
    start = np.random.default_rng(random_state).standard_normal((n, block))
    inverse = sp.diags_array(1.0 / np.maximum(np.abs(matrix.diagonal()), 1e-12))
    with warnings.catch_warnings():
        # It warns about the surplus columns of the block too; the residuals decide below.
        warnings.simplefilter("ignore", UserWarning)
        values, vectors = lobpcg(matrix, start, M=inverse, tol=1e-9, maxiter=400, largest=False)
    best = np.argsort(values)[:num]
    values, vectors = values[best], vectors[:, best]
    residual = np.linalg.norm(matrix @ vectors - vectors * values, axis=0)
    return _oriented(values, vectors) if residual.max() < 1e-7 else None


def _lanczos(
    matrix: sp.csr_array, num: int, start: Floats, *, last_resort: bool
) -> EigenPairs | None:
    """Implicitly restarted Lanczos at the lower end.

    None if it did not converge; as the last resort a looser result with a warning. A missed one of
    two nearly equal eigenvalues is found by shifting what was found above the spectrum.
    """
    n = matrix.shape[0]
    width = min(n - 1, 2 * num + 40)
    restarts = 20 * LANCZOS_RESTARTS if last_resort else LANCZOS_RESTARTS
    above = 2.0 * float(abs(matrix).sum(axis=1).max())

    def shifted(x: Floats) -> Floats:
        return np.asarray(matrix @ x + above * (vectors @ (vectors.T @ x)))

    rest = LinearOperator((n, n), matvec=shifted, dtype=np.float64)
    options = {"which": "SA", "maxiter": restarts}
    one = options | {"k": 1, "ncv": min(n - 1, 40)}
    try:
        tol = 1e-10 if n < SHIFT_INVERT_BELOW else 1e-8
        values, vectors = eigsh(matrix, k=num, v0=start, ncv=width, tol=tol, **options)
        for _ in range(num):
            worst = int(values.argmax())
            fresh = start - vectors @ (vectors.T @ start)
            value, vector = eigsh(rest, v0=fresh, tol=1e-2, **one)
            if value[0] >= values[worst] - 1e-8 * above:
                break
            value, vector = eigsh(rest, v0=vector[:, 0], tol=1e-10, **one)
            values[worst], vectors[:, worst] = value[0], vector[:, 0]
    except ArpackNoConvergence as stalled:
        if not last_resort:
            return None
        warnings.warn(
            f"eigenpairs: Lanczos found {stalled.eigenvalues.size} of {num} pairs in {restarts} "
            f"restarts on {n} nodes; the rest come from a looser run, use method='shift_invert' "
            "if memory allows",
            NotConvergedWarning,
            stacklevel=2,
        )
        values, vectors = eigsh(matrix, k=num, which="SA", v0=start, ncv=width, tol=1e-3)
    return _oriented(values, vectors)


def _oriented(values: Floats, vectors: Floats) -> EigenPairs:
    """Ascending order, and a sign that does not depend on the solver."""
    order = np.argsort(values, kind="stable")
    vectors = vectors[:, order]
    largest = vectors[np.abs(vectors).argmax(axis=0), np.arange(vectors.shape[1])]
    return EigenPairs(values[order], vectors * np.where(largest < 0, -1.0, 1.0))


def solve_sparse(
    matrix: sp.csr_array, rhs: Floats, *, symmetric: bool, tol: float = 1e-12
) -> Floats:
    r"""Solve :math:`M X = B` for a sparse, diagonally dominant :math:`M`.

    Below 20,000 unknowns by one sparse factorisation for all columns; above by conjugate gradients
    (GMRES if not symmetric) with a diagonal preconditioner, memory O(nnz).

    Args:
        matrix: Square, with a positive diagonal.
        rhs: One or more right-hand sides.
        symmetric: Whether ``matrix`` is symmetric positive definite.
        tol: Relative residual of the iterative methods.

    Shapes:
        matrix ``[m, m]``, rhs ``[m, c]``, out ``[m, c]``.

    Example:
        >>> solve_sparse(sp.csr_array([[2.0, -1.0], [-1.0, 2.0]]), np.ones((2, 1)),
        ...              symmetric=True).round(12).tolist()
        [[1.0], [1.0]]
    """
    size = matrix.shape[0]
    if size == 0 or rhs.shape[1] == 0:
        return np.zeros(rhs.shape)
    if size < DIRECT_BELOW:
        ordering = "MMD_AT_PLUS_A" if symmetric else "COLAMD"
        factor = splu(sp.csc_array(matrix), permc_spec=ordering)
        return np.asarray(factor.solve(np.ascontiguousarray(rhs)))
    limit = max(1000, 10 * int(np.sqrt(size)))
    options = {"rtol": tol, "maxiter": limit, "M": sp.diags_array(1.0 / matrix.diagonal())}
    if not symmetric:
        options |= {"restart": GMRES_RESTART, "maxiter": limit // GMRES_RESTART}
    found = [(cg if symmetric else gmres)(matrix, column, **options) for column in rhs.T]
    stalled = sum(info != 0 for _, info in found)
    if stalled:
        warnings.warn(
            f"linear solve: {stalled} of {rhs.shape[1]} right-hand sides did not reach a relative "
            f"residual of {tol:g} in {limit} steps",
            NotConvergedWarning,
            stacklevel=2,
        )
    return np.stack([solution for solution, _ in found], axis=1)
