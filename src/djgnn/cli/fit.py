"""`djgnn fit`: a graph in, a run folder out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape

from djgnn.cli.progress import epochs
from djgnn.cli.source import Source
from djgnn.errors import InputError
from djgnn.graph import Graph, random_splits
from djgnn.training.config import RunConfig
from djgnn.training.folder import new_folder, write_run
from djgnn.training.inputs import build_djgnn, choose_device
from djgnn.training.run import train


def trainable(graph: Graph, source: Source, seed: int) -> Graph:
    """A graph with labels and a split; an own graph without one is split 60/20/20.

    Raises:
        InputError: If no node has a label, or all have the same.
    """
    where = source.dataset or source.graph or source.nodes or source.edges
    known = np.zeros(0, dtype=np.int64) if graph.y is None else graph.y[graph.y >= 0]
    if not known.size:
        raise InputError(
            f"{where}: no node has a label; name the column with --label and fill it for some "
            "nodes (got none)"
        )
    if (known == known[0]).all():
        raise InputError(
            f"{where}: all labelled nodes are of one class, there is nothing to tell apart; give "
            f"labels of at least two classes (got {graph.classes()[int(known[0])]!r} only)"
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
) -> dict[str, Any]:
    """Train, write the run folder, say what came out and where it is."""
    where = choose_device(device)
    module, inputs = build_djgnn(config, graph, where)
    with epochs(quiet) as display:
        follow = display.follow(graph.name)
        fitted, result = train(module, inputs, graph, split, config.training, seed, follow)
    with new_folder(out, overwrite) as folder:
        card = write_run(folder, graph, config, fitted, result, seed)
    if not quiet:
        console = Console(highlight=False)
        console.print(
            f"[bold]{escape(graph.name)}[/bold]: {graph.metric} "
            f"validation {result.validation:.2f}, test {result.test:.2f} "
            f"(epoch {result.epoch}, chosen on validation; {result.seconds:.1f} s)"
        )
        console.print(f"predictions: {escape(str(out / 'predictions.csv'))}")
    return card
