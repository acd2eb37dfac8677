"""Simulated random walks: the Monte-Carlo counterpart of the exact formulas."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

from djgnn.errors import InputError, NotConvergedWarning
from djgnn.spectral.laplacians import as_adjacency, check_nodes, degrees

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from djgnn.spectral.laplacians import Adjacency


def walk_until(
    graph: Adjacency,
    start: ArrayLike,
    stop: ArrayLike,
    *,
    max_steps: int = 1_000_000,
    random_state: int = 0,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    r"""Random walks :math:`P = D^{-1} A`, all at once, until each enters a stopping node.

    Args:
        graph: The graph, directed or not; weights count.
        start: Start of each walk.
        stop: The stopping nodes. A walk that starts on one takes no step.
        max_steps: Give up, with a warning, after so many.
        random_state: Seed.

    Shapes:
        start ``[w]``, stop ``[s]``; ends ``[w]``, steps ``[w]``.

    Returns:
        ``(ends, steps)``: where each walk stopped, -1 if it ran into a dead end or was given up;
        and the steps it took.

    Raises:
        InputError: If an id is not a node or `max_steps` is negative.

    Example:
        >>> ends, steps = walk_until([[0, 1, 0], [0, 0, 1], [0, 0, 0]], [0, 1], [2])
        >>> ends.tolist(), steps.tolist()
        ([2, 2], [2, 1])
    """
    matrix = as_adjacency(graph)
    n = matrix.shape[0]
    here = check_nodes(np.atleast_1d(np.asarray(start)), n, where="start").copy()
    stops = np.zeros(n, dtype=bool)
    stops[check_nodes(stop, n, where="stop")] = True
    if max_steps < 0:
        raise InputError(f"max_steps: cannot be negative (got {max_steps})")
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
    else:
        if alive.size:
            warnings.warn(
                f"walks: {alive.size} of {here.size} had not stopped after {max_steps} steps",
                NotConvergedWarning,
                stacklevel=2,
            )
    return np.where(stops[here], here, -1), steps
