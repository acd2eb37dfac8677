"""The trace-ratio problem behind the pump: exact solver and bounds."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from djgnn.errors import InputError, NotConvergedWarning
from djgnn.spectral.eigen import smallest_eigenpairs
from djgnn.spectral.eigensolvers import smallest_of_symmetric
from djgnn.spectral.energy import check_rows
from djgnn.spectral.laplacians import degrees, laplacian_matrix, require_undirected

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from djgnn.spectral.laplacians import Adjacency


@dataclass(frozen=True, eq=False)
class TraceRatioSolution:
    """The global minimum of the trace ratio.

    Attributes:
        ratio: The minimum rho*.
        vectors: ``[n, p]``, orthonormal columns that attain it; any rotation of them does too.
        history: The ratio after each update, never increasing; the first entry is the start.
        converged: Whether the last update changed the ratio by less than the tolerance.
    """

    ratio: float
    vectors: NDArray[np.float64]
    history: NDArray[np.float64]
    converged: bool


@dataclass(frozen=True)
class TraceRatioBounds:
    """Bounds of rho*.

    Attributes:
        lower: Sum of the p smallest Laplacian eigenvalues over the sum of the p largest degrees.
        upper: The same over the p smallest degrees; infinite if they are all zero.
        paper_lower: The paper's lower bound; a bound only if n >= 2p.
    """

    lower: float
    upper: float
    paper_lower: float


def trace_ratio(graph: Adjacency, u: ArrayLike, *, orthonormalize: bool = False) -> float:
    r"""The Dirichlet loss of the pump, min form (Eq. 3).

    .. math:: \rho(U) = \frac{\mathrm{Tr}(U^T \Delta U)}{\mathrm{Tr}(U^T D U)}

    Args:
        graph: An undirected graph.
        u: One function on the nodes per column.
        orthonormalize: First replace the columns by an orthonormal basis of their span, the
            constraint of the problem. Without it equal or constant columns can go below the
            minimum rho*, down to 0.

    Shapes:
        u ``[n, p]`` or ``[n]``.

    Returns:
        The ratio, in [0, 2]; NaN if U is zero wherever there are edges.

    Raises:
        InputError: If the graph is directed, the rows do not match, or with `orthonormalize` the
            columns are linearly dependent.

    Example:
        >>> trace_ratio([[0, 1], [1, 0]], [[1.0, 1.0], [1.0, -1.0]])
        1.0
    """
    matrix = require_undirected(graph, where="trace ratio")
    columns = check_rows(u, matrix.shape[0], where="u")
    if orthonormalize:
        columns = orthonormal_basis(columns)
    return _ratio(laplacian_matrix(matrix), degrees(matrix), columns)


def orthonormal_basis(u: NDArray[np.float64]) -> NDArray[np.float64]:
    """An orthonormal basis of the span of the columns.

    Raises:
        InputError: If the columns are linearly dependent to working precision.

    Example:
        >>> abs(orthonormal_basis(np.array([[3.0], [4.0]]))).round(12).tolist()
        [[0.6], [0.8]]
    """
    basis, triangle = np.linalg.qr(u)
    pivots = np.abs(np.diag(triangle))
    if pivots.size == 0 or pivots.min() <= 1e-12 * max(float(pivots.max()), 1e-300):
        raise InputError(
            "u: its columns are linearly dependent, so no orthonormal basis has as many; use fewer "
            f"(got {u.shape[1]} columns, smallest pivot {pivots.min(initial=0.0):.2e})"
        )
    return np.asarray(basis)


def minimize_trace_ratio(
    graph: Adjacency,
    p: int,
    *,
    start: ArrayLike | None = None,
    tol: float = 1e-12,
    max_iterations: int = 50,
    random_state: int = 0,
) -> TraceRatioSolution:
    r"""The exact minimum of the trace ratio over orthonormal U (Appendix A).

    .. math::
        \rho^* = \min_{U^T U = I} \frac{\mathrm{Tr}(U^T \Delta U)}{\mathrm{Tr}(U^T D U)},
        \qquad U \leftarrow p \text{ smallest eigenvectors of } \Delta - \rho D, \quad
        \rho \leftarrow \rho(U)

    which is Newton's method on :math:`f(\rho) = \min_U \mathrm{Tr}(U^T (\Delta - \rho D) U)`: the
    ratio never increases and converges to the global minimum from any start, quadratically. (The
    paper names the matrix :math:`P - \rho D` for the largest-eigenvalue form; the right one is
    :math:`A - (1 - \rho) D`.) The constant vector is allowed, so :math:`\rho^* = 0` for p = 1, and
    whenever the graph has p components.

    Args:
        graph: An undirected graph. (On a directed one with out-degrees the ratio has no minimum
            once p nodes have no outgoing edge.)
        p: Number of columns.
        start: Columns to start from; the Laplacian's p smallest eigenvectors if left out.
        tol: Stop when the ratio falls by less than this.
        max_iterations: Stop, with a warning, after so many updates.
        random_state: Seed of the eigensolver.

    Shapes:
        start ``[n, p]``, vectors ``[n, p]``.

    Returns:
        The minimum, where it is attained, and the way there.

    Raises:
        InputError: If the graph is directed or has no edge, or p is not between 1 and n.

    Example:
        >>> triangle = [[0, 1, 1], [1, 0, 1], [1, 1, 0]]
        >>> round(minimize_trace_ratio(triangle, 2).ratio, 9)
        0.75

    Reference:
        Ngo, Bellalij and Saad, The trace ratio optimization problem, SIAM Review 2012.
    """
    matrix = require_undirected(graph, where="trace ratio")
    delta, degree = laplacian_matrix(matrix), degrees(matrix)
    if not degree.any():
        raise InputError("trace ratio: the graph has no edge (got 0 edges)")
    if not 1 <= p <= degree.size:
        raise InputError(f"p: must be between 1 and the number of nodes, {degree.size} (got {p})")
    vectors = _start(matrix, p, start, random_state)
    history = [_ratio(delta, degree, vectors)]
    converged = history[0] <= tol
    for _ in range(max_iterations):
        if converged:
            break
        shifted = sp.csr_array(delta - history[-1] * sp.diags_array(degree))
        guess = vectors.sum(axis=1)
        found = smallest_of_symmetric(shifted, p, start=guess if guess.any() else None).vectors
        ratio = _ratio(delta, degree, found)
        # At the minimum rounding can lift the ratio by an ulp; then the old columns stay.
        converged = not ratio < history[-1] - tol or ratio <= tol
        if ratio <= history[-1]:
            vectors = found
            history.append(ratio)
    if not converged:
        warnings.warn(
            f"trace ratio: still falling after {max_iterations} updates; raise max_iterations",
            NotConvergedWarning,
            stacklevel=2,
        )
    return TraceRatioSolution(float(history[-1]), vectors, np.array(history), converged)


def _start(
    matrix: sp.csr_array, p: int, start: ArrayLike | None, random_state: int
) -> NDArray[np.float64]:
    """Orthonormal columns with a defined ratio: not all of them on isolated nodes."""
    if start is None:
        vectors = smallest_eigenpairs(
            matrix, p, laplacian="combinatorial", random_state=random_state
        ).vectors
    else:
        vectors = orthonormal_basis(check_rows(start, matrix.shape[0], where="start"))
        if vectors.shape[1] != p:
            raise InputError(f"start: must have p = {p} columns (got {vectors.shape[1]})")
    if np.isnan(_ratio(laplacian_matrix(matrix), degrees(matrix), vectors)):
        vectors = smallest_of_symmetric(-matrix, p, random_state=random_state).vectors
    return vectors


def trace_ratio_bounds(graph: Adjacency, p: int, *, random_state: int = 0) -> TraceRatioBounds:
    r"""Bounds of the minimum from eigenvalues and degrees (Appendix A, mended).

    .. math::
        \frac{\lambda_1 + \dots + \lambda_p}{d_{n-p+1} + \dots + d_n} \le \rho^* \le
        \frac{\lambda_1 + \dots + \lambda_p}{d_1 + \dots + d_p}

    :math:`\lambda` of the combinatorial Laplacian, degrees ascending. The paper divides by
    :math:`d_{p+1} + \dots + d_n` on the left, the n-p largest degrees: true but weak for
    n >= 2p, false in general for n < 2p. The p largest degrees are right and tighter.

    Args:
        graph: An undirected graph.
        p: Number of columns.
        random_state: Seed of the eigensolver.

    Returns:
        The bounds, and the paper's lower one for comparison.

    Raises:
        InputError: If the graph is directed or p is not between 1 and n.

    Example:
        >>> triangle = [[0, 1, 1], [1, 0, 1], [1, 1, 0]]
        >>> bounds = trace_ratio_bounds(triangle, 2)
        >>> round(bounds.lower, 9), round(bounds.upper, 9), round(bounds.paper_lower, 9)
        (0.75, 0.75, 1.5)
    """
    matrix = require_undirected(graph, where="trace ratio")
    pairs = smallest_eigenpairs(matrix, p, laplacian="combinatorial", random_state=random_state)
    total = float(np.maximum(pairs.values, 0.0).sum())
    degree = np.sort(degrees(matrix))
    return TraceRatioBounds(
        lower=_quotient(total, float(degree[-p:].sum())),
        upper=_quotient(total, float(degree[:p].sum())),
        paper_lower=_quotient(total, float(degree[p:].sum())),
    )


def _quotient(top: float, bottom: float) -> float:
    return top / bottom if bottom > 0 else float("inf")


def _ratio(delta: sp.csr_array, degree: NDArray[np.float64], columns: NDArray[np.float64]) -> float:
    mass = float(degree @ (columns**2).sum(axis=1))
    if mass <= 1e-14 * float(degree.max()):
        return float("nan")
    return max(float((columns * (delta @ columns)).sum()), 0.0) / mass
