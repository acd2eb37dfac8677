"""Own graphs: an edge table and a node table in, a `Graph` out; and the way back."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from djgnn.errors import InputError
from djgnn.graph.files import readable_file
from djgnn.graph.graph import Graph
from djgnn.graph.table_columns import pick_column, read_features, read_labels, read_split
from djgnn.graph.table_edges import merge_duplicates, number_nodes
from djgnn.graph.table_files import PARQUET, header, read_table, row_error, rows_of, separator_of
from djgnn.graph.table_writer import write_tables

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

__all__ = ["read_tables", "write_tables"]

SAMPLE = 1000


def read_tables(
    edges: str | Path,
    nodes: str | Path,
    *,
    source: str | None = None,
    target: str | None = None,
    weight: str | None = None,
    node: str | None = None,
    label: str | None = None,
    split: str | None = None,
    features: Sequence[str] | None = None,
    duplicates: str = "first",
    symmetric: bool = False,
    unknown: Sequence[str] = ("", "-1"),
    name: str | None = None,
) -> Graph:
    """Read a graph from an edge table and a node table (CSV, TSV or Parquet).

    Columns are found by their usual names (source/src/from/u, target/dst/to/v, weight; node/id/
    name, label/class/y/target, split) and can be named. Ids are text: ``007`` and ``7`` are two
    nodes. All other columns of the node table are features: numbers as they are, columns of few
    different texts one-hot (an empty cell is all zero). Other columns of the edge table are left
    alone. The names of the feature columns are in ``graph.card["features"]``.

    Args:
        edges: File with one edge per row.
        nodes: File with one node per row; its order is the order of the nodes.
        source: Column of the edge table.
        target: Column of the edge table.
        weight: Column of the edge table, ``""`` = do not use any.
        node: Column of the node table with the ids.
        label: Column with the classes, ``""`` = none. Classes are sorted, by number if all are.
        split: Column with train / val / test or nothing, ``""`` = none.
        features: Feature columns, ``[]`` = none; all that are left by default.
        duplicates: What an edge listed twice means: ``first`` counts, ``sum`` or ``max`` of the
            weights (1 without weights), or ``error``.
        symmetric: Every edge goes both ways; an edge and its reverse then count as duplicates.
        unknown: Cells of the label column that mean unknown.
        name: Name of the graph; the node file's by default.

    Raises:
        InputError: With file, row, column and remedy.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "e.csv").write_text("from,to\\n007,7\\n")
        >>> _ = (folder / "n.csv").write_text("id,size,class\\n7,1.5,cat\\n007,2,dog\\n")
        >>> g = read_tables(folder / "e.csv", folder / "n.csv")
        >>> g.edge_index.tolist(), g.node_names, g.class_names
        ([[1], [0]], ('7', '007'), ('cat', 'dog'))
    """
    node_file, edge_file = readable_file(nodes), readable_file(edges)
    found = header(node_file)
    id_column = pick_column(node_file, found, "node", node, required=True)
    roles = [id_column] + [
        pick_column(node_file, [c for c in found if c != id_column], role, given, required=False)
        for role, given in (("label", label), ("split", split))
    ]
    wanted = _feature_columns(node_file, found, [r for r in roles if r], features)
    table = _read_nodes(node_file, [r for r in roles if r], wanted)
    ids = _ids(node_file, table[str(id_column)])
    fields: dict[str, Any] = {"num_nodes": len(ids), "node_names": tuple(ids.to_list())}
    if roles[1]:
        fields["y"], fields["class_names"] = read_labels(node_file, table[roles[1]], unknown)
    if roles[2]:
        fields |= read_split(node_file, table[roles[2]], fields.get("y"))
    fields["x"], columns = read_features(node_file, table.select(wanted))
    if columns:
        fields["card"] = {"features": columns}
    ends, weights = _read_edges(edge_file, ids, {"source": source, "target": target}, weight)
    fields["edge_index"], fields["edge_weight"] = merge_duplicates(
        edge_file, ends, weights, ids, duplicates, symmetric
    )
    try:
        return Graph(name=name or node_file.stem, **fields)
    except InputError as error:
        raise InputError(f"{edge_file}, {node_file}: {error}") from error


def _feature_columns(
    file: Path, found: list[str], used: list[str], features: Sequence[str] | None
) -> list[str]:
    if features is None:
        return [column for column in found if column not in used]
    columns = [features] if isinstance(features, str) else list(features)
    for column in columns:
        if column not in found or column in used:
            state = "is not there" if column not in found else "is the id, label or split"
            raise InputError(
                f"{file}: feature column {column!r} {state}; choose among the other columns "
                f"(got columns {', '.join(found)})"
            )
    return list(dict.fromkeys(columns))


def _read_nodes(file: Path, used: list[str], wanted: list[str]) -> pl.DataFrame:
    """Read wide numeric tables as float32 at once; anything odd goes the careful way, as text."""
    import polars as pl

    if wanted and file.suffix.lower() not in PARQUET:
        numeric = _numeric_looking(file, wanted)
        try:
            table = read_table(file, types=dict.fromkeys(numeric, pl.Float32))
            if all(table[column].null_count() == 0 for column in numeric):
                return table.select(used + wanted)
        except InputError:
            pass  # read as text below, which fails with a better message or succeeds
    return read_table(file).select(used + wanted)


def _numeric_looking(file: Path, wanted: list[str]) -> list[str]:
    """The columns in which the first rows hold numbers only."""
    try:
        rows = list(islice(rows_of(file, separator_of(file)), SAMPLE + 1))
    except (UnicodeDecodeError, InputError):
        return []  # the reader names the place
    places = {column: i for i, column in enumerate(rows[0])}

    def number(cells: list[str], place: int) -> bool:
        try:
            return len(cells) > place and np.isfinite(float(cells[place]))
        except ValueError:
            return False

    return [c for c in wanted if all(number(cells, places[c]) for cells in rows[1:] if cells)]


def _ids(file: Path, column: pl.Series) -> pl.Series:
    """Node ids as text, each present and used once."""
    import polars as pl

    if column.dtype.is_float():
        raise InputError(
            f"{file}: column {column.name!r} holds ids; store whole numbers or text "
            f"(got {column.dtype})"
        )
    ids = column.cast(pl.String)
    if not len(ids):
        raise InputError(f"{file}: has no rows; give one row per node (got a header only)")
    empty = ids.is_null() | (ids == "")
    if empty.any():
        row = int(np.argmax(empty.to_numpy()))
        raise row_error(file, row, column.name, "every node needs an id", column[row])
    twice = ids.is_duplicated().to_numpy()
    if twice.any():
        again = ids.is_first_distinct().to_numpy()
        row = int(np.argmax(~again))
        first = int(np.argmax((ids == ids[row]).to_numpy())) + 1
        raise row_error(
            file, row, column.name, f"node already given in row {first}; keep one", ids[row]
        )
    return ids


def _read_edges(
    file: Path, ids: pl.Series, ends: dict[str, str | None], weight: str | None
) -> tuple[NDArray[np.int64], NDArray[np.float64] | None]:
    import polars as pl

    found = header(file)
    columns = [pick_column(file, found, role, given, True) for role, given in ends.items()]
    weight_column = pick_column(file, found, "weight", weight, required=False)
    if columns[0] == columns[1]:
        raise InputError(
            f"{file}: source and target must be two columns; name them with `source=` and "
            f"`target=` (got {columns[0]!r} twice)"
        )
    table = read_table(file)
    index = number_nodes(file, table.select([str(c) for c in columns]), ids)
    if weight_column is None:
        return index, None
    values = table[weight_column]
    if values.dtype == pl.String:
        values = values.str.strip_chars()
    numbers = values.cast(pl.Float64, strict=False)
    bad = numbers.is_null() | ~numbers.is_finite().fill_null(False) | (numbers < 0).fill_null(True)
    if bad.any():
        row = int(np.argmax(bad.to_numpy()))
        raise row_error(
            file, row, weight_column, "a weight is a number of zero or more", values[row]
        )
    return index, numbers.to_numpy()
