"""The predictions of a run as a table: a row for every node."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from djgnn.graph import Graph, Split
from djgnn.training.conformal import class_sets

SPECIAL = re.compile('[",\r\n]')
"""What a cell of a CSV file may need quotes for."""
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
    rows = np.arange(graph.num_nodes) if only is None else only
    who = [names[i] for i in rows.tolist()]
    written = _cells([*classes, ""])  # the last is that of an unknown label
    columns = [
        _cells(who),
        [written[c] for c in best[rows].tolist()],
        _six(probability[rows]),
        _six(margin[rows]),
        [written[c] for c in np.maximum(known[rows], -1).tolist()],
        part[rows].tolist(),
        [flags[i] for i in rows.tolist()],
        _cells(class_sets(sets, shares[rows], who, classes)),
        *(_six(share) for share in shares[rows].T),
    ]
    header = _cells([*COLUMNS, *(f"p({name})" for name in classes)])
    lines = [",".join(header), *map(",".join, zip(*columns, strict=True)), ""]
    return "\n".join(lines)


def _cells(texts: Sequence[str]) -> Sequence[str]:
    """Texts as cells of a CSV file, in quotes where they need them."""
    if not SPECIAL.search("\0".join(texts)):
        return texts
    quoted = ('"' + text.replace('"', '""') + '"' for text in texts)
    found = zip(texts, quoted, strict=True)
    return [whole if SPECIAL.search(text) else text for text, whole in found]


def _six(shares: NDArray[np.float32]) -> list[str]:
    """Shares with six digits after the point, ``[n]``.

    A million times a number of single precision is exact in double precision, so rounding it is
    rounding the decimal number, ties to even; its digits are those of the whole number.
    """
    rounded = np.rint(shares.astype(np.float64) * 1e6)
    if shares.dtype != np.float32 or not ((rounded >= 0) & (rounded <= 10**6)).all():
        return [f"{share:.6f}" for share in shares.tolist()]
    millionths, texts = rounded.astype(np.int64), np.full((shares.size, 8), ord("."), np.uint8)
    for place, power in zip((0, *range(2, 8)), range(6, -1, -1), strict=True):
        texts[:, place] = ord("0") + millionths // 10**power % 10
    found: list[str] = texts.view("S8")[:, 0].astype("U8").tolist()
    return found


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
    code = sum(mask.astype(np.int64) << k for k, mask in enumerate(flags.values()))
    texts = [" ".join(n for k, n in enumerate(flags) if i >> k & 1) for i in range(1 << len(flags))]
    return [texts[i] for i in code.tolist()]


def reached(graph: Graph, anchors: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Nodes in a component with an anchor; all of them where there is no anchor at all."""
    if not anchors.any():
        return np.ones(graph.num_nodes, dtype=np.bool_)
    _, component = connected_components(graph.adjacency, directed=False)
    return np.asarray(np.isin(component, np.unique(component[anchors])))
