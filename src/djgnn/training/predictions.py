"""The predictions of a run as a table: a row for every node."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from djgnn.graph import Graph, Split
from djgnn.training.conformal import coded_sets

SPECIAL = '[",\r\n]'
"""What a cell of a CSV file may need quotes for."""
MANY = 100_000
"""Numbers from which on it is quicker to look up how each of a million is written."""
PARTS = ("", "train", "validation", "test")
_WORDS = ("isolated", "featureless", "unreached")
FLAGS = tuple(" ".join(w for k, w in enumerate(_WORDS) if i >> k & 1) for i in range(8))
NAMED = ("node", "prediction", "label", "set")
"""Columns of names that users gave."""
COLUMNS = ("node", "prediction", "probability", "margin", "label", "part", "flags", "set")


def prediction_table(
    graph: Graph,
    shares: NDArray[np.float32],
    sets: dict[str, Any] | None,
    split: Split | None = None,
    flags: NDArray[np.int64] | None = None,
    only: NDArray[np.int64] | None = None,
) -> pl.DataFrame:
    """Predictions as texts: node, prediction, probability, margin, then the rest.

    `margin` is the probability's lead over the second class; `flags` are words of `FLAGS`; `set`
    has the classes of :func:`djgnn.training.conformal.coded_sets`; the columns ``p(class)`` have
    all probabilities.

    Args:
        graph: Names, labels and edges.
        shares: Probabilities.
        sets: What the card of the run says about sets; ``None`` leaves that column empty.
        split: Whose parts are written down; ``None`` leaves that column empty.
        flags: Those of :func:`flag_codes`; by default training nodes are the anchors.
        only: Nodes to write; all by default.

    Shapes:
        shares ``[n, classes]``, flags ``[n]``.
    """
    part = np.zeros(graph.num_nodes, dtype=np.int64)
    if split is not None:
        part[split.train], part[split.val], part[split.test] = 1, 2, 3
    flags = flag_codes(graph, part == 1) if flags is None else flags
    known = graph.labels
    names, classes = graph.names(), graph.classes()
    if only is not None:
        names = [names[i] for i in only.tolist()]
        part, flags, known, shares = part[only], flags[only], known[only], shares[only]
    second, probability = np.partition(shares, -2, axis=1)[:, -2:].T
    columns = [
        pl.Series(names, dtype=pl.String),
        _texts(classes, shares.argmax(axis=1)),
        _six(probability),
        _six(probability - second),
        _texts(["", *classes], np.maximum(known, -1) + 1),
        _texts(PARTS, part),
        _texts(FLAGS, flags),
        _texts(*coded_sets(sets, shares, names, classes)),
        *(_six(share) for share in shares.T),
    ]
    header = [*COLUMNS, *(f"p({name})" for name in classes)]
    return pl.DataFrame([each.alias(key) for key, each in zip(header, columns, strict=True)])


def table_csv(table: pl.DataFrame) -> str:
    """A table of texts as CSV, cells in quotes where they need them."""
    header = ",".join(_cells(pl.Series(table.columns)).to_list())
    cells = pl.DataFrame([_cells(each) if each.name in NAMED else each for each in table])
    return f"{header}\n{cells.write_csv(include_header=False, quote_style='never')}"


def _cells(texts: pl.Series) -> pl.Series:
    """Texts as cells of a CSV file, in quotes where they need them."""
    special = texts.str.contains(SPECIAL)
    if not special.any():
        return texts
    quoted = '"' + texts.str.replace_all('"', '""', literal=True) + '"'
    return quoted.zip_with(special, texts).alias(texts.name)


def _texts(texts: Sequence[str], place: NDArray[np.int64]) -> pl.Series:
    """One of a few texts for every row."""
    return pl.Series(texts, dtype=pl.String).gather(place)


def _six(shares: NDArray[np.float32]) -> pl.Series:
    """Shares with six digits after the point, ``[n]``.

    A million times a number of single precision is exact in double precision, so rounding it is
    rounding the decimal number, ties to even; its digits are those of the whole number.
    """
    rounded = np.rint(shares.astype(np.float64) * 1e6)
    if shares.dtype != np.float32 or not ((rounded >= 0) & (rounded <= 10**6)).all():
        return pl.Series([f"{share:.6f}" for share in shares.tolist()], dtype=pl.String)
    millionths = rounded.astype(np.int64)
    if shares.size < MANY:
        return _millionths(millionths)
    return _every_millionth().gather(millionths)


def _millionths(whole: NDArray[np.int64]) -> pl.Series:
    """Whole numbers from 0 to a million as so many millionths, with six digits."""
    digits = pl.Series(10**7 + whole).cast(pl.String)
    return digits.str.slice(1, 1) + "." + digits.str.slice(2)


@cache
def _every_millionth() -> pl.Series:
    return _millionths(np.arange(10**6 + 1))


def flag_codes(graph: Graph, anchors: NDArray[np.bool_]) -> NDArray[np.int64]:
    """What makes the prediction of a node weak, as places in `FLAGS`.

    ``isolated``: no edge. ``featureless``: all features zero. ``unreached``: no path to an anchor,
    whatever the direction of the edges; its prediction comes from features and jumps alone.

    Example:
        >>> graph = Graph(np.array([[0], [1]]), num_nodes=3)
        >>> [FLAGS[i] for i in flag_codes(graph, np.array([True, False, False]))]
        ['', '', 'isolated unreached']
    """
    n, x = graph.num_nodes, graph.x
    alone = np.bincount(graph.edge_index.reshape(-1), minlength=n) == 0
    blank: Any = np.zeros(n, dtype=np.bool_)
    if x is not None:
        blank = ~x.any(axis=1) if isinstance(x, np.ndarray) else abs(x).sum(axis=1) == 0
    flags = (alone, np.asarray(blank).reshape(-1), ~reached(graph, anchors))
    return np.asarray(np.stack(flags, axis=1) @ np.array([1, 2, 4]))


def reached(graph: Graph, anchors: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Nodes in a component with an anchor; all of them where there is no anchor at all."""
    if not anchors.any():
        return np.ones(graph.num_nodes, dtype=np.bool_)
    _, component = connected_components(graph.adjacency, directed=False)
    return np.asarray(np.isin(component, np.unique(component[anchors])))
