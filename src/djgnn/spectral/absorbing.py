"""Absorbing random walks and the random-walker labelling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from djgnn.errors import InputError
from djgnn.spectral.dirichlet import determined_by
from djgnn.spectral.heterophily import known_labels
from djgnn.spectral.laplacians import (
    as_adjacency,
    check_nodes,
    degrees,
    is_undirected,
    transition_matrix,
)
from djgnn.spectral.linear import SolveMethod, can_reach, solve_sparse

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from djgnn.spectral.laplacians import Adjacency


@dataclass(frozen=True, eq=False)
class AbsorbingWalk:
    """Where a walk is absorbed, and when.

    Attributes:
        probabilities: ``[n, a]``: from node i, the walk ends in the a-th absorbing node. A row sums
            to 1 where absorption is certain, to less where the walk can be lost.
        expected_steps: ``[n]``: mean number of steps until absorption; infinite where it is not
            certain, 0 on the absorbing nodes.
        certain: ``[n]``, bool: absorption is certain.
    """

    probabilities: NDArray[np.float64]
    expected_steps: NDArray[np.float64]
    certain: NDArray[np.bool_]


def absorbing_walk(
    graph: Adjacency, absorbing: ArrayLike, *, method: SolveMethod = "auto"
) -> AbsorbingWalk:
    r"""Absorption probabilities and times of the walk :math:`P = D^{-1} A` (Appendix A).

    .. math:: B = (I - Q)^{-1} R, \qquad t = (I - Q)^{-1} 1

    with :math:`Q` the steps among the other nodes and :math:`R` the steps from them into absorbing
    ones. (The paper writes :math:`(I - P)^{-1} R` with the whole :math:`P`; that matrix is
    singular. Only the block of the transient nodes is meant.) A node without outgoing edges keeps
    the walk for ever.

    Args:
        graph: The graph, directed or not; weights count.
        absorbing: Absorbing nodes, each once.
        method: As in :func:`~djgnn.spectral.linear.solve_sparse`.

    Shapes:
        absorbing ``[a]``.

    Returns:
        Probabilities, mean times and where absorption is certain.

    Raises:
        InputError: If there is no absorbing node, one is repeated or is not a node.

    Example:
        >>> path = np.diag([1.0, 1.0, 1.0], 1)
        >>> walk = absorbing_walk(path + path.T, [0, 3])
        >>> walk.probabilities[1].round(6).tolist(), walk.expected_steps.round(6).tolist()
        ([0.666667, 0.333333], [0.0, 2.0, 2.0, 0.0])

    Reference:
        Doyle and Snell, Random walks and electric networks, 1984.
    """
    matrix = as_adjacency(graph)
    n = matrix.shape[0]
    nodes = _check_absorbing(absorbing, n)
    probabilities = _absorb(matrix, nodes, np.eye(nodes.size), method)
    certain = determined_by(matrix, nodes)
    steps = np.full(n, np.inf)
    steps[nodes] = 0.0
    inner = np.flatnonzero(certain & (steps > 0))
    system, _ = _transient_system(matrix, inner)
    steps[inner] = solve_sparse(
        system,
        degrees(matrix)[inner][:, None],
        method=method,
        symmetric=is_undirected(matrix),
    )[:, 0]
    return AbsorbingWalk(probabilities, steps, certain)


def absorbing_walk_dense(graph: Adjacency, absorbing: ArrayLike) -> NDArray[np.float64]:
    """The plain dense oracle: absorption probabilities as the limit of powers of the chain.

    The transition matrix with absorbing rows replaced by the identity is squared 60 times: 2^60
    steps. For tests and small graphs.

    Example:
        >>> absorbing_walk_dense([[0, 1, 1], [0, 0, 0], [0, 0, 0]], [1]).tolist()
        [[0.5], [1.0], [0.0]]
    """
    chain: NDArray[np.float64] = transition_matrix(graph).toarray()
    nodes = _check_absorbing(absorbing, chain.shape[0])
    chain[nodes] = 0.0
    chain[nodes, nodes] = 1.0
    for _ in range(60):
        chain = chain @ chain
    return chain[:, nodes]


@dataclass(frozen=True, eq=False)
class RandomWalker:
    """The first class that a walker meets.

    Attributes:
        probabilities: ``[n, c]``: the walker from node i first meets a node of class k.
        prediction: ``[n]``: the likeliest class; -1 where no labelled node is in reach.
        certain: ``[n]``, bool: the walker meets a labelled node with probability 1.
    """

    probabilities: NDArray[np.float64]
    prediction: NDArray[np.int64]
    certain: NDArray[np.bool_]


def random_walker(
    graph: Adjacency, y: ArrayLike | None = None, *, method: SolveMethod = "auto"
) -> RandomWalker:
    r"""Label every node by the class that a random walker meets first.

    .. math:: \Delta_{UU} X = A_{UB} Y_B

    the absorption probabilities summed over the nodes of each class. On an undirected graph X is
    the harmonic extension of the one-hot labels.

    Args:
        graph: The graph; weights count.
        y: Class of each node, negative = unknown; the labels of the graph if left out.
        method: As in :func:`~djgnn.spectral.linear.solve_sparse`.

    Shapes:
        y ``[n]``; probabilities ``[n, c]``, c one more than the largest class.

    Returns:
        Probabilities and predictions; nodes that cannot reach a label are marked -1.

    Raises:
        InputError: If no node has a known class.

    Example:
        >>> path = np.diag([1.0, 1.0, 1.0], 1)
        >>> random_walker(path + path.T, [0, -1, -1, 1]).prediction.tolist()
        [0, 0, 1, 1]

    Reference:
        Grady, Random walks for image segmentation, PAMI 2006.
    """
    matrix = as_adjacency(graph)
    label = known_labels(graph, y)
    nodes = np.flatnonzero(label >= 0).astype(np.int64)
    if nodes.size == 0:
        raise InputError("y: the walker needs at least one node of known class (got none)")
    one_hot = np.eye(int(label.max()) + 1)[label[nodes]]
    probabilities = _absorb(matrix, nodes, one_hot, method)
    prediction = probabilities.argmax(axis=1).astype(np.int64)
    prediction[~can_reach(matrix, nodes)] = -1
    return RandomWalker(probabilities, prediction, determined_by(matrix, nodes))


def _absorb(
    matrix: sp.csr_array,
    nodes: NDArray[np.int64],
    weights: NDArray[np.float64],
    method: SolveMethod,
) -> NDArray[np.float64]:
    """(I - Q)^-1 R W on the nodes that can be absorbed, W on the absorbing ones, 0 elsewhere."""
    reach = can_reach(matrix, nodes)
    reach[nodes] = False
    inner = np.flatnonzero(reach)
    system, rows = _transient_system(matrix, inner)
    out = np.zeros((matrix.shape[0], weights.shape[1]))
    out[nodes] = weights
    out[inner] = solve_sparse(
        system, rows[:, nodes] @ weights, method=method, symmetric=is_undirected(matrix)
    )
    return out


def _transient_system(
    matrix: sp.csr_array, inner: NDArray[np.int64]
) -> tuple[sp.csr_array, sp.csr_array]:
    """D - A on the inner nodes, which is D (I - Q) and symmetric for an undirected graph."""
    rows = matrix[inner]
    system = sp.diags_array(degrees(matrix)[inner]) - rows[:, inner]
    return sp.csr_array(system), rows


def _check_absorbing(absorbing: ArrayLike, n: int) -> NDArray[np.int64]:
    nodes = check_nodes(np.atleast_1d(np.asarray(absorbing)), n, where="absorbing")
    if nodes.size == 0 or np.unique(nodes).size != nodes.size:
        raise InputError(
            f"absorbing: at least one node, every node once (got {nodes.size} ids, "
            f"{np.unique(nodes).size} distinct)"
        )
    return nodes
