"""GraphML files: attributes of nodes and edges are columns, by the rules of tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Unpack
from xml.etree.ElementTree import Element, ParseError
from xml.sax.saxutils import escape, quoteattr

import polars as pl
from defusedxml import DefusedXmlException
from defusedxml.ElementTree import DefusedXMLParser, iterparse

from djgnn.errors import InputError
from djgnn.graph.files import atomic_write, readable_file
from djgnn.graph.graph import Graph
from djgnn.graph.table_files import check_distinct, node_tables
from djgnn.graph.table_rules import TableOptions
from djgnn.graph.tables import assemble

ID, SOURCE, TARGET = "<node id>", "<edge source>", "<edge target>"
TRUTH = {"true": True, "1": True, "false": False, "0": False}
DEEPEST = 64
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
        options: Columns and rules, see :class:`djgnn.graph.table_rules.TableOptions`; ``node``,
            ``source`` and ``target`` are given by the format and cannot be named.

    Raises:
        InputError: With file, place and remedy.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> file = Path(tempfile.mkdtemp(), "pair.graphml")
        >>> g = Graph(np.array([[0], [1]]), 2, y=np.array([0, -1]), node_names=("a b", "007"))
        >>> write_graphml(g, file)
        >>> read_graphml(file).node_names, read_graphml(file).y.tolist()
        (('a b', '007'), [0, -1])
    """
    file = readable_file(path)
    for role, column in options.items():
        if role in ("node", "source", "target") and column is not None:
            raise InputError(
                f"{file}: GraphML says itself which are the ids; leave `{role}=` out "
                f"(got {column!r})"
            )
    nodes = _Table(f"{file} (nodes)", "node", {ID: "id"})
    edges = _Table(f"{file} (edges)", "edge", {SOURCE: "source", TARGET: "target"})
    undirected = _parse(str(file), nodes, edges)
    options = {"name": file.stem, **options, "node": ID, "source": SOURCE, "target": TARGET}
    edge_table = edges.frame()
    if undirected and len(undirected) == len(edges.rows):
        options["symmetric"] = True
    elif not options.get("symmetric"):
        back = edge_table[undirected].filter(pl.col(SOURCE) != pl.col(TARGET))
        back = back.rename({SOURCE: TARGET, TARGET: SOURCE}).select(edge_table.columns)
        edge_table = edge_table.vstack(back)
    return assemble(edges.where, edge_table, nodes.where, nodes.frame(), options)


@dataclass
class _Table:
    """The nodes or the edges of a file: the <key> of each attribute, one dict per element."""

    where: str
    tag: str
    ids: dict[str, str]
    keys: dict[str, Element] = field(default_factory=dict)
    rows: list[dict[str, str]] = field(default_factory=list)

    def add(self, element: Element) -> None:
        """Append a <node> or <edge> with its <data>."""
        place = f"<{self.tag}> {len(self.rows) + 1}"
        row = {column: _need(self.where, element, name, place) for column, name in self.ids.items()}
        for part in element:
            if part.tag.rpartition("}")[2] != "data":
                continue
            code = _need(self.where, part, "key", f"<data> of {place}")
            if code not in self.keys:
                what = f"<data> of {place} names no declared <key>; declare it for='{self.tag}'"
                raise _wrong(self.where, what, code)
            if code in row:
                name = self.keys[code].get("attr.name", code)[:80]
                raise _wrong(self.where, f"{place} gives {name!r} twice; keep one", part.text)
            if "yfiles.type" not in self.keys[code].attrib:  # a drawing
                row[code] = part.text or ""
        self.rows.append(row)

    def frame(self) -> pl.DataFrame:
        """The rows with the attributes that occur, as text; truth values as such."""
        given, count = set().union(*self.rows), len(self.rows)
        defaults = {
            code: "".join(part.text or "" for part in key if part.tag.endswith("default"))
            for code, key in self.keys.items()
            if "yfiles.type" not in key.attrib
        }
        codes = [code for code in defaults if code in given or defaults[code]]
        names = [self.keys[code].get("attr.name", code) for code in codes]
        check_distinct(self.where, names)
        text = sum(len(defaults[code]) for code in codes) * count
        if len(codes) * count > MOST_CELLS or text > MOST_TEXT:
            raise InputError(
                f"{self.where}: {len(codes)} attributes of {count} elements with defaults of "
                f"{text} characters in all are too many for this format; store the graph as tables "
                f"or .npz (got {len(codes) * count} cells)"
            )
        frame = pl.DataFrame(self.rows, schema=dict.fromkeys((*self.ids, *codes), pl.String))
        columns = [frame[name] for name in self.ids]
        for code, name in zip(codes, names, strict=True):
            column = frame[code].alias(name)
            column = column.fill_null(defaults[code]) if defaults[code] else column
            truth = self.keys[code].get("attr.type") == "boolean"
            if truth and column.is_in(list(TRUTH)).all():
                column = column.replace_strict(TRUTH, return_dtype=pl.Boolean)
            columns.append(column)
        return pl.DataFrame(columns)


class _Parser(DefusedXMLParser):
    """Allows a document type to be named; declarations inside it could multiply the file."""

    def defused_start_doctype_decl(self, name: str, system: Any, public: Any, inside: bool) -> None:
        if inside:
            super().defused_start_doctype_decl(name, system, public, inside)


def _parse(file: str, nodes: _Table, edges: _Table) -> list[int]:
    """Fill the tables; the numbers of the edges without direction."""
    undirected: list[int] = []
    path: list[str] = []
    graph: Element | None = None
    for event, element in _events(file):
        tag = element.tag.rpartition("}")[2]
        if event == "start":
            if not path and tag != "graphml":
                raise _wrong(file, "is not GraphML; the outermost tag must be <graphml>", tag)
            if len(path) >= DEEPEST:
                raise _wrong(file, f"is nested more than {DEEPEST} tags deep", tag)
            if tag == "graph" and "data" not in path:
                if graph is not None:
                    raise _wrong(file, "has several or nested graphs; write one per file", tag)
                graph = element
            path.append(tag)
            continue
        path.pop()
        if "data" in path:  # a drawing of an editor
            continue
        if tag == "key":
            code = _need(file, element, "id", "<key>")
            for table in (nodes, edges):
                if element.get("for", "all") in (table.tag, "all"):
                    if code in table.keys:
                        raise _wrong(file, "declares a <key> twice; keep one", code)
                    table.keys[code] = element
        elif tag == "hyperedge":
            raise _wrong(file, "has a hyperedge; replace it by edges between two nodes", tag)
        elif tag in ("node", "edge"):
            if graph is None or path[-1] != "graph":
                raise _wrong(file, f"<{tag}> must stand directly in <graph>", "/".join(path))
            (nodes if tag == "node" else edges).add(element)
            default = "false" if graph.get("edgedefault") == "undirected" else "true"
            if tag == "edge" and element.get("directed", default) == "false":
                undirected.append(len(edges.rows) - 1)
            graph[:] = []  # what was read need not be kept
    if graph is None:
        raise _wrong(file, "has no <graph>; write it as GraphML", "an empty document")
    return undirected


def _events(file: str) -> Iterator[tuple[str, Element]]:
    """Every tag when it starts and when it is complete; errors of the parser as `InputError`."""
    try:
        with readable_file(file).open("rb") as stream:
            yield from iterparse(stream, ("start", "end"), parser=_Parser(forbid_dtd=True))
    except InputError:
        raise
    except DefusedXmlException as error:
        what = "declares an XML entity or element types, which are never expanded; delete "
        raise _wrong(file, f"{what}everything from '<!DOCTYPE' to ']>'", error) from error
    except (ParseError, LookupError, ValueError) as error:
        raise _wrong(file, "is not well-formed XML; write the file again", error) from error


def _need(where: str, element: Element, attribute: str, place: str) -> str:
    value = element.get(attribute)
    if value is None:
        given = ", ".join(element.attrib) or "none"
        raise _wrong(where, f"{place} has no {attribute!r}; add it", given)
    return value


def _wrong(where: str, what: str, got: object) -> InputError:
    return InputError(f"{where}: {what} (got {str(got)[:80]!r})")


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
    key = '<key id="{0}" for="{1}" attr.name="{0}" attr.type="{2}">{3}</key>\n'
    keys = [key.format(name, "node", "string", "") for name in ("label", "split")]
    zero = "<default>0</default>"
    keys += [key.format(f"f{f}", "node", "float", zero) for f in range(graph.num_features)]
    weights = graph.edge_weight
    keys += [] if weights is None else [key.format("weight", "edge", "float", "")]
    with atomic_write(path) as stream:
        stream.write(f'{START}{"".join(keys)}<graph edgedefault="directed">\n'.encode())
        for table in node_tables(graph, split):
            for name, *cells in table.select(pl.all().cast(pl.String)).iter_rows():
                data = "".join(
                    f'<data key="{column}">{escape(cell, {chr(13): "&#13;"})}</data>'
                    for column, cell in zip(table.columns[1:], cells, strict=True)
                    if cell is not None and (column[0] != "f" or cell not in ("0", "0.0"))
                )
                stream.write(f"<node id={quoteattr(name)}>{data}</node>\n".encode())
        names = [quoteattr(name) for name in graph.names()]
        for place, (source, target) in enumerate(graph.edge_index.T.tolist()):
            weight = "" if weights is None else f'<data key="weight">{weights[place]!s}</data>'
            line = f"<edge source={names[source]} target={names[target]}>{weight}</edge>\n"
            stream.write(line.encode())
        stream.write(b"</graph>\n</graphml>\n")
