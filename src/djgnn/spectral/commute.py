"""Commute times and effective resistances of a random walk."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Literal

import numpy as np
import scipy.sparse as sp

from djgnn.errors import DisconnectedWarning, InputError
from djgnn.spectral.eigen import smallest_eigenpairs
from djgnn.spectral.laplacians import (
    components,
    degrees,
    laplacian_matrix,
    require_undirected,
)
from djgnn.spectral.linear import solve_sparse
from djgnn.spectral.neighbours import check_pairs, embedding_distances

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from djgnn.spectral.laplacians import Adjacency

CommuteMethod = Literal["auto", "pseudo_inverse", "solve", "spectral", "sketch"]
PSEUDO_INVERSE_UP_TO = 2000
PAIRS_PER_SOLVE = 64


def commute_times(
    graph: Adjacency,
    pairs: ArrayLike,
    *,
    method: CommuteMethod = "auto",
    num: int | None = None,
    random_state: int = 0,
) -> NDArray[np.float64]:
    r"""Mean number of steps of a walk from i to j and back.

    .. math::
        CT(i, j) = vol \cdot (e_i - e_j)^T \Delta^+ (e_i - e_j)
                 = vol \sum_{r \ge 2} \frac{1}{\lambda_r}
                   \Bigl(\frac{\phi_r(i)}{\sqrt{d_i}} - \frac{\phi_r(j)}{\sqrt{d_j}}\Bigr)^2

    :math:`\lambda_r, \phi_r` of the normalised Laplacian, vol the sum of the degrees of the
    component. The quadratic form alone is the effective resistance.

    Args:
        graph: An undirected graph; weights count.
        pairs: Pairs of nodes.
        method: ``pseudo_inverse`` is the plain dense oracle; ``solve`` one sparse solve per pair;
            ``spectral`` keeps `num` terms of the sum, from below; ``sketch`` projects on `num`
            random directions, relative error about :math:`\sqrt{2 / num}`; ``auto`` is dense up to
            2,000 nodes, else ``solve``.
        num: Number of terms or directions; 64 terms, 256 directions if left out.
        random_state: Seed of the eigensolver or of the directions.

    Shapes:
        pairs ``[m, 2]``, out ``[m]``.

    Returns:
        Commute times; infinite between components.

    Raises:
        InputError: If the graph is directed, or a pair or the method is not usable.

    Example:
        >>> path = [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
        >>> commute_times(path, [[0, 1], [0, 2], [1, 1]]).round(6).tolist()
        [4.0, 8.0, 0.0]

    Reference:
        Chandra et al., The electrical resistance of a graph, STOC 1989; Spielman and Srivastava,
        Graph sparsification by effective resistances, STOC 2008.
    """
    matrix = require_undirected(graph, where="commute time")
    n = matrix.shape[0]
    index = check_pairs(pairs, n)
    if method == "auto":
        method = "pseudo_inverse" if n <= PSEUDO_INVERSE_UP_TO else "solve"
    if method not in ("pseudo_inverse", "solve", "spectral", "sketch"):
        raise InputError(
            f"method: choose auto, pseudo_inverse, solve, spectral or sketch (got {method!r})"
        )
    label = components(matrix)
    out = np.full(index.shape[0], np.inf)
    out[index[:, 0] == index[:, 1]] = 0.0
    wanted = (label[index[:, 0]] == label[index[:, 1]]) & (index[:, 0] != index[:, 1])
    for component in np.unique(label[index[wanted, 0]]):
        nodes = np.flatnonzero(label == component)
        chosen = np.flatnonzero(wanted & (label[index[:, 0]] == component))
        local = np.searchsorted(nodes, index[chosen])
        part = matrix[nodes][:, nodes]
        out[chosen] = _within_component(part, local, method, num, random_state)
    return out


def _within_component(
    part: sp.csr_array, pairs: NDArray[np.int64], method: str, num: int | None, random_state: int
) -> NDArray[np.float64]:
    volume = float(part.sum())
    if method == "pseudo_inverse":
        inverse = np.linalg.pinv(laplacian_matrix(part).toarray(), hermitian=True)
        diagonal = np.diag(inverse)
        i, j = pairs.T
        return np.asarray(volume * (diagonal[i] + diagonal[j] - 2 * inverse[i, j]))
    if method == "solve":
        return volume * _resistances_by_solving(part, pairs)
    if method == "spectral":
        points = _spectral_embedding(part, num or 64, random_state)
    else:
        points = _sketch_embedding(part, num or 256, random_state)
    return embedding_distances(points, pairs) ** 2


def _grounded(part: sp.csr_array) -> tuple[sp.csr_array, NDArray[np.int64]]:
    """The Laplacian of a component without the row and column of its node of largest degree."""
    delta = laplacian_matrix(part)
    rest = np.delete(np.arange(part.shape[0]), int(degrees(part).argmax()))
    return delta[rest][:, rest], rest


def _resistances_by_solving(part: sp.csr_array, pairs: NDArray[np.int64]) -> NDArray[np.float64]:
    system, rest = _grounded(part)
    out = np.empty(pairs.shape[0])
    for begin in range(0, pairs.shape[0], PAIRS_PER_SOLVE):
        chunk = pairs[begin : begin + PAIRS_PER_SOLVE]
        column = np.arange(chunk.shape[0])
        current = np.zeros((part.shape[0], chunk.shape[0]))
        current[chunk[:, 0], column] = 1.0
        current[chunk[:, 1], column] = -1.0
        potential = np.zeros_like(current)
        potential[rest] = solve_sparse(system, current[rest], symmetric=True)
        out[begin : begin + PAIRS_PER_SOLVE] = (current * potential).sum(axis=0)
    return out


def _spectral_embedding(part: sp.csr_array, num: int, random_state: int) -> NDArray[np.float64]:
    """Rows whose squared distances are commute times, cut after `num` terms."""
    count = min(num + 1, part.shape[0])
    pairs = smallest_eigenpairs(part, count, random_state=random_state)
    degree = degrees(part)
    scale = np.sqrt(degree.sum() / degree)[:, None]
    return np.asarray(scale * pairs.vectors[:, 1:] / np.sqrt(pairs.values[1:]))


def _sketch_embedding(part: sp.csr_array, num: int, random_state: int) -> NDArray[np.float64]:
    r"""Random projections of :math:`\sqrt{vol}\, W^{1/2} B \Delta^+` (Spielman, Srivastava)."""
    upper = sp.triu(part, k=1, format="coo")
    edges, n = upper.nnz, part.shape[0]
    incidence = sp.csr_array(
        (
            np.concatenate([np.sqrt(upper.data), -np.sqrt(upper.data)]),
            (np.concatenate([upper.row, upper.col]), np.tile(np.arange(edges), 2)),
        ),
        shape=(n, edges),
    )
    signs = np.random.default_rng(random_state)
    right = np.empty((n, num))
    for column in range(num):
        right[:, column] = incidence @ (2.0 * signs.integers(0, 2, edges) - 1.0)
    system, rest = _grounded(part)
    points = np.zeros((n, num))
    points[rest] = solve_sparse(system, right[rest], symmetric=True, tol=1e-6)
    return np.asarray(points * np.sqrt(part.sum() / num))


def commute_time_embedding(
    graph: Adjacency,
    *,
    method: Literal["spectral", "sketch"] = "spectral",
    num: int = 64,
    random_state: int = 0,
) -> NDArray[np.float64]:
    r"""Rows with :math:`\|Z_i - Z_j\|^2 \approx CT(i, j)`, for the largest component.

    Args:
        graph: An undirected graph.
        method: ``spectral``: exact with ``num = n - 1``; or ``sketch``.
        num: Columns.
        random_state: Seed.

    Shapes:
        out ``[n, num]``.

    Returns:
        The embedding; nodes outside the largest component are NaN, with a warning. Feed it to
        :func:`~djgnn.spectral.neighbours.nearest_nodes` for the k nearest.

    Raises:
        InputError: If the graph is directed, has no edge, or the method is unknown.

    Example:
        >>> z = commute_time_embedding([[0, 1, 0], [1, 0, 1], [0, 1, 0]], num=2)
        >>> round(float(((z[0] - z[2]) ** 2).sum()), 6)
        8.0
    """
    matrix = require_undirected(graph, where="commute time")
    inside = np.flatnonzero(components(matrix) == 0)
    if inside.size < 2:
        raise InputError("commute time: needs a component of two nodes or more (got 1)")
    if method not in ("spectral", "sketch"):
        raise InputError(f"method: choose 'spectral' or 'sketch' (got {method!r})")
    if inside.size < matrix.shape[0]:
        warnings.warn(
            f"commute time: the embedding speaks of the largest component only, {inside.size} of "
            f"{matrix.shape[0]} nodes; the others are NaN",
            DisconnectedWarning,
            stacklevel=2,
        )
    part = matrix[inside][:, inside]
    build = _spectral_embedding if method == "spectral" else _sketch_embedding
    points = build(part, num, random_state)
    out = np.full((matrix.shape[0], points.shape[1]), np.nan)
    out[inside] = points
    return out
