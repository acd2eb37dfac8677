"""Commute times, effective resistances and escape probabilities; neighbours in an embedding."""

import math
from typing import Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.stats import pearsonr, rankdata, spearmanr

from djgnn.errors import InputError
from djgnn.spectral.laplacians import (
    Adjacency,
    Floats,
    Nodes,
    check_nodes,
    components,
    connected_part,
    degrees,
    laplacian_matrix,
    require_undirected,
)
from djgnn.spectral.solvers import smallest_eigenpairs
from djgnn.spectral.systems import BLOCK_ENTRIES, SparseSolver

AT_ONCE, MOST_WORK = 16, 3 * 10**9
"""Nodes whose potentials are solved for together, and multiplications for all of them."""
SAME = 1e-6
"""Commute times that differ by a smaller part than this are equal: they are solved to 1e-8."""


def commute_times(graph: Adjacency, pairs: ArrayLike) -> Floats:
    r"""Mean number of steps of a walk from i to j and back.

    .. math::
        CT(i, j) = vol \cdot (e_i - e_j)^T \Delta^+ (e_i - e_j)
                 = vol \sum_{r \ge 2} \frac{1}{\lambda_r}
                   \Bigl(\frac{\phi_r(i)}{\sqrt{d_i}} - \frac{\phi_r(j)}{\sqrt{d_j}}\Bigr)^2

    :math:`\lambda_r, \phi_r` of the normalised Laplacian, vol the sum of the degrees of the
    component. The quadratic form alone is the effective resistance, here by one sparse solve per
    pair. For many pairs take the squared distances in :func:`commute_time_embedding`.

    Args:
        graph: An undirected graph; weights count.
        pairs: Pairs of nodes.

    Shapes:
        pairs ``[m, 2]``, out ``[m]``.

    Returns:
        Commute times; infinite between components.

    Raises:
        InputError: If the graph is directed, or a pair is not one of nodes.

    Example:
        >>> path = [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
        >>> commute_times(path, [[0, 1], [0, 2], [1, 1]]).round(6).tolist()
        [4.0, 8.0, 0.0]

    Reference:
        Chandra et al., The electrical resistance of a graph, STOC 1989.
    """
    matrix = require_undirected(graph, where="commute time")
    index = check_pairs(pairs, matrix.shape[0])
    label = components(matrix)
    volume = np.bincount(label, weights=degrees(matrix))[label]
    first, second = index.T
    out = np.where(first == second, 0.0, np.inf)
    joined = np.flatnonzero((label[first] == label[second]) & (first != second))
    potentials = Potentials(matrix)
    block = max(1, BLOCK_ENTRIES // max(1, label.size))
    for begin in range(0, joined.size, block):
        chosen = joined[begin : begin + block]
        current = pair_differences(index[chosen], label.size)
        out[chosen] = volume[first[chosen]] * (current * potentials(current)).sum(axis=0)
    return out


class Potentials:
    """Potentials of injected currents, 0 at the node of largest degree of each component.

    Args:
        matrix: An undirected graph.
        tol: Relative residual where the system is not factorised.
    """

    def __init__(self, matrix: sp.csr_array, tol: float = 1e-12) -> None:
        label = components(matrix)
        order = np.lexsort((-degrees(matrix), label))
        grounded = order[np.unique(label[order], return_index=True)[1]]
        self.rest = np.delete(np.arange(label.size), grounded)
        system = laplacian_matrix(matrix)[self.rest][:, self.rest]
        self.solver = SparseSolver(system, symmetric=True, tol=tol)

    def __call__(self, current: Floats) -> Floats:
        """Solve for one current per column."""
        potential = np.zeros_like(current)
        potential[self.rest] = self.solver(current[self.rest])
        return potential


def commute_times_among(graph: sp.csr_array, nodes: Nodes) -> Floats:
    r"""Commute times between all pairs of some nodes of a connected graph, by one solve per node.

    .. math:: CT(i, j) = vol (x_i(i) + x_j(j) - 2 x_i(j)), \qquad x_i = \Delta^+ e_i

    up to the constants that cancel, to a relative residual of 1e-6 where the system is not
    factorised. Nodes are taken in turn until the solves have taken :data:`MOST_WORK`
    multiplications.

    Args:
        graph: An undirected, connected graph.
        nodes: Distinct nodes.

    Shapes:
        nodes ``[m]``, out ``[k, k]`` for the first k <= m of them.
    """
    potentials, n = Potentials(graph, tol=1e-6), graph.shape[0]
    columns: list[Floats] = []
    for begin in range(0, nodes.size, AT_ONCE):
        if potentials.solver.work > MOST_WORK:
            break
        current = np.zeros((n, min(AT_ONCE, nodes.size - begin)))
        current[nodes[begin : begin + AT_ONCE], np.arange(current.shape[1])] = 1.0
        columns.append(potentials(current)[nodes])
    green = np.concatenate(columns, axis=1)
    green = green[: green.shape[1]]
    own = np.diag(green)
    return np.asarray(degrees(graph).sum() * (own[:, None] + own - green - green.T))


def commute_time_embedding(
    graph: Adjacency,
    *,
    method: Literal["spectral", "sketch"] = "spectral",
    num: int = 64,
    random_state: int = 0,
) -> Floats:
    r"""Rows with :math:`\|Z_i - Z_j\|^2 \approx CT(i, j)`, for the largest component.

    Args:
        graph: An undirected graph.
        method: ``spectral`` keeps the first `num` terms of the sum, a lower bound, exact with
            ``num = n - 1``; ``sketch`` projects on `num` random directions, relative error about
            :math:`\sqrt{2 / num}`.
        num: Columns.
        random_state: Seed of the directions.

    Shapes:
        out ``[n, num]``.

    Returns:
        The embedding; nodes outside the largest component are NaN, with a warning.

    Raises:
        InputError: If the graph is directed, has no edge, or the method is unknown.

    Example:
        >>> z = commute_time_embedding([[0, 1, 0], [1, 0, 1], [0, 1, 0]], num=2)
        >>> round(float(((z[0] - z[2]) ** 2).sum()), 6)
        8.0

    Reference:
        Spielman and Srivastava, Graph sparsification by effective resistances, STOC 2008.
    """
    inside, part = connected_part(graph, where="commute time")
    degree = degrees(part)
    if method == "spectral":
        pairs = smallest_eigenpairs(part, min(num + 1, degree.size))
        scale = np.sqrt(degree.sum() / degree)[:, None]
        points = scale * pairs.vectors[:, 1:] / np.sqrt(pairs.values[1:])
    elif method == "sketch":
        # Random signs on the edges: projections of sqrt(vol) W^1/2 B Delta^+.
        upper = sp.triu(part, k=1, format="coo")
        rng, n = np.random.default_rng(random_state), degree.size
        flows = (np.sqrt(upper.data) * (2 * rng.integers(0, 2, upper.nnz) - 1) for _ in range(num))
        current = np.stack(
            [np.bincount(upper.row, f, n) - np.bincount(upper.col, f, n) for f in flows], axis=1
        )
        points = Potentials(part, tol=1e-6)(current) * np.sqrt(degree.sum() / num)
    else:
        raise InputError(f"method: choose 'spectral' or 'sketch' (got {method!r})")
    out = np.full((inside.size, points.shape[1]), np.nan)
    out[inside] = points
    return out


def distance_correlations(learned: Floats, exact: Floats) -> tuple[float, float, float]:
    """Of two matrices of distances: rank correlation, that of the squares, error of the first.

    The error is that of the jackknife over nodes, since pairs with a node in common are not
    independent.
    """
    size = len(exact)
    first, second = np.triu_indices(size, k=1)
    one, two = learned[first, second], exact[first, second]
    if one.size < 2 or np.ptp(one) == 0 or np.ptp(two) <= SAME * two.max():
        return (math.nan,) * 3
    rank, plain = float(spearmanr(one, two)[0]), float(pearsonr(one**2, two)[0])
    if size < 4:
        return rank, plain, math.nan
    without = []
    for node in range(size):
        rest = (first != node) & (second != node)
        without.append(np.corrcoef(rankdata(one[rest]), rankdata(two[rest]))[0, 1])
    return rank, plain, float(np.sqrt((size - 1) * np.var(without)))


def escape_probabilities(graph: Adjacency, pairs: ArrayLike) -> Floats:
    r"""The probability that a walk from i reaches j before it comes back to i.

    .. math:: p_{esc}(i \to j) = \frac{vol}{d_i\, CT(i, j)} = \frac{1}{d_i\, R_{eff}(i, j)}

    which is not symmetric unless the degrees are equal.

    Args:
        graph: An undirected graph.
        pairs: Pairs (i, j) of different nodes.

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
    times = commute_times(matrix, pairs)
    degree = degrees(matrix)
    label = components(matrix)
    volume = np.bincount(label, weights=degree)[label]
    start = np.asarray(pairs)[:, 0]
    usable = (times > 0) & (degree[start] > 0)
    return np.asarray(volume[start] / np.where(usable, degree[start] * times, np.nan))


def check_pairs(pairs: ArrayLike, num_nodes: int) -> Nodes:
    """Pairs of nodes as int64 ``[m, 2]``.

    Raises:
        InputError: If the shape is wrong or an id is not a node.
    """
    array = np.asarray(pairs)
    if array.ndim != 2 or array.shape[1] != 2:
        raise InputError(f"pairs: must have shape [m, 2], one pair per row (got {array.shape})")
    return check_nodes(array, num_nodes, where="pairs")


def pair_differences(pairs: Nodes, num_nodes: int) -> Floats:
    """One column :math:`e_i - e_j` per pair (i, j), ``[n, m]``."""
    column = np.arange(pairs.shape[0])
    out = np.zeros((num_nodes, column.size))
    out[pairs[:, 0], column] += 1.0
    out[pairs[:, 1], column] -= 1.0
    return out


def embedding_distances(embedding: Floats, pairs: ArrayLike) -> Floats:
    r"""Euclidean distances :math:`\|Z_i - Z_j\|` of given pairs.

    Args:
        embedding: One row per node; a row of NaN marks a node without a place.
        pairs: Pairs of nodes.

    Shapes:
        embedding ``[n, q]``, pairs ``[m, 2]``, out ``[m]``.

    Returns:
        The distances, NaN where an end has no place.

    Raises:
        InputError: If the pairs are not pairs of nodes.

    Example:
        >>> embedding_distances(np.array([[0.0, 0.0], [3.0, 4.0]]), [[0, 1]]).tolist()
        [5.0]
    """
    index = check_pairs(pairs, embedding.shape[0])
    out = np.empty(index.shape[0])
    block = max(1, BLOCK_ENTRIES // max(1, embedding.shape[1]))
    for begin in range(0, index.shape[0], block):
        i, j = index[begin : begin + block].T
        out[begin : begin + block] = np.linalg.norm(embedding[i] - embedding[j], axis=1)
    return out


def nearest_nodes(embedding: Floats, k: int) -> tuple[Nodes, Floats]:
    r"""The k nearest other nodes of every node in an embedding.

    Args:
        embedding: One row per node; a row of NaN marks a node without a place.
        k: How many.

    Shapes:
        embedding ``[n, q]``; indices ``[n, k]``, distances ``[n, k]``.

    Returns:
        ``(indices, distances)``, nearest first; -1 and NaN for nodes without a place.

    Raises:
        InputError: If there are not k others.

    Example:
        >>> indices, distances = nearest_nodes(np.array([[0.0], [1.0], [3.0]]), 1)
        >>> indices.ravel().tolist(), distances.ravel().tolist()
        ([1, 0, 1], [1.0, 1.0, 2.0])
    """
    from sklearn.neighbors import NearestNeighbors

    placed = np.flatnonzero(~np.isnan(embedding).any(axis=1))
    if not 1 <= k < placed.size:
        raise InputError(
            f"k: there are {placed.size - 1} other nodes with a place, ask for 1 to that (got {k})"
        )
    search = NearestNeighbors(n_neighbors=k).fit(embedding[placed])
    found = search.kneighbors(return_distance=False)
    indices = np.full((embedding.shape[0], k), -1, dtype=np.int64)
    distances = np.full(indices.shape, np.nan)
    indices[placed] = placed[found]
    pairs = np.stack([np.repeat(placed, k), indices[placed].ravel()], axis=1)
    distances[placed] = embedding_distances(embedding, pairs).reshape(-1, k)
    return indices, distances
