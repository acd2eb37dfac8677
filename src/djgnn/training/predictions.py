"""The predictions of a run as a table: a row for every node."""

import csv
import io
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from djgnn.graph import Graph, Split
from djgnn.training.conformal import class_sets

COLUMNS = ("node", "prediction", "probability", "margin", "label", "part", "flags", "set")


def prediction_csv(
    graph: Graph,
    shares: NDArray[np.float32],
    sets: dict[str, Any] | None,
    split: Split | None = None,
    anchors: NDArray[np.bool_] | None = None,
    only: NDArray[np.int64] | None = None,
) -> str:
    """Predictions as CSV: node, prediction, probability, margin, then the rest.

    `margin` is the probability's lead over the second class; `flags` see :func:`node_flags`; `set`
    has the classes of :func:`djgnn.training.conformal.class_sets`; the columns ``p(class)`` have
    all probabilities.

    Args:
        graph: Names, labels and edges.
        shares: Probabilities.
        sets: What the card of the run says about sets; ``None`` leaves that column empty.
        split: Whose parts are written down; ``None`` leaves that column empty.
        anchors: Nodes that a node must be linked with to be reached; the training nodes by
            default.
        only: Nodes to write; all by default.

    Shapes:
        shares ``[n, classes]``, anchors ``[n]``.
    """
    second, probability = np.sort(shares, axis=1)[:, -2:].T
    best, margin = shares.argmax(axis=1), probability - second
    part = np.full(graph.num_nodes, "", dtype="<U10")
    if split is not None:
        part[split.train], part[split.val], part[split.test] = "train", "validation", "test"
    classes, names = graph.classes(), graph.names()
    flags = node_flags(graph, part == "train" if anchors is None else anchors)
    known = np.full(graph.num_nodes, -1) if graph.y is None else graph.y
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([*COLUMNS, *(f"p({name})" for name in classes)])
    rows = np.arange(graph.num_nodes) if only is None else only
    chosen = class_sets(sets, shares[rows], [names[i] for i in rows.tolist()], classes)
    for i, of_node in zip(rows.tolist(), chosen, strict=True):
        label = "" if known[i] < 0 else classes[known[i]]
        numbers = (f"{probability[i]:.6f}", f"{margin[i]:.6f}")
        every = (f"{share:.6f}" for share in shares[i])
        known_of = (label, part[i], flags[i], of_node)
        writer.writerow([names[i], classes[best[i]], *numbers, *known_of, *every])
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
    flags = {"isolated": np.bincount(graph.edge_index.reshape(-1), minlength=graph.num_nodes) == 0}
    if graph.x is not None:
        flags["featureless"] = np.asarray(abs(graph.x).sum(axis=1)).reshape(-1) == 0
    flags["unreached"] = ~reached(graph, anchors)
    return [" ".join(n for n, mask in flags.items() if mask[i]) for i in range(graph.num_nodes)]


def reached(graph: Graph, anchors: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Nodes in a component with an anchor; all of them where there is no anchor at all."""
    if not anchors.any():
        return np.ones(graph.num_nodes, dtype=np.bool_)
    _, component = connected_components(graph.adjacency, directed=False)
    return np.asarray(np.isin(component, np.unique(component[anchors])))
