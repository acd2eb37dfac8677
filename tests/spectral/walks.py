"""Simulated random walks: the oracle of exact absorption, escape and hitting times."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from djgnn.spectral.laplacians import Adjacency, Floats, Nodes, degrees


def simulate_escape_times(
    graph: Adjacency, inside: Nodes, *, settled: bool = False, num_walks: int, random_state: int = 0
) -> Floats:
    """Times at which walks escape from a set, started from its stationary distribution.

    Args:
        graph: A connected undirected graph.
        inside: The set.
        settled: Wait for a node outside that has no edge back, not for the first one outside.
        num_walks: Number of independent walks.
        random_state: Seed.

    Example:
        >>> simulate_escape_times(np.array([[0, 1], [1, 0]]), [0], num_walks=3).tolist()
        [1, 1, 1]
    """
    matrix = sp.csr_array(graph)
    goal = np.setdiff1d(np.arange(matrix.shape[0]), inside)
    if settled:
        goal = goal[matrix[goal][:, inside].sum(axis=1) == 0]
    weight = degrees(matrix)[inside]
    rng = np.random.default_rng(random_state)
    start = rng.choice(inside, size=num_walks, p=weight / weight.sum())
    ends, steps = walk_until(matrix, start, goal, random_state=int(rng.integers(2**31)))
    assert (ends >= 0).all()
    return steps


def walk_until(
    graph: Adjacency,
    start: ArrayLike,
    stop: ArrayLike,
    *,
    max_steps: int = 1_000_000,
    random_state: int = 0,
) -> tuple[Nodes, Nodes]:
    r"""Random walks :math:`P = D^{-1} A`, all at once, until each enters a stopping node.

    Args:
        graph: The graph, directed or not; weights count.
        start: Start of each walk.
        stop: The stopping nodes. A walk that starts on one takes no step.
        max_steps: Give up after so many.
        random_state: Seed.

    Shapes:
        start ``[w]``, stop ``[s]``; ends ``[w]``, steps ``[w]``.

    Returns:
        ``(ends, steps)``: where each walk stopped, -1 if it ran into a dead end or was given up;
        and the steps it took.

    Example:
        >>> ends, steps = walk_until(np.diag([1, 1], 1), [0, 1], [2])
        >>> ends.tolist(), steps.tolist()
        ([2, 2], [2, 1])
    """
    matrix, here = sp.csr_array(graph), np.array(start)
    stops = np.isin(np.arange(matrix.shape[0]), stop)
    rng = np.random.default_rng(random_state)
    # One search in the running sum of all weights picks a neighbour of every walker at once.
    running = np.concatenate([[0.0], np.cumsum(matrix.data)])
    degree = degrees(matrix)
    steps = np.zeros(here.size, dtype=np.int64)
    alive = np.flatnonzero(~stops[here])
    for _ in range(max_steps):
        alive = alive[degree[here[alive]] > 0]
        if alive.size == 0:
            break
        node = here[alive]
        first, last = matrix.indptr[node], matrix.indptr[node + 1]
        point = running[first] + rng.random(alive.size) * (running[last] - running[first])
        edge = np.clip(np.searchsorted(running, point, side="right") - 1, first, last - 1)
        here[alive] = matrix.indices[edge]
        steps[alive] += 1
        alive = alive[~stops[here[alive]]]
    return np.where(stops[here], here, -1), steps
