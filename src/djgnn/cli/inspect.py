"""`djgnn inspect`: what a graph is like, before anything is trained on it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from rich.table import Table

from djgnn.cli.text import escape, wide_console
from djgnn.errors import InputError
from djgnn.graph import Graph, random_splits
from djgnn.report.graph_card import card_rows, measure_graph
from djgnn.training.config import RunConfig
from djgnn.training.estimate import estimate
from djgnn.training.inputs import choose_device


def run_inspect(
    graph: Graph,
    config: RunConfig,
    *,
    seed: int = 0,
    device: str = "auto",
    cost: bool = True,
    quiet: bool = False,
) -> dict[str, Any]:
    """Measure a graph, print what was found, and return what `--json` prints."""
    found = measure_graph(graph, seed)
    found["cost"] = measure_cost(graph, config, seed, device) if cost else None
    if not quiet:
        _print(found)
    return found


def measure_cost(graph: Graph, config: RunConfig, seed: int, device: str) -> dict[str, Any] | None:
    """Time and memory of a fit on this machine; ``None`` without two classes to learn."""
    if graph.y is None:
        return None
    try:
        ready = graph if graph.num_splits else random_splits(graph, random_state=seed)
        return asdict(estimate(ready, config, device=choose_device(device)))
    except InputError:
        return None  # nothing to learn from: `fit` says what is missing


def cost_rows(cost: dict[str, Any] | None) -> Iterable[tuple[str, str]]:
    """What a fit will cost, in words."""
    if cost is None:
        return
    times = f"{cost['trainings']} x {cost['epochs']} epochs of {cost['seconds_per_epoch']:.3g} s"
    most, least = (_duration(cost[key]) for key in ("seconds", "least_seconds"))
    where = "GPU" if cost["device"] == "cuda" else f"{cost['threads']} CPU threads"
    yield "fit here, time", f"at most {most} ({times}, {where}); {least} if it stops at once"
    yield "fit here, memory", f"{cost['memory_mib']:,.0f} MiB beside libraries and data"


def _duration(seconds: float) -> str:
    """Seconds as people say them.

    Example:
        >>> _duration(7.3), _duration(200), _duration(9000)
        ('7 s', '3.3 min', '2.5 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def _print(found: dict[str, Any]) -> None:
    console = wide_console()
    table = Table(title=escape(found["name"]), show_header=False)
    for name, value in (*card_rows(found), *cost_rows(found["cost"])):
        table.add_row(escape(name), escape(value))
    console.print(table)
    if found["leak"] is not None and found["leak"]["warning"]:
        console.print(
            f"[bold]Leaking duplicates[/bold]: {found['leak']['share']:.0%} of the test nodes have "
            "a training node with the same row of A and the same label. Scores on this graph "
            "measure memory; read them beside a version without duplicates."
        )
    if found["heterophily"] is None:
        console.print(
            "Left out: homophily, label informativeness and R need edges between labelled nodes "
            "of two classes."
        )
