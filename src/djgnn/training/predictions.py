"""Predictions as a table: one row per node, the doubtful ones flagged."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse.csgraph import connected_components

from djgnn.graph import Graph, Split

if TYPE_CHECKING:
    from numpy.typing import NDArray

COLUMNS = ("node", "prediction", "probability", "margin", "label", "part", "flags")


def prediction_csv(
    graph: Graph,
    shares: NDArray[np.float32],
    split: Split | None = None,
    anchors: NDArray[np.bool_] | None = None,
    only: NDArray[np.int64] | None = None,
) -> str:
    """Predictions as CSV: node, prediction, probability, margin, then the rest.

    `margin` is the probability's lead over the second class; `flags` see :func:`node_flags`; the
    columns ``p(class)`` have all probabilities.

    Args:
        graph: Names, labels and edges.
        shares: Probabilities.
        split: Whose parts are written down; ``None`` leaves that column empty.
        anchors: Nodes that a node must be linked with to be reached; the training nodes by
            default.
        only: Nodes to write; all by default.

    Shapes:
        shares ``[n, classes]``, anchors ``[n]``.
    """
    rows = np.arange(graph.num_nodes)
    best, probability = shares.argmax(axis=1), shares.max(axis=1)
    rest = shares.copy()
    rest[rows, best] = 0
    margin = probability - rest.max(axis=1)
    part = np.full(graph.num_nodes, "", dtype="<U10")
    if split is not None:
        part[split.train], part[split.val], part[split.test] = "train", "validation", "test"
    classes, names = graph.classes(), graph.names()
    flags = node_flags(graph, part == "train" if anchors is None else anchors)
    known = np.full(graph.num_nodes, -1) if graph.y is None else graph.y
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([*COLUMNS, *(f"p({name})" for name in classes)])
    for i in (rows if only is None else only).tolist():
        label = "" if known[i] < 0 else classes[known[i]]
        numbers = (f"{probability[i]:.6f}", f"{margin[i]:.6f}")
        every = (f"{share:.6f}" for share in shares[i])
        writer.writerow([names[i], classes[best[i]], *numbers, label, part[i], flags[i], *every])
    return file.getvalue()


def node_flags(graph: Graph, anchors: NDArray[np.bool_]) -> list[str]:
    """What makes the prediction of a node weak, in words.

    ``isolated``: no edge. ``featureless``: all features zero. ``unreached``: no path to an anchor,
    whatever the direction of the edges; its prediction comes from features and jumps alone.

    Example:
        >>> graph = Graph(np.array([[0], [1]]), num_nodes=3)
        >>> node_flags(graph, np.array([True, False, False]))
        ['', '', 'isolated unreached']
    """
    touched = np.bincount(graph.edge_index.reshape(-1), minlength=graph.num_nodes) > 0
    flags = {"isolated": ~touched}
    if graph.x is not None:
        flags["featureless"] = np.asarray(abs(graph.x).sum(axis=1)).reshape(-1) == 0
    flags["unreached"] = ~reached(graph, anchors)
    return [" ".join(n for n, mask in flags.items() if mask[i]) for i in range(graph.num_nodes)]


def reached(graph: Graph, anchors: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Nodes in a component with an anchor; all of them where there is no anchor at all."""
    if not anchors.any():
        return np.ones(graph.num_nodes, dtype=np.bool_)
    _, component = connected_components(graph.adjacency, directed=False)
    found: NDArray[np.bool_] = np.isin(component, np.unique(component[anchors]))
    return found
