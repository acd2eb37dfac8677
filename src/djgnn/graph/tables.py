"""Own graphs: an edge table and a node table to a `Graph`."""

import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import polars as pl
import scipy.sparse as sp
from numpy.typing import NDArray

from djgnn.errors import InputError
from djgnn.graph.files import readable_file
from djgnn.graph.graph import Graph
from djgnn.graph.table_columns import (
    feature_names,
    read_features,
    read_labels,
    read_split,
    read_weights,
)
from djgnn.graph.table_files import check_rows, polars_frame, read_table
from djgnn.graph.table_rules import (
    DUPLICATES,
    UNKNOWN,
    Features,
    TableOptions,
    feature_columns,
    find_columns,
)


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
    edge_file, node_file = readable_file(edges), readable_file(nodes)
    options.setdefault("name", node_file.stem)
    tables = read_table(edge_file), read_table(node_file)
    return assemble(str(edge_file), tables[0], str(node_file), tables[1], options)


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
    return assemble("edges", tables[0], "nodes", tables[1], options)


def assemble(
    edge_file: str, edges: pl.DataFrame, node_file: str, nodes: pl.DataFrame, options: TableOptions
) -> Graph:
    """A graph from an edge table and a node table in memory: where all tabular formats meet.

    Args:
        edge_file: Where the edges come from, for messages.
        edges: One edge per row.
        node_file: Where the nodes come from, for messages.
        nodes: One node per row; their order is the order of the nodes.
        options: Columns and rules.

    Raises:
        InputError: With file, row, column and remedy.
    """
    for name in options.keys() - TableOptions.__annotations__.keys():
        known = ", ".join(TableOptions.__annotations__)
        raise InputError(f"{name}: no such option of tables; there are {known}")
    rule = options.get("duplicates", "first")
    if rule not in DUPLICATES:
        raise InputError(f"duplicates: must be one of {', '.join(DUPLICATES)} (got {rule!r})")
    roles = find_columns(node_file, nodes.columns, ("node", "label", "split"), options)
    chosen = feature_columns(node_file, nodes.columns, roles.values(), options)
    used = {*roles.values(), *chosen}
    unused = [name for name in nodes.columns if name not in used]
    if options.get("known"):
        roles |= {"label": None, "split": None}
    ends = find_columns(edge_file, edges.columns, ("source", "target", "weight"), options)
    for where, table, names in ((node_file, nodes, used), (edge_file, edges, ends.values())):
        for name, kind in table.schema.items():
            if name in names and (kind.is_nested() or kind in (pl.Binary, pl.Object)):
                raise InputError(
                    f"{where}: column {name!r} holds lists or bytes; store one number or text per "
                    f"cell (got {kind})"
                )
    fields, ids, features = _node_fields(node_file, nodes, roles, chosen, options)
    fields |= _edge_fields(edge_file, edges, ends, ids, options)
    reading = {
        "roles": {role: column or "" for role, column in {**roles, **ends}.items()},
        "features": [[name, levels and list(levels)] for name, levels in features.items()],
        "unused": unused,
        "symmetric": options.get("symmetric", False),
        "duplicates": rule,
        "unknown": list(options.get("unknown", UNKNOWN)),
    }
    fields["card"] = {"tables": reading}
    if features:
        fields["card"]["features"] = feature_names(features)
    for value in fields.values():
        if isinstance(value, np.ndarray) and value.flags.owndata:
            value.flags.writeable = False  # so that `Graph` does not copy it
    try:
        return Graph(name=options.get("name") or "graph", **fields)
    except InputError as error:
        raise InputError(f"{edge_file}, {node_file}: {error}") from error


def _node_fields(
    where: str,
    table: pl.DataFrame,
    roles: Mapping[str, str | None],
    chosen: Sequence[str],
    options: TableOptions,
) -> tuple[dict[str, Any], pl.Series, Features]:
    """The fields of `Graph` that a node table gives, the ids, and what the feature columns are."""
    ids = _ids(where, table[str(roles["node"])])
    if not len(ids):
        raise InputError(f"{where}: has no rows; give one row per node (got a header only)")
    check_rows(where, ids, ids.is_null() | (ids == ""), "every node needs an id")
    again = ~ids.is_first_distinct()
    if again.any():
        first = int(np.argmax((ids == ids[int(again.arg_true()[0])]).to_numpy())) + 1
        check_rows(where, ids, again, f"node already given in row {first}; keep one")
    fields: dict[str, Any] = {}
    if roles["label"]:
        labels = table[roles["label"]]
        unknown = options.get("unknown", UNKNOWN)
        fields["y"], fields["class_names"] = read_labels(where, labels, unknown)
    if roles["split"]:
        fields |= read_split(where, table[roles["split"]], fields.get("y"))
    known = options.get("known")
    frame = pl.DataFrame([table[name] for name in chosen])
    x, features = read_features(where, frame, dict(known["features"]) if known else None)
    given = set(ids.to_list())
    more = [name for name in options.get("others", ()) if name not in given]
    if more:  # nodes without a row of their own: no label, no split, features of zero
        ids = pl.concat([ids, pl.Series(more, dtype=pl.String)])
        for key in fields.keys() - {"class_names"}:
            fill = np.full(len(more), -1 if key == "y" else False)
            fields[key] = np.concatenate([fields[key], fill])
        if x is not None:
            zeros = sp.csr_array((len(more), x.shape[1]), dtype=x.dtype)
            sparse = sp.issparse(x)
            x = sp.csr_array(sp.vstack([x, zeros])) if sparse else np.vstack([x, zeros.toarray()])
    fields |= {"num_nodes": len(ids), "node_names": tuple(ids.to_list()), "x": x}
    return fields, ids, features


def _ids(where: str, column: pl.Series) -> pl.Series:
    """A column of ids as text."""
    if column.dtype.is_float():
        raise InputError(
            f"{where}: column {column.name!r} holds ids; store whole numbers or text "
            f"(got {column.dtype})"
        )
    return column.cast(pl.String)


def _edge_fields(
    where: str,
    table: pl.DataFrame,
    roles: Mapping[str, str | None],
    ids: pl.Series,
    options: TableOptions,
) -> dict[str, Any]:
    """The fields of `Graph` that an edge table gives."""
    ends = [_ids(where, table[str(roles[role])]) for role in ("source", "target")]
    index = _look_up(ends, ids)
    missing = (index < 0).any(axis=0)
    if missing.any():
        row = int(np.argmax(missing))
        column = ends[int(np.argmin(index[:, row]))]
        what, name = "no such node in the node table; add it there or drop the edge", column[row]
        if name and name.strip() != name and name.strip() in ids:
            what += f", or take the spaces away ({name.strip()!r} is there)"
        what += f" ({int(missing.sum())} such edges)"
        check_rows(where, column, missing, what, "an edge needs two nodes")
    weight = read_weights(where, table[roles["weight"]]) if roles["weight"] else None
    index, weight = _merge_duplicates(where, index, weight, ids, options)
    return {"edge_index": index, "edge_weight": weight}


def _look_up(columns: list[pl.Series], ids: pl.Series) -> NDArray[np.int64]:
    """The place in `ids` of every text, -1 where it is not there, ``[columns, rows]``.

    Compares hashes of 64 bits, several times faster than text: the first bits choose a slot of a
    table that holds one id; what is not there is searched for among all ids. The seed is drawn anew
    for every call, so no file can be made to let two names collide; by chance, ten million unknown
    names meet one of a million ids once in two million files.
    """
    seed = secrets.randbits(62)
    marks = ids.hash(seed).to_numpy()
    order = np.argsort(marks)
    if (np.diff(marks[order]) == 0).any():  # two ids of one hash: another seed
        return _look_up(columns, ids)
    bits = min(28, max(8, len(ids).bit_length() + 4))
    shift = np.uint64(64 - bits)
    slots = np.zeros(2**bits, dtype=np.int64)
    slots[marks >> shift] = np.arange(len(ids))
    index = np.empty((len(columns), len(columns[0])), dtype=np.int64)
    for found, column in zip(index, columns, strict=True):
        asked = column.hash(seed).to_numpy()
        np.take(slots, (asked >> shift).view(np.int64), out=found, mode="clip")
        rest = np.flatnonzero(marks[found] != asked)
        place = np.searchsorted(marks, asked[rest], sorter=order)
        guess = order[np.minimum(place, len(ids) - 1)]
        found[rest] = np.where(marks[guess] == asked[rest], guess, -1)
    return index


def _merge_duplicates(
    where: str,
    ends: NDArray[np.int64],
    weight: NDArray[np.float64] | None,
    ids: pl.Series,
    options: TableOptions,
) -> tuple[NDArray[np.int64], NDArray[np.float64] | None]:
    """Apply the rule for edges listed twice, in the order of their first appearance.

    If symmetric, an edge and its reverse are one, and both directions are returned.

    Shapes:
        ends ``[2, E]``, weight ``[E]``.
    """
    rule, symmetric = options.get("duplicates", "first"), options.get("symmetric", False)
    low, high = (ends.min(axis=0), ends.max(axis=0)) if symmetric else ends
    key = low * len(ids) + high
    ordered = np.sort(key)
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    if twice.size:  # usually few, so that only these are compared
        places = np.flatnonzero(pl.Series(key).is_in(pl.Series(twice).unique().implode()))
        first = np.ones(key.size, dtype=np.bool_)
        first[places] = pl.Series(key[places]).is_first_distinct().to_numpy()
        if rule == "error":
            row = int(np.argmin(first))
            earlier = int(np.argmax(key == key[row])) + 1
            pair = " -> ".join(str(ids[int(v)]) for v in ends[:, row])
            raise InputError(
                f"{where}: row {row + 1} lists an edge again that is in row {earlier}; drop it or "
                f"choose another rule with `duplicates=` (got {pair})"
            )
        if rule == "sum" and weight is None:
            weight = np.ones(key.size)
        if weight is not None:
            groups = pl.DataFrame({"key": key, "w": weight}).group_by("key", maintain_order=True)
            weight = getattr(groups, rule)()["w"].to_numpy()  # first, sum, mean or max
        ends = np.stack([row[first] for row in ends])
    if symmetric:
        other = ends[0] != ends[1]
        ends = np.concatenate([ends, ends[::-1, other]], axis=1)
        weight = None if weight is None else np.concatenate([weight, weight[other]])
    return ends, weight
