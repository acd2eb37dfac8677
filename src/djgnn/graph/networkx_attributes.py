"""A networkx graph whose attributes are the columns of tables, for a classifier to fit."""

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from djgnn.errors import InputError
from djgnn.graph.checks import MASKS
from djgnn.graph.convert import complete_masks
from djgnn.graph.graph import Graph
from djgnn.graph.labels import as_objects, encode, in_order, unknown_among
from djgnn.graph.table_columns import read_split
from djgnn.graph.table_rules import USUAL_NAMES, TableOptions, find_columns, reading_of
from djgnn.graph.table_text import Table
from djgnn.graph.tables import assemble

ID, SOURCE, TARGET = "<node>", "<edge source>", "<edge target>"
WHERE = "networkx graph"


def read_attributes(g: Any, y: Any, known: Graph | None, own: bool) -> tuple[Graph, NDArray[Any]]:
    """See :func:`djgnn.graph.classifier_inputs.labelled_graph`."""
    nodes = list(g)
    if known is not None and known.num_features:  # known nodes need not say again what they are
        names = set(known.names())
        nodes = [node for node in nodes if g.nodes[node] or str(node) not in names]
    columns, vectors = _columns(g, nodes)
    roles = find_columns(WHERE, list(columns), ("label", "split"), {})
    label, split = (None if role is None else columns.pop(role) for role in roles.values())
    masks = [columns.pop(key, None) for key in MASKS]
    options: TableOptions = {"symmetric": not g.is_directed(), "duplicates": "sum"}
    options["columns"] = dict.fromkeys(vectors, "raw")  # embeddings are taken as they are
    if y is not None:
        said = in_order(y, [str(node) for node in g])
        options["exclude"] = [name for name, values in columns.items() if _same(values, said)]
    if known is not None:
        options = {**options, **reading_of(known), "others": known.names()}
    options |= {"node": ID, "source": SOURCE, "target": TARGET, "label": "", "split": ""}
    frame = pl.DataFrame(
        [pl.Series(ID, [str(node) for node in nodes], dtype=pl.String)]
        + [_series(name, values) for name, values in columns.items()]
    )
    try:
        tables = Table(f"{WHERE} (edges)", _edges(g)), Table(f"{WHERE} (nodes)", frame)
        graph = assemble(*tables, options)
    except InputError as error:
        advice = "or choose the attributes with Graph.from_networkx(g, features=[...], label=...)"
        raise InputError(f"{error}; {advice}") from error
    if label is None or not own:
        return graph, np.zeros(0)
    codes, classes = encode(label)
    codes = np.concatenate([codes, np.full(graph.num_nodes - codes.size, -1)])
    fields: dict[str, Any] = {"y": codes, "class_names": tuple(map(str, classes))}
    if len(nodes) == graph.num_nodes:
        fields |= _parts(split, masks, codes)
    return replace(graph, **fields), classes


def _columns(g: Any, nodes: list[Any]) -> tuple[dict[str, NDArray[Any]], list[str]]:
    """The attributes of nodes, ``None`` where one is missing; a vector as one column per number.

    The names of these columns are returned too.
    """
    names = dict.fromkeys(name for node in nodes for name in g.nodes[node])
    columns: dict[str, NDArray[Any]] = {}
    vectors: list[str] = []
    for name in names:
        values = [g.nodes[node].get(name) for node in nodes]
        lengths = {len(np.ravel(value)) for value in values if np.ndim(value)}
        if not lengths:
            columns[str(name)] = as_objects(values)
            continue
        short = [node for node, v in zip(nodes, values, strict=True) if np.size(v) != max(lengths)]
        if short or not all(np.ndim(value) for value in values):
            raise InputError(
                f"node {short[0]!r}: attribute {name!r} has not as many numbers as others; give "
                f"every node {max(lengths)} (got {str(g.nodes[short[0]].get(name))[:40]})"
            )
        matrix = np.stack([np.ravel(value) for value in values])
        parts = {f"{name}{place}": column for place, column in enumerate(matrix.T)}
        vectors += parts
        columns |= parts
    return columns, vectors


def _edges(g: Any) -> pl.DataFrame:
    """The edges, with their weights if any has one; an edge without has weight 1."""
    ends = list(g.edges(data=True))
    names = {name for *_, attributes in ends for name in attributes}
    weight = next((name for name in USUAL_NAMES["weight"] if name in names), None)
    columns = [
        pl.Series(SOURCE, [str(u) for u, _, _ in ends], dtype=pl.String),
        pl.Series(TARGET, [str(v) for _, v, _ in ends], dtype=pl.String),
    ]
    if weight is not None:
        columns.append(pl.Series(weight, [d.get(weight, 1) for *_, d in ends], strict=False))
    return pl.DataFrame(columns)


def _series(name: str, values: NDArray[Any]) -> pl.Series:
    """A column; what means unknown is missing, and values of several types are text."""
    if values.dtype != object:
        return pl.Series(name, values)
    cells = [None if v is None or v != v else v for v in values.tolist()]
    kinds = {type(cell) for cell in cells if cell is not None}
    if not kinds <= {int, float} and len(kinds) > 1:
        cells = [None if cell is None else str(cell) for cell in cells]
    return pl.Series(name, cells, strict=False)


def _same(values: NDArray[Any], given: NDArray[Any]) -> bool:
    """Whether an attribute says of every labelled node what its label says."""
    known = ~unknown_among(given)
    pairs = zip(values[known].tolist(), given[known].tolist(), strict=True)
    return bool(known.any()) and all(str(value) == str(label) for value, label in pairs)


def _parts(
    split: NDArray[Any] | None, masks: list[NDArray[Any] | None], codes: NDArray[np.int64]
) -> dict[str, Any]:
    """Masks from an attribute of words or from attributes named as the masks; none without."""
    if split is not None:
        return read_split(WHERE, _series("split", split), codes)
    given = {
        key: np.array([bool(v) for v in mask.tolist()]) & (codes >= 0)
        for key, mask in zip(MASKS, masks, strict=True)
        if mask is not None
    }
    return complete_masks(given, codes >= 0)
