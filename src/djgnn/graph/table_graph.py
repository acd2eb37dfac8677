"""Two tables in memory to a `Graph`: where the readers of all tabular formats meet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from djgnn.errors import InputError
from djgnn.graph.graph import Graph
from djgnn.graph.table_columns import (
    comma_hint,
    feature_names,
    read_features,
    read_labels,
    read_split,
)
from djgnn.graph.table_edges import merge_duplicates, number_nodes
from djgnn.graph.table_files import row_error
from djgnn.graph.table_memory import KEY, remember
from djgnn.graph.table_rules import EdgeColumns, NodeColumns, Rules, edge_columns, node_columns

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray


def assemble(
    edge_file: str, edges: pl.DataFrame, node_file: str, nodes: pl.DataFrame, rules: Rules
) -> Graph:
    """A graph from an edge table and a node table.

    Args:
        edge_file: Where the edges come from, for messages.
        edges: One edge per row.
        node_file: Where the nodes come from, for messages.
        nodes: One node per row; their order is the order of the nodes.
        rules: Which column is what.

    Raises:
        InputError: With file, row, column and remedy.
    """
    found = node_columns(node_file, nodes.columns, rules)
    fields, ids = node_fields(node_file, nodes, found, rules)
    columns = edge_columns(edge_file, edges.columns, rules)
    fields |= edge_fields(edge_file, edges, columns, ids, rules)
    fields["card"] = card(fields.pop("columns"), found, columns, rules)
    return build(f"{edge_file}, {node_file}", rules.name or "graph", fields)


def card(
    features: Mapping[str, tuple[str, ...] | None],
    nodes: NodeColumns,
    edges: EdgeColumns,
    rules: Rules,
) -> dict[str, Any]:
    """What the graph says about its tables: the names of its features, and how to read on."""
    names = feature_names(features)
    return ({"features": names} if names else {}) | {KEY: remember(nodes, edges, rules, features)}


def build(where: str, name: str, fields: dict[str, Any]) -> Graph:
    """The graph of these fields; what does not fit together is said with the file."""
    for value in fields.values():
        if isinstance(value, np.ndarray) and value.flags.owndata:
            value.flags.writeable = False  # handed over, so need not be copied
    try:
        return Graph(name=name, **fields)
    except InputError as error:
        raise InputError(f"{where}: {error}") from error


def node_fields(
    where: str, table: pl.DataFrame, columns: NodeColumns, rules: Rules
) -> tuple[dict[str, Any], pl.Series]:
    """The fields of `Graph` that a node table gives, with ``columns`` for :func:`card`; the ids.

    Raises:
        InputError: With file, row, column and remedy.
    """
    import polars as pl

    ids = _ids(where, table[columns.node])
    for name in columns.roles + columns.features:
        if table[name].dtype.is_nested() or table[name].dtype == pl.Binary:
            raise InputError(
                f"{where}: column {name!r} holds lists or bytes; store one number or text per cell "
                f"(got {table[name].dtype})"
            )
    fields: dict[str, Any] = {"num_nodes": len(ids), "node_names": tuple(ids.to_list())}
    if columns.label:
        fields["y"], fields["class_names"] = read_labels(where, table[columns.label], rules.unknown)
    if columns.split:
        fields |= read_split(where, table[columns.split], fields.get("y"))
    known = None if rules.known is None else rules.known.features
    frame = pl.DataFrame([table[c] for c in columns.features])
    fields["x"], fields["columns"] = read_features(where, frame, known)
    return _with_others(fields, ids, rules.others) if rules.others else (fields, ids)


def _with_others(
    fields: dict[str, Any], ids: pl.Series, others: Sequence[str]
) -> tuple[dict[str, Any], pl.Series]:
    """Add nodes that have no row of their own."""
    import polars as pl

    given = set(ids.to_list())
    names = pl.concat([ids, pl.Series([o for o in others if o not in given], dtype=pl.String)])
    more = len(names) - len(ids)
    fields |= {"num_nodes": len(names), "node_names": tuple(names.to_list())}
    for key, filler in (
        ("y", -1),
        ("train_mask", False),
        ("val_mask", False),
        ("test_mask", False),
    ):
        if fields.get(key) is not None:
            fields[key] = np.concatenate([fields[key], np.full(more, filler)])
    x = fields["x"]
    if sp.issparse(x):
        fields["x"] = sp.csr_array(sp.vstack([x, sp.csr_array((more, x.shape[1]))]), dtype=x.dtype)
    elif x is not None:
        fields["x"] = np.vstack([x, np.zeros((more, x.shape[1]), dtype=x.dtype)])
    return fields, names


def edge_fields(
    where: str, table: pl.DataFrame, columns: EdgeColumns, ids: pl.Series, rules: Rules
) -> dict[str, Any]:
    """The fields of `Graph` that an edge table gives.

    Raises:
        InputError: With file, row, column and remedy.
    """
    ends = number_nodes(where, table[[columns.source, columns.target]], ids)
    weight = None if columns.weight is None else _weights(where, table[columns.weight])
    ends, weight = merge_duplicates(where, ends, weight, ids, rules.duplicates, rules.symmetric)
    return {"edge_index": ends, "edge_weight": weight}


def _ids(where: str, column: pl.Series) -> pl.Series:
    """Node ids as text, each present and used once."""
    import polars as pl

    if column.dtype.is_float() or column.dtype.is_nested() or column.dtype == pl.Binary:
        raise InputError(
            f"{where}: column {column.name!r} holds ids; store whole numbers or text "
            f"(got {column.dtype})"
        )
    ids = column.cast(pl.String)
    if not len(ids):
        raise InputError(f"{where}: has no rows; give one row per node (got a header only)")
    empty = ids.is_null() | (ids == "")
    if empty.any():
        row = int(np.argmax(empty.to_numpy()))
        raise row_error(where, row, column.name, "every node needs an id", column[row])
    if ids.n_unique() < len(ids):
        row = int(np.argmin(ids.is_first_distinct().to_numpy()))
        first = int(np.argmax((ids == ids[row]).to_numpy())) + 1
        raise row_error(
            where, row, column.name, f"node already given in row {first}; keep one", ids[row]
        )
    return ids


def _weights(where: str, column: pl.Series) -> NDArray[np.float64]:
    import polars as pl

    if column.dtype.is_nested() or column.dtype == pl.Binary:
        raise InputError(
            f"{where}: column {column.name!r} holds weights; store numbers (got {column.dtype})"
        )
    values = column.str.strip_chars() if column.dtype == pl.String else column
    numbers = values.cast(pl.Float64, strict=False)
    bad = numbers.is_null() | ~numbers.is_finite().fill_null(False) | (numbers < 0).fill_null(True)
    if bad.any():
        row = int(np.argmax(bad.to_numpy()))
        what = "a weight is a number of zero or more" + comma_hint(column[row])
        raise row_error(where, row, column.name, what, column[row])
    return numbers.to_numpy()
