"""The options that name a graph, and how it is read. No heavy imports at the top."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from djgnn.background import in_thread
from djgnn.cli.options import Data, File, Text, Texts, check_choice, option
from djgnn.cli.terminal import warn, warnings_once
from djgnn.errors import InputError, printable

if TYPE_CHECKING:
    from pathlib import Path

    from djgnn.graph import Graph

WHOLE = (".graphml", ".npz")
# Fields of `Source` that say how tables are read, and the arguments of `read_tables` they become.
READING = {f"{name}_column": name for name in ("split", "source", "target", "weight")}
READING |= {"id_column": "node", "label": "label", "symmetric": "symmetric"}
READING |= {name: name for name in ("features", "exclude", "duplicates", "unknown")}
READING |= {"column": "columns", "header": "header", "separator": "separator"}
READING |= {"add_nodes": "add_nodes"}
FLAGS = {name: f"--{field.replace('_', '-')}" for field, name in READING.items()}
FLAGS |= {"features": "--feature", "overwrite": "--overwrite"}


@dataclass(frozen=True)
class Source:
    """Where a graph comes from: a data set, one file with the whole graph, or two tables."""

    dataset: Annotated[Text, option("A benchmark set by name.")] = None
    edges: Annotated[File, option("Edge table (CSV, TSV, Parquet), or a whole graph.")] = None
    nodes: Annotated[File, option("Node table (CSV, TSV, Parquet).")] = None
    graph: Annotated[File, option("The whole graph (GraphML, npz).")] = None
    label: Annotated[Text, option("Column with the labels.")] = None
    symmetric: Annotated[
        bool | None,
        option(
            "Add the reverse of every edge, or not (default). Experts look both ways in any case.",
            "--symmetric/--directed",
        ),
    ] = None
    data: Data = None
    column: Annotated[
        Texts,
        option(
            "What a node column is: NAME=number (number:, with a decimal comma), category, text, "
            "date, truth, raw (a number as it is) or drop; NAME may be a pattern; may be repeated."
        ),
    ] = None
    header: Annotated[
        Text, option("Which tables have a header line: both, edges, nodes or none.")
    ] = None
    separator: Annotated[
        Text, option("Between cells: comma, semicolon, tab, bar, space or the character.")
    ] = None
    id_column: Annotated[Text, option("Node column with the ids.")] = None
    split_column: Annotated[Text, option("Node column with train, val or test.")] = None
    source_column: Annotated[Text, option("Edge column: from.")] = None
    target_column: Annotated[Text, option("Edge column: to.")] = None
    weight_column: Annotated[Text, option("Edge column: weight; '' = use none.")] = None
    features: Annotated[
        Texts, option("Use this node column, and no other; may be repeated.", "--feature")
    ] = None
    exclude: Annotated[
        Texts, option("Leave this node column out of the features; may be repeated.")
    ] = None
    duplicates: Annotated[
        Text, option("An edge listed twice: first (default), sum, mean, max or error.")
    ] = None
    add_nodes: Annotated[
        bool | None,
        option(
            "Add the nodes that only edges name, without label and with missing features, or not; "
            "they are by default if the node table has no features."
        ),
    ] = None
    unknown: Annotated[
        Texts,
        option(
            "Label that means unknown, besides an empty one; -1, NA, null and the like by default, "
            "'' = none."
        ),
    ] = None
    metric: Annotated[
        Text, option("Score of an own graph: accuracy, macro_f1, roc_auc or average_precision.")
    ] = None

    def columns(self) -> dict[str, Any]:
        """What was said about columns and edges, by the names of `read_tables`."""
        said = {name: getattr(self, field) for field, name in READING.items()}
        said["exclude"] = tuple(self.exclude or ())
        said["unknown"] = ("", *self.unknown) if self.unknown else None
        said["columns"] = {}
        for pair in self.column or []:
            name, equals, kind = pair.rpartition("=")
            if not equals or not name:
                raise InputError(f"--column: must be NAME=KIND (got {pair!r})")
            said["columns"][name] = kind
        return {key: value for key, value in said.items() if value not in (None, [], (), {})}


def read_ahead(source: Source) -> Callable[[], Graph] | None:
    """Begin to read the ``.npz`` file of a graph, if the options name one, in a thread.

    Meanwhile the libraries can be imported, which takes as long for a large graph. Whoever ends
    before it is wanted does not wait for it. Of several processes the first one reads.

    Returns:
        What gives the graph, or raises why there is none.
    """
    file = source.graph
    if file is None or file.suffix.lower() != ".npz" or os.environ.get("RANK", "0") != "0":
        return None
    return in_thread(partial(_npz, file))


def run_ahead(run: Path) -> Callable[[], Graph] | None:
    """Begin to read the graph of a run likewise, if it is an ordinary file."""
    from djgnn.graph.npz import RUN_FILE

    file = run.expanduser() / RUN_FILE

    def read() -> Graph:
        graph = _npz(file)
        _ = graph.content_hash  # which will be compared
        return graph

    return in_thread(read) if file.is_file() and not file.is_symlink() else None


def _npz(file: Path) -> Graph:
    """The graph in a file, with its adjacency, which will be wanted."""
    from djgnn.graph import read_npz

    graph = read_npz(file)
    _ = graph.adjacency
    return graph


def load(
    source: Source,
    others: Sequence[str] = (),
    reading: Mapping[str, Any] | None = None,
    ahead: Callable[[], Graph] | None = None,
) -> Graph:
    """The graph that the options name, as it is: labels and splits may be missing.

    Args:
        source: The options.
        others: Names of nodes that edges may lead to though the node table has no row for them.
        reading: How to read tables where the options say nothing, see `reading_of`.
        ahead: The result of :func:`read_ahead`.

    Raises:
        InputError: If the options name no graph or several, do not fit together, or the graph
            cannot be read.
    """
    from djgnn.graph import Graph
    from djgnn.graph.checks import BINARY, METRICS

    check_choice("--metric", source.metric or METRICS[0], METRICS)
    named = (source.dataset, source.graph, source.edges or source.nodes)
    if sum(value is not None for value in named) != 1:
        raise InputError(
            "give either --dataset NAME, --graph FILE, or --edges FILE and --nodes FILE"
        )
    with warnings_once(with_flags) as warned:
        if source.dataset is not None:
            _refuse(source, f"--dataset {source.dataset}", "metric")
            return Graph.load(source.dataset, data=source.data)
        graph = _read(source, {**(reading or {}), **source.columns(), "others": others}, ahead)
    if warned and "tables" in graph.card:
        for path in (source.edges, source.nodes, source.graph):  # a page is sent to others
            warned = [text.replace(str(path), path.name) for text in warned] if path else warned
        tables = {**graph.card["tables"], "warnings": warned}
        graph = replace(graph, card={**graph.card, "tables": tables})
    if source.metric is None:
        return graph
    if source.metric in BINARY and graph.num_classes != 2:
        raise InputError(
            f"--metric {source.metric}: needs two classes; use accuracy or macro_f1 "
            f"(got {graph.num_classes} classes)"
        )
    return replace(graph, card={**graph.card, "metric": source.metric})


def say_reading(graph: Graph, quiet: bool) -> dict[str, list[str]]:
    """Print how tables were read and what was done with each column, on standard error.

    Returns:
        The same for files: `notes`, `columns`, and all `warnings`; without control characters.
    """
    from djgnn.graph.convert import overflow_remark, scale_remark
    from djgnn.graph.table_rules import reading_words

    remark, said = overflow_remark(graph) or scale_remark(graph), reading_words(graph)
    warn(remark)
    said["warnings"] += [remark] if remark else []
    said = {what: [printable(with_flags(line)) for line in lines] for what, lines in said.items()}
    for line in [] if quiet else said["notes"] + said["columns"]:
        print(line, file=sys.stderr)
    return said


def with_flags(text: str) -> str:
    """A message that names arguments, such as ```node=```, with options of the command line.

    Example:
        >>> with_flags("name it with `node=`")
        'name it with --id-column'
    """
    return re.sub(r"`(\w+)=`", lambda found: FLAGS.get(found[1], found[0]), text)


def _read(
    source: Source, columns: Mapping[str, Any], ahead: Callable[[], Graph] | None = None
) -> Graph:
    """A graph from files: one of the whole graph, or two tables."""
    from djgnn.graph import Graph, read_npz
    from djgnn.graph.files import readable_file

    if source.data is not None:
        raise InputError(f"--data: belongs to --dataset NAME; leave it out (got {source.data})")
    whole = source.graph
    if source.edges is not None and source.edges.suffix.lower() in WHOLE:
        whole = source.edges
        if source.nodes is not None:
            raise InputError(
                f"--nodes: {whole} holds the nodes too; leave it out (got {source.nodes})"
            )
    if whole is None:
        if source.edges is None or source.nodes is None:
            missing = "--edges" if source.edges is None else "--nodes"
            raise InputError(f"{missing}: missing; an own graph needs an edge and a node table")
        return Graph.from_csv(source.edges, source.nodes, **columns)
    file = readable_file(whole)
    if file.suffix.lower() == ".graphml":
        return Graph.from_graphml(file, **columns)
    if file.suffix.lower() == ".npz":
        _refuse(source, str(file))
        return read_npz(file) if ahead is None else ahead()
    raise InputError(
        f"{file}: is not a format of whole graphs; give .graphml or .npz, or two tables with "
        f"--edges and --nodes (got {file.suffix or 'no suffix'!r})"
    )


def _refuse(source: Source, what: str, *others: str) -> None:
    """A stored graph has no columns to choose from and is taken as it is."""
    flags = FLAGS | {"symmetric": "--symmetric" if source.symmetric else "--directed"}
    given = [flags[name] for name in source.columns()]
    given += [f"--{name}" for name in others if getattr(source, name) is not None]
    if given:
        raise InputError(
            f"{given[0]}: is for own tables and GraphML, {what} is taken as it is; leave the "
            f"option out (got {', '.join(given)})"
        )
