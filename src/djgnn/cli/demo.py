"""`djgnn demo`: the whole story on a generated graph, in under a minute."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from torch import nn

from djgnn.baselines import baseline_config, build_baseline
from djgnn.cli.terminal import Epochs, epochs, escape
from djgnn.graph import Graph, heterophilic_sbm, random_splits
from djgnn.model import DJGNN
from djgnn.report.page import write_run_page
from djgnn.report.run_data import RunData, load_run
from djgnn.report.views import agreement
from djgnn.spectral import homophily, structural_heterophily
from djgnn.training.config import TrainConfig, resolve
from djgnn.training.folder import branch_weights, check_free, new_folder, write_run
from djgnn.training.hooks import Hooks
from djgnn.training.inputs import build_djgnn, choose_device
from djgnn.training.loop import Fitted
from djgnn.training.recorder import Recorder, Recording
from djgnn.training.run import train
from djgnn.training.selection import SplitResult

SEEDS = 5
EPOCHS, PATIENCE, WIDTH = 200, 50, 32
Build = Callable[[], tuple[nn.Module, tuple[Any, Any]]]


def run_demo(out: Path, *, seed: int, device: str, quiet: bool) -> None:
    """Measure a graph, compare three models over seeds, write the best model's run.

    The baselines may train twice as long, since a DJ-GNN is trained twice, with and without its
    structure branch.
    """
    begun = time.perf_counter()
    check_free(out, overwrite=True)
    where = choose_device(device)
    graph = random_splits(
        heterophilic_sbm(random_state=seed),
        num_splits=SEEDS,
        train=0.48,
        val=0.32,
        random_state=seed,
    )
    console = Console(highlight=False, quiet=quiet)
    _print_graph(console, graph)
    # Edges lead from members to hubs only; with their reverses the pump sees both.
    config = resolve(
        "default",
        hidden_channels=WIDTH,
        epochs=EPOCHS,
        patience=PATIENCE,
        pump_adjacency="symmetric",
    )
    plain = {
        name: baseline_config(name, hidden_channels=WIDTH, epochs=2 * EPOCHS, patience=2 * PATIENCE)
        for name in ("mlp", "gcn")
    }
    builders: dict[str, Build] = {"DJ-GNN": lambda: build_djgnn(config, graph, where)}
    trainings = {"DJ-GNN": config.training}
    for name, baseline in plain.items():
        builders[name.upper()] = partial(build_baseline, baseline, graph, where)
        trainings[name.upper()] = baseline.training
    with epochs(quiet) as display:
        runs = {
            name: _runs(name, build, trainings[name], graph, seed, display)
            for name, build in builders.items()
        }
    best, result, recording = max(runs["DJ-GNN"], key=lambda run: run[0].merit)
    with new_folder(out, overwrite=True) as folder:
        write_run(folder, graph, config, best, result, seed + result.split)
        if recording is not None:
            recording.write(folder)
    run = load_run(out)
    page = write_run_page(run)
    _print_comparison(console, {name: [r for _, r, _ in run] for name, run in runs.items()})
    _print_branches(console, best)
    _print_jumps(console, run)
    console.print(
        f"\nPredictions, history, weights and card of the best of them on validation (seed "
        f"{seed + result.split}):\n  {escape(str(out / 'predictions.csv'))}\n"
        f"What it learned, to look at in a browser:\n  {escape(str(page))}\n"
        f"Done in {time.perf_counter() - begun:.0f} s. Next: djgnn fit --help"
    )


def _runs(
    name: str, build: Build, training: TrainConfig, graph: Graph, seed: int, display: Epochs
) -> list[tuple[Fitted, SplitResult, Recording | None]]:
    """One model, trained from each seed on a split of its own; a DJ-GNN is recorded."""
    runs: list[tuple[Fitted, SplitResult, Recording | None]] = []
    for s in range(SEEDS):
        module, inputs = build()
        recorder = Recorder(graph.num_nodes) if isinstance(module, DJGNN) else None
        hooks = Hooks(display.follow(f"{name}, seed {seed + s}"), observer=recorder)
        fitted, result = train(module, inputs, graph, s, training, seed + s, hooks)
        recording = None if recorder is None else recorder.finish(fitted, inputs)
        runs.append((fitted, result, recording))
    return runs


def _print_graph(console: Console, graph: Graph) -> None:
    structural = structural_heterophily(graph)
    console.print(
        f"[bold]A graph whose neighbours disagree[/bold]: {graph.num_nodes} nodes, "
        f"{graph.num_edges} directed edges, {graph.num_classes} classes, "
        f"{graph.num_features} weak features.\n"
        "Members of a community point at the same hubs; hubs are shared by all classes.\n"
    )
    table = Table(title="heterophily")
    for column, align in (("measure", "left"), ("value", "right"), ("reads", "left")):
        table.add_column(column, justify="right" if align == "right" else "left")
    chance = 1 / graph.num_classes
    reads = f"share of neighbours that agree; {chance:.2f} is chance"
    table.add_row("edge homophily", f"{homophily(graph, method='edge'):.2f}", reads)
    table.add_row(
        "node homophily", f"{homophily(graph, method='node'):.2f}", "the same, node by node"
    )
    table.add_row(
        "structural heterophily R",
        f"{structural.median:.2f}",
        "1: labels follow the clusters; larger: they break them",
    )
    console.print(table)


def _print_comparison(console: Console, results: dict[str, Sequence[SplitResult]]) -> None:
    table = Table(
        title=f"test accuracy, epoch chosen on validation, {SEEDS} seeds (one split each)"
    )
    for column in ("model", "mean %", "sd", "DJ-GNN ahead by", "standard errors"):
        table.add_column(column, justify="left" if column == "model" else "right")
    own = np.array([r.test for r in results["DJ-GNN"]])
    for name, rows in results.items():
        values = np.array([r.test for r in rows])
        ahead = ("", "")
        if name != "DJ-GNN":
            gap = own - values
            error = float(np.std(gap, ddof=1)) / math.sqrt(len(gap))
            ahead = (f"{gap.mean():+.1f}", f"{gap.mean() / error:.1f}" if error else "")
        table.add_row(name, f"{values.mean():.1f}", f"{values.std(ddof=1):.1f}", *ahead)
    console.print(table)


def _print_branches(console: Console, fitted: Fitted) -> None:
    weights = branch_weights(fitted)
    shares = ", ".join(f"{name} {value:.2f}" for name, value in weights.items())
    console.print(f"mixing weights of its branches: {shares}")


def _print_jumps(console: Console, run: RunData) -> None:
    """Homophiliation in one line: whom the jumps join, against whom the edges join."""
    everyone = np.arange(run.graph.num_nodes)
    found = agreement(run.ranks[None], everyone, run.labels, run.branches)[0]
    shares = [f"jump{k} {part['share']:.0%}" for k, part in enumerate(found) if part["links"]]
    edges = homophily(run.graph, method="edge")
    console.print(f"links that join equal labels: edges {edges:.0%}, {', '.join(shares)}")
