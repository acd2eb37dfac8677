"""What a card says to those who act on a run: verdict, sets, suspects, what to label, thresholds.

Older runs have none of it.
"""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from djgnn import checking
from djgnn.model.experts import kind_of


class _Suspect(TypedDict):
    node: checking.Text
    label: checking.Text
    probability: checking.Share
    prediction: checking.Text
    reasons: NotRequired[checking.Text]


class _Wanted(TypedDict):
    node: checking.Text
    prediction: checking.Text
    probability: checking.Share
    neighbours: checking.Natural


class _Threshold(TypedDict):
    precision: checking.Share
    threshold: checking.Share
    recall: checking.Share
    nodes: checking.Natural
    unlabelled: checking.Natural


class _Curve(TypedDict):
    threshold: list[checking.Share]
    precision: list[checking.Share]
    recall: list[checking.Share]


class _Group(TypedDict):
    group: checking.Text
    drop: checking.Number | None
    error: NotRequired[checking.Number | None]


class Advice(TypedDict):
    """Fields of ``result.json`` that only the page reads, where they are."""

    suspects: NotRequired[list[_Suspect] | None]
    label_next: NotRequired[list[_Wanted] | None]
    thresholds: NotRequired[dict[str, list[_Threshold]] | None]
    pr_curve: NotRequired[dict[str, _Curve] | None]
    importance: NotRequired[list[_Group] | None]


def advice(card: dict[str, Any]) -> dict[str, Any]:
    """These fields of a card, its verdict and its sets; ``None`` where there is nothing."""
    keys = ("verdict", "sets", "held_out", "suspected", *Advice.__annotations__)
    return {key: card.get(key) or None for key in keys}


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
