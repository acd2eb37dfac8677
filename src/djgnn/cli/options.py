"""Options that several commands share, and what they mean. No heavy imports at the top."""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, cast

import typer

from djgnn.cli.terminal import printable, warnings_once
from djgnn.errors import InputError

if TYPE_CHECKING:
    from djgnn.graph import Graph

File: TypeAlias = Path | None
Text: TypeAlias = str | None
Texts: TypeAlias = list[str] | None
Whole: TypeAlias = int | None


def option(text: str, *flags: str, **more: Any) -> Any:
    """An option of a command with its help."""
    return typer.Option(*flags, help=text, **more)


Data = Annotated[File, option("Folder with <name>.npz files, looked in first.")]
Device = Annotated[str, option("auto, cpu or cuda.")]
Seed = Annotated[int, option("Seed of splits, weights and dropout.", min=0, max=2**62)]
Quiet = Annotated[bool, option("Print nothing but results and errors.", "--quiet")]
Json = Annotated[bool, option("Print one JSON object.", "--json")]
Run = Annotated[Path, typer.Argument(help="A folder written by `djgnn fit`.")]
Preset = Annotated[
    str, option("default, full (with plain experts), author (published code), paper.")
]

WHOLE = (".graphml", ".npz")
# Fields of `Source` that say how tables are read, and the arguments of `read_tables` they become.
READING = {f"{name}_column": name for name in ("split", "source", "target", "weight")}
READING |= {"id_column": "node", "label": "label", "symmetric": "symmetric"}
READING |= {name: name for name in ("features", "exclude", "duplicates", "unknown")}
READING |= {"column": "columns", "header": "header", "separator": "separator"}
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
        option("Add the reverse of every edge, or not (default).", "--symmetric/--directed"),
    ] = None
    data: Data = None
    column: Annotated[
        Texts,
        option(
            "What a node column is: NAME=number, category, text, date, truth, raw (a number as it "
            "is) or drop; NAME may be a pattern; may be repeated."
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


@dataclass(frozen=True)
class Recipe:
    """The configuration of a model: a preset or a file, and what is changed in it."""

    preset: Annotated[
        Text,
        option(
            "default: networks; full: with class shares, label propagation and boosting; author: "
            "the published code; paper: its text. Own graphs have full, --dataset has default."
        ),
    ] = None
    config: Annotated[File, option("YAML configuration; replaces the preset.")] = None
    change: Annotated[Texts, option("Change one option, KEY=VALUE; may be repeated.", "--set")] = (
        None
    )
    epochs: Annotated[Whole, option("Most epochs.", min=1)] = None
    patience: Annotated[
        Whole, option("Stop after so many epochs without a better validation score.", min=1)
    ] = None
    jumps: Annotated[Whole, option("Number of jumps K (num_jumps).", min=1)] = None
    batch_size: Annotated[Whole, option("Train in mini-batches of so many nodes.")] = None
    class_weight: Annotated[
        Text, option("'balanced': all classes weigh the same in the loss, rare ones too.")
    ] = None
    select: Annotated[
        Text, option("Epochs are chosen by the validation 'loss' or 'score' (of --metric).")
    ] = None

    def changes(self) -> dict[str, Any]:
        """The options to set, by name; values of ``--set`` as in YAML (numbers, true, null, text).

        Raises:
            InputError: If a pair is not one.

        Example:
            >>> Recipe(change=["lr=0.01", "support=author", "patience=null"], jumps=3).changes()
            {'lr': 0.01, 'support': 'author', 'patience': None, 'num_jumps': 3}
        """
        import yaml

        found: dict[str, Any] = {}
        for pair in self.change or []:
            key, equals, value = pair.partition("=")
            if not equals or not key:
                raise InputError(f"--set: must be KEY=VALUE (got '{pair}')")
            try:
                found[key.strip()] = yaml.safe_load(value)
            except yaml.YAMLError as error:
                raise InputError(f"--set {key}: is not a value: {error} (got '{value}')") from error
        same = ("epochs", "patience", "batch_size", "class_weight", "select")
        own = {name: getattr(self, name) for name in same}
        own["num_jumps"] = self.jumps
        return found | {key: value for key, value in own.items() if value is not None}

    def resolve(self, dataset: str | None, model: str = "djgnn") -> Any:
        """The `RunConfig` of a DJ-GNN, or a baseline's published settings, with the changes.

        Raises:
            InputError: For an unknown preset or option, or a value that is not allowed.
        """
        from djgnn.training.config import RunConfig, resolve

        try:
            if model != "djgnn":
                from djgnn.baselines.config import baseline_config
                from djgnn.bench.spec import read_recipe

                if self.config is None:
                    return baseline_config(model, dataset, **self.changes())
                return read_recipe(model, self.config).replace(**self.changes())
            base = RunConfig.read_yaml(self.config) if self.config else None
            preset = self.preset or ("full" if dataset is None else "default")
            return (base or resolve(preset, dataset)).replace(**self.changes())
        except InputError:
            raise
        except (ArithmeticError, TypeError, ValueError) as error:
            raise InputError(f"configuration: {error}") from error


@dataclass(frozen=True)
class FitOptions:
    """How `djgnn fit` runs, and where it writes."""

    out: Annotated[Path, option("Folder for the run; must not exist yet.")]
    split: Annotated[int, option("Which stored split.")] = 0
    folds: Annotated[
        int | None,
        option(
            "Members of every expert, each of which learns from the labels outside of one fold; 4 "
            "for an own graph with fewer than 20,000 labels, 1 sets a part of them aside.",
            min=1,
        ),
    ] = None
    coverage: Annotated[
        float, option("How often the column `set` shall have the right class, from 0 to 1.")
    ] = 0.9
    coverage_by: Annotated[
        str, option("'all': of all nodes together; 'class': of every class by itself.")
    ] = "all"
    importance: Annotated[
        bool | None,
        option(
            "Measure what each column of the node table is worth; by default where that takes "
            "seconds.",
            "--importance/--no-importance",
        ),
    ] = None
    seed: Seed = 0
    device: Device = "auto"
    overwrite: Annotated[bool, option("Replace a run that is there.", "--overwrite")] = False
    resume: Annotated[bool, option("Continue a run that was stopped.", "--resume")] = False
    checkpoint_every: Annotated[float, option("Seconds between two checkpoints.", min=0)] = 10.0
    report: Annotated[bool, option("Write the run's page, report.html.")] = True
    record: Annotated[
        bool, option("Keep snapshots of training for the report's player.", "--record")
    ] = False
    quiet: Quiet = False
    as_json: Json = False


def with_options(command: Callable[..., Any], **defaults: Any) -> Callable[..., Any]:
    """Replace every parameter of a command that is a dataclass by options, one per field.

    Args:
        command: Its dataclass parameters are built from the options.
        **defaults: Values of options that differ from those of their fields.

    Example:
        >>> @with_options
        ... def show(recipe: Recipe, seed: int = 0) -> None: ...
        >>> list(inspect.signature(show).parameters)[-2:]
        ['select', 'seed']
    """
    parameters: dict[str, inspect.Parameter] = {}
    groups: dict[str, Any] = {}
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        parts, kind = [parameter], parameter.annotation
        if is_dataclass(kind):
            groups[parameter.name] = kind
            parts = list(inspect.signature(cast(Any, kind), eval_str=True).parameters.values())
        for part in parts:
            default = defaults.get(part.name, part.default)
            parameters[part.name] = part.replace(kind=part.KEYWORD_ONLY, default=default)

    @functools.wraps(command)
    def run(**values: Any) -> Any:
        built = {
            name: kind(**{field.name: values.pop(field.name) for field in fields(kind)})
            for name, kind in groups.items()
        }
        return command(**built, **values)

    run.__signature__ = inspect.Signature(list(parameters.values()))  # type: ignore[attr-defined]
    run.__annotations__ = {name: p.annotation for name, p in parameters.items()}
    return run


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
    from djgnn.graph import Graph
    from djgnn.graph.checks import BINARY, METRICS

    check_choice("--metric", source.metric or METRICS[0], METRICS)
    named = (source.dataset, source.graph, source.edges or source.nodes)
    if sum(value is not None for value in named) != 1:
        raise InputError(
            "give either --dataset NAME, --graph FILE, or --edges FILE and --nodes FILE"
        )
    with warnings_once(with_flags):
        if source.dataset is not None:
            _refuse(source, f"--dataset {source.dataset}", "metric")
            return Graph.load(source.dataset, data=source.data)
        graph = _read(source, {**(reading or {}), **source.columns(), "others": others})
    if source.metric is None:
        return graph
    if source.metric in BINARY and graph.num_classes != 2:
        raise InputError(
            f"--metric {source.metric}: needs two classes; use accuracy or macro_f1 "
            f"(got {graph.num_classes} classes)"
        )
    return replace(graph, card={**graph.card, "metric": source.metric})


def say_reading(graph: Graph, quiet: bool) -> None:
    """Print how tables were read and what was done with each column, on standard error."""
    from djgnn.graph.table_rules import reading_lines

    for line in [] if quiet else reading_lines(graph):
        print(printable(line), file=sys.stderr)


def with_flags(text: str) -> str:
    """A message that names arguments, such as ```node=```, with options of the command line.

    Example:
        >>> with_flags("name it with `node=`")
        'name it with --id-column'
    """
    return re.sub(r"`(\w+)=`", lambda found: FLAGS.get(found[1], found[0]), text)


def check_choice(flag: str, value: Any, choices: Iterable[str]) -> None:
    """Refuse a value of an option that is not one of its choices.

    Raises:
        InputError: With all of them.
    """
    if value not in choices:
        raise InputError(f"{flag}: must be one of {', '.join(choices)} (got {value!r})")


def _read(source: Source, columns: Mapping[str, Any]) -> Graph:
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
        return read_npz(file)
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
