"""GraphML files: attributes of nodes and edges are columns, by the rules of tables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Unpack
from xml.sax.saxutils import escape, quoteattr

import numpy as np
import scipy.sparse as sp

from djgnn.errors import InputError
from djgnn.graph.files import atomic_write, readable_file
from djgnn.graph.graph import Graph
from djgnn.graph.graphml_parser import Key, Parsed, Parser
from djgnn.graph.table_graph import assemble
from djgnn.graph.table_rules import Rules, TableOptions, node_columns, repeated, shorten

if TYPE_CHECKING:
    import polars as pl

ID, SOURCE, TARGET = "<node id>", "<edge source>", "<edge target>"
NUMBERS = ("int", "long", "float", "double")
MOST_CELLS = 2**26
MOST_TEXT = 2**28
NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
START = (
    '<?xml version="1.0" encoding="utf-8"?>\n'
    '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n'
)


def read_graphml(path: str | Path, **options: Unpack[TableOptions]) -> Graph:
    """Read a graph from a GraphML file.

    Nodes are named by their ``id``. Attributes of nodes are columns of a node table, those of edges
    columns of an edge table, and the rules of :func:`djgnn.graph.tables.read_tables` hold. An
    undirected edge becomes two directed ones, a self loop one. Entities are never expanded, nothing
    may be declared inside a document type, and no other file or address is opened.

    Args:
        path: The file.
        options: Columns and rules, see :class:`djgnn.graph.table_rules.Rules`; ``node``, ``source``
            and ``target`` are given by the format and cannot be named.

    Raises:
        InputError: With file, line or row, and remedy.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp(), "pair.graphml")
        >>> g = Graph(np.array([[0], [1]]), 2, y=np.array([0, -1]), node_names=("a b", "007"))
        >>> write_graphml(g, file)
        >>> read_graphml(file).node_names, read_graphml(file).y.tolist()
        (('a b', '007'), [0, -1])
    """
    rules = Rules(**options)
    file = readable_file(path)
    for role in ("node", "source", "target"):
        if getattr(rules, role) is not None:
            raise InputError(
                f"{file}: GraphML itself says which are the ids; leave `{role}=` out "
                f"(got {getattr(rules, role)!r})"
            )
    rules = replace(rules, node=ID, source=SOURCE, target=TARGET, name=rules.name or file.stem)
    found = Parser(file).parse()
    if found.undirected and len(found.undirected) == len(found.sources):
        rules = replace(rules, symmetric=True)
    nodes, edges = _node_table(file, found, rules), _edge_table(file, found)
    if not rules.symmetric:
        edges = _both_ways(edges, found.undirected)
    return assemble(f"{file} (edges)", edges, f"{file} (nodes)", nodes, rules)


def _node_table(file: Path, found: Parsed, rules: Rules) -> pl.DataFrame:
    import polars as pl

    where = f"{file} (nodes)"
    keys = _columns(where, found.node_keys, len(found.nodes))
    roles = node_columns(where, [ID, *keys], rules)
    ids = pl.Series(ID, found.nodes, dtype=pl.String)
    return pl.DataFrame(
        [ids, *(_series(key, len(ids), key.name in roles.features) for key in keys.values())]
    )


def _edge_table(file: Path, found: Parsed) -> pl.DataFrame:
    import polars as pl

    count = len(found.sources)
    keys = _columns(f"{file} (edges)", found.edge_keys, count)
    source = pl.Series(SOURCE, found.sources, dtype=pl.String)
    target = pl.Series(TARGET, found.targets, dtype=pl.String)
    return pl.DataFrame([source, target, *(_series(key, count) for key in keys.values())])


def _both_ways(edges: pl.DataFrame, undirected: list[int]) -> pl.DataFrame:
    """The table with the reverse of these edges at its end."""
    import polars as pl

    part = edges[undirected]
    part = part.filter(part[SOURCE] != part[TARGET])
    ends = [part[TARGET].alias(SOURCE), part[SOURCE].alias(TARGET)]
    return edges.vstack(pl.DataFrame([*ends, *part.get_columns()[2:]]))


def _columns(where: str, keys: Mapping[str, Key], count: int) -> dict[str, Key]:
    """The attributes that occur, by name."""
    used = [key for key in keys.values() if key.cells or (key.default and not key.ignored)]
    names = [key.name for key in used]
    twice = repeated(names)
    if twice is not None:
        raise InputError(
            f"{where}: attribute {twice!r} is declared by two keys; rename one "
            f"(got {shorten(names)})"
        )
    if len(used) * count > MOST_CELLS:
        raise InputError(
            f"{where}: {len(used)} attributes of {count} elements are too many for this format; "
            f"store the graph as tables or .npz (got {len(used) * count} cells)"
        )
    longest = max(used, key=lambda key: len(key.default or ""), default=None)
    if sum(len(key.default or "") for key in used) * count > MOST_TEXT and longest is not None:
        raise InputError(
            f"{where}: the default of attribute {longest.name[:80]!r} is too long to be repeated "
            f"for {count} elements; shorten it (got {len(longest.default or '')} characters)"
        )
    return dict(zip(names, used, strict=True))


def _series(key: Key, count: int, feature: bool = False) -> pl.Series:
    import polars as pl

    cells: list[str | None] = [key.default] * count
    for row, text in key.cells.items():
        cells[row] = text
    column = pl.Series(key.name, cells, dtype=pl.String)
    if not feature:
        return column
    if key.kind == "boolean":
        words = {"true": 1.0, "1": 1.0, "false": 0.0, "0": 0.0}
        numbers = column.replace_strict(words, default=None, return_dtype=pl.Float32)
    elif key.kind in NUMBERS:
        numbers = column.str.strip_chars().cast(pl.Float32, strict=False)
    else:
        return column
    return numbers if numbers.null_count() == 0 else column


def write_graphml(graph: Graph, path: str | Path, split: int | None = 0) -> None:
    """Write a graph as GraphML, the inverse of :func:`read_graphml`.

    Attributes are ``label``, ``split``, ``f0``, ``f1``, ... of nodes and ``weight`` of edges; a
    feature that is zero is left to the default. What ``write_tables`` keeps is kept.

    Args:
        graph: What to write.
        path: The file.
        split: Which split to write, ``None`` = none.

    Raises:
        InputError: If a name is empty or has characters that XML cannot hold, or the file cannot
            be written.
    """
    for kind, names in (("node", graph.names()), ("class", graph.classes())):
        for place, name in enumerate(names):
            if not name or NOT_XML.search(name):
                raise InputError(
                    f"{kind} {place}: its name is empty or has characters that XML cannot hold; "
                    f"rename it, or write tables or .npz (got {name!r})"
                )
    with atomic_write(path) as stream:
        stream.write(START.encode())
        _write_keys(graph, stream)
        stream.write(b'<graph edgedefault="directed">\n')
        for name, cells in zip(graph.names(), _cells(graph, split), strict=True):
            text = "".join(f'<data key="{key}">{value}</data>' for key, value in cells)
            stream.write(f"<node id={quoteattr(name)}>{text}</node>\n".encode())
        quoted = [quoteattr(name) for name in graph.names()]
        for place, (source, target) in enumerate(graph.edge_index.T.tolist()):
            line = f"<edge source={quoted[source]} target={quoted[target]}"
            if graph.edge_weight is None:
                stream.write(f"{line}/>\n".encode())
            else:
                value = f'<data key="weight">{graph.edge_weight[place]!s}</data>'
                stream.write(f"{line}>{value}</edge>\n".encode())
        stream.write(b"</graph>\n</graphml>\n")


def _write_keys(graph: Graph, stream: IO[bytes]) -> None:
    line = '<key id="{0}" for="{1}" attr.name="{0}" attr.type="{2}">{3}</key>\n'
    for name in ("label", "split"):
        stream.write(line.format(name, "node", "string", "").encode())
    for f in range(graph.num_features):
        stream.write(line.format(f"f{f}", "node", "float", "<default>0</default>").encode())
    if graph.edge_weight is not None:
        stream.write(line.format("weight", "edge", "float", "").encode())


def _cells(graph: Graph, split: int | None) -> Iterator[list[tuple[str, str]]]:
    """What to write of each node: its label, its part, its features that are not zero."""
    classes = [_text(name) for name in graph.classes()]
    parts: list[tuple[str, Any]] = []
    if split is not None and graph.num_splits:
        masks = graph.split(split)
        parts = [("train", masks.train), ("val", masks.val), ("test", masks.test)]
    x: Any = graph.x
    for node in range(graph.num_nodes):
        cells: list[tuple[str, str]] = []
        if graph.y is not None:
            cells += [("label", classes[graph.y[node]] if graph.y[node] >= 0 else "")]
        cells += [("split", name) for name, mask in parts if mask[node]]
        if sp.issparse(x):
            begin, end = x.indptr[node : node + 2]
            places, values = x.indices[begin:end], x.data[begin:end]
        elif x is not None:
            places = np.flatnonzero((x[node] != 0) | np.signbit(x[node]))
            values = x[node, places]
        else:
            places, values = (), ()
        cells += [(f"f{f}", str(value)) for f, value in zip(places, values, strict=True)]
        yield cells


def _text(value: str) -> str:
    return escape(value, {"\r": "&#13;"})
