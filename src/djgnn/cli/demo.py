"""`djgnn demo`: the whole story on a generated graph, in under a minute."""

import math
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from torch import nn

from djgnn.baselines import baseline_config, build_baseline
from djgnn.cli.terminal import Follower, epochs, escape
from djgnn.graph import Graph, heterophilic_sbm, random_splits
from djgnn.model import DJExperts
from djgnn.report.page import write_run_page
from djgnn.report.run_data import load_run
from djgnn.report.views import agreement
from djgnn.spectral import homophily, structural_heterophily
from djgnn.training.config import TrainConfig, resolve
from djgnn.training.folder import check_free, new_folder, write_run
from djgnn.training.inputs import build_djgnn, choose_device
from djgnn.training.loop import Fitted
from djgnn.training.progress import Hooks
from djgnn.training.recorder import Recorder, Recording
from djgnn.training.run import train
from djgnn.training.selection import SplitResult
from djgnn.training.threads import suitable_threads

SEEDS = 5
EPOCHS, WIDTH = 100, 32
PLAIN: dict[str, Any] = {"epochs": 400, "patience": 100}
"""The baselines may train longer, since every expert is trained."""
OURS = "DJ-GNN"
Build = Callable[[], tuple[nn.Module, tuple[Any, Any]]]


def run_demo(out: Path, *, seed: int, device: str, quiet: bool) -> None:
    """Measure a graph, compare three models over seeds, write the best model's run."""
    begun = time.perf_counter()
    check_free(out, overwrite=True)
    where = choose_device(device)
    plain = heterophilic_sbm(random_state=seed)
    graph = random_splits(plain, num_splits=SEEDS, train=0.48, val=0.32, random_state=seed)
    console = Console(highlight=False, quiet=quiet)
    _print_graph(console, graph)
    # Edges lead from members to hubs only; with their reverses the pump sees both.
    config = resolve("default", pump_adjacency="symmetric", hidden_channels=WIDTH, epochs=EPOCHS)
    models: dict[str, tuple[Build, TrainConfig]] = {
        OURS: (partial(build_djgnn, config, graph, where), config.training)
    }
    for name in ("mlp", "gcn"):
        own = baseline_config(name, hidden_channels=WIDTH, **PLAIN)
        models[name.upper()] = (partial(build_baseline, own, graph, where), own.training)
    with epochs(quiet) as follow, suitable_threads(graph, where):
        runs = {name: _runs(name, *model, graph, seed, follow) for name, model in models.items()}
    best, result, recording = max(runs[OURS], key=lambda run: run[0].merit)
    with new_folder(out, overwrite=True) as folder:
        if recording is not None:
            recording.write(folder)
        card = write_run(folder, graph, config, best, result, seed + result.split)
    run = load_run(out)
    page = write_run_page(run)
    _print_comparison(
        console, {name: np.array([r.test for _, r, _ in runs[name]]) for name in runs}
    )
    weights = sorted(card["alpha"].items(), key=lambda pair: -pair[1])
    shares = ", ".join(f"{name} {value:.2f}" for name, value in weights)
    console.print(f"weights of its experts: {shares}")
    links = agreement(run.ranks[None], np.arange(graph.num_nodes), graph.labels, run.branches)[0]
    jumps = [f"jump{k} {part['share']:.0%}" for k, part in enumerate(links) if part["links"]]
    console.print(
        f"links that join equal labels: edges {homophily(graph, method='edge'):.0%}; of the expert "
        f"{run.shown.name} {', '.join(jumps)}"
    )
    console.print(
        f"\nPredictions, history, weights and card of the best of them on validation (seed "
        f"{seed + result.split}):\n  {escape(str(out / 'predictions.csv'))}\n"
        f"What it learned, to look at in a browser:\n  {escape(str(page))}\n"
        f"Done in {time.perf_counter() - begun:.0f} s. Next: djgnn fit --help"
    )


def _runs(
    name: str, build: Build, training: TrainConfig, graph: Graph, seed: int, follow: Follower
) -> list[tuple[Fitted, SplitResult, Recording | None]]:
    """One model, trained from each seed on a split of its own; a DJ-GNN is recorded."""
    runs: list[tuple[Fitted, SplitResult, Recording | None]] = []
    for s in range(SEEDS):
        module, inputs = build()
        recorder = Recorder(graph.num_nodes) if isinstance(module, DJExperts) else None
        hooks = Hooks(follow(f"{name}, seed {seed + s}"), observer=recorder)
        fitted, result = train(module, inputs, graph, s, training, seed + s, hooks)
        recording = None if recorder is None else recorder.finish(fitted, inputs)
        runs.append((fitted, result, recording))
    return runs


def _print_graph(console: Console, graph: Graph) -> None:
    console.print(
        f"[bold]A graph whose neighbours disagree[/bold]: {graph.num_nodes} nodes, "
        f"{graph.num_edges} directed edges, {graph.num_classes} classes, "
        f"{graph.num_features} weak features.\n"
        "Members of a community point at the same hubs; hubs are shared by all classes.\n"
    )
    table = Table("measure", "value", "reads", title="heterophily")
    chance = f"share of neighbours that agree; {1 / graph.num_classes:.2f} is chance"
    cluster = "1: labels follow the clusters; larger: they break them"
    for name, value, reads in (
        ("edge homophily", homophily(graph, method="edge"), chance),
        ("node homophily", homophily(graph, method="node"), "the same, node by node"),
        ("structural heterophily R", structural_heterophily(graph).median, cluster),
    ):
        table.add_row(name, f"{value:.2f}", reads)
    console.print(table)


def _print_comparison(console: Console, scores: dict[str, np.ndarray[Any, Any]]) -> None:
    table = Table(
        title=f"test accuracy, epoch chosen on validation, {SEEDS} seeds (one split each)"
    )
    for column in ("model", "mean %", "sd", f"{OURS} ahead by", "standard errors"):
        table.add_column(column, justify="left" if column == "model" else "right")
    for name, values in scores.items():
        ahead = ("", "")
        if name != OURS:
            gap = scores[OURS] - values
            error = float(np.std(gap, ddof=1)) / math.sqrt(len(gap))
            ahead = (f"{gap.mean():+.1f}", f"{gap.mean() / error:.1f}" if error else "")
        table.add_row(name, f"{values.mean():.1f}", f"{values.std(ddof=1):.1f}", *ahead)
    console.print(table)
