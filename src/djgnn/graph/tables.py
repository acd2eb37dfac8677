"""Own graphs: an edge table and a node table to a `Graph`."""

import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack, cast

import msgspec
import numpy as np
import polars as pl
import scipy.sparse as sp

from djgnn.checking import json_values
from djgnn.errors import InputError, ReadingWarning
from djgnn.graph.cells import Problems, check_rows
from djgnn.graph.column_kinds import read_columns
from djgnn.graph.encoders import Dropped, Encoder, join_blocks, stored_encoders
from djgnn.graph.graph import Graph
from djgnn.graph.id_columns import ROWS, refer
from djgnn.graph.table_columns import read_labels, read_split, warn_of_giveaways
from djgnn.graph.table_edges import Ends, edge_fields, find_ends, read_ids
from djgnn.graph.table_files import polars_frame, read_table
from djgnn.graph.table_rules import (
    DUPLICATES,
    HEADERS,
    UNKNOWN,
    USUAL_NAMES,
    TableOptions,
    feature_columns,
    find_columns,
    shorten,
    trained_columns,
)
from djgnn.graph.table_text import Table, guess_header

MOST_REPEATED = 0.05
"""Share of the rows of a node table that may be further ones of a node, with other features."""


def read_tables(edges: str | Path, nodes: str | Path, **options: Unpack[TableOptions]) -> Graph:
    """Read a graph from an edge table and a node table (CSV, TSV or Parquet).

    Columns are found by their usual names (source/src/from/u, target/dst/to/v, weight; node/id/
    name, label/class/y/target, split) and can be named. Ids are text: ``007`` and ``7`` are two
    nodes. All other columns of the node table are features: numbers as they are, columns of few
    different texts one-hot (an empty cell is all zero). Other columns of the edge table are not
    used. The names of the feature columns are in ``graph.card["features"]``, how the tables were
    read in ``graph.card["tables"]``.

    Args:
        edges: File with one edge per row.
        nodes: File with one node per row; its order is the order of the nodes.
        options: Columns and rules, see :class:`djgnn.graph.table_rules.TableOptions`.

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
    options.setdefault("name", Path(nodes).expanduser().stem)
    problems, separator = Problems(), options.get("separator")
    first = problems.attempt(read_table, edges, separator)
    second = problems.attempt(read_table, nodes, separator)
    problems.stop()
    tables = _with_headers(cast(Table, first), cast(Table, second), options)
    return assemble(*tables, options)


def _with_headers(edges: Table, nodes: Table, options: TableOptions) -> tuple[Table, Table]:
    """Both tables with the names of their columns, from a header line or by their place.

    Raises:
        InputError: If an option is unknown, or a column occurs twice.
    """
    said = options.get("header")
    if said not in (None, *HEADERS):
        raise InputError(f"header: must be one of {', '.join(HEADERS)} (got {said!r})")
    known = options.get("known")
    before = {*known["roles"].values(), *known["unused"], *trained_columns(known)} if known else {}
    given: list[Any] = [options.get(role) for role in USUAL_NAMES]
    given += [*(options.get("features") or ()), *(options.get("columns") or ())]
    named = {name for name in (*before, *given) if name}
    problems, done = Problems(), []
    for table, other, what in ((edges, nodes, "edges"), (nodes, edges, "nodes")):
        header = table.header if said is None else said in (what, "both")
        if table.header is None and said is None:
            header = guess_header(table, named)
        if header is None:  # a node that the other table names is not the name of a column
            cells = set(map(str, table.frame.row(0)))
            header = not any(cells & set(column.cast(pl.String)) for column in other.frame)
        done.append(problems.attempt(table.named, header) if table.header is None else table)
    problems.stop()
    return done[0] or edges, done[1] or nodes


def from_frames(edges: Any, nodes: Any, **options: Unpack[TableOptions]) -> Graph:
    """A graph from an edge frame and a node frame, by the rules of :func:`read_tables`.

    Args:
        edges: A polars or pandas data frame with one edge per row. The index is not used.
        nodes: The same with one node per row.
        options: Columns and rules, see :class:`djgnn.graph.table_rules.TableOptions`.

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
    tables = polars_frame(edges, "edges"), polars_frame(nodes, "nodes")
    return assemble(Table("edges", tables[0]), Table("nodes", tables[1]), options)


def assemble(edges: Table, nodes: Table, options: TableOptions) -> Graph:
    """A graph from an edge table and a node table in memory: where all tabular formats meet.

    Args:
        edges: One edge per row.
        nodes: One node per row; their order is the order of the nodes.
        options: Columns and rules.

    Raises:
        InputError: With file, row, column and remedy of everything that is wrong.
    """
    for name in options.keys() - TableOptions.__annotations__.keys():
        known = ", ".join(TableOptions.__annotations__)
        raise InputError(f"{name}: no such option of tables; there are {known}")
    rule = options.get("duplicates", "first")
    if rule not in DUPLICATES:
        raise InputError(f"duplicates: must be one of {', '.join(DUPLICATES)} (got {rule!r})")
    if isinstance(options.get("unknown"), str):
        options = {**options, "unknown": [str(options["unknown"])]}
    if not options.get("known"):
        found = refer((nodes.where, edges.where), nodes.frame, edges.frame, options)
        options = {**options, **found}  # type: ignore[typeddict-item]
        nodes = _numbered(nodes, found.get("node"))
    problems = Problems()
    names = nodes.frame.columns
    kinds = ("node", "label", "split"), ("source", "target", "weight")
    roles = problems.attempt(find_columns, nodes.where, names, kinds[0], options) or {}
    ends = problems.attempt(find_columns, edges.where, edges.frame.columns, kinds[1], options) or {}
    chosen = problems.attempt(feature_columns, nodes.where, names, roles.values(), options) or []
    used = {*roles.values(), *chosen}
    problems.attempt(_check_types, nodes, used)
    problems.attempt(_check_types, edges, set(ends.values()))
    problems.stop()
    if options.get("known"):
        roles |= {"label": None, "split": None}
    ids = problems.attempt(read_ids, nodes.where, nodes.frame[str(roles["node"])])
    if ids is not None:
        told = [column for role, column in roles.items() if column and role != "node"]
        nodes, ids = problems.attempt(_once, nodes, ids, told) or (
            nodes,
            ids.drop_nulls().unique(maintain_order=True),
        )
    linked, listed, repeats = None, len(nodes.frame), ""
    if ids is not None and len(ids):
        if problems.found or (chosen and options.get("add_nodes") is None):
            options = {**options, "add_nodes": False}
        linked = problems.attempt(find_ends, edges, ends, nodes, ids, options)
    nodes = linked.nodes if linked else nodes
    fields, encoders = problems.attempt(_node_fields, nodes, roles, chosen, options) or ({}, [])
    if linked:
        ids = _with_others(linked, fields)
        given = problems.attempt(edge_fields, edges, ends, ids, linked.place, options)
        more, repeats = given or ({}, "")
        fields |= more
    problems.stop()
    dropped = {encoder.name for encoder in encoders if isinstance(encoder, Dropped)}
    reading = {
        "roles": {role: column or "" for role, column in {**roles, **ends}.items()},
        "columns": json_values(msgspec.to_builtins(encoders)),
        "unused": [name for name in names if name not in used or name in dropped],
        "symmetric": options.get("symmetric", False),
        "duplicates": rule,
        "unknown": list(options.get("unknown") or UNKNOWN),
        "notes": _notes(edges, nodes, roles | ends, fields, listed, repeats),
    }
    fields["card"] = {"tables": reading}
    features = [name for encoder in encoders for name in encoder.names()]
    if features:
        fields["card"]["features"] = features
    for value in fields.values():
        if isinstance(value, np.ndarray) and value.flags.owndata:
            value.flags.writeable = False  # so that `Graph` does not copy it
    try:
        return Graph(name=options.get("name") or "graph", **fields)
    except InputError as error:
        raise InputError(f"{edges.where}, {nodes.where}: {error}") from error


def _numbered(nodes: Table, name: str | None) -> Table:
    """The node table with its row numbers as ids, if `name` says that edges mean these."""
    if name not in ROWS:
        return nodes
    numbers = pl.int_range(ROWS[name], ROWS[name] + nodes.frame.height, eager=True).alias(name)
    return replace(nodes, frame=pl.DataFrame([numbers, *nodes.frame.get_columns()]))


def _check_types(table: Table, names: Collection[str | None]) -> None:
    """Refuse columns of lists or bytes among those that are used."""
    for name, kind in table.frame.schema.items():
        if name in names and (kind.is_nested() or kind in (pl.Binary, pl.Object)):
            raise InputError(
                f"{table.where}: column {name!r} holds lists or bytes; store one number or text "
                f"per cell (got {kind})"
            )


def _once(nodes: Table, ids: pl.Series, told: Sequence[str]) -> tuple[Table, pl.Series]:
    """The node table with one row for each node, and its ids.

    Of rows with the same id the first is kept: where all are copies, or where they are few and have
    the same label and split.

    Args:
        nodes: The table.
        ids: The id of every row.
        told: The columns with labels and splits.

    Raises:
        InputError: If there are no rows, an id is missing, or one has two rows that contradict.
    """
    where = nodes.where
    if not len(ids):
        raise InputError(f"{where}: has no rows; give one row per node (got a header only)")
    problems = Problems()
    empty = ids.is_null() | (ids == "")
    problems.attempt(
        check_rows, where, ids, empty, "every node needs an id; fill it or drop the row"
    )
    again = ~ids.is_first_distinct() & ~empty
    if again.any():
        count, same = int(again.sum()), ids.is_in(ids.filter(again).implode())
        twice = nodes.frame.with_columns(ids.alias(ids.name)).filter(same)
        different = twice[ids.name].n_unique()
        copies = twice.n_unique() == different
        agree = twice.select(ids.name, *told).n_unique() == different
        if copies or (agree and count <= len(ids) * MOST_REPEATED):
            what = "copies of" if copies else "of the same nodes as"
            warnings.warn(
                f"{where}: {count} rows are {what} earlier ones and left out",
                ReadingWarning,
                stacklevel=4,
            )
            nodes, ids = replace(nodes, frame=nodes.frame.filter(~again)), ids.filter(~again)
        else:
            first = int(np.argmax((ids == ids[int(again.arg_true()[0])]).fill_null(False))) + 1
            what = (
                f"node already given in row {first} with other cells; keep one ({count} such rows)"
            )
            problems.attempt(check_rows, where, ids, again, what)
    problems.stop()
    return nodes, ids


def _node_fields(
    nodes: Table, roles: Mapping[str, str | None], chosen: Sequence[str], options: TableOptions
) -> tuple[dict[str, Any], list[Encoder]]:
    """The fields of `Graph` that a node table gives besides the ids, and what was learned."""
    where, table, problems = nodes.where, nodes.frame, Problems()
    fields: dict[str, Any] = {}
    if roles["label"]:
        labels, unknown = table[roles["label"]], options.get("unknown")
        found = problems.attempt(read_labels, where, labels, unknown)
        if found is not None:
            fields["y"], fields["class_names"] = found
    if roles["split"] and (found is not None if roles["label"] else True):
        split = table[roles["split"]]
        fields |= problems.attempt(read_split, where, split, fields.get("y")) or {}
    known, told = options.get("known"), options.get("columns") or {}
    frame = pl.DataFrame([_plain(table[name]) for name in chosen])
    earlier = None if known is None else {e.name: e for e in stored_encoders(known)}
    before = None if earlier is None else [earlier[name] for name in chosen]
    labelled = fields["y"] >= 0 if "y" in fields else None
    learned = problems.attempt(read_columns, where, frame, told, before, nodes.semicolons, labelled)
    blocks, encoders = learned or ([], [])
    problems.stop()
    if "y" in fields:
        kept = [e.name for e in encoders if e.names()]
        warn_of_giveaways(where, pl.DataFrame([frame[name] for name in kept]), fields["y"])
    return fields | {"x": join_blocks(blocks)}, encoders


def _plain(column: pl.Series) -> pl.Series:
    """Numbers, truth values and dates as they are, anything else as text."""
    kind = column.dtype
    typed = kind.is_numeric() or kind.is_temporal() or kind == pl.Boolean
    return column if typed else column.cast(pl.String)


def _with_others(linked: Ends, fields: dict[str, Any]) -> pl.Series:
    """The names of all nodes; those without a row have no label, no split, features of zero."""
    ids, more = pl.concat([linked.ids, linked.others]), linked.others
    if len(more):
        for key in fields.keys() - {"class_names", "x"}:
            fill = np.full(len(more), -1 if key == "y" else False)
            fields[key] = np.concatenate([fields[key], fill])
        x = fields.get("x")
        if x is not None:
            zeros = sp.csr_array((len(more), x.shape[1]), dtype=x.dtype)
            sparse = sp.issparse(x)
            x = sp.csr_array(sp.vstack([x, zeros])) if sparse else np.vstack([x, zeros.toarray()])
            fields["x"] = x
    fields |= {"num_nodes": len(ids), "node_names": tuple(ids.to_list())}
    return ids


def _notes(
    edges: Table,
    nodes: Table,
    roles: Mapping[str, str | None],
    fields: Mapping[str, Any],
    listed: int,
    repeats: str,
) -> list[str]:
    """How the two tables were read, in words."""
    n, y = fields["num_nodes"], fields.get("y")
    said = f"{n:,} nodes by {roles['node']!r}"
    if nodes.frame.height > listed:
        said += f", {nodes.frame.height - listed:,} of them named by edges alone (`add_nodes=`)"
    if y is not None:
        classes = len(fields["class_names"])
        said += f", {int((y >= 0).sum()):,} labelled by {roles['label']!r} ({classes} classes)"
    ends = (
        f"{fields['edge_index'].shape[1]:,} edges from {roles['source']!r} to {roles['target']!r}"
    )
    ends += (f", weights {roles['weight']!r}" if roles["weight"] else "") + repeats
    unused = [name for name in edges.frame.columns if name not in roles.values()]
    ends += f"; not used: {shorten(unused)}" if unused else ""
    return [
        f"{Path(table.where).name}: {f'{table.how}; ' if table.how else ''}{what}"
        for table, what in ((nodes, said), (edges, ends))
    ]
