"""What to do next: labels to check, nodes to label, thresholds; for the card and as tables."""

import csv
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict

import numpy as np
from numpy.typing import NDArray

from djgnn import checking
from djgnn.graph import Graph
from djgnn.training.held_out import HeldOut
from djgnn.training.next_labels import Wanted, next_labels
from djgnn.training.suspects import Suspect, neighbours, suspects
from djgnn.training.thresholds import Threshold, thresholds

SUSPECTS, LABEL_NEXT = "suspects.csv", "label-next.csv"
SHOWN = 50
"""Rows that the card has of a table."""


class _Curve(TypedDict):
    threshold: list[checking.Share]
    precision: list[checking.Share]
    recall: list[checking.Share]


class _Importance(TypedDict):
    group: checking.Text
    drop: checking.Number
    error: checking.NonNegative


class NextSteps(TypedDict):
    """What the card of a run says about them; one of another version may not."""

    held_out: NotRequired[Literal["folds", "test", "validation"]]
    suspected: NotRequired[checking.Natural]
    suspects: NotRequired[list[Suspect]]
    label_next: NotRequired[list[Wanted]]
    thresholds: NotRequired[dict[str, list[Threshold]]]
    pr_curve: NotRequired[dict[str, _Curve]]
    importance: NotRequired[list[_Importance]]
    importance_note: NotRequired[checking.Text]


def write_next_steps(
    folder: Path, graph: Graph, held: HeldOut, shares: NDArray[np.float32]
) -> dict[str, Any]:
    """Write the tables that have a row into a run folder, and return their part of the card.

    Args:
        folder: Of the run.
        graph: What was trained on.
        held: Probabilities of nodes that were not learned from.
        shares: Of all nodes.

    Shapes:
        shares ``[n, classes]``.
    """
    near = neighbours(graph)
    doubted, wanted = suspects(graph, held, near), next_labels(graph, shares, near=near)
    _write(folder / SUSPECTS, doubted)
    _write(folder / LABEL_NEXT, wanted)
    return {
        "held_out": held.source,
        "suspected": sum(each.looks_wrong for each in doubted),
        "suspects": [dataclasses.asdict(each) for each in doubted[:SHOWN]],
        "label_next": [dataclasses.asdict(each) for each in wanted[:SHOWN]],
        **thresholds(graph, held, shares),
    }


def next_lines(card: dict[str, Any], folder: Path) -> list[str]:
    """What the card of a run says about them, in short lines."""
    found, number = [], card.get("suspected")
    if number:
        verb = "label looks" if number == 1 else "labels look"
        found.append(f"{number} {verb} wrong: {folder / SUSPECTS} (column looks_wrong)")
    elif number == 0:
        others = f"; those predicted otherwise: {folder / SUSPECTS}" if card.get("suspects") else ""
        found.append(f"no label looks wrong{others}")
    if card.get("label_next"):
        found.append(f"label these next: {folder / LABEL_NEXT}")
    measured = card.get("importance", ())
    matter = [each for each in measured if each["drop"] > 2 * each["error"]]
    for each in [] if (card.get("verdict") or {}).get("at_chance") else matter[:1]:
        found.append(f"matters most: {each['group']} ({each['drop']:.1f} points without it)")
    if measured and not matter:
        found.append("no column matters: shuffling one lowers the score by no more than chance")
    if "importance_note" in card:
        found.append(card["importance_note"])
    return found


def _write(path: Path, rows: Sequence[Suspect | Wanted]) -> None:
    if not rows:
        return
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        more = ["looks_wrong"] if isinstance(rows[0], Suspect) else []
        names = [f.name for f in dataclasses.fields(rows[0])]
        writer.writerow([*names, *more])
        for row in rows:
            each = (getattr(row, name) for name in names)
            values = [f"{v:.6f}" if isinstance(v, float) else v for v in each]
            if isinstance(row, Suspect):
                values.append("yes" if row.looks_wrong else "no")
            writer.writerow(values)
