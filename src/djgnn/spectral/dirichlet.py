"""The Dirichlet problem: the smoothest function with given values on border nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from djgnn.errors import InputError
from djgnn.spectral.laplacians import as_adjacency, check_nodes, degrees, is_undirected
from djgnn.spectral.linear import SolveMethod, can_reach, solve_sparse

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from djgnn.spectral.laplacians import Adjacency


@dataclass(frozen=True, eq=False)
class HarmonicExtension:
    """A harmonic function.

    Attributes:
        values: ``[n]`` or ``[n, c]``, as the border values came; NaN where not determined.
        determined: ``[n]``, bool: the border fixes the value of this node.
    """

    values: NDArray[np.float64]
    determined: NDArray[np.bool_]


def harmonic_extension(
    graph: Adjacency,
    border: ArrayLike,
    border_values: ArrayLike,
    *,
    method: SolveMethod = "auto",
) -> HarmonicExtension:
    r"""Extend values from border nodes B to the others U (Section 2, contribution a).

    .. math::
        \ell^* = \arg\min_{\ell} \ell^T \Delta \ell \;\; \text{s.t. } \ell(B) \text{ given}
        \quad\Longleftrightarrow\quad \Delta_{UU}\, \ell_U = A_{UB}\, \ell_B

    so that every inner node has the average of its neighbours. On a directed graph the same
    equation defines the average over the out-neighbours (there it minimises no energy). A node is
    left undetermined, NaN, if a walk from it can end where no border node is in reach: another
    component, an isolated node, a dead end of a directed graph.

    Args:
        graph: The graph; weights count.
        border: The border nodes, each once.
        border_values: Their values; columns are separate problems (one-hot classes, say).
        method: ``direct`` (sparse factorisation), ``cg`` (memory O(\|E\|)), or ``auto`` by size.

    Shapes:
        border ``[b]``, border_values ``[b]`` or ``[b, c]``; values ``[n]`` or ``[n, c]``.

    Returns:
        The function and where it is determined.

    Raises:
        InputError: If the border is empty, repeats a node or does not match its values.

    Example:
        >>> path = np.diag([1.0, 1.0, 1.0], 1)
        >>> harmonic_extension(path + path.T, [0, 3], [0.0, 3.0]).values.round(9).tolist()
        [0.0, 1.0, 2.0, 3.0]

    Reference:
        Doyle and Snell, Random walks and electric networks, 1984; Zhu et al., ICML 2003.
    """
    matrix = as_adjacency(graph)
    n = matrix.shape[0]
    nodes, known = _check_border(border, border_values, n)
    is_border = np.zeros(n, dtype=bool)
    is_border[nodes] = True
    inner = np.flatnonzero(determined_by(matrix, nodes) & ~is_border)
    rows = matrix[inner]
    system = sp.csr_array(sp.diags_array(degrees(matrix)[inner]) - rows[:, inner])
    values = np.full((n, known.shape[1]), np.nan)
    values[nodes] = known
    values[inner] = solve_sparse(
        system, rows[:, nodes] @ known, method=method, symmetric=is_undirected(matrix)
    )
    is_border[inner] = True
    single = np.asarray(border_values).ndim == 1
    return HarmonicExtension(values[:, 0] if single else values, is_border)


def harmonic_extension_dense(
    graph: Adjacency, border: ArrayLike, border_values: ArrayLike
) -> NDArray[np.float64]:
    """The plain dense oracle of :func:`harmonic_extension`: all of U at once, by least squares.

    Where the border determines a value, the solution of smallest norm has it; elsewhere it is
    arbitrary. For tests and small graphs.

    Example:
        >>> harmonic_extension_dense([[0, 1], [1, 0]], [0], [2.0]).round(9).tolist()
        [[2.0], [2.0]]
    """
    matrix = as_adjacency(graph).toarray()
    nodes, known = _check_border(border, border_values, matrix.shape[0])
    inner = np.setdiff1d(np.arange(matrix.shape[0]), nodes)
    system = np.diag(matrix.sum(axis=1)) - matrix
    values = np.zeros((matrix.shape[0], known.shape[1]))
    values[nodes] = known
    right = matrix[np.ix_(inner, nodes)] @ known
    values[inner] = np.linalg.lstsq(system[np.ix_(inner, inner)], right, rcond=None)[0]
    return values


def determined_by(matrix: sp.csr_array, border: NDArray[np.int64]) -> NDArray[np.bool_]:
    """The nodes from which every walk meets the border sooner or later.

    Example:
        >>> a = sp.csr_array([[0, 1, 0, 1], [0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0]])
        >>> determined_by(a, np.array([1])).tolist()
        [False, True, True, False]
    """
    stop = np.zeros(matrix.shape[0], dtype=bool)
    stop[border] = True
    lost = np.flatnonzero(~can_reach(matrix, border))
    return np.asarray(~can_reach(matrix, lost, stop=stop))


def _check_border(
    border: ArrayLike, border_values: ArrayLike, n: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    nodes = check_nodes(np.atleast_1d(np.asarray(border)), n, where="border")
    known = np.asarray(border_values, dtype=np.float64)
    if nodes.size == 0:
        raise InputError("border: at least one node must have a value (got none)")
    if np.unique(nodes).size != nodes.size:
        raise InputError(
            f"border: every node once (got {nodes.size - np.unique(nodes).size} repeated)"
        )
    if known.ndim not in (1, 2) or known.shape[0] != nodes.size:
        raise InputError(
            f"border_values: one row per border node, {nodes.size} rows (got shape {known.shape})"
        )
    if not np.isfinite(known).all():
        raise InputError("border_values: must be finite; leave unknown nodes out (got NaN or inf)")
    return nodes, known[:, None] if known.ndim == 1 else known
