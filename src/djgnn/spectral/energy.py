"""Dirichlet energies: how much a function on the nodes changes along the edges."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from djgnn.errors import InputError
from djgnn.spectral.laplacians import LaplacianKind, as_adjacency, degrees, laplacian_matrix

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from djgnn.spectral.laplacians import Adjacency


def column_energies(
    adjacency: Adjacency, x: ArrayLike, *, laplacian: LaplacianKind = "combinatorial"
) -> NDArray[np.float64]:
    r"""The Dirichlet energy of each column.

    .. math:: x^T \Delta x = \sum_{\{i, j\}} A_{ij} (x_i - x_j)^2

    for an undirected graph, each edge counted once; the normalised Laplacian takes the differences
    of :math:`x_i / \sqrt{d_i}`. For a directed graph it is the quadratic form of :math:`D - A` with
    out-degrees, which can be negative.

    Args:
        adjacency: The graph.
        x: One function, or one per column.
        laplacian: Which Laplacian.

    Shapes:
        x ``[n]`` or ``[n, p]``; out ``[p]`` (``[1]`` for one function).

    Returns:
        The energies.

    Raises:
        InputError: If `x` has not one row per node.

    Example:
        >>> column_energies([[0, 1], [1, 0]], [[1.0, 3.0], [1.0, 0.0]]).tolist()
        [0.0, 9.0]
    """
    matrix = as_adjacency(adjacency)
    columns = check_rows(x, matrix.shape[0], where="x")
    product = laplacian_matrix(matrix, laplacian) @ columns
    return np.asarray(np.einsum("ij,ij->j", columns, product), dtype=np.float64)


def dirichlet_energy(
    adjacency: Adjacency, x: ArrayLike, *, laplacian: LaplacianKind = "combinatorial"
) -> float:
    r"""The Dirichlet energy :math:`\mathrm{Tr}(X^T L X)` of a vector or a matrix (Section 2).

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
    return float(column_energies(adjacency, x, laplacian=laplacian).sum())


def rayleigh_quotients(adjacency: Adjacency, x: ArrayLike) -> NDArray[np.float64]:
    r"""The scale-free energy of each column, :math:`\rho_j = x_j^T \Delta x_j / x_j^T D x_j`.

    It lies in [0, 2] on an undirected graph and is the eigenvalue :math:`\lambda_r` of the
    normalised Laplacian at :math:`x = D^{-1/2} \phi_r`.

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
    mass = degrees(matrix) @ columns**2
    out = np.full(mass.shape, np.nan)
    np.divide(column_energies(matrix, columns), mass, out=out, where=mass > 0)
    return out


def check_rows(x: ArrayLike, num_nodes: int, *, where: str) -> NDArray[np.float64]:
    """A float64 matrix with one row per node; a vector becomes one column.

    Raises:
        InputError: If the number of rows or of axes is wrong.

    Example:
        >>> check_rows([1, 2], 2, where="x").shape
        (2, 1)
    """
    array = np.asarray(x, dtype=np.float64)
    if array.ndim not in (1, 2) or array.shape[0] != num_nodes:
        raise InputError(
            f"{where}: must have one row per node, {num_nodes} rows (got shape {array.shape})"
        )
    return array[:, None] if array.ndim == 1 else array
