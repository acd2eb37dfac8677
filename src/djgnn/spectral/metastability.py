"""Communities as metastable states: spectral gap and escape times."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from djgnn.errors import InputError
from djgnn.spectral.labelings import absorbing_walk
from djgnn.spectral.laplacians import (
    Adjacency,
    Floats,
    check_nodes,
    components,
    degrees,
    normalized_adjacency,
    require_undirected,
)
from djgnn.spectral.solvers import smallest_eigenpairs, smallest_of_symmetric


@dataclass(frozen=True)
class EscapeTime:
    r"""Mean number of steps to escape from a set A, started from its stationary distribution.

    Two events are meant by it: the first step outside (``exit``), and the arrival at a node outside
    that has no edge back (``settled``); between them the walk may come straight back.

    Attributes:
        spectral: :math:`1 / (\lambda_2\, \pi(\bar A))`, from the gap alone: predicts `settled`.
        quasi_stationary: :math:`1 / (1 - \mu_1)`, :math:`\mu_1` the largest eigenvalue of the walk
            that is killed outside A: predicts `exit`.
        conductance: :math:`vol(A) / cut(A, \bar A)`, one over the one-step escape probability: a
            lower bound of `exit`.
        exit: The exact mean time of the first step outside, by a linear solve.
        settled: The exact mean time until settled; NaN if every node outside has an edge back.
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
        The gap. It is the gap to the eigenvalue 1 alone; eigenvalues near -1 (nearly bipartite
        graphs) do not count.

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
    matrix = require_undirected(graph, where="escape time")
    n, degree = matrix.shape[0], degrees(matrix)
    inside = np.unique(check_nodes(nodes, n, where="nodes"))
    if not 0 < inside.size < n:
        raise InputError(f"nodes: a part of the graph, not none or all (got {inside.size} of {n})")
    count = int(components(matrix).max()) + 1
    if count > 1:
        raise InputError(
            "escape time: infinite in a disconnected graph; take `largest_component` first "
            f"(got {count} components)"
        )
    share = float(degree[inside].sum() / degree.sum())
    walk = normalized_adjacency(matrix)[inside][:, inside]
    mu = -smallest_of_symmetric(-walk, 1).values[0]
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
        quasi_stationary=1.0 / (1.0 - float(mu)),
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
