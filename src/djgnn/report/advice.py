"""What a card says to those who act on a run: verdict, reading, suspects, what to label, and more.

Older runs have none of it.
"""

from __future__ import annotations

from typing import Any

from djgnn.model.experts import kind_of
from djgnn.training.next_steps import NextSteps
from djgnn.training.suspects import Suspect


def advice(card: dict[str, Any]) -> dict[str, Any]:
    """These fields of a card, its verdict, sets and reading; ``None`` where there is nothing.

    Every suspect says whether its label looks wrong.
    """
    keys = ("verdict", "sets", "reading", *NextSteps.__annotations__)
    found = {key: card.get(key) or None for key in keys}
    doubted = card.get("suspects") or ()
    rows = [{**row, "looks_wrong": Suspect(**row).looks_wrong} for row in doubted]
    return {**found, "suspects": rows or None}


def kinds(experts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The experts of a card by kind: the members of a cross-fitted one together.

    Weights and seconds are sums; scores and losses are means over the folds that have them; of the
    epochs the ones of the first member stand for all.

    Example:
        >>> row = {"epoch": 2, "epochs": 5, "validation": 60.0, "validation_loss": 1.0}
        >>> rows = [{**row, "name": f"rows-{k}", "weight": 0.5, "seconds": 1.0} for k in (1, 2)]
        >>> [(kind["name"], kind["weight"], kind["seconds"]) for kind in kinds(rows)]
        [('rows', 1.0, 2.0)]
    """
    groups: dict[str, list[dict[str, Any]]] = {}
    for expert in experts:
        groups.setdefault(kind_of(expert["name"]), []).append(expert)
    found = []
    for kind, rows in groups.items():
        row = {**rows[0], "name": kind}
        for key in ("weight", "seconds"):
            row[key] = sum(each[key] for each in rows)
        for key in ("validation", "validation_loss"):
            known = [each[key] for each in rows if each[key] is not None]
            row[key] = sum(known) / len(known) if known else None
        found.append(row)
    return found
