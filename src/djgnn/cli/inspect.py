"""`djgnn inspect` and `djgnn datasets`: what a graph is like, and which sets are known and here."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from djgnn.cli.terminal import escape, wide_console
from djgnn.errors import InputError
from djgnn.graph import Graph, random_splits
from djgnn.graph.registry import available, folders, known
from djgnn.training.config import RunConfig


def run_inspect(
    graph: Graph,
    config: RunConfig,
    *,
    seed: int = 0,
    device: str = "auto",
    cost: bool = True,
    quiet: bool = False,
) -> dict[str, Any]:
    """Measure a graph, print what was found, and return what `--json` prints.

    The cost of a fit is ``None`` without two classes to learn.
    """
    from djgnn.report.graph_card import measure_graph
    from djgnn.training.estimate import estimate
    from djgnn.training.inputs import choose_device

    found = {**measure_graph(graph, seed), "cost": None}
    if cost and graph.y is not None:
        try:
            ready = graph if graph.num_splits else random_splits(graph, random_state=seed)
            found["cost"] = asdict(estimate(ready, config, device=choose_device(device)))
        except InputError:
            pass  # nothing to learn from: `fit` says what is missing
    if not quiet:
        _print(found)
    return found


def _print(found: dict[str, Any]) -> None:
    from djgnn.report.graph_card import card_rows

    console = wide_console()
    table = Table(title=escape(found["name"]), show_header=False)
    for name, value in (*card_rows(found), *_cost_rows(found["cost"])):
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


def _cost_rows(cost: dict[str, Any] | None) -> list[tuple[str, str]]:
    """What a fit will cost, in words."""
    if cost is None:
        return []
    times = f"{cost['trainings']} x {cost['epochs']} epochs of {cost['seconds_per_epoch']:.3g} s"
    most, least = (_duration(cost[key]) for key in ("seconds", "least_seconds"))
    where = "GPU" if cost["device"] == "cuda" else f"{cost['threads']} CPU threads"
    return [
        ("fit here, time", f"at most {most} ({times}, {where}); {least} if it stops at once"),
        ("fit here, memory", f"{cost['memory_mib']:,.0f} MiB beside libraries and data"),
    ]


def _duration(seconds: float) -> str:
    """Seconds in a readable unit.

    Example:
        >>> _duration(7.3), _duration(200), _duration(9000)
        ('7 s', '3.3 min', '2.5 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def list_datasets(data: Path | None, quiet: bool) -> list[dict[str, Any]]:
    """Print every data set that is known or here, and return what `--json` prints."""
    here, cards = available(data), known()
    rows: list[dict[str, Any]] = [
        {
            "name": name,
            "path": str(here[name]) if name in here else None,
            "card": cards[name].as_dict() if name in cards else None,
        }
        for name in sorted(set(here) | set(cards))
    ]
    if quiet:
        return rows
    table = Table(title="data sets")
    for column in ("name", "here", "nodes", "edges", "features", "classes", "metric", "title"):
        number = column in ("nodes", "edges", "features", "classes")
        table.add_column(column, justify="right" if number else "left")
    for row in rows:
        card = cards.get(row["name"])
        facts = ["", "", "", "", "", "own file"]
        if card is not None:
            counts = (card.num_nodes, card.num_edges, card.num_features, card.num_classes)
            facts = [*(f"{c:,}" for c in counts), card.metric, card.title]
        table.add_row(escape(row["name"]), "yes" if row["path"] else "", *map(escape, facts))
    console = Console(highlight=False)
    console.print(table)
    console.print("looked in: " + ", ".join(escape(str(f)) for f in folders(data)))
    console.print("The others are downloaded on first use where a package offers them.")
    return rows
