"""`djgnn datasets`: what is known, what is here."""

from __future__ import annotations

import json
from pathlib import Path

from rich.console import Console
from rich.table import Table

from djgnn.cli.text import escape
from djgnn.graph.registry import available, folders, known


def list_datasets(data: Path | None, as_json: bool) -> None:
    """Print every data set that is known or here."""
    here, cards = available(data), known()
    names = sorted(set(here) | set(cards))
    if as_json:
        rows = [
            {
                "name": name,
                "path": str(here[name]) if name in here else None,
                "card": cards[name].as_dict() if name in cards else None,
            }
            for name in names
        ]
        print(json.dumps(rows, ensure_ascii=False))
        return
    table = Table(title="data sets")
    for column in ("name", "here", "nodes", "edges", "features", "classes", "metric", "title"):
        table.add_column(column, justify="right" if column in _NUMBERS else "left")
    for name in names:
        card = cards.get(name)
        facts = ["", "", "", "", "", "own file"]
        if card is not None:
            counts = (card.num_nodes, card.num_edges, card.num_features, card.num_classes)
            facts = [*(f"{c:,}" for c in counts), card.metric, card.title]
        table.add_row(escape(name), "yes" if name in here else "", *(escape(f) for f in facts))
    console = Console(highlight=False)
    console.print(table)
    console.print("looked in: " + ", ".join(escape(str(f)) for f in folders(data)))
    console.print("The others are downloaded on first use where a package offers them.")


_NUMBERS = ("nodes", "edges", "features", "classes")
