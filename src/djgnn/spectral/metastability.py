"""Communities as metastable states: the spectral gap and the time it takes to escape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import eigsh

from djgnn.errors import InputError
from djgnn.spectral.absorbing import absorbing_walk
from djgnn.spectral.eigen import smallest_eigenpairs
from djgnn.spectral.eigensolvers import DENSE_BELOW
from djgnn.spectral.escape import set_escape_probability
from djgnn.spectral.laplacians import (
    check_nodes,
    components,
    degrees,
    normalized_adjacency,
    require_undirected,
)
from djgnn.spectral.walks import walk_until

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from djgnn.spectral.laplacians import Adjacency


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
        inverse_gap: :math:`1 / \lambda_2`, the paper's figure: the relaxation time. For two equal
            communities it is half of the escape time.
        conductance_of_cut: :math:`cut / \min(vol(A), vol(\bar A))`.
    """

    spectral: float
    quasi_stationary: float
    conductance: float
    exit: float
    settled: float
    inverse_gap: float
    conductance_of_cut: float


def spectral_gap(graph: Adjacency, *, random_state: int = 0) -> float:
    r"""The gap :math:`1 - \gamma_2 = \lambda_2` of the walk; 0 if the graph is disconnected.

    Args:
        graph: An undirected graph.
        random_state: Seed of the eigensolver.

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
    pairs = smallest_eigenpairs(matrix, 2, random_state=random_state)
    return round(float(pairs.values[1]), 15)


def escape_time(graph: Adjacency, nodes: ArrayLike, *, random_state: int = 0) -> EscapeTime:
    r"""Predict how long a walk stays in a set (Section 2 and Appendix A).

    The two slow states A and its complement exchange at rates :math:`k_{A \bar A} \pi(A) =
    k_{\bar A A} \pi(\bar A)` with :math:`k_{A \bar A} + k_{\bar A A} = \lambda_2`; so the escape
    time is :math:`1 / k_{A \bar A} = 1 / (\lambda_2 \pi(\bar A))`. It holds if the walk mixes
    inside both sides long before it leaves. (The paper says it is the inverse of the top
    nontrivial *eigenvalue of P*; the inverse of the gap is meant, and the factor
    :math:`1 / \pi(\bar A)` is missing.) The gap knows only of escapes that last.

    Args:
        graph: A connected undirected graph.
        nodes: The set A.
        random_state: Seed of the eigensolver.

    Returns:
        Predictions, the exact times, and the gap and conductance behind them.

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
    inside = _check_set(nodes, matrix)
    degree = degrees(matrix)
    gap = spectral_gap(matrix, random_state=random_state)
    leave = set_escape_probability(matrix, inside)
    share = float(degree[inside].sum() / degree.sum())
    walk_inside = normalized_adjacency(matrix)[inside][:, inside]
    return EscapeTime(
        spectral=1.0 / (gap * (1.0 - share)),
        quasi_stationary=1.0 / (1.0 - _largest_eigenvalue(walk_inside, random_state)),
        conductance=1.0 / leave,
        exit=_mean_hitting_time(matrix, inside, _goal(matrix, inside, "exit")),
        settled=_mean_hitting_time(matrix, inside, _goal(matrix, inside, "settled")),
        inverse_gap=1.0 / gap,
        conductance_of_cut=leave * share / min(share, 1.0 - share),
    )


def _check_set(nodes: ArrayLike, matrix: sp.csr_array) -> NDArray[np.int64]:
    n = matrix.shape[0]
    inside = np.unique(check_nodes(nodes, n, where="nodes"))
    if not 0 < inside.size < n:
        raise InputError(f"nodes: a part of the graph, not none or all (got {inside.size} of {n})")
    count = int(components(matrix).max()) + 1
    if count > 1:
        raise InputError(
            "escape time: infinite in a disconnected graph; take `largest_component` first "
            f"(got {count} components)"
        )
    return inside


def _largest_eigenvalue(matrix: sp.csr_array, random_state: int) -> float:
    n = matrix.shape[0]
    if n < DENSE_BELOW:
        return float(np.linalg.eigvalsh(matrix.toarray())[-1])
    start = np.random.default_rng(random_state).standard_normal(n)
    return float(eigsh(matrix, k=1, which="LA", v0=start, return_eigenvectors=False)[0])


def _goal(matrix: sp.csr_array, inside: NDArray[np.int64], until: str) -> NDArray[np.int64]:
    """The nodes at which an escape from `inside` is over."""
    outside = np.setdiff1d(np.arange(matrix.shape[0]), inside)
    if until == "exit":
        return outside
    if until != "settled":
        raise InputError(f"until: choose 'exit' or 'settled' (got {until!r})")
    back = np.asarray(matrix[outside][:, inside].sum(axis=1)).ravel()
    return np.asarray(outside[back == 0], dtype=np.int64)


def _mean_hitting_time(
    matrix: sp.csr_array, inside: NDArray[np.int64], goal: NDArray[np.int64]
) -> float:
    """Mean steps from the stationary law on `inside` to `goal`, which is lumped into one node."""
    if goal.size == 0:
        return float("nan")
    rest = np.setdiff1d(np.arange(matrix.shape[0]), goal)
    exits = np.asarray(matrix[rest][:, goal].sum(axis=1)).reshape(-1, 1)
    lumped = sp.block_array([[matrix[rest][:, rest], exits], [exits.T, None]], format="csr")
    steps = absorbing_walk(lumped, [rest.size]).expected_steps[np.searchsorted(rest, inside)]
    weight = degrees(matrix)[inside]
    return float(weight @ steps / weight.sum())


def simulate_escape_times(
    graph: Adjacency,
    nodes: ArrayLike,
    *,
    until: Literal["exit", "settled"] = "exit",
    num_walks: int = 2000,
    max_steps: int = 1_000_000,
    random_state: int = 0,
) -> NDArray[np.float64]:
    """Times at which simulated walks escape from a set, started from its stationary distribution.

    Args:
        graph: A connected undirected graph.
        nodes: The set A.
        until: ``exit``, the first step outside; or ``settled``, the first node outside without an
            edge back.
        num_walks: Number of independent walks.
        max_steps: Give up, with a warning, after so many steps.
        random_state: Seed.

    Shapes:
        out ``[num_walks]``.

    Returns:
        The times; NaN for walks that were given up.

    Raises:
        InputError: As :func:`escape_time`.

    Example:
        >>> simulate_escape_times([[0, 1], [1, 0]], [0], num_walks=3).tolist()
        [1.0, 1.0, 1.0]
    """
    matrix = require_undirected(graph, where="escape time")
    inside = _check_set(nodes, matrix)
    weight = degrees(matrix)[inside]
    rng = np.random.default_rng(random_state)
    start = rng.choice(inside, size=num_walks, p=weight / weight.sum())
    goal = _goal(matrix, inside, until)
    if goal.size == 0:
        raise InputError("until: every node outside has an edge back, use 'exit' (got 'settled')")
    ends, steps = walk_until(
        matrix, start, goal, max_steps=max_steps, random_state=int(rng.integers(2**31))
    )
    return np.where(ends >= 0, steps, np.nan)
