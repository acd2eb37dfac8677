"""How close learned functions are to the true Fiedler pair: a diagnostic of any matrix U."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from djgnn.errors import DisconnectedWarning, InputError
from djgnn.spectral.commute import commute_times
from djgnn.spectral.eigen import smallest_eigenpairs
from djgnn.spectral.energy import check_rows, rayleigh_quotients
from djgnn.spectral.laplacians import degrees, largest_component, require_undirected
from djgnn.spectral.neighbours import embedding_distances
from djgnn.spectral.trace_ratio import trace_ratio

if TYPE_CHECKING:
    import scipy.sparse as sp
    from numpy.typing import ArrayLike, NDArray

    from djgnn.spectral.laplacians import Adjacency


@dataclass(frozen=True, eq=False)
class FiedlerEnvironment:
    r"""What Theorem 1 and its corollary claim of U, measured on the largest component.

    Attributes:
        fiedler_value: The true :math:`\lambda_2`.
        energies: ``[p]``: :math:`\rho_r = u_r^T \Delta u_r / u_r^T D u_r` of each column.
        centred_energies: ``[p]``: the same after the degree-weighted mean is taken off; never
            below :math:`\lambda_2` (for the raw columns the paper's
            :math:`\lambda_2 \le \rho_{min}` fails as soon as one is nearly constant).
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
        component_share: Share of the nodes that all of this speaks of.
    """

    fiedler_value: float
    energies: NDArray[np.float64]
    centred_energies: NDArray[np.float64]
    fiedler_distances: NDArray[np.float64]
    fiedler_share: float
    orthogonality: float
    rank: int
    trace_ratio: float
    trace_ratio_orthonormal: float
    commute_rank_correlation: float
    commute_correlation: float
    component_share: float

    def __repr__(self) -> str:
        return (
            f"FiedlerEnvironment(fiedler_value={self.fiedler_value:.4f}, "
            f"energies={self.energies.round(4).tolist()}, fiedler_share={self.fiedler_share:.3f}, "
            f"orthogonality={self.orthogonality:.3f}, "
            f"commute_rank_correlation={self.commute_rank_correlation:.3f})"
        )


def fiedler_environment(
    graph: Adjacency, u: ArrayLike, *, num_pairs: int = 2000, random_state: int = 0
) -> FiedlerEnvironment:
    r"""Measure a matrix U, learned or not, against the exact theory (Theorem 1, Corollary 1).

    Args:
        graph: An undirected graph.
        u: One function per column.
        num_pairs: Random pairs of different nodes for the correlations; all pairs if there are not
            more.
        random_state: Seed of the pairs and of the eigensolver.

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
    matrix = require_undirected(graph, where="fiedler environment")
    columns = check_rows(u, matrix.shape[0], where="u")
    if not np.isfinite(columns).all():
        raise InputError("u: must be finite everywhere (got NaN or inf)")
    inside = largest_component(matrix)
    share = inside.size / matrix.shape[0]
    if inside.size < 2:
        raise InputError("fiedler environment: needs a component of two nodes or more (got 1)")
    if share < 1:
        warnings.warn(
            f"fiedler environment: speaks of the largest component only, {inside.size} of "
            f"{matrix.shape[0]} nodes",
            DisconnectedWarning,
            stacklevel=2,
        )
    part, columns = matrix[inside][:, inside], columns[inside]
    degree = degrees(part)
    pairs = smallest_eigenpairs(part, 2, random_state=random_state)
    psi = pairs.vectors[:, 1] / np.sqrt(degree)
    centred = columns - (degree @ columns) / degree.sum()
    unit = _unit(centred, np.sqrt(degree @ centred**2))
    cosine = np.abs((degree * psi) @ unit)
    rank = int(np.linalg.matrix_rank(columns))
    spearman, pearson = _commute_correlations(part, columns, num_pairs, random_state)
    return FiedlerEnvironment(
        fiedler_value=float(pairs.values[1]),
        energies=rayleigh_quotients(part, columns),
        centred_energies=rayleigh_quotients(part, np.nan_to_num(unit)),
        fiedler_distances=np.sqrt(np.maximum(2.0 - 2.0 * cosine, 0.0)),
        fiedler_share=_captured(centred * np.sqrt(degree)[:, None], psi * np.sqrt(degree)),
        orthogonality=_orthogonality(columns),
        rank=rank,
        trace_ratio=trace_ratio(part, columns),
        trace_ratio_orthonormal=(
            trace_ratio(part, columns, orthonormalize=True)
            if rank == columns.shape[1]
            else float("nan")
        ),
        commute_rank_correlation=spearman,
        commute_correlation=pearson,
        component_share=share,
    )


def _unit(columns: NDArray[np.float64], length: NDArray[np.float64]) -> NDArray[np.float64]:
    """Columns over their lengths; NaN for a column that is zero up to rounding."""
    floor = 1e-12 * max(1.0, float(np.abs(columns).max(initial=0.0)))
    return columns / np.where(length > floor, length, np.nan)


def _captured(span: NDArray[np.float64], vector: NDArray[np.float64]) -> float:
    """Squared length of the projection of a unit vector on a span."""
    left, size, _ = np.linalg.svd(span, full_matrices=False)
    basis = left[:, size > 1e-10 * max(float(size.max(initial=0.0)), 1e-300)]
    return float(np.clip(((basis.T @ vector) ** 2).sum(), 0.0, 1.0))


def _orthogonality(columns: NDArray[np.float64]) -> float:
    unit = _unit(columns, np.linalg.norm(columns, axis=0))
    return float(np.linalg.norm(unit.T @ unit - np.eye(columns.shape[1])))


def _commute_correlations(
    part: sp.csr_array, columns: NDArray[np.float64], num_pairs: int, random_state: int
) -> tuple[float, float]:
    from scipy.stats import pearsonr, spearmanr

    n = part.shape[0]
    if n * (n - 1) // 2 <= num_pairs:
        pairs = np.stack(np.triu_indices(n, k=1), axis=1)
    else:
        rng = np.random.default_rng(random_state)
        first = rng.integers(0, n, num_pairs)
        pairs = np.stack([first, (first + rng.integers(1, n, num_pairs)) % n], axis=1)
    learned = embedding_distances(columns, pairs)
    exact = commute_times(part, pairs)
    if np.ptp(learned) == 0 or np.ptp(exact) <= 1e-9 * exact.max():
        return float("nan"), float("nan")
    return float(spearmanr(learned, exact).statistic), float(pearsonr(learned**2, exact).statistic)
