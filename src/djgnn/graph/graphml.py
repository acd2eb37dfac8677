"""GraphML files: attributes of nodes and edges are columns, by the rules of tables."""

import re
from pathlib import Path
from typing import Any, Unpack
from xml.etree.ElementTree import Element, ParseError
from xml.sax.saxutils import escape, quoteattr

import polars as pl
from defusedxml import DefusedXmlException
from defusedxml.ElementTree import parse

from djgnn.errors import InputError
from djgnn.graph.files import atomic_write, readable_file
from djgnn.graph.graph import Graph
from djgnn.graph.table_files import check_writable, node_tables
from djgnn.graph.table_rules import TableOptions
from djgnn.graph.table_text import Table, check_distinct
from djgnn.graph.tables import assemble

ID, SOURCE, TARGET = "<node id>", "<edge source>", "<edge target>"
TRUTH = {"true": True, "1": True, "false": False, "0": False}
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
    undirected edge becomes two directed ones, a self loop one. Entities are never expanded, a
    document type is refused, and no other file or address is opened.

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
    nodes, edges, undirected = _parse(file)
    options = {
        "name": file.stem,
        "add_nodes": False,
        **options,
        "node": ID,
        "source": SOURCE,
        "target": TARGET,
    }
    if undirected and len(undirected) == edges.height:
        options["symmetric"] = True
    elif not options.get("symmetric"):
        back = edges[undirected].filter(pl.col(SOURCE) != pl.col(TARGET))
        back = back.rename({SOURCE: TARGET, TARGET: SOURCE}).select(edges.columns)
        edges = edges.vstack(back)
    return assemble(Table(f"{file} (edges)", edges), Table(f"{file} (nodes)", nodes), options)


def _parse(file: Path) -> tuple[pl.DataFrame, pl.DataFrame, list[int]]:
    """The nodes, the edges, and the numbers of the edges without direction."""
    try:
        root: Any = parse(file, forbid_dtd=True).getroot()
    except DefusedXmlException as error:
        what = "has a document type or an XML entity, which are never expanded; delete '<!DOCTYPE'"
        raise _wrong(file, f"{what} with all that belongs to it", error) from error
    except (ParseError, LookupError, ValueError) as error:
        raise _wrong(file, "is not well-formed XML; write the file again", error) from error
    if _tag(root) != "graphml":
        raise _wrong(file, "is not GraphML; the outermost tag must be <graphml>", root.tag)
    graphs = [element for element in root if _tag(element) == "graph"]
    if len(graphs) != 1:
        problem = "has several graphs; write one per file" if graphs else "has no <graph>; add it"
        raise _wrong(file, problem, f"{len(graphs)} graphs")
    parts: dict[str, list[Element]] = {"node": [], "edge": []}
    for top, element in [(above, part) for above in (root, graphs[0]) for part in above]:
        tag = _tag(element)
        if element is graphs[0] or tag == "data":
            continue
        inside = element if top is not root and tag in parts else element.iter()
        if tag == "hyperedge" or any(_tag(part) in ("graph", *parts) for part in inside):
            problem = "has a hyperedge, a nested graph, or a node or edge outside <graph>"
            raise _wrong(file, f"{problem}; put nodes and edges directly into one <graph>", tag)
        if tag in parts:
            parts[tag].append(element)
    default = "false" if graphs[0].get("edgedefault") == "undirected" else "true"
    directed = [edge.get("directed", default) for edge in parts["edge"]]
    undirected = [place for place, flag in enumerate(directed) if flag == "false"]
    keys = [element for element in root if _tag(element) == "key"]
    nodes = _frame(f"{file} (nodes)", "node", {ID: "id"}, keys, parts["node"])
    ends = {SOURCE: "source", TARGET: "target"}
    return nodes, _frame(f"{file} (edges)", "edge", ends, keys, parts["edge"]), undirected


def _frame(
    where: str, tag: str, ids: dict[str, str], keys: list[Element], elements: list[Element]
) -> pl.DataFrame:
    """The nodes or the edges with the attributes that occur, as text; truth values as such.

    Args:
        where: The file and its part, for messages.
        tag: ``node`` or ``edge``.
        ids: The XML attribute of each column of ids.
        keys: Every <key> of the file.
        elements: Every <node> or <edge>.

    Raises:
        InputError: At an element without its ids, or <data> without its <key> or given twice.
    """
    named = [(_need(where, key, "id", "<key>"), key) for key in keys]
    own: dict[str, Element] = {}
    for code, key in named:
        if key.get("for", "all") in (tag, "all") and own.setdefault(code, key) is not key:
            raise _wrong(where, "declares a <key> twice; keep one", code)
    rows: list[dict[str, str]] = []
    for number, element in enumerate(elements, 1):
        place = f"<{tag}> {number}"
        row = {column: _need(where, element, name, place) for column, name in ids.items()}
        for part in element:
            if _tag(part) != "data":
                continue
            code = _need(where, part, "key", f"<data> of {place}")
            if code not in own:
                what = f"<data> of {place} names no declared <key>; declare it for='{tag}'"
                raise _wrong(where, what, code)
            if code in row:
                name = own[code].get("attr.name", code)[:80]
                raise _wrong(where, f"{place} gives {name!r} twice; keep one", part.text)
            row[code] = part.text or ""
        rows.append(row)
    given = set().union(*rows)
    defaults = {
        code: "".join(part.text or "" for part in key if _tag(part) == "default")
        for code, key in own.items()
        if "yfiles.type" not in key.attrib  # a drawing of an editor
    }
    codes = [code for code, default in defaults.items() if code in given or default]
    names = [own[code].get("attr.name", code) for code in codes]
    check_distinct(where, names)
    text = sum(len(defaults[code]) for code in codes) * len(rows)
    if len(codes) * len(rows) > MOST_CELLS or text > MOST_TEXT:
        raise InputError(
            f"{where}: {len(codes)} attributes of {len(rows)} elements with defaults of {text} "
            "characters in all are too many for this format; store the graph as tables or .npz "
            f"(got {len(codes) * len(rows)} cells)"
        )
    frame = pl.DataFrame(rows, schema=dict.fromkeys((*ids, *codes), pl.String))
    columns = [frame[name] for name in ids]
    for code, name in zip(codes, names, strict=True):
        column = frame[code].alias(name)
        column = column.fill_null(defaults[code]) if defaults[code] else column
        if own[code].get("attr.type") == "boolean" and column.is_in(list(TRUTH)).all():
            column = column.replace_strict(TRUTH, return_dtype=pl.Boolean)
        columns.append(column)
    return pl.DataFrame(columns)


def _tag(element: Element) -> str:
    """The tag without its namespace."""
    return str(element.tag).rpartition("}")[2]


def _need(where: str, element: Element, attribute: str, place: str) -> str:
    value = element.get(attribute)
    if value is None:
        given = ", ".join(element.attrib) or "none"
        raise _wrong(where, f"{place} has no {attribute!r}; add it", given)
    return value


def _wrong(where: str | Path, what: str, got: object) -> InputError:
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

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     write_graphml(Graph([[0, 1], [1, 2]], 3), f"{folder}/path.graphml")
        ...     read_graphml(f"{folder}/path.graphml").num_edges
        2
    """
    check_writable(graph, NOT_XML)
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
