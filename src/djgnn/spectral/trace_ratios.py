"""The trace-ratio problem behind the pump: its minimum, bounds, and how close U comes."""

import math
import warnings
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist

from djgnn.errors import InputError, NotConvergedWarning
from djgnn.spectral.commute import commute_times_among, distance_correlations
from djgnn.spectral.laplacians import (
    Adjacency,
    Floats,
    check_rows,
    connected_part,
    degrees,
    laplacian_matrix,
    rayleigh_quotients,
    require_undirected,
)
from djgnn.spectral.solvers import EigenPairs, smallest_eigenpairs, smallest_of_symmetric


@dataclass(frozen=True, eq=False)
class TraceRatioSolution:
    """The global minimum of the trace ratio.

    Attributes:
        ratio: The minimum rho*.
        vectors: ``[n, p]``, orthonormal columns that attain it; any rotation of them does too.
        history: The ratio after each update, never increasing; the first entry is the start.
        converged: Whether the last update changed the ratio by less than the tolerance.

    Example:
        >>> minimize_trace_ratio([[0, 1], [1, 0]], 1).vectors.shape
        (2, 1)
    """

    ratio: float
    vectors: Floats
    history: Floats
    converged: bool


@dataclass(frozen=True)
class TraceRatioBounds:
    """Bounds of rho*.

    Attributes:
        lower: Sum of the p smallest Laplacian eigenvalues over the sum of the p largest degrees.
        upper: The same over the p smallest degrees; infinite if they are all zero.
        paper_lower: The paper's lower bound; a bound only if n >= 2p.

    Example:
        >>> round(trace_ratio_bounds([[0, 1], [1, 0]], 2).upper, 9)
        1.0
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
            constraint of the problem.

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
        columns = _orthonormal_basis(columns)
    return _ratio(laplacian_matrix(matrix), degrees(matrix), columns)


def _orthonormal_basis(u: Floats) -> Floats:
    """An orthonormal basis of the span of the columns, which must be linearly independent."""
    basis, triangle = np.linalg.qr(u)
    pivots = np.abs(np.diag(triangle))
    if pivots.size == 0 or pivots.min() <= 1e-12 * max(float(pivots.max()), 1e-300):
        raise InputError(
            "u: its columns are linearly dependent, so no orthonormal basis has as many; use fewer "
            f"(got {u.shape[1]} columns, smallest pivot {pivots.min(initial=0.0):.2e})"
        )
    return basis


def minimize_trace_ratio(
    graph: Adjacency,
    p: int,
    *,
    start: ArrayLike | None = None,
    tol: float = 1e-12,
    max_iterations: int = 50,
) -> TraceRatioSolution:
    r"""The exact minimum of the trace ratio over orthonormal U (Appendix A).

    .. math::
        \rho^* = \min_{U^T U = I} \frac{\mathrm{Tr}(U^T \Delta U)}{\mathrm{Tr}(U^T D U)},
        \qquad U \leftarrow p \text{ smallest eigenvectors of } \Delta - \rho D, \quad
        \rho \leftarrow \rho(U)

    which is Newton's method: the ratio never increases and converges quadratically to the global
    minimum from any start. The constant vector is allowed, so :math:`\rho^* = 0` for p = 1, and
    whenever the graph has p components.

    Args:
        graph: An undirected graph.
        p: Number of columns.
        start: Columns to start from; the Laplacian's p smallest eigenvectors if left out.
        tol: Stop when the ratio falls by less than this.
        max_iterations: Stop, with a warning, after so many updates.

    Shapes:
        start ``[n, p]``, vectors ``[n, p]``.

    Returns:
        The minimum, where it is attained, and the ratios on the way.

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
    if start is None:
        vectors = smallest_eigenpairs(matrix, p, laplacian="combinatorial").vectors
    else:
        vectors = _orthonormal_basis(check_rows(start, degree.size, where="start"))
        if vectors.shape[1] != p:
            raise InputError(f"start: must have p = {p} columns (got {vectors.shape[1]})")
    if np.isnan(_ratio(delta, degree, vectors)):  # all columns on isolated nodes
        vectors = smallest_of_symmetric(-matrix, p).vectors
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


def trace_ratio_bounds(graph: Adjacency, p: int) -> TraceRatioBounds:
    r"""Bounds of the minimum from eigenvalues and degrees (Appendix A, corrected).

    .. math::
        \frac{\lambda_1 + \dots + \lambda_p}{d_{n-p+1} + \dots + d_n} \le \rho^* \le
        \frac{\lambda_1 + \dots + \lambda_p}{d_1 + \dots + d_p}

    :math:`\lambda` of the combinatorial Laplacian, degrees ascending.

    Args:
        graph: An undirected graph.
        p: Number of columns.

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
    pairs = smallest_eigenpairs(matrix, p, laplacian="combinatorial")
    total = float(np.maximum(pairs.values, 0.0).sum())
    degree = np.sort(degrees(matrix))
    masses = (float(part.sum()) for part in (degree[-p:], degree[:p], degree[p:]))
    return TraceRatioBounds(*(total / mass if mass > 0 else float("inf") for mass in masses))


def _ratio(delta: sp.csr_array, degree: Floats, columns: Floats) -> float:
    mass = float(degree @ (columns**2).sum(axis=1))
    if mass <= 1e-14 * float(degree.max()):
        return float("nan")
    return max(float((columns * (delta @ columns)).sum()), 0.0) / mass


@dataclass(frozen=True, eq=False)
class FiedlerEnvironment:
    r"""What Theorem 1 and its corollary claim of U, measured on the largest component.

    Attributes:
        fiedler_value: The true :math:`\lambda_2`.
        energies: ``[p]``: :math:`\rho_r = u_r^T \Delta u_r / u_r^T D u_r` of each column.
        centred_energies: ``[p]``: the same after the degree-weighted mean is taken off; never
            below :math:`\lambda_2`.
        fiedler_distances: ``[p]``: :math:`\min_\pm \|\psi_2 \mp u_r\|` of the centred columns, both
            of unit length in the degree-weighted norm; from 0 (equal) to :math:`\sqrt 2`.
        fiedler_share: Share of :math:`\psi_2` that lies in the span of the centred columns, 0 to 1.
        orthogonality: :math:`\|\hat U^T \hat U - I\|_F` of the columns scaled to unit length.
        rank: Numerical rank of U.
        trace_ratio: :math:`\rho(U)`, Eq. 3.
        trace_ratio_orthonormal: The same for an orthonormal basis of the span, to be compared with
            the exact minimum; NaN if the columns are dependent.
        commute_rank_correlation: Spearman correlation of :math:`\|U_i - U_j\|` with commute times.
        commute_correlation: Pearson correlation of :math:`\|U_i - U_j\|^2` with commute times; 1 if
            Corollary 1 held.
        commute_error: Standard error of the rank correlation, by the jackknife over the nodes whose
            pairs it is taken of; 0 if these are all.
        commute_nodes: How many nodes these are.
        component_share: Share of the nodes in the largest component.

    Example:
        >>> round(fiedler_environment([[0, 1], [1, 0]], [1.0, -1.0]).fiedler_value, 9)
        2.0
    """

    fiedler_value: float
    energies: Floats
    centred_energies: Floats
    fiedler_distances: Floats
    fiedler_share: float
    orthogonality: float
    rank: int
    trace_ratio: float
    trace_ratio_orthonormal: float
    commute_rank_correlation: float
    commute_correlation: float
    commute_error: float
    commute_nodes: int
    component_share: float


def fiedler_environment(
    graph: Adjacency,
    u: ArrayLike,
    *,
    num_pairs: int = 30_000,
    random_state: int = 0,
    pairs: EigenPairs | None = None,
) -> FiedlerEnvironment:
    r"""Measure a matrix U, learned or not, against the exact theory (Theorem 1, Corollary 1).

    Args:
        graph: An undirected graph.
        u: One function per column.
        num_pairs: Pairs of nodes for the correlations: all pairs of so many random nodes, fewer
            where the solves would take too long (:func:`commute_times_among`).
        random_state: Seed of these nodes.
        pairs: The smallest eigenpairs of the largest component, two or more, if they are known.

    Shapes:
        u ``[n, p]``.

    Returns:
        The measurements; NaN where one is not defined (constant columns, say).

    Raises:
        InputError: If the graph is directed, has no edge, or U has not one finite row per node.

    Example:
        >>> block = np.ones((4, 4)) - np.eye(4)
        >>> a = np.kron(np.eye(2), block); a[0, 4] = a[4, 0] = 1
        >>> fiedler_environment(a, np.repeat([1.0, -1.0], 4)).fiedler_share > 0.95
        True
    """
    if not np.isfinite(np.asarray(u, dtype=np.float64)).all():
        raise InputError("u: must be finite everywhere (got NaN or inf)")
    inside, part = connected_part(graph, where="fiedler environment")
    columns, degree = check_rows(u, inside.size, where="u")[inside], degrees(part)
    pairs = pairs or smallest_eigenpairs(part, 2)
    psi = pairs.vectors[:, 1] / np.sqrt(degree)
    centred = columns - (degree @ columns) / degree.sum()
    unit = _unit(centred, np.sqrt(degree @ centred**2))
    cosine = np.abs((degree * psi) @ unit)
    # The share of psi in the span of the centred columns, by an orthonormal basis of that span.
    left, size, _ = np.linalg.svd(centred * np.sqrt(degree)[:, None], full_matrices=False)
    basis = left[:, size > 1e-10 * max(float(size.max(initial=0.0)), 1e-300)]
    share = ((basis.T @ pairs.vectors[:, 1]) ** 2).sum()
    independent = (width := int(np.linalg.matrix_rank(columns))) == columns.shape[1]
    euclidean = _unit(columns, np.linalg.norm(columns, axis=0))
    rng, most = np.random.default_rng(random_state), round((1 + math.sqrt(1 + 8 * num_pairs)) / 2)
    nodes = rng.choice(degree.size, min(most, degree.size), replace=False)
    exact = commute_times_among(part, nodes)
    learned = cdist(columns[nodes[: len(exact)]], columns[nodes[: len(exact)]])
    rank, plain, error = distance_correlations(learned, exact)
    return FiedlerEnvironment(
        fiedler_value=float(pairs.values[1]),
        energies=rayleigh_quotients(part, columns),
        centred_energies=rayleigh_quotients(part, np.nan_to_num(unit)),
        fiedler_distances=np.sqrt(np.maximum(2.0 - 2.0 * cosine, 0.0)),
        fiedler_share=float(np.clip(share, 0.0, 1.0)),
        orthogonality=float(np.linalg.norm(euclidean.T @ euclidean - np.eye(columns.shape[1]))),
        rank=width,
        trace_ratio=trace_ratio(part, columns),
        trace_ratio_orthonormal=(
            trace_ratio(part, columns, orthonormalize=True) if independent else float("nan")
        ),
        commute_rank_correlation=rank,
        commute_correlation=plain,
        commute_error=0.0 if len(exact) == degree.size else error,
        commute_nodes=len(exact),
        component_share=float(inside.mean()),
    )


def _unit(columns: Floats, length: Floats) -> Floats:
    """Columns over their lengths; NaN for a column that is zero up to rounding."""
    floor = 1e-12 * max(1.0, float(np.abs(columns).max(initial=0.0)))
    return columns / np.where(length > floor, length, np.nan)
