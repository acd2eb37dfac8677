"""From which probability on a class can be believed: thresholds for a wanted precision."""

from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from djgnn import checking
from djgnn.graph import Graph
from djgnn.training.held_out import HeldOut

WANTED = (0.8, 0.9, 0.95)
POINTS = 50
"""Most points of a curve."""


class Threshold(TypedDict):
    """A precision that was wanted, and what holds from the lowest threshold on that has it."""

    precision: checking.Share
    threshold: checking.Share
    recall: checking.Share
    nodes: checking.Natural
    unlabelled: checking.Natural


def precision_recall(
    share: NDArray[np.floating[Any]], right: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """Thresholds in falling order, and precision, recall and number of the nodes at or above each.

    Args:
        share: Probability of a class.
        right: Whether the node is of it.

    Shapes:
        share and right ``[m]``; results as long as there are different probabilities.

    Example:
        >>> precision_recall(np.array([0.9, 0.5, 0.5]), np.array([True, True, False]))[1]
        array([1.        , 0.66666667])
    """
    order = np.argsort(-share, kind="stable")
    place = np.asarray(share[order], dtype=np.float64)
    last = np.r_[np.diff(place) != 0, True] if place.size else np.zeros(0, dtype=np.bool_)
    count = np.flatnonzero(last) + 1
    hits = np.cumsum(right[order])[last]
    return place[last], hits / count, hits / max(int(right.sum()), 1), count


def thresholds(graph: Graph, held: HeldOut, shares: NDArray[np.float32]) -> dict[str, Any]:
    """For every class the lowest thresholds of a wanted precision, and its curve.

    Both are measured on held-out nodes; a precision that no threshold has is left out. All
    probabilities have the six digits of ``predictions.csv``, to which thresholds are applied.

    Args:
        graph: Labels and names of the classes.
        held: Probabilities of nodes that were not learned from.
        shares: Probabilities of all nodes.

    Returns:
        For the card: `thresholds` (of each class a list of `precision` wanted, `threshold`,
        `recall`, `nodes` at or above it, `unlabelled` nodes at or above it) and `pr_curve` (of each
        class `threshold`, `precision` and `recall`, at most 50 points).

    Shapes:
        shares ``[n, classes]``.
    """
    y = graph.labels
    written, judged = (each.astype(np.float64).round(6) for each in (shares, held.shares))
    found: dict[str, Any] = {"thresholds": {}, "pr_curve": {}}
    for c, name in enumerate(graph.classes()):
        right = held.y == c
        if not right.any():
            continue
        place, precision, recall, count = precision_recall(judged[:, c], right)
        rows: list[Threshold] = []
        for wanted in WANTED:
            good = np.flatnonzero(precision >= wanted)
            if good.size:
                i, unlabelled = good[-1], written[y < 0, c] >= place[good[-1]]
                rows.append(
                    {
                        "precision": wanted,
                        "threshold": float(place[i]),
                        "recall": float(recall[i]),
                        "nodes": int(count[i]),
                        "unlabelled": int(unlabelled.sum()),
                    }
                )
        found["thresholds"][name] = rows
        kept = np.unique(np.linspace(0, place.size - 1, POINTS).round().astype(np.int64))
        parts = {"threshold": place, "precision": precision, "recall": recall}
        found["pr_curve"][name] = {k: v[kept].round(6).tolist() for k, v in parts.items()}
    return found
