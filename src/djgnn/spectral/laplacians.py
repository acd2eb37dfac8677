"""Adjacency, degrees, components, random walk, Laplacians and Dirichlet energies of a graph."""

import warnings
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.csgraph import connected_components

from djgnn.errors import DisconnectedWarning, InputError
from djgnn.graph import Graph

Adjacency: TypeAlias = "Graph | sp.sparray | sp.spmatrix | NDArray[Any] | list[list[float]]"
Floats: TypeAlias = NDArray[np.float64]
Nodes: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]
LaplacianKind = Literal["combinatorial", "normalized", "random_walk"]


def as_adjacency(graph: Adjacency) -> sp.csr_array:
    r"""The adjacency :math:`A` of anything that has one, as a float64 CSR without stored zeros.

    Nothing is symmetrised and no self loop is added or removed.

    Args:
        graph: A :class:`~djgnn.graph.Graph`, a SciPy sparse matrix or a dense array.

    Shapes:
        in ``[n, n]``, out ``[n, n]``.

    Returns:
        A fresh CSR array; the input is never written to.

    Raises:
        InputError: If it is not square, or a weight is negative or not finite.

    Example:
        >>> as_adjacency([[0, 2], [0, 0]]).toarray().tolist()
        [[0.0, 2.0], [0.0, 0.0]]
    """
    source: Any = graph.adjacency if isinstance(graph, Graph) else graph
    if not sp.issparse(source):
        source = np.asarray(source)
    if source.ndim != 2 or source.shape[0] != source.shape[1]:
        raise InputError(
            f"adjacency: must be square, one row per node (got shape {tuple(source.shape)})"
        )
    matrix = sp.csr_array(source, dtype=np.float64, copy=True)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    if matrix.indices.dtype != np.int32 and max(matrix.nnz, matrix.shape[0]) < 2**31:
        # Products with 32-bit indices read a third less memory.
        matrix.indices = matrix.indices.astype(np.int32)
        matrix.indptr = matrix.indptr.astype(np.int32)
    bad = ~np.isfinite(matrix.data) | (matrix.data < 0)
    if bad.any():
        place = int(np.flatnonzero(bad)[0])
        row = int(np.searchsorted(matrix.indptr, place, side="right")) - 1
        raise InputError(
            f"adjacency: the weight at row {row}, column {int(matrix.indices[place])} must be "
            f"finite and not negative; a walk cannot follow it (got {matrix.data[place]})"
        )
    return matrix


def is_undirected(adjacency: Adjacency, *, rtol: float = 1e-12) -> bool:
    """Whether :math:`A = A^T`, up to `rtol` times the largest weight.

    Example:
        >>> is_undirected([[0, 1], [1, 0]]), is_undirected([[0, 1], [0, 0]])
        (True, False)
    """
    matrix = as_adjacency(adjacency)
    if not matrix.nnz:
        return True
    least = rtol * matrix.max()
    entering = np.bincount(matrix.indices, minlength=matrix.shape[0])
    if matrix.data.min() > least and not np.array_equal(entering, np.diff(matrix.indptr)):
        return False  # some edge has no reverse at all
    return bool(abs(matrix - matrix.T).max() <= least)


def symmetrize(adjacency: Adjacency) -> sp.csr_array:
    r"""The union of the edges and their reverses, :math:`\max(A, A^T)`; loops keep their weight.

    Example:
        >>> symmetrize([[0, 2], [0, 0]]).toarray().tolist()
        [[0.0, 2.0], [2.0, 0.0]]
    """
    matrix = as_adjacency(adjacency)
    return sp.csr_array(matrix.maximum(matrix.T))


def require_undirected(adjacency: Adjacency, *, where: str) -> sp.csr_array:
    """The adjacency, or an error that says how to make it undirected.

    Raises:
        InputError: If an edge has no equal edge in the other direction.

    Example:
        >>> require_undirected([[0, 1], [0, 0]], where="commute time")
        Traceback (most recent call last):
        djgnn.errors.InputError: commute time: defined for an undirected graph, ...
    """
    matrix = as_adjacency(adjacency)
    if not is_undirected(matrix):
        raise InputError(
            f"{where}: defined for an undirected graph, where the walk is reversible; pass "
            f"`symmetrize(adjacency)` (got {(matrix != matrix.T).nnz} entries that differ from "
            "their transpose)"
        )
    return matrix


def degrees(adjacency: Adjacency) -> Floats:
    r"""Row sums :math:`d_i = \sum_j A_{ij}`: out-degrees, self loops counted once.

    Example:
        >>> degrees([[1, 1], [1, 0]]).tolist()
        [2.0, 1.0]
    """
    return np.asarray(as_adjacency(adjacency).sum(axis=1), dtype=np.float64).ravel()


def _power(degree: Floats, exponent: float) -> Floats:
    """Powers of degrees, 0 where the degree is 0 (the pseudo-inverse convention)."""
    return np.power(degree, exponent, out=np.zeros_like(degree), where=degree > 0)


def transition_matrix(adjacency: Adjacency) -> sp.csr_array:
    r"""The random walk :math:`P = D^{-1} A`; a node without outgoing edges has a row of zeros.

    Example:
        >>> transition_matrix([[0, 1, 1], [1, 0, 0], [0, 0, 0]]).toarray().tolist()
        [[0.0, 0.5, 0.5], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """
    matrix = as_adjacency(adjacency)
    return sp.csr_array(sp.diags_array(_power(matrix.sum(axis=1), -1.0)) @ matrix)


def normalized_adjacency(adjacency: Adjacency) -> sp.csr_array:
    r"""The symmetric normalisation :math:`\tilde A = D^{-1/2} A D^{-1/2}`, row-sum degrees.

    Example:
        >>> normalized_adjacency([[0, 4], [4, 0]]).toarray().tolist()
        [[0.0, 1.0], [1.0, 0.0]]
    """
    matrix = as_adjacency(adjacency)
    scale = sp.diags_array(_power(matrix.sum(axis=1), -0.5))
    return sp.csr_array(scale @ matrix @ scale)


def laplacian_matrix(adjacency: Adjacency, kind: LaplacianKind = "combinatorial") -> sp.csr_array:
    r"""One of the three Laplacians (Section 4.1 of the paper).

    .. math::
        \Delta = D - A, \qquad
        \tilde\Delta = D^{-1/2} \Delta D^{-1/2}, \qquad
        \Delta_{rw} = D^{-1} \Delta

    with inverses of zero degrees taken as zero, so an isolated node has a row of zeros in all
    three. A self loop cancels in :math:`\Delta` but counts in :math:`D`.

    Args:
        adjacency: The graph; directed graphs use out-degrees.
        kind: Which one.

    Shapes:
        ``[n, n]``.

    Raises:
        InputError: If `kind` is not one of the three.

    Example:
        >>> laplacian_matrix([[0, 1], [1, 0]]).toarray().tolist()
        [[1.0, -1.0], [-1.0, 1.0]]

    Reference:
        Chung, Spectral Graph Theory, 1997.
    """
    if kind not in get_args(LaplacianKind):
        kinds = ", ".join(get_args(LaplacianKind))
        raise InputError(f"laplacian: choose one of {kinds} (got {kind!r})")
    matrix = as_adjacency(adjacency)
    degree = matrix.sum(axis=1)
    delta = sp.diags_array(degree) - matrix
    if kind == "normalized":
        scale = sp.diags_array(_power(degree, -0.5))
        delta = scale @ delta @ scale
    elif kind == "random_walk":
        delta = sp.diags_array(_power(degree, -1.0)) @ delta
    return sp.csr_array(delta)


def components(adjacency: Adjacency) -> Nodes:
    """The component of each node (edges taken both ways), the largest first, then by node index.

    Example:
        >>> components([[0, 0, 0], [0, 0, 1], [0, 0, 0]]).tolist()
        [1, 0, 0]
    """
    _, label = connected_components(as_adjacency(adjacency), directed=True, connection="weak")
    first = np.unique(label, return_index=True)[1]
    order = np.lexsort((first, -np.bincount(label)))
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    return np.asarray(rank[label], dtype=np.int64)


def largest_component(adjacency: Adjacency) -> Nodes:
    """The nodes of the largest component, in increasing order.

    Example:
        >>> largest_component([[0, 0, 0], [0, 0, 1], [0, 1, 0]]).tolist()
        [1, 2]
    """
    return np.flatnonzero(components(adjacency) == 0).astype(np.int64)


def dirichlet_energy(
    adjacency: Adjacency, x: ArrayLike, *, laplacian: LaplacianKind = "combinatorial"
) -> float:
    r"""The Dirichlet energy of a vector, or the sum over the columns of a matrix (Section 2).

    .. math:: x^T \Delta x = \sum_{\{i, j\}} A_{ij} (x_i - x_j)^2

    for an undirected graph; on a directed one it is the quadratic form of :math:`D - A` with
    out-degrees, which can be negative.

    Args:
        adjacency: The graph.
        x: A function on the nodes, or one per column (for instance one-hot classes).
        laplacian: Which Laplacian.

    Shapes:
        x ``[n]`` or ``[n, p]``.

    Returns:
        The sum of the energies of the columns.

    Raises:
        InputError: If `x` has not one row per node.

    Example:
        >>> path = [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
        >>> dirichlet_energy(path, [0.0, 1.0, 3.0])
        5.0
    """
    matrix = as_adjacency(adjacency)
    columns = check_rows(x, matrix.shape[0], where="x")
    return float((columns * (laplacian_matrix(matrix, laplacian) @ columns)).sum())


def rayleigh_quotients(adjacency: Adjacency, x: ArrayLike) -> Floats:
    r"""The scale-free energy of each column, :math:`\rho_j = x_j^T \Delta x_j / x_j^T D x_j`.

    Args:
        adjacency: The graph.
        x: One function, or one per column.

    Shapes:
        x ``[n]`` or ``[n, p]``; out ``[p]``.

    Returns:
        One quotient per column; NaN for a column that is zero wherever there are edges.

    Raises:
        InputError: If `x` has not one row per node.

    Example:
        >>> rayleigh_quotients([[0, 1], [1, 0]], [[1.0, 1.0], [1.0, -1.0]]).tolist()
        [0.0, 2.0]
    """
    matrix = as_adjacency(adjacency)
    columns = check_rows(x, matrix.shape[0], where="x")
    mass = matrix.sum(axis=1) @ columns**2
    energy = (columns * (laplacian_matrix(matrix) @ columns)).sum(axis=0)
    return np.asarray(energy / np.where(mass > 0, mass, np.nan))


def connected_part(graph: Adjacency, *, where: str) -> tuple[Mask, sp.csr_array]:
    """The largest component of an undirected graph: a mask of its nodes, and its adjacency.

    Raises:
        InputError: If the graph is directed, or the component has fewer than two nodes.
    """
    matrix = require_undirected(graph, where=where)
    inside = components(matrix) == 0
    if inside.sum() < 2:
        raise InputError(f"{where}: needs a component of two nodes or more (got 1)")
    if not inside.all():
        warnings.warn(
            f"{where}: computed on the largest component only, {inside.sum()} of {inside.size} "
            "nodes",
            DisconnectedWarning,
            stacklevel=3,
        )
    return inside, matrix[inside][:, inside]


def check_nodes(nodes: ArrayLike, num_nodes: int, *, where: str, distinct: bool = False) -> Nodes:
    """Node ids as int64, each between 0 and n-1; with `distinct` at least one, and each once.

    Raises:
        InputError: With the first id that is not a node.

    Example:
        >>> check_nodes([0, 1], 2, where="pairs").tolist()
        [0, 1]
    """
    array = np.atleast_1d(np.asarray(nodes))
    if array.size and array.dtype.kind not in "iu":
        raise InputError(f"{where}: node ids must be whole numbers (got dtype {array.dtype})")
    bad = (array < 0) | (array >= num_nodes)
    if bad.any():
        raise InputError(
            f"{where}: node ids must be between 0 and {num_nodes - 1} (got {int(array[bad][0])})"
        )
    count = np.unique(array).size
    if distinct and (array.size == 0 or count < array.size):
        raise InputError(
            f"{where}: give at least one node, and every node once (got {array.size} ids, "
            f"{count} distinct)"
        )
    return array.astype(np.int64)


def check_rows(x: ArrayLike, num_rows: int, *, where: str) -> Floats:
    """A float64 matrix with so many rows; a vector becomes one column.

    Raises:
        InputError: If the number of rows or of axes is wrong.

    Example:
        >>> check_rows([1, 2], 2, where="x").shape
        (2, 1)
    """
    array = np.asarray(x, dtype=np.float64)
    if array.ndim not in (1, 2) or array.shape[0] != num_rows:
        raise InputError(
            f"{where}: must have one row per node, {num_rows} rows (got shape {array.shape})"
        )
    return array[:, None] if array.ndim == 1 else array
