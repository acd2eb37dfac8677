"""Nodes to label next: those whose labels are most informative."""

import heapq
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from djgnn import checking
from djgnn.graph import Graph
from djgnn.training.suspects import neighbours

MOST = 1000
"""Nodes that are listed."""


@dataclass(frozen=True)
class Wanted:
    """A node without label; `reach` is its uncertainty and the mean one within two steps of it."""

    node: checking.Text
    prediction: checking.Text
    probability: checking.Share
    margin: checking.Share
    reach: checking.NonNegative
    neighbours: checking.Natural


def next_labels(
    graph: Graph,
    shares: NDArray[np.float32],
    most: int = MOST,
    near: sp.csr_array | None = None,
) -> list[Wanted]:
    r"""Rank the nodes without label by their own uncertainty times that around them.

    .. math::
        u_i = 1 - (p_{(1)} - p_{(2)}) \text{ without label}, 0 \text{ otherwise}; \qquad
        r = u + \tfrac12 D^{-1} A u + \tfrac14 (D^{-1} A)^2 u

    with A symmetric: r is large where most nodes around are uncertain too, which the node stands
    for, and not where there are merely many. Largest :math:`u_i r_i` first, of equal ones the node
    with more neighbours; a node that was chosen halves that of its neighbours, since its label
    tells about them.

    Args:
        graph: Labels and edges.
        shares: Probabilities.
        most: How many nodes at most.
        near: The result of :func:`djgnn.training.suspects.neighbours`, where it is known.

    Shapes:
        shares ``[n, classes]``.
    """
    y = graph.labels
    open_ = y < 0
    if not open_.any() or shares.shape[1] < 2:
        return []
    second, first = np.sort(shares.astype(np.float64), axis=1)[:, -2:].T
    unsure = np.where(open_, 1 - (first - second), 0)
    near = neighbours(graph) if near is None else near
    degree = np.diff(near.indptr)
    each = 1 / np.maximum(degree, 1)
    once = each * (near @ unsure)
    reach = unsure + once / 2 + each * (near @ once) / 4
    value = unsure * reach
    names, classes, best = graph.names(), graph.classes(), shares.argmax(axis=1)
    nodes = np.flatnonzero(open_)
    order = nodes[np.lexsort((-degree[nodes], -value[nodes]))].tolist()
    worths = (-value[order]).tolist()
    coming = ((w, -int(degree[i]), i) for w, i in zip(worths, order, strict=True))
    upcoming = next(coming, None)
    lost: list[tuple[float, int, int]] = []  # a heap of those whose value fell before their turn
    found: list[Wanted] = []
    while len(found) < most and (lost or upcoming):
        if upcoming and not (lost and lost[0] < upcoming):
            (worth, many, i), upcoming = upcoming, next(coming, None)
        else:
            worth, many, i = heapq.heappop(lost)
        if -worth > value[i]:
            heapq.heappush(lost, (-value[i], many, i))
            continue
        margin, share = float(first[i] - second[i]), float(first[i])
        number = int(degree[i])
        found.append(Wanted(names[i], classes[best[i]], share, margin, float(reach[i]), number))
        value[near.indices[near.indptr[i] : near.indptr[i + 1]]] /= 2
    return found
