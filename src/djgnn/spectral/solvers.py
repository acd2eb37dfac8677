"""The smallest eigenpairs of sparse matrices, deterministic for a `random_state`."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh, lobpcg

from djgnn.errors import InputError, NotConvergedWarning
from djgnn.spectral.laplacians import (
    Adjacency,
    Floats,
    LaplacianKind,
    Nodes,
    components,
    connected_part,
    degrees,
    laplacian_matrix,
    require_undirected,
)
from djgnn.spectral.systems import WORK, factorised, narrow_order

DENSE_BELOW = 1500
UNEVEN_DIAGONAL = 4.0
MOST_RESTARTS, LEAST_RESTARTS = 1000, 5
MOST_STEPS, LEAST_STEPS = 400, 20
SOLVED, RESIDUAL, SHIFT = 1e-7, 1e-9, 1e-8
"""Largest residual of a pair that counts as found, the one that Lanczos aims at, and how far below
the spectrum a shift lies, in units of the diagonal."""

EigenMethod = Literal["auto", "dense", "lanczos", "lobpcg", "shift_invert"]
_Solve = Callable[[sp.csr_array, int, Floats, float | None], "EigenPairs | None"]


@dataclass(frozen=True, eq=False)
class EigenPairs:
    """Eigenvalues in increasing order, and their eigenvectors in the columns.

    Attributes:
        values: ``[k]``.
        vectors: ``[n, k]``, each column of unit Euclidean length; its largest entry is positive.
        residual: The largest norm of M v - lambda v, where the limit of work was reached: no
            eigenvalue is off by more.

    Example:
        >>> pairs = smallest_eigenpairs([[0, 1, 1], [1, 0, 1], [1, 1, 0]], 2)
        >>> (pairs.values.round(9) + 0).tolist(), pairs.vectors.shape
        ([0.0, 1.5], (3, 2))
    """

    values: Floats
    vectors: Floats
    residual: float = 0.0


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
    operator, label = laplacian_matrix(matrix, kind), components(matrix)
    if num <= label.max() + 1 and method == "auto":  # constant on a component each
        pairs = _kernel(matrix, label, num, kind)
    else:
        pairs = smallest_of_symmetric(
            operator, num, random_state=random_state, method=method, floor=0.0
        )
    if laplacian != "random_walk":
        return pairs
    root = np.sqrt(degrees(matrix))
    vectors = pairs.vectors / np.where(root > 0, root, 1.0)[:, None]
    found = _oriented(pairs.values, vectors / np.linalg.norm(vectors, axis=0))
    return replace(found, residual=pairs.residual)


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
    floor: float | None = None,
) -> EigenPairs:
    """The `num` algebraically smallest eigenpairs of any sparse symmetric matrix.

    Every method has a limit of work (:data:`djgnn.spectral.systems.WORK`). If none reaches a
    residual of 1e-7 within it, the best pairs are returned with a warning that has their residual.

    Args:
        matrix: Symmetric.
        num: How many.
        random_state: Seed of the starting vector, unless `start` is given.
        method: As in :func:`smallest_eigenpairs`.
        start: Starting vector ``[n]`` of the iteration, for a sequence of similar problems.
        floor: What no eigenvalue is below, if that is known.

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
    iterations: list[_Solve] = [_lobpcg, _lanczos] if uneven else [_lanczos, _lobpcg]
    choices: dict[str, list[_Solve]] = {
        "auto": [_shift_invert, *iterations],
        "shift_invert": [_shift_invert, *iterations],
        "lanczos": [_lanczos, _lobpcg],
        "lobpcg": [_lobpcg, _lanczos],
    }
    best: tuple[float, EigenPairs] | None = None
    for solve in choices[method]:
        pairs = solve(matrix, num, start, floor)
        if pairs is None:
            continue
        rest = matrix @ pairs.vectors - pairs.vectors * pairs.values
        residual = float(np.linalg.norm(rest, axis=0).max())
        if residual <= SOLVED * max(1.0, float(abs(diagonal).mean())):
            return pairs
        if best is None or residual < best[0]:
            best = residual, pairs
    if best is None:  # too few nodes for blocks
        return smallest_of_symmetric(matrix, num, method="dense")
    warnings.warn(
        f"eigenpairs: {num} of a matrix of {n} rows are known to a residual of {best[0]:.1g}, not "
        f"of {SOLVED:g}, within the limit of work",
        NotConvergedWarning,
        stacklevel=2,
    )
    return replace(best[1], residual=best[0])


def _shift_invert(
    matrix: sp.csr_array, num: int, start: Floats, floor: float | None
) -> EigenPairs | None:
    """Lanczos on (M - s I)^-1, s just below the spectrum; None where the factors are large."""
    order, n = narrow_order(matrix), matrix.shape[0]
    if order is None:
        return None
    size = max(1.0, float(abs(matrix.diagonal()).mean()))
    if floor is None:  # Gershgorin
        radius = np.asarray(abs(matrix).sum(axis=1)).ravel() - abs(matrix.diagonal())
        floor, size = min(float((matrix.diagonal() - radius).min()), 0.0), 1e5 * size
    solve = factorised(sp.csr_array(matrix - (floor - SHIFT * size) * sp.eye_array(n)), order)
    inverse = LinearOperator((n, n), matvec=solve, dtype=np.float64)
    try:
        options = {"k": num, "which": "LA", "v0": start, "maxiter": MOST_RESTARTS}
        vectors = eigsh(inverse, ncv=min(n - 1, 2 * num + 20), **options)[1]
    except ArpackNoConvergence:
        return None
    return _of_span(matrix, vectors)


def _lobpcg(
    matrix: sp.csr_array, num: int, start: Floats, floor: float | None
) -> EigenPairs | None:
    """Block iteration preconditioned by the diagonal; None where blocks are too wide."""
    n, block = matrix.shape[0], num + max(4, num // 2)
    if 5 * block > n:
        return None
    others = np.random.default_rng(0).standard_normal((n, block - 1))
    inverse = sp.diags_array(1.0 / np.maximum(np.abs(matrix.diagonal()), 1e-12))
    steps = int(np.clip(WORK // (block * (matrix.nnz + 10 * n * block)), LEAST_STEPS, MOST_STEPS))
    with warnings.catch_warnings():
        # It warns about the surplus columns of the block too; the caller looks at residuals.
        warnings.simplefilter("ignore", UserWarning)
        first = np.column_stack([start, others])
        values, vectors = lobpcg(matrix, first, M=inverse, tol=1e-9, maxiter=steps, largest=False)
    best = np.argsort(values)[:num]
    return _oriented(values[best], vectors[:, best])


def _lanczos(
    matrix: sp.csr_array, num: int, start: Floats, floor: float | None
) -> EigenPairs | None:
    """Implicitly restarted Lanczos on the mirrored matrix c I - M; None if it did not converge.

    In the mirror small eigenvalues are large, so that their error is relative to c and not to zero.
    A missed one of two nearly equal eigenvalues is found by moving what was found to the other end.
    """
    n = matrix.shape[0]
    width = min(n - 1, 2 * num + 40)
    restarts = min(WORK // ((width - num) * (matrix.nnz + 2 * n * width)), MOST_RESTARTS)
    if restarts < LEAST_RESTARTS:
        return None
    above = float(abs(matrix).sum(axis=1).max())
    vectors = np.zeros((n, 0))

    def mirrored(x: Floats) -> Floats:
        turned = above * x - matrix @ x
        return np.asarray(turned - 2 * above * (vectors @ (vectors.T @ x)))

    mirror = LinearOperator((n, n), matvec=mirrored, dtype=np.float64)
    options = {"which": "LA", "maxiter": restarts}
    one = options | {"k": 1, "ncv": min(n - 1, 40)}
    try:
        found = eigsh(mirror, k=num, v0=start, ncv=width, tol=RESIDUAL / above, **options)
        values, vectors = above - found[0], found[1]
        for _ in range(num):
            worst = int(values.argmax())
            fresh = start - vectors @ (vectors.T @ start)
            rough = max(1e-2 * abs(values[worst]), RESIDUAL) / above
            value, vector = eigsh(mirror, v0=fresh, tol=rough, **one)
            if above - value[0] >= values[worst] - 1e-8 * above:
                break
            value, vector = eigsh(mirror, v0=vector[:, 0], tol=RESIDUAL / above, **one)
            values[worst], vectors[:, worst] = above - value[0], vector[:, 0]
    except ArpackNoConvergence:
        return None
    return _of_span(matrix, vectors)


def _kernel(matrix: sp.csr_array, label: Nodes, num: int, kind: LaplacianKind) -> EigenPairs:
    """Eigenvectors of the eigenvalue 0 of a Laplacian, of the `num` largest components."""
    size = np.sqrt(degrees(matrix)) if kind == "normalized" else np.ones(label.size)
    size = np.where((size == 0), 1.0, size)  # an isolated node
    nodes = np.flatnonzero(label < num)
    vectors = np.zeros((label.size, num))
    vectors[nodes, label[nodes]] = size[nodes]
    return _oriented(np.zeros(num), vectors / np.linalg.norm(vectors, axis=0))


def _of_span(matrix: sp.csr_array, vectors: Floats) -> EigenPairs:
    """The eigenpairs of a matrix in the span of some vectors (Rayleigh and Ritz)."""
    basis = np.linalg.qr(vectors)[0]
    values, turn = np.linalg.eigh(basis.T @ (matrix @ basis))
    return _oriented(values, basis @ turn)


def _oriented(values: Floats, vectors: Floats) -> EigenPairs:
    """Ascending order, and a sign that does not depend on the solver."""
    order = np.argsort(values, kind="stable")
    vectors = vectors[:, order]
    largest = vectors[np.abs(vectors).argmax(axis=0), np.arange(vectors.shape[1])]
    return EigenPairs(values[order], vectors * np.where(largest < 0, -1.0, 1.0))
