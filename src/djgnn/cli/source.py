"""One way to name a graph on the command line, shared by every command that takes one."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from djgnn.cli.text import spoken_once, warn
from djgnn.errors import InputError

if TYPE_CHECKING:
    from djgnn.graph import Graph

WHOLE = (".graphml", ".npz")
GIVE_ONE = "give either --dataset NAME, --graph FILE, or --edges FILE and --nodes FILE"


@dataclass(frozen=True)
class Source:
    """Where a graph comes from: a data set, one file with the whole graph, or two tables.

    The fields are the options of the command line; see :func:`with_source`.
    """

    dataset: Annotated[str | None, typer.Option(help="A benchmark set by name.")] = None
    edges: Annotated[
        Path | None, typer.Option(help="Edge table (CSV, TSV, Parquet), or a whole graph.")
    ] = None
    nodes: Annotated[Path | None, typer.Option(help="Node table (CSV, TSV, Parquet).")] = None
    graph: Annotated[Path | None, typer.Option(help="The whole graph (GraphML, npz).")] = None
    label: Annotated[str | None, typer.Option(help="Column with the labels.")] = None
    symmetric: Annotated[
        bool | None,
        typer.Option(
            "--symmetric/--directed",
            help="Add the reverse of every edge, or take edges as they are (default).",
            show_default=False,
        ),
    ] = None
    data: Annotated[
        Path | None, typer.Option(help="Folder with <name>.npz files, looked in first.")
    ] = None
    id_column: Annotated[str | None, typer.Option(help="Node column with the ids.")] = None
    split_column: Annotated[
        str | None, typer.Option(help="Node column with train, val or test.")
    ] = None
    source_column: Annotated[str | None, typer.Option(help="Edge column: from.")] = None
    target_column: Annotated[str | None, typer.Option(help="Edge column: to.")] = None
    weight_column: Annotated[
        str | None, typer.Option(help="Edge column: weight; '' = use none.")
    ] = None
    features: Annotated[
        list[str] | None,
        typer.Option("--feature", help="Use this node column, and no other; may be repeated."),
    ] = None
    exclude: Annotated[
        list[str] | None,
        typer.Option(help="Leave this node column out of the features; may be repeated."),
    ] = None
    duplicates: Annotated[
        str | None,
        typer.Option(help="An edge listed twice: first (default), sum, mean, max or error."),
    ] = None
    unknown: Annotated[
        list[str] | None,
        typer.Option(
            help="Label that means unknown, besides an empty one; -1 by default, '' = none."
        ),
    ] = None
    metric: Annotated[
        str | None, typer.Option(help="Score of an own graph: accuracy or roc_auc (two classes).")
    ] = None

    def columns(self) -> dict[str, Any]:
        """What was said about columns and edges, by the names of `read_tables`."""
        said = {
            "label": self.label,
            "symmetric": self.symmetric,
            "node": self.id_column,
            "split": self.split_column,
            "source": self.source_column,
            "target": self.target_column,
            "weight": self.weight_column,
            "features": self.features or None,
            "exclude": tuple(self.exclude or ()) or None,
            "duplicates": self.duplicates,
            "unknown": ("", *self.unknown) if self.unknown else None,
        }
        return {key: value for key, value in said.items() if value is not None}


def load(
    source: Source, others: Sequence[str] = (), reading: Mapping[str, Any] | None = None
) -> Graph:
    """The graph that the options name, as it is: labels and splits may be missing.

    Args:
        source: The options.
        others: Names of nodes that edges may lead to though the node table has no row for them.
        reading: How to read tables where the options say nothing, see `reading_of`.

    Raises:
        InputError: If the options name no graph or several, do not fit together, or the graph
            cannot be read.
    """
    from djgnn.graph.checks import METRICS

    if source.metric not in (None, *METRICS):
        raise InputError(f"--metric: must be one of {', '.join(METRICS)} (got {source.metric!r})")
    with spoken_once():
        graph = _load(source, {**(reading or {}), **source.columns(), "others": others})
    if source.metric is None:
        return graph
    if source.metric == "roc_auc" and graph.num_classes != 2:
        raise InputError(
            f"--metric roc_auc: needs two classes; use accuracy (got {graph.num_classes} classes)"
        )
    return replace(graph, card={**graph.card, "metric": source.metric})


def remark_on(graph: Graph) -> None:
    """Say on standard error what will go wrong with a graph that can be read."""
    from djgnn.graph.features import scale_remark

    remark = scale_remark(graph)
    if remark is not None:
        warn(remark)


def _load(source: Source, columns: Mapping[str, Any]) -> Graph:
    from djgnn.graph import Graph

    named = [source.dataset, source.graph, source.edges or source.nodes]
    if sum(value is not None for value in named) != 1:
        raise InputError(GIVE_ONE)
    if source.dataset is not None:
        _no_columns(source, f"--dataset {source.dataset}")
        if source.metric is not None:
            raise InputError(
                f"--metric: a data set has its own; leave the option out (got {source.metric})"
            )
        return Graph.load(source.dataset, data=source.data)
    if source.data is not None:
        raise InputError(f"--data: belongs to --dataset NAME; leave it out (got {source.data})")
    whole = source.graph
    if source.edges is not None and source.edges.suffix.lower() in WHOLE:
        if source.nodes is not None:
            raise InputError(
                f"--nodes: {source.edges} holds the nodes too; leave it out (got {source.nodes})"
            )
        whole = source.edges
    if whole is not None:
        return _read_whole(whole, source, columns)
    if source.edges is None or source.nodes is None:
        missing = "--edges" if source.edges is None else "--nodes"
        raise InputError(f"{missing}: missing; an own graph needs an edge and a node table")
    return Graph.from_csv(source.edges, source.nodes, **columns)


def with_source(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of `Source` in place of its parameter ``source``.

    Example:
        >>> @with_source
        ... def show(source: Source, seed: int = 0) -> None: ...
        >>> list(inspect.signature(show).parameters)[-2:]
        ['metric', 'seed']
    """
    hints = get_type_hints(Source, include_extras=True)
    options = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=field.default,
            annotation=hints[field.name],
        )
        for field in fields(Source)
    ]
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        own = parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        parameters += options if parameter.name == "source" else [own]

    @functools.wraps(command)
    def run(**values: Any) -> Any:
        source = Source(**{option.name: values.pop(option.name) for option in options})
        return command(source=source, **values)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run


def _read_whole(file: Path, source: Source, columns: Mapping[str, Any]) -> Graph:
    from djgnn.graph import Graph, read_npz
    from djgnn.graph.files import readable_file

    file = readable_file(file)
    if file.suffix.lower() == ".npz":
        _no_columns(source, str(file))
        return read_npz(file)
    if file.suffix.lower() == ".graphml":
        return Graph.from_graphml(file, **columns)
    raise InputError(
        f"{file}: is not a format of whole graphs; give .graphml or .npz, or two tables with "
        f"--edges and --nodes (got {file.suffix or 'no suffix'!r})"
    )


def _no_columns(source: Source, what: str) -> None:
    """A stored graph has no columns to choose from and is taken as it is."""
    flags = {"node": "--id-column", "features": "--feature", "label": "--label"}
    flags |= {key: f"--{key}-column" for key in ("split", "source", "target", "weight")}
    flags["symmetric"] = "--symmetric" if source.symmetric else "--directed"
    said = [flags.get(key, f"--{key}") for key in source.columns()]
    if said:
        raise InputError(
            f"{said[0]}: is for tables and GraphML, {what} is taken as it is; leave the option out "
            f"(got {', '.join(said)})"
        )
