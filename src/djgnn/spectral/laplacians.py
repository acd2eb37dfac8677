"""Adjacency, degrees, components, the random walk and the three Laplacians of a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from djgnn.errors import InputError
from djgnn.graph import Graph

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

Adjacency: TypeAlias = "Graph | sp.sparray | sp.spmatrix | NDArray[Any] | list[list[float]]"
LaplacianKind = Literal["combinatorial", "normalized", "random_walk"]
LAPLACIANS = ("combinatorial", "normalized", "random_walk")


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
        matrix.indices, matrix.indptr = (
            part.astype(np.int32) for part in (matrix.indices, matrix.indptr)
        )
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
    gap = abs(matrix - matrix.T)
    return bool(gap.nnz == 0 or gap.max() <= rtol * max(matrix.max(), 1e-300))


def symmetrize(adjacency: Adjacency, *, how: Literal["max", "mean", "sum"] = "max") -> sp.csr_array:
    r"""An undirected graph from a directed one; explicit, because it changes results.

    .. math:: \max(A, A^T), \quad \tfrac12 (A + A^T), \quad A + A^T

    Args:
        adjacency: The graph.
        how: ``max`` is the union of the edges, ``mean`` keeps the volume, ``sum`` counts both ways.

    Returns:
        The symmetric adjacency; self loops keep their weight under ``max`` and ``mean``.

    Raises:
        InputError: If `how` is not one of the three.

    Example:
        >>> symmetrize([[0, 2], [0, 0]], how="mean").toarray().tolist()
        [[0.0, 1.0], [1.0, 0.0]]
    """
    matrix = as_adjacency(adjacency)
    if how == "max":
        return sp.csr_array(matrix.maximum(matrix.T))
    if how not in ("mean", "sum"):
        raise InputError(f"how: choose 'max', 'mean' or 'sum' (got {how!r})")
    return sp.csr_array((matrix + matrix.T) * (0.5 if how == "mean" else 1.0))


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
        odd = int((abs(matrix - matrix.T) > 0).nnz)
        raise InputError(
            f"{where}: defined for an undirected graph, where the walk is reversible; pass "
            f"`symmetrize(adjacency)` (got {odd} entries that differ from their transpose)"
        )
    return matrix


def degrees(adjacency: Adjacency) -> NDArray[np.float64]:
    r"""Row sums :math:`d_i = \sum_j A_{ij}`: out-degrees, self loops counted once.

    Example:
        >>> degrees([[1, 1], [1, 0]]).tolist()
        [2.0, 1.0]
    """
    return np.asarray(as_adjacency(adjacency).sum(axis=1), dtype=np.float64).ravel()


def _power(degree: NDArray[np.float64], exponent: float) -> NDArray[np.float64]:
    """Powers of degrees, 0 where the degree is 0 (the pseudo-inverse convention)."""
    out = np.zeros_like(degree)
    np.power(degree, exponent, out=out, where=degree > 0)
    return out


def transition_matrix(adjacency: Adjacency) -> sp.csr_array:
    r"""The random walk :math:`P = D^{-1} A`; a node without outgoing edges has a row of zeros.

    Example:
        >>> transition_matrix([[0, 1, 1], [1, 0, 0], [0, 0, 0]]).toarray().tolist()
        [[0.0, 0.5, 0.5], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """
    matrix = as_adjacency(adjacency)
    return sp.csr_array(sp.diags_array(_power(degrees(matrix), -1.0)) @ matrix)


def normalized_adjacency(adjacency: Adjacency) -> sp.csr_array:
    r"""The symmetric normalisation :math:`\tilde A = D^{-1/2} A D^{-1/2}`, row-sum degrees.

    Example:
        >>> normalized_adjacency([[0, 4], [4, 0]]).toarray().tolist()
        [[0.0, 1.0], [1.0, 0.0]]
    """
    matrix = as_adjacency(adjacency)
    scale = sp.diags_array(_power(degrees(matrix), -0.5))
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

    Returns:
        CSR, float64.

    Raises:
        InputError: If `kind` is not one of the three.

    Example:
        >>> laplacian_matrix([[0, 1], [1, 0]]).toarray().tolist()
        [[1.0, -1.0], [-1.0, 1.0]]

    Reference:
        Chung, Spectral Graph Theory, 1997.
    """
    if kind not in LAPLACIANS:
        raise InputError(f"laplacian: choose one of {', '.join(LAPLACIANS)} (got {kind!r})")
    matrix = as_adjacency(adjacency)
    degree = degrees(matrix)
    delta = sp.csr_array(sp.diags_array(degree) - matrix)
    if kind == "normalized":
        scale = sp.diags_array(_power(degree, -0.5))
        return sp.csr_array(scale @ delta @ scale)
    if kind == "random_walk":
        return sp.csr_array(sp.diags_array(_power(degree, -1.0)) @ delta)
    return delta


def components(adjacency: Adjacency) -> NDArray[np.int64]:
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
    out: NDArray[np.int64] = rank[label].astype(np.int64)
    return out


def largest_component(adjacency: Adjacency) -> NDArray[np.int64]:
    """The nodes of the largest component, in increasing order.

    Example:
        >>> largest_component([[0, 0, 0], [0, 0, 1], [0, 1, 0]]).tolist()
        [1, 2]
    """
    return np.flatnonzero(components(adjacency) == 0).astype(np.int64)


def check_nodes(nodes: ArrayLike, num_nodes: int, *, where: str) -> NDArray[np.int64]:
    """Node ids as int64, each between 0 and n-1.

    Raises:
        InputError: With the first id that is not a node.

    Example:
        >>> check_nodes([0, 1], 2, where="pairs").tolist()
        [0, 1]
    """
    array = np.asarray(nodes)
    if array.size == 0:
        return array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise InputError(f"{where}: node ids must be whole numbers (got dtype {array.dtype})")
    bad = (array < 0) | (array >= num_nodes)
    if bad.any():
        raise InputError(
            f"{where}: node ids must be between 0 and {num_nodes - 1} (got {int(array[bad][0])})"
        )
    return array.astype(np.int64)
