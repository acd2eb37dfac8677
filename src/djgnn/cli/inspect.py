"""`djgnn inspect`: what a graph is like, before anything is trained on it."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from djgnn.graph import Graph
from djgnn.report.graph_card import card_rows, measure_graph


def run_inspect(graph: Graph, *, seed: int = 0, quiet: bool = False) -> dict[str, Any]:
    """Measure a graph, print what was found, and return what `--json` prints."""
    found = measure_graph(graph, seed)
    if not quiet:
        _print(found)
    return found


def _print(found: dict[str, Any]) -> None:
    console = Console(highlight=False)
    table = Table(title=escape(found["name"]), show_header=False)
    for name, value in card_rows(found):
        table.add_row(name, escape(value))
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
