"""The smallest eigenpairs of a Laplacian, deterministic for a given `random_state`."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

from djgnn.errors import DisconnectedWarning, InputError
from djgnn.spectral.eigensolvers import EigenMethod, EigenPairs, oriented, smallest_of_symmetric
from djgnn.spectral.laplacians import (
    LaplacianKind,
    degrees,
    laplacian_matrix,
    largest_component,
    require_undirected,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from djgnn.spectral.laplacians import Adjacency


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

    The random-walk Laplacian has the eigenvalues of the normalised one and the right eigenvectors
    :math:`\psi_r = D^{-1/2} \phi_r`; :math:`1 - \lambda_r` are the eigenvalues of :math:`P`.

    Args:
        adjacency: An undirected graph, connected or not.
        num: How many pairs.
        laplacian: Which Laplacian.
        random_state: Seed of the starting vector of the iterative methods.
        method: ``dense`` is the plain oracle; ``lanczos`` needs matrix products only; ``lobpcg``
            divides by the diagonal, for very uneven degrees; ``shift_invert`` factorises the
            matrix and finds tiny eigenvalues fast; ``auto`` takes the dense one for small graphs,
            else LOBPCG or Lanczos, and where that stalls (long, thin graphs) shift-invert.

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
    n = matrix.shape[0]
    if not 1 <= num <= n:
        raise InputError(f"num: must be between 1 and the number of nodes, {n} (got {num})")
    kind: LaplacianKind = "normalized" if laplacian == "random_walk" else laplacian
    pairs = smallest_of_symmetric(
        laplacian_matrix(matrix, kind), num, random_state=random_state, method=method
    )
    if laplacian != "random_walk":
        return pairs
    root = np.sqrt(degrees(matrix))
    vectors = pairs.vectors / np.where(root > 0, root, 1.0)[:, None]
    return oriented(pairs.values, vectors / np.linalg.norm(vectors, axis=0))


def fiedler_pair(
    adjacency: Adjacency,
    *,
    laplacian: LaplacianKind = "normalized",
    random_state: int = 0,
) -> tuple[float, NDArray[np.float64]]:
    r"""The Fiedler value :math:`\lambda_2` and vector of the largest component.

    .. math:: \phi_2 = \arg\min_{x \ne 0,\; x \perp \phi_1} \frac{x^T \tilde\Delta x}{x^T x}

    For the normalised Laplacian :math:`\phi_1 \propto D^{1/2} 1`, so the orthogonality of the
    paper's Section 2 (to the constant vector) holds for the combinatorial Laplacian only.

    Args:
        adjacency: An undirected graph.
        laplacian: Which Laplacian.
        random_state: Seed of the starting vector.

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
    matrix = require_undirected(adjacency, where="fiedler pair")
    inside = largest_component(matrix)
    if inside.size < 2:
        raise InputError("fiedler pair: needs a component of at least two nodes (got 1)")
    if inside.size < matrix.shape[0]:
        warnings.warn(
            f"fiedler pair: speaks of the largest component only, {inside.size} of "
            f"{matrix.shape[0]} nodes; the others are NaN",
            DisconnectedWarning,
            stacklevel=2,
        )
    pairs = smallest_eigenpairs(
        matrix[inside][:, inside], 2, laplacian=laplacian, random_state=random_state
    )
    vector = np.full(matrix.shape[0], np.nan)
    vector[inside] = pairs.vectors[:, 1]
    return float(pairs.values[1]), vector
