"""The graph of a `fit`, read and checked once for all processes of a run."""

from collections.abc import Callable

import numpy as np

from djgnn.cli.options import FitOptions
from djgnn.cli.progress_bar import Stages
from djgnn.cli.source import Source, load, say_reading
from djgnn.errors import InputError
from djgnn.graph import Graph, reading_of
from djgnn.graph.table_rules import shorten, trained_columns
from djgnn.training.config import RunConfig
from djgnn.training.distributed import Group
from djgnn.training.distributed.rows import without_rows
from djgnn.training.folds import with_splits


def shared_graph(
    source: Source,
    config: RunConfig,
    options: FitOptions,
    group: Group,
    bar: Stages,
    ahead: Callable[[], Graph] | None = None,
) -> tuple[Graph, RunConfig, dict[str, list[str]]]:
    """The graph with its splits, their configuration, and what `say_reading` says of it.

    The first process reads and has it. The others have labels and splits of all nodes, and get
    their own rows later. `ahead` is of `read_ahead`.

    Raises:
        InputError: If it cannot be read or trained on.
    """
    whole = []

    def read() -> tuple[Graph, RunConfig, dict[str, list[str]]]:
        graph = load(source, ahead=ahead)
        bar.stage("checking")
        _check_trainable(graph, source)
        graph, chosen = with_splits(graph, config, options.folds, options.seed)
        said = say_reading(graph, options.quiet or options.as_json)
        whole.append(graph)
        return (graph if group.alone else without_rows(graph)), chosen, said

    known, chosen, said = group.shared(read)
    return (whole[0] if group.first else known), chosen, said


def _check_trainable(graph: Graph, source: Source) -> None:
    """Refuse a graph without labels of two classes or more.

    Raises:
        InputError: If no node has a label, or all have the same.
    """
    where = source.dataset or source.graph or source.nodes or source.edges
    known = graph.labels[graph.labels >= 0]
    most, problem = int(np.bincount(known).max(initial=0)), ""
    if not known.size:
        problem = "no node has a label"
    elif most == known.size:
        problem = f"all labelled nodes are of one class, {graph.classes()[int(known[0])]!r}"
    elif most == 1 and not graph.num_splits:
        tables = reading_of(graph).get("known")
        label = "" if tables is None else f", column {tables['roles'].get('label', '')!r},"
        problem = f"the labels{label} are all different, so no class has two nodes"
    if problem:
        tables = reading_of(graph).get("known")
        names = [] if tables is None else [*trained_columns(tables), *tables["unused"]]
        columns = f" and columns {shorten(names)}" if names else ""
        raise InputError(
            f"{where}: {problem}; name the column of the classes with --label, and fill it for "
            f"some nodes of two classes or more (got {known.size or 'no'} labels{columns})"
        )
