"""Escape probabilities of a random walk, of a pair of nodes and of a set."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from djgnn.spectral.commute import CommuteMethod, commute_times
from djgnn.spectral.laplacians import check_nodes, components, degrees, require_undirected
from djgnn.spectral.neighbours import check_pairs

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from djgnn.spectral.laplacians import Adjacency


def escape_probabilities(
    graph: Adjacency, pairs: ArrayLike, *, method: CommuteMethod = "auto"
) -> NDArray[np.float64]:
    r"""The probability that a walk from i reaches j before it comes back to i.

    .. math:: p_{esc}(i \to j) = \frac{vol}{d_i\, CT(i, j)} = \frac{1}{d_i\, R_{eff}(i, j)}

    (The paper has :math:`1 / CT(i, j)`, which lacks the factor :math:`vol / d_i`.) It is not
    symmetric unless the degrees are equal.

    Args:
        graph: An undirected graph.
        pairs: Pairs (i, j) of different nodes.
        method: How the commute times are found.

    Shapes:
        pairs ``[m, 2]``, out ``[m]``.

    Returns:
        The probabilities; 0 between components, NaN for i = j and for isolated i.

    Raises:
        InputError: As :func:`commute_times`.

    Example:
        >>> path = [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
        >>> escape_probabilities(path, [[0, 2], [1, 2]]).round(9).tolist()
        [0.5, 0.5]

    Reference:
        Doyle and Snell, Random walks and electric networks, 1984, Section 1.3.4.
    """
    matrix = require_undirected(graph, where="escape probability")
    index = check_pairs(pairs, matrix.shape[0])
    times = commute_times(matrix, index, method=method)
    degree = degrees(matrix)
    label = components(matrix)
    volume = np.bincount(label, weights=degree)[label]
    start = index[:, 0]
    out = np.full(times.shape, np.nan)
    usable = (times > 0) & (degree[start] > 0)
    np.divide(volume[start], degree[start] * times, out=out, where=usable)
    return out


def set_escape_probability(graph: Adjacency, nodes: ArrayLike) -> float:
    r"""One-step probability to leave a set A from its stationary distribution (Meila, Shi).

    .. math:: p_{esc}(A) = \frac{cut(A, \bar A)}{vol(A)}

    Args:
        graph: An undirected graph.
        nodes: The set A.

    Returns:
        The probability; NaN if no edge touches A.

    Raises:
        InputError: If the graph is directed or an id is not a node.

    Example:
        >>> set_escape_probability([[0, 1, 0], [1, 0, 1], [0, 1, 0]], [0, 1])
        0.3333333333333333
    """
    matrix = require_undirected(graph, where="escape probability")
    inside = np.zeros(matrix.shape[0])
    inside[check_nodes(nodes, matrix.shape[0], where="nodes")] = 1.0
    volume = float(inside @ degrees(matrix))
    cut = float(inside @ (matrix @ (1.0 - inside)))
    return cut / volume if volume > 0 else float("nan")
