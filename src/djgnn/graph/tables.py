"""Own graphs: an edge table and a node table in, a `Graph` out; and the way back."""

from __future__ import annotations

from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from djgnn.errors import InputError
from djgnn.graph.files import readable_file
from djgnn.graph.graph import Graph
from djgnn.graph.table_files import PARQUET, header, read_table
from djgnn.graph.table_frames import polars_frame
from djgnn.graph.table_graph import assemble, build, card, edge_fields, node_fields
from djgnn.graph.table_rules import NodeColumns, Rules, TableOptions, edge_columns, node_columns
from djgnn.graph.table_writer import write_tables

if TYPE_CHECKING:
    import polars as pl

__all__ = ["from_frames", "read_tables", "write_tables"]

SAMPLE = 1000


def read_tables(edges: str | Path, nodes: str | Path, **options: Unpack[TableOptions]) -> Graph:
    """Read a graph from an edge table and a node table (CSV, TSV or Parquet).

    Columns are found by their usual names (source/src/from/u, target/dst/to/v, weight; node/id/
    name, label/class/y/target, split) and can be named. Ids are text: ``007`` and ``7`` are two
    nodes. All other columns of the node table are features: numbers as they are, columns of few
    different texts one-hot (an empty cell is all zero). Other columns of the edge table are left
    alone. The names of the feature columns are in ``graph.card["features"]``, how the tables were
    read in ``graph.card["tables"]``.

    Args:
        edges: File with one edge per row.
        nodes: File with one node per row; its order is the order of the nodes.
        options: Columns and rules, see :class:`djgnn.graph.table_rules.Rules`.

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
    rules = Rules(**options)
    node_file, edge_file = readable_file(nodes), readable_file(edges)
    found = node_columns(str(node_file), header(node_file), rules)
    fields, ids = node_fields(str(node_file), _read_nodes(node_file, found, rules), found, rules)
    columns = edge_columns(str(edge_file), header(edge_file), rules)
    table = read_table(edge_file, columns=columns.used)
    fields |= edge_fields(str(edge_file), table, columns, ids, rules)
    fields["card"] = card(fields.pop("columns"), found, columns, rules)
    return build(f"{edge_file}, {node_file}", rules.name or node_file.stem, fields)


def from_frames(edges: Any, nodes: Any, **options: Unpack[TableOptions]) -> Graph:
    """A graph from an edge frame and a node frame, by the rules of :func:`read_tables`.

    Args:
        edges: A polars or pandas data frame with one edge per row. The index is left alone.
        nodes: The same with one node per row.
        options: Columns and rules, see :class:`djgnn.graph.table_rules.Rules`.

    Raises:
        InputError: With frame, row, column and remedy.

    Example:
        >>> import polars as pl
        >>> e = pl.DataFrame({"source": [7, 9], "target": [9, 9]})
        >>> n = pl.DataFrame({"id": [9, 7], "color": ["red", "blue"]})
        >>> g = from_frames(e, n)
        >>> g.edge_index.tolist(), g.node_names, g.card["features"]
        ([[1, 0], [0, 0]], ('9', '7'), ['color=blue', 'color=red'])
    """
    rules = Rules(**options)
    return assemble(
        "edges", polars_frame(edges, "edges"), "nodes", polars_frame(nodes, "nodes"), rules
    )


def _read_nodes(file: Path, columns: NodeColumns, rules: Rules) -> pl.DataFrame:
    """Read wide numeric tables as float32 at once; anything odd goes the careful way, as text."""
    import polars as pl

    wanted = columns.roles + columns.features
    if columns.features and file.suffix.lower() not in PARQUET:
        known = {} if rules.known is None else rules.known.features
        numeric = _numeric_looking(file, [c for c in columns.features if known.get(c) is None])
        try:
            table = read_table(file, types=dict.fromkeys(numeric, pl.Float32))
            if all(table[column].null_count() == 0 for column in numeric):
                return pl.DataFrame([table[column] for column in wanted])
        except InputError:
            pass  # read as text below, which fails with a better message or succeeds
    table = read_table(file, columns=wanted)
    return pl.DataFrame([table[column] for column in wanted])


def _numeric_looking(file: Path, wanted: list[str]) -> list[str]:
    """The columns in which the first rows hold numbers only."""
    import polars as pl

    try:
        sample = read_table(file, rows=SAMPLE)
    except InputError:
        return []  # the reader names the place
    cells = pl.DataFrame([sample[column].alias(str(i)) for i, column in enumerate(wanted)])
    finite = pl.all().cast(pl.Float64, strict=False).is_finite().fill_null(False).all()
    return list(compress(wanted, cells.select(finite).row(0)))
