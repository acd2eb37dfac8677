"""`djgnn fit`: a graph in, a run folder out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from djgnn.cli.progress import epochs
from djgnn.errors import InputError
from djgnn.graph import Graph, random_splits
from djgnn.report.page import write_run_page
from djgnn.report.run_data import load_run
from djgnn.training.config import RunConfig
from djgnn.training.folder import new_folder, write_run
from djgnn.training.inputs import build_djgnn, choose_device
from djgnn.training.recorder import Recorder
from djgnn.training.run import train


def load_graph(
    dataset: str | None,
    edges: Path | None,
    nodes: Path | None,
    label: str | None,
    symmetric: bool,
    data: Path | None,
    seed: int,
) -> Graph:
    """The graph that the options name; own tables without a split column are split 60/20/20.

    Raises:
        InputError: If the options name no graph or two, or it cannot be read.
    """
    if (dataset is None) == (edges is None and nodes is None):
        raise InputError("give either --dataset NAME, or --edges FILE and --nodes FILE")
    if dataset is not None:
        return Graph.load(dataset, data=data)
    if edges is None or nodes is None:
        missing = "--edges" if edges is None else "--nodes"
        raise InputError(f"{missing}: missing; an own graph needs an edge and a node table")
    graph = Graph.from_csv(edges, nodes, label=label, symmetric=symmetric)
    if graph.y is None or not (graph.y >= 0).any():
        raise InputError(
            f"{nodes}: no node has a label; name the column with --label and fill it for some nodes"
        )
    return graph if graph.num_splits else random_splits(graph, random_state=seed)


def run_fit(
    graph: Graph,
    config: RunConfig,
    out: Path,
    *,
    split: int,
    seed: int,
    device: str,
    overwrite: bool,
    quiet: bool,
    record: bool = False,
    report: bool = True,
) -> dict[str, Any]:
    """Train, write the run folder, say what came out and where it is."""
    where = choose_device(device)
    module, inputs = build_djgnn(config, graph, where)
    with epochs(quiet) as display:
        follow = display.follow(graph.name)
        recorder = Recorder(graph.num_nodes) if record else None
        fitted, result = train(
            module, inputs, graph, split, config.training, seed, follow, recorder
        )
    with new_folder(out, overwrite) as folder:
        card = write_run(folder, graph, config, fitted, result, seed)
        if recorder is not None:
            recorder.finish(fitted, inputs).write(folder)
    page = write_run_page(load_run(out, graph=graph)) if report else None
    if not quiet:
        console = Console(highlight=False)
        console.print(
            f"[bold]{escape(graph.name)}[/bold]: {graph.metric} "
            f"validation {result.validation:.2f}, test {result.test:.2f} "
            f"(epoch {result.epoch}, chosen on validation; {result.seconds:.1f} s)"
        )
        console.print(f"predictions: {escape(str(out / 'predictions.csv'))}")
        if page is not None:
            console.print(f"report: {escape(str(page))}")
    return card
