"""The data of a run's page, as plain values: result, history, how good the predictions are."""

import math
import shlex
from dataclasses import asdict
from typing import Any

import numpy as np

from djgnn.checking import json_values
from djgnn.graph.checks import BINARY, METRIC_NAMES
from djgnn.model.experts import kind_of
from djgnn.report.graph_card import card_rows, measure_graph
from djgnn.report.run_data import RunData
from djgnn.report.views import (
    MOST_NODES,
    environment_payload,
    nodes_payload,
    pack,
    player_payload,
)
from djgnn.training import calibration
from djgnn.training.card import CONFIG, GRAPH
from djgnn.training.folder import jumps_card
from djgnn.training.next_steps import NextSteps
from djgnn.training.predictions import PARTS
from djgnn.training.selection import resampled
from djgnn.training.suspects import Suspect

FORMAT = "djgnn-report-1"
RESAMPLES = 200
DATA = ("name", "sha256", "num_nodes", "num_edges", "num_features", "classes")
RESULT = ("split", "validation", "test", "oracle_test", "epoch", "seconds")


def run_payload(data: RunData) -> dict[str, Any]:
    """The data of a run's page; numbers are those of the run folder's files, unrounded.

    What takes long is left for :func:`theory_payload`.
    """
    recording, experts = data.recording, data.card.get("experts") or []
    shown = kind_of(data.shown.name)
    weight = sum(e["weight"] for e in experts if kind_of(e["name"]) == shown)
    payload: dict[str, Any] = json_values(
        {
            "format": FORMAT,
            "kind": "run",
            "headline": headline(data),
            **advice(data.card),
            "classes": data.graph.classes(),
            "history": history_payload(data),
            "experts": kinds(experts) or None,
            "members": [{"name": e["name"], "kind": kind_of(e["name"])} | e for e in experts],
            "work": shares_of_answers(data),
            "jumps": _jumps(data),
            "shown": {
                "expert": shown,
                "weight": weight if experts else data.shown.weight,
                "epoch": data.kept,
            },
            "alpha": {
                "names": list(data.alpha),
                "values": list(data.alpha.values()),
                "seen": None if recording is None else recording.seen,
                "epochs": None if recording is None else pack(recording.alpha, "f4"),
            },
            "evaluation": evaluation_payload(data),
            "nodes": nodes_payload(data),
            "theory": False,
            "graph": None,
            "player": None,
            "environment": None,
        }
    )
    return payload


def theory_payload(data: RunData, card: dict[str, Any] | None = None) -> dict[str, Any]:
    """The parts of the page's data that take long: measures of the graph, ranks over training, the
    Fiedler environment.

    `card` has the measures, where they are known.
    """
    few = data.graph.num_nodes <= MOST_NODES
    card = measure_graph(data.graph, structural=few) if card is None else card
    card["name"] = data.card["data"]["name"]
    payload: dict[str, Any] = json_values(
        {
            "theory": True,
            "graph": {"card": card, "rows": list(card_rows(card))},
            "player": player_payload(data),
            "environment": environment_payload(data),
        }
    )
    return payload


def advice(card: dict[str, Any]) -> dict[str, Any]:
    """The fields of a card for those who act on a run: verdict, sets, reading, next steps.

    They are ``None`` where there is nothing, as in older runs; every suspect says whether its label
    looks wrong.
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


def _jumps(data: RunData) -> list[dict[str, Any]] | None:
    """How far the jumps of each kind of expert reach, as its heaviest member has them."""
    found: dict[str, dict[str, Any]] = {}
    for row in jumps_card(data.shown.model) or []:
        found.setdefault(kind_of(row["expert"]), {**row, "expert": kind_of(row["expert"])})
    return list(found.values()) or None


def shares_of_answers(data: RunData) -> dict[str, float]:
    """What part of the probability of the predicted classes each kind of expert has given.

    Of the nodes without a label, or of all where every node has one; the shares sum to 1.
    """
    rows = np.flatnonzero(data.graph.labels < 0)
    rows = rows if rows.size else np.arange(data.graph.num_nodes)
    given = {kind: float(s[rows, data.predicted[rows]].sum()) for kind, s in data.shares.items()}
    total = sum(given.values()) or 1.0
    return {kind: value / total for kind, value in given.items()}


def headline(data: RunData) -> dict[str, Any]:
    """The result with its interval, and the command that trains the run again from its folder."""
    card, result, folder = data.card, data.card["result"], data.folder
    words = ["djgnn", "fit", "--graph", str(folder / GRAPH), "--config", str(folder / CONFIG)]
    words += ["--split", str(result["split"]), "--seed", str(card["seed"])]
    low, high = score_interval(data)
    return {
        "data": {key: card["data"][key] for key in DATA},
        "metric": METRIC_NAMES[card["metric"]],
        "protocol": card["protocol"],
        "seed": card["seed"],
        "preset": data.config.preset,
        "result": {key: result[key] for key in RESULT},
        "test_low": low,
        "test_high": high,
        "test_nodes": int(data.split.test.sum()),
        "cross_fitted": card["protocol"] == "cross-fitting",
        "unlabelled": int((data.graph.labels < 0).sum()),
        "interrupted": card["interrupted"],
        "versions": card["versions"],
        "command": shlex.join([*words, "--out", f"{folder.name}-again"]),
        "config": data.config.to_dict(),
    }


def history_payload(data: RunData) -> dict[str, Any]:
    """Losses and scores per epoch; the parts of the pump's loss where they were recorded."""
    columns: dict[str, Any] = {**data.history, "expert": data.owners}
    weight = data.config.training.pump_weight
    columns["cross_entropy"] = data.history["loss"] - weight * data.history["pump_loss"]
    if data.recording is not None:
        for key in ("trace_ratio", "orthogonality"):
            known = dict(zip(data.recording.seen, getattr(data.recording, key), strict=True))
            columns[key] = [
                known.get(int(epoch), math.nan) if owner == data.shown.name else math.nan
                for epoch, owner in zip(data.history["epoch"], data.owners, strict=True)
            ]
    return columns


def accuracy_interval(correct: int, total: int) -> tuple[float, float]:
    """Wilson's 95% interval of a share, in percent.

    Example:
        >>> [round(v, 2) for v in accuracy_interval(50, 100)]
        [40.38, 59.62]
    """
    from scipy.stats import binomtest

    if total == 0:
        return (math.nan, math.nan)
    interval = binomtest(correct, total).proportion_ci(0.95, method="wilson")
    return (100 * float(interval.low), 100 * float(interval.high))


def auc_interval(auc: float, positives: int, negatives: int) -> tuple[float, float]:
    r"""Newcombe's 95% interval of a ROC-AUC in percent (2006, part 2, method 5).

    As Wilson's for a share, it holds every area :math:`\theta` that is no more than z standard
    errors away from the observed area a, with the error that :math:`\theta` would have:

    .. math::
        (a - \theta)^2 \le z^2 \, \frac{\theta (1 - \theta)}{n_+ n_-} \Bigl( 1 + (\bar n - 1)
        \bigl( \tfrac{1 - \theta}{2 - \theta} + \tfrac{\theta}{1 + \theta} \bigr) \Bigr),
        \qquad \bar n = (n_+ + n_-) / 2,

    the variance of Hanley and McNeil (1982) made symmetric. It does not collapse at 0 and 100.

    Example:
        >>> [round(v, 1) for v in auc_interval(80.0, 100, 100)]
        [73.1, 85.3]
        >>> [round(v, 1) for v in auc_interval(100.0, 1, 1)]
        [20.7, 100.0]
    """
    from scipy.optimize import brentq

    if min(positives, negatives) == 0 or not math.isfinite(auc):
        return (math.nan, math.nan)
    a, half = auc / 100, (positives + negatives) / 2 - 1

    def beyond(t: float) -> float:
        pairs = 1 + half * ((1 - t) / (2 - t) + t / (1 + t))
        return (a - t) ** 2 - 1.959964**2 * t * (1 - t) * pairs / (positives * negatives)

    low = brentq(beyond, 0, min(a, 1 - 1e-12)) if a > 0 else 0.0
    high = brentq(beyond, max(a, 1e-12), 1) if a < 1 else 1.0
    return (100 * float(low), 100 * float(high))


def score_interval(data: RunData) -> tuple[float, float]:
    """The 95% interval of the test score over its nodes, in percent.

    Wilson's of accuracy, Newcombe's of ROC-AUC, a bootstrap of the others.
    """
    y, said = data.graph.labels[data.split.test], data.predicted[data.split.test]
    if data.card["metric"] == "roc_auc":
        found = data.card["result"]["test"]
        counts = int((y == 1).sum()), int((y == 0).sum())
        return auc_interval(math.nan if found is None else found, *counts)
    if data.card["metric"] == "accuracy" or not y.size:
        return accuracy_interval(int((said == y).sum()), y.size)
    ranked = data.card["metric"] in BINARY
    decided = data.probabilities[data.split.test, 1] if ranked else said
    drawn = resampled([decided], y, data.card["metric"], RESAMPLES)[0]
    low, high = np.nanpercentile(drawn, [2.5, 97.5])
    return (float(low), float(high))


def evaluation_payload(data: RunData) -> dict[str, Any]:
    """Confusion, scores per class and reliability of the nodes of each part of the split.

    In a confusion matrix rows are true classes and columns predicted ones. Precision, recall and F1
    are in percent, NaN where there is nothing to count; errors and bins of reliability are shares.
    """
    from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

    classes, found = np.arange(data.graph.num_classes), {}
    for number, name in enumerate(PARTS):
        inside = (data.part == number) & (data.graph.labels >= 0) & (name != "")
        if not inside.any():
            continue
        y, said = data.graph.labels[inside], data.predicted[inside]
        scores = precision_recall_fscore_support(y, said, labels=classes, zero_division=np.nan)
        bins = calibration.reliability(data.probabilities[inside], y)
        found[name] = {
            "nodes": int(inside.sum()),
            "confusion": confusion_matrix(y, said, labels=classes),
            "classes": [
                {"precision": 100 * p, "recall": 100 * r, "f1": 100 * f1, "support": count}
                for p, r, f1, count in zip(*scores, strict=True)
            ],
            "reliability": {
                "error": calibration.calibration_error(bins),
                "bins": [asdict(b) for b in bins if b.count],
            },
        }
    return found
