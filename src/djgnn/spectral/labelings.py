"""What a few labels say about the other nodes: Dirichlet problem, absorbing walks, propagation."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.sparse.csgraph import breadth_first_order

from djgnn.errors import InputError
from djgnn.spectral.heterophily import known_labels
from djgnn.spectral.laplacians import (
    Adjacency,
    Floats,
    Mask,
    Nodes,
    as_adjacency,
    check_nodes,
    check_rows,
    degrees,
    is_undirected,
    normalized_adjacency,
    transition_matrix,
)
from djgnn.spectral.systems import SparseSolver


def harmonic_extension(graph: Adjacency, border: ArrayLike, border_values: ArrayLike) -> Floats:
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

    Shapes:
        border ``[b]``, border_values ``[b]`` or ``[b, c]``; out ``[n]`` or ``[n, c]``.

    Returns:
        The function; NaN where the border does not determine it.

    Raises:
        InputError: If the border is empty, repeats a node or does not match its values.

    Example:
        >>> path = np.diag([1.0, 1.0, 1.0], 1)
        >>> harmonic_extension(path + path.T, [0, 3], [0.0, 3.0]).round(9).tolist()
        [0.0, 1.0, 2.0, 3.0]

    Reference:
        Doyle and Snell, Random walks and electric networks, 1984; Zhu et al., ICML 2003.
    """
    matrix = as_adjacency(graph)
    nodes = check_nodes(border, matrix.shape[0], where="border", distinct=True)
    known = check_rows(border_values, nodes.size, where="border_values")
    if not np.isfinite(known).all():
        raise InputError("border_values: must be finite; leave unknown nodes out (got NaN or inf)")
    determined = _certain(matrix, nodes)
    values = _absorb(matrix, nodes, known, determined)
    values[~determined] = np.nan
    return values[:, 0] if np.ndim(border_values) == 1 else values


@dataclass(frozen=True, eq=False)
class AbsorbingWalk:
    """Where a walk is absorbed, and when.

    Attributes:
        probabilities: ``[n, a]``: from node i, the walk ends in the a-th absorbing node. A row sums
            to 1 where absorption is certain, to less where the walk can be lost.
        expected_steps: ``[n]``: mean number of steps until absorption; infinite where it is not
            certain, 0 on the absorbing nodes.
        certain: ``[n]``, bool: absorption is certain.

    Example:
        >>> path = np.diag([1.0, 1.0, 1.0], 1)
        >>> absorbing_walk(path + path.T, [0, 3]).certain.tolist()
        [True, True, True, True]
    """

    probabilities: Floats
    expected_steps: Floats
    certain: Mask


def absorbing_walk(graph: Adjacency, absorbing: ArrayLike) -> AbsorbingWalk:
    r"""Absorption probabilities and times of the walk :math:`P = D^{-1} A` (Appendix A).

    .. math:: B = (I - Q)^{-1} R, \qquad t = (I - Q)^{-1} 1

    with :math:`Q` the steps among the other nodes and :math:`R` the steps from them into absorbing
    ones. A walk never leaves a node without outgoing edges.

    Args:
        graph: The graph, directed or not; weights count.
        absorbing: Absorbing nodes, each once.

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
    nodes = check_nodes(absorbing, matrix.shape[0], where="absorbing", distinct=True)
    reached = _can_reach(matrix, nodes)
    certain = _certain(matrix, nodes)
    probabilities = _absorb(matrix, nodes, np.eye(nodes.size), reached)
    steps = _absorb(matrix, nodes, np.zeros((nodes.size, 1)), certain, source=degrees(matrix))[:, 0]
    return AbsorbingWalk(probabilities, np.where(certain, steps, np.inf), certain)


@dataclass(frozen=True, eq=False)
class PropagatedLabels:
    """What the known labels say about all nodes.

    Attributes:
        scores: ``[n, c]``: one score per class; a row of zeros where no label arrives.
        prediction: ``[n]``: the class with the largest score; -1 where no label arrives.
        reached: ``[n]``, bool: some label arrives.

    Example:
        >>> labels = propagate_labels([[0, 1, 0], [1, 0, 0], [0, 0, 0]], [0, -1, -1])
        >>> labels.prediction.tolist(), labels.reached.tolist()
        ([0, 0, -1], [True, True, False])
    """

    scores: Floats
    prediction: Nodes
    reached: Mask


def random_walker(graph: Adjacency, y: ArrayLike | None = None) -> PropagatedLabels:
    r"""Label every node by the class that a random walker meets first.

    .. math:: \Delta_{UU} X = A_{UB} Y_B

    the absorption probabilities summed over the nodes of each class. On an undirected graph X is
    the harmonic extension of the one-hot labels.

    Args:
        graph: The graph; weights count.
        y: Class of each node, negative = unknown; the labels of the graph if left out.

    Shapes:
        y ``[n]``; scores ``[n, c]``, c one more than the largest class.

    Returns:
        The probabilities X as scores; a row sums to less than 1 where the walk can be lost.

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
    one_hot, nodes = _one_hot(graph, y)
    reached = _can_reach(matrix, nodes)
    scores = _absorb(matrix, nodes, one_hot[nodes], reached)
    return PropagatedLabels(scores, np.where(reached, scores.argmax(axis=1), -1), reached)


def _one_hot(graph: Adjacency, y: ArrayLike | None) -> tuple[Floats, Nodes]:
    """One row per node, zero where its class is unknown; and the nodes of known class."""
    label = known_labels(graph, y)
    nodes = np.flatnonzero(label >= 0)
    if nodes.size == 0:
        raise InputError("y: at least one node must have a known class (got none)")
    one_hot = np.zeros((label.size, int(label.max()) + 1))
    one_hot[nodes, label[nodes]] = 1.0
    return one_hot, nodes


def _can_reach(adjacency: sp.csr_array, targets: Nodes, *, stop: Mask | None = None) -> Mask:
    """The nodes from which a walk along the edges can reach one of `targets`; these included.

    A walk does not leave the nodes in `stop`.
    """
    n = adjacency.shape[0]
    edges = adjacency.tocoo()
    keep = slice(None) if stop is None else ~stop[edges.row]
    source = np.concatenate([edges.col[keep], np.full(targets.size, n)])
    target = np.concatenate([edges.row[keep], targets])
    backwards = sp.csr_array((np.ones(source.size), (source, target)), shape=(n + 1, n + 1))
    order = breadth_first_order(backwards, n, directed=True, return_predecessors=False)
    return np.isin(np.arange(n), order)


def _certain(matrix: sp.csr_array, nodes: Nodes) -> Mask:
    """The nodes from which every walk meets one of `nodes` sooner or later."""
    stop = np.isin(np.arange(matrix.shape[0]), nodes)
    return ~_can_reach(matrix, np.flatnonzero(~_can_reach(matrix, nodes)), stop=stop)


def _absorb(
    matrix: sp.csr_array, nodes: Nodes, values: Floats, where: Mask, source: Floats | None = None
) -> Floats:
    """Solve (D - A)_UU X = A_UB V + s for U, the nodes in `where` but not in B; 0 elsewhere."""
    inner = np.setdiff1d(np.flatnonzero(where), nodes)
    rows = matrix[inner]
    system = sp.csr_array(sp.diags_array(degrees(matrix)[inner]) - rows[:, inner])
    right = rows[:, nodes] @ values + (0.0 if source is None else source[inner][:, None])
    out = np.zeros((matrix.shape[0], values.shape[1]))
    out[nodes] = values
    out[inner] = SparseSolver(system, symmetric=is_undirected(matrix))(right)
    return out


def propagate_labels(
    graph: Adjacency,
    y: ArrayLike | None = None,
    *,
    alpha: float = 0.9,
    operator: Literal["random_walk", "symmetric"] = "random_walk",
    num_iterations: int | None = None,
) -> PropagatedLabels:
    r"""Spread the known labels over the edges (Theorem 2).

    .. math::
        F = (1 - \alpha) (I - \alpha M)^{-1} Y, \qquad
        F(t+1) = \alpha M F(t) + (1 - \alpha) Y, \quad F(0) = Y

    What the closed form minimises is on the page docs/theory/labelings.md.

    Args:
        graph: The graph; weights count.
        y: Class of each node, negative = unknown; the labels of the graph if left out.
        alpha: How much comes from the neighbours, in (0, 1).
        operator: The matrix M: :math:`P = D^{-1} A` or :math:`D^{-1/2} A D^{-1/2}`.
        num_iterations: Run this many steps instead of the closed form.

    Shapes:
        y ``[n]``; scores ``[n, c]``, c one more than the largest class.

    Returns:
        Scores and predictions; rows of unlabelled nodes sum to less than 1, they are not
        probabilities.

    Raises:
        InputError: If alpha is out of range or no node is labelled.

    Example:
        >>> path = np.diag([1.0, 1.0, 1.0], 1)
        >>> propagate_labels(path + path.T, [0, -1, -1, 1], alpha=0.8).prediction.tolist()
        [0, 0, 1, 1]

    Reference:
        Zhou et al., Learning with local and global consistency, NeurIPS 2003.
    """
    if not 0 < alpha < 1:
        raise InputError(f"alpha: must lie strictly between 0 and 1 (got {alpha})")
    if operator not in ("random_walk", "symmetric"):
        raise InputError(f"operator: choose 'random_walk' or 'symmetric' (got {operator!r})")
    if num_iterations is not None and num_iterations < 0:
        raise InputError(f"num_iterations: cannot be negative (got {num_iterations})")
    matrix = as_adjacency(graph)
    one_hot, labelled = _one_hot(graph, y)
    walk = operator == "random_walk"
    step = transition_matrix(matrix) if walk else normalized_adjacency(matrix)
    if num_iterations is None:
        # Rows times their degree make I - alpha P symmetric on an undirected graph.
        degree = degrees(matrix)
        scale = np.where(degree > 0, degree, 1.0) if walk else np.ones(degree.size)
        system = sp.csr_array(sp.diags_array(scale) @ (sp.eye_array(scale.size) - alpha * step))
        right = (1 - alpha) * scale[:, None] * one_hot
        scores = SparseSolver(system, symmetric=is_undirected(matrix))(right)
    else:
        scores = one_hot.copy()
        for _ in range(num_iterations):
            scores = alpha * (step @ scores) + (1 - alpha) * one_hot
    reached = _can_reach(step, labelled)
    scores[~reached] = 0.0
    return PropagatedLabels(scores, np.where(reached, scores.argmax(axis=1), -1), reached)
