"""`djgnn fit`: a graph in, a run folder out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from djgnn.cli.progress import epochs
from djgnn.cli.source import Source
from djgnn.errors import InputError
from djgnn.graph import Graph, random_splits
from djgnn.report.page import write_run_page
from djgnn.report.run_data import load_run
from djgnn.training.config import RunConfig
from djgnn.training.folder import new_folder, write_run
from djgnn.training.inputs import build_djgnn, choose_device
from djgnn.training.recorder import Recorder
from djgnn.training.run import train


def trainable(graph: Graph, source: Source, seed: int) -> Graph:
    """A graph with labels and a split; an own graph without one is split 60/20/20.

    Raises:
        InputError: If no node has a label.
    """
    if graph.y is None or not (graph.y >= 0).any():
        raise InputError(
            f"{source.dataset or source.graph or source.nodes or source.edges}: no node has a "
            "label; name the column with --label and fill it for some nodes (got none)"
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
            module, inputs, graph, split, config.training, seed, follow, observer=recorder
        )
    with new_folder(out, overwrite) as folder:
        card = write_run(folder, graph, config, fitted, result, seed)
        if recorder is not None:
            recorder.finish(fitted, inputs).write(folder)
    page = write_run_page(load_run(out)) if report else None
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
