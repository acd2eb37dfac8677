"""Suspected wrong labels: what a model says about labels that it did not learn from."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from djgnn import checking
from djgnn.graph import Graph
from djgnn.jumps.twins import twin_classes
from djgnn.spectral import symmetrize
from djgnn.training.held_out import HeldOut

ODDS = 20
"""A label looks wrong where another class is so many times as likely."""


@dataclass(frozen=True)
class Suspect:
    """A label that is not the likeliest class of its node, held out; `reasons` are in words."""

    node: checking.Text
    label: checking.Text
    probability: checking.Share
    prediction: checking.Text
    predicted_probability: checking.Share
    reasons: checking.Text

    @property
    def looks_wrong(self) -> bool:
        """Whether the prediction is many times as likely as the label."""
        return self.predicted_probability >= ODDS * self.probability


def suspects(graph: Graph, held: HeldOut, near: sp.csr_array | None = None) -> list[Suspect]:
    """The labels that are not the likeliest class of their nodes, the least likely first.

    Ranked by the calibrated probability of the given label: of labels changed at random this finds
    more than the margin, and more than what it is relative to the mean of its class
    (``benchmarks/wrong_labels.py``).

    Args:
        graph: With labels.
        held: Probabilities of nodes that were not learned from.
        near: The result of :func:`neighbours`, where it is known.

    Example:
        >>> g = Graph(np.array([[0], [1]]), num_nodes=3, y=np.array([0, 1, 1]))
        >>> shares = np.array([[0.1, 0.9], [0.2, 0.8]], dtype=np.float32)
        >>> held = HeldOut("test", np.array([0, 1]), np.array([0, 1]), shares, {})
        >>> [(s.node, s.label, s.reasons) for s in suspects(g, held)]
        [('0', '0', '1 is 9 times as likely; 1 of 1 labelled neighbours is 1')]
    """
    rows, best = np.arange(held.y.size), held.shares.argmax(axis=1)
    own, first = held.shares[rows, held.y], held.shares[rows, best]
    order = np.lexsort((-first, own))
    order = order[best[order] != held.y[order]]
    names, classes = graph.names(), graph.classes()
    reasons = _reasons(graph, held, order, neighbours(graph) if near is None else near)
    return [
        Suspect(
            names[held.nodes[i]],
            classes[held.y[i]],
            float(own[i]),
            classes[best[i]],
            float(first[i]),
            "; ".join(said),
        )
        for i, said in zip(order.tolist(), reasons, strict=True)
    ]


def _reasons(
    graph: Graph, held: HeldOut, rows: NDArray[np.int64], near: sp.csr_array
) -> list[list[str]]:
    """Reasons to believe the prediction of each of some held-out nodes, in words."""
    nodes, classes, names = held.nodes[rows], graph.classes(), graph.names()
    label, best = held.y[rows], held.shares[rows].argmax(axis=1)
    y = graph.labels
    known = np.flatnonzero(y >= 0)
    one_hot = sp.csr_array(
        (np.ones(known.size), (known, y[known])), shape=(graph.num_nodes, graph.num_classes)
    )
    heard = sp.csr_array(near[nodes] @ one_hot).toarray().astype(np.int64)
    # Class shares are the same for all nodes.
    votes = np.array([said[rows] for kind, said in held.alone.items() if kind != "shares"])
    twins = _twins(near, y, nodes, best)
    found = []
    for i, (own, other) in enumerate(zip(label, best, strict=True)):
        ratio = held.shares[rows[i], other] / max(held.shares[rows[i], own], 1e-6)
        said = [f"{classes[other]} is {ratio:.3g} times as likely"]
        agree = int((votes[:, i] == other).sum()) if votes.size else 0
        if 2 * agree > len(votes):
            said.append(f"{agree} of {len(votes)} experts say {classes[other]}")
        if heard[i].max(initial=0) == heard[i, other] > heard[i, own]:
            verb = "is" if heard[i, other] == 1 else "are"
            said.append(
                f"{heard[i, other]} of {heard[i].sum()} labelled neighbours {verb} {classes[other]}"
            )
        twin = twins[i]
        if twin >= 0:
            said.append(f"{names[twin]} has the same neighbours and is {classes[other]}")
        found.append(said)
    return found


def neighbours(graph: Graph) -> sp.csr_array:
    """Ones where two nodes have an edge in either direction; no node is its own neighbour."""
    both = symmetrize(graph.adjacency)
    loops = both.diagonal()
    if loops.any():
        both = sp.csr_array(both - sp.diags_array(loops))
    return sp.csr_array((np.ones_like(both.data), both.indices, both.indptr), shape=both.shape)


def _twins(
    near: sp.csr_array,
    y: NDArray[np.int64],
    nodes: NDArray[np.int64],
    classes: NDArray[np.int64],
) -> NDArray[np.int64]:
    """For nodes and a class of each: the first node of that class with the same neighbours, or -1.

    Nodes without neighbours have no twins.
    """
    twin = twin_classes(near).class_of.numpy()
    known = np.flatnonzero((y >= 0) & (np.diff(near.indptr) > 0))
    width = int(max(y.max(initial=0), classes.max(initial=0))) + 1
    keys, first = np.unique(twin[known] * width + y[known], return_index=True)
    wanted = twin[nodes] * width + classes
    place = np.minimum(np.searchsorted(keys, wanted), max(keys.size - 1, 0))
    if not keys.size:
        return np.full(nodes.size, -1)
    return np.where(keys[place] == wanted, known[first[place]], -1)
