"""Communities: structural heterophily R, and sets as metastable states of the walk."""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from djgnn.errors import InputError
from djgnn.spectral.heterophily import known_labels
from djgnn.spectral.laplacians import (
    Adjacency,
    Floats,
    Nodes,
    check_nodes,
    components,
    degrees,
    laplacian_matrix,
    largest_component,
    normalized_adjacency,
    require_undirected,
    symmetrize,
)
from djgnn.spectral.solvers import smallest_eigenpairs, smallest_of_symmetric
from djgnn.spectral.systems import WORK

KMEANS_STEPS = 100
"""Of a run of k-means, to judge what it costs."""


@dataclass(frozen=True, eq=False)
class StructuralHeterophily:
    """R over several k-means seeds.

    Attributes:
        median: Median of `values`; the number to quote.
        values: One R per k-means seed, ``[num_seeds]``.
        low: The smallest of them.
        high: The largest of them.
        component_share: Share of all nodes that lie in the largest component and have a known
            class: the nodes that the result covers.
        residual: Of the eigenvectors, where the limit of work was reached before they converged.

    Example:
        >>> block = np.ones((5, 5)) - np.eye(5)
        >>> a = np.kron(np.eye(2), block); a[0, 5] = a[5, 0] = 1
        >>> found = structural_heterophily(a, [0] * 5 + [1] * 5)
        >>> found.low, found.high, found.component_share
        (1.0, 1.0, 1.0)
    """

    median: float
    values: Floats = field(repr=False)
    low: float
    high: float
    component_share: float
    residual: float = 0.0


def structural_heterophily(
    graph: Adjacency,
    y: ArrayLike | None = None,
    *,
    coding: Literal["one_hot", "integer"] = "one_hot",
    random_state: int = 0,
    num_seeds: int = 10,
) -> StructuralHeterophily:
    r"""The loss of harmonicity of the labels against an unsupervised grouping (Section 2, Eq. 1).

    .. math:: R = \frac{\mathrm{Tr}(Y^T L Y)}{\mathrm{Tr}(C^T L C)}

    :math:`Y` codes the classes, :math:`C` the clusters that k-means finds in the eigenvectors of
    the c smallest eigenvalues of the normalised Laplacian L, c the number of classes; all on the
    largest component of the symmetrised graph (union of the edge directions, self loops kept). For
    classes that follow the structure R is near 1; it can be below 1.

    Args:
        graph: The graph, or its adjacency.
        y: Class of each node, negative = unknown; the labels of the graph if left out. Clusters
            are found with all nodes; both energies are taken on the subgraph of the known ones.
        coding: ``one_hot``, or ``integer`` (0..c-1, one column) as in the published notebook, where
            R depends on the arbitrary numbers that k-means gives to the clusters.
        random_state: Seed of the eigensolver, and of the first of the k-means runs.
        num_seeds: Number of k-means runs, seeds ``random_state, random_state + 1, ...``, one
            k-means++ start each; where n c^2 is large, the centres are found on a random part of
            the nodes.

    Shapes:
        y ``[n]``.

    Returns:
        Median and spread over the seeds. R is infinite where the clusters cut no edge.

    Raises:
        InputError: If labels are missing, or fewer than two classes are in the largest component.

    Example:
        >>> block = np.ones((5, 5)) - np.eye(5)
        >>> a = sp.block_diag([block, block], format="lil"); a[0, 5] = a[5, 0] = 1
        >>> structural_heterophily(a, [0] * 5 + [1] * 5).median
        1.0
        >>> structural_heterophily(a, [0, 1] * 5).median > 5
        True

    Reference:
        Begga Hachlafi et al., Diffusion-Jump GNNs, 2023, Eq. 1.
    """
    from sklearn.cluster import KMeans

    if coding not in ("one_hot", "integer"):
        raise InputError(f"coding: choose 'one_hot' or 'integer' (got {coding!r})")
    if num_seeds < 1:
        raise InputError(f"num_seeds: at least one k-means run is needed (got {num_seeds})")
    label = known_labels(graph, y)
    matrix = symmetrize(graph)
    inside = largest_component(matrix)
    matrix, component_label = matrix[inside][:, inside], label[inside]
    known = np.flatnonzero(component_label >= 0)
    classes, codes = np.unique(component_label[known], return_inverse=True)
    if classes.size < 2:
        raise InputError(
            "structural heterophily: needs two known classes in the largest component "
            f"(got {classes.size})"
        )
    pairs = smallest_eigenpairs(matrix, classes.size, random_state=random_state)
    points = pairs.vectors
    each = classes.size**2 * KMEANS_STEPS * num_seeds
    few = min(points.shape[0], max(WORK // each, 10 * classes.size))
    operator = laplacian_matrix(matrix[known][:, known], "normalized")
    of_labels = _energy(operator, component_label[known] if coding == "integer" else codes, coding)
    of_clusters = np.empty(num_seeds)
    for run in range(num_seeds):
        means = KMeans(classes.size, n_init=1, random_state=random_state + run)
        rows = points
        if few < points.shape[0]:
            rng = np.random.default_rng(random_state + run)
            rows = points[rng.choice(points.shape[0], few, replace=False)]
        found = means.fit(rows).predict(points)
        of_clusters[run] = _energy(operator, found[known], coding)
    values = np.full(num_seeds, np.inf)
    np.divide(of_labels, of_clusters, out=values, where=of_clusters > 0)
    return StructuralHeterophily(
        median=float(np.median(values)),
        values=values,
        low=float(values.min()),
        high=float(values.max()),
        component_share=float(known.size / label.size),
        residual=pairs.residual,
    )


def _energy(operator: sp.csr_array, codes: Nodes, coding: str) -> float:
    """Tr(Y' L Y) without building a dense one-hot matrix."""
    if coding == "integer":
        column = codes.astype(np.float64)
        return float(column @ (operator @ column))
    entries = operator.tocoo()
    return float(entries.data[codes[entries.row] == codes[entries.col]].sum())


@dataclass(frozen=True)
class EscapeTime:
    r"""Mean number of steps to escape from a set A, started from its stationary distribution.

    Attributes:
        spectral: :math:`1 / (\lambda_2\, \pi(\bar A))`, from the gap alone: predicts `settled`.
        quasi_stationary: :math:`1 / (1 - \mu_1)`, :math:`\mu_1` the largest eigenvalue of the walk
            that is killed outside A: predicts `exit`.
        conductance: :math:`vol(A) / cut(A, \bar A)`: a lower bound of `exit`.
        exit: The exact mean time of the first step outside, by a linear solve.
        settled: The exact mean time of the first arrival at a node outside that has no edge back;
            NaN if there is none.

    Example:
        >>> block = np.ones((9, 9)) - np.eye(9)
        >>> a = np.kron(np.eye(2), block); a[0, 9] = a[9, 0] = 1
        >>> time = escape_time(a, np.arange(9))
        >>> time.conductance, time.conductance <= time.exit
        (73.0, True)
    """

    spectral: float
    quasi_stationary: float
    conductance: float
    exit: float
    settled: float


def spectral_gap(graph: Adjacency) -> float:
    r"""The gap :math:`1 - \gamma_2 = \lambda_2` of the walk; 0 if the graph is disconnected.

    Args:
        graph: An undirected graph.

    Returns:
        The gap to the eigenvalue 1; eigenvalues near -1 (nearly bipartite graphs) do not count.

    Raises:
        InputError: If the graph is directed or has one node.

    Example:
        >>> spectral_gap([[0, 1, 1], [1, 0, 1], [1, 1, 0]])
        1.5
    """
    matrix = require_undirected(graph, where="spectral gap")
    if matrix.shape[0] < 2:
        raise InputError("spectral gap: needs two nodes or more (got 1)")
    if components(matrix).max() > 0:
        return 0.0
    return round(float(smallest_eigenpairs(matrix, 2).values[1]), 15)


def escape_time(graph: Adjacency, nodes: ArrayLike) -> EscapeTime:
    r"""Predict how long a walk stays in a set (Section 2 and Appendix A).

    .. math:: T_A \approx \frac{1}{\lambda_2\, \pi(\bar A)}

    if the walk mixes inside both sides long before it leaves.

    Args:
        graph: A connected undirected graph.
        nodes: The set A.

    Returns:
        Predictions and the exact times.

    Raises:
        InputError: If the graph is directed or disconnected, or A is empty or everything.

    Example:
        >>> block = np.ones((20, 20)) - np.eye(20)
        >>> a = np.kron(np.eye(2), block); a[0, 20] = a[20, 0] = 1
        >>> time = escape_time(a, np.arange(20))
        >>> round(time.conductance), round(time.settled / time.spectral, 1)
        (381, 1.0)

    Reference:
        Meila and Shi, A random walks view of spectral segmentation, 2001; Nadler and Galun, 2006.
    """
    from djgnn.spectral.labelings import absorbing_walk

    matrix = require_undirected(graph, where="escape time")
    n, degree = matrix.shape[0], degrees(matrix)
    inside = np.unique(check_nodes(nodes, n, where="nodes"))
    if not 0 < inside.size < n:
        raise InputError(f"nodes: a part of the graph, not none or all (got {inside.size} of {n})")
    if (last := int(components(matrix).max())) > 0:
        raise InputError(
            "escape time: infinite in a disconnected graph; take `largest_component` first "
            f"(got {last + 1} components)"
        )
    share = float(degree[inside].sum() / degree.sum())
    walk = normalized_adjacency(matrix)[inside][:, inside]
    mu = -float(smallest_of_symmetric(-walk, 1).values[0])
    outside = np.setdiff1d(np.arange(n), inside)
    back: Floats = matrix[outside][:, inside].sum(axis=1)
    times = []
    for goal in (outside, outside[back == 0]):
        # The goal is lumped into one absorbing node.
        rest = np.setdiff1d(np.arange(n), goal)
        exits = np.asarray(matrix[rest][:, goal].sum(axis=1)).reshape(-1, 1)
        lumped = sp.block_array([[matrix[rest][:, rest], exits], [exits.T, None]], format="csr")
        steps = absorbing_walk(lumped, [rest.size]).expected_steps[np.searchsorted(rest, inside)]
        mean = float(degree[inside] @ steps / degree[inside].sum())
        times.append(mean if goal.size else float("nan"))
    return EscapeTime(
        spectral=1.0 / (spectral_gap(matrix) * (1.0 - share)),
        quasi_stationary=1.0 / (1.0 - mu),
        conductance=1.0 / set_escape_probability(matrix, inside),
        exit=times[0],
        settled=times[1],
    )


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
