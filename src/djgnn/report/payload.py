"""All that a run's page knows, as plain values."""

from __future__ import annotations

import math
import shlex
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from djgnn.report.arrays import pack
from djgnn.report.environment import environment_payload
from djgnn.report.evaluation import (
    accuracy_interval,
    auc_interval,
    class_scores,
    confusion,
)
from djgnn.report.graph_card import card_rows, measure_graph
from djgnn.report.nodes import MOST_NODES, nodes_payload
from djgnn.report.player import player_payload
from djgnn.report.run_data import PARTS, RunData
from djgnn.training import calibration
from djgnn.training.folder import CONFIG, GRAPH

if TYPE_CHECKING:
    from numpy.typing import NDArray

FORMAT = "djgnn-report-1"
DATA = ("name", "sha256", "num_nodes", "num_edges", "num_features", "classes")
RESULT = ("split", "validation", "test", "oracle_test", "epoch", "seconds")


def run_payload(data: RunData) -> dict[str, Any]:
    """The data of a run's page; numbers are those of the run folder's files, unrounded."""
    return {
        "format": FORMAT,
        "kind": "run",
        "headline": headline(data),
        "classes": list(data.graph.classes()),
        "history": history_payload(data),
        "alpha": alpha_payload(data),
        "evaluation": evaluation_payload(data),
        "graph": graph_payload(data),
        "player": player_payload(data),
        "nodes": nodes_payload(data),
        "environment": environment_payload(data),
    }


def headline(data: RunData) -> dict[str, Any]:
    """What stands at the top: the result with its interval, and how to get it again."""
    card = data.card
    low, high = test_interval(data)
    return {
        "data": {key: card["data"][key] for key in DATA},
        "metric": card["metric"],
        "protocol": card["protocol"],
        "seed": card["seed"],
        "preset": data.config.preset,
        "result": {key: card["result"][key] for key in RESULT},
        "test_low": _number(low),
        "test_high": _number(high),
        "test_nodes": int(data.split.test.sum()),
        "structure_gate": card["structure_gate"],
        "interrupted": card["interrupted"],
        "versions": card["versions"],
        "command": repeat_command(data),
        "config": data.config.to_dict(),
    }


def repeat_command(data: RunData) -> str:
    """The command that trains this run again, from its own folder."""
    folder, result = data.folder, data.card["result"]
    words = ["djgnn", "fit", "--graph", str(folder / GRAPH), "--config", str(folder / CONFIG)]
    words += ["--split", str(result["split"]), "--seed", str(data.card["seed"])]
    return shlex.join([*words, "--out", f"{folder.name}-again"])


def test_interval(data: RunData) -> tuple[float, float]:
    """The 95% interval of the test score over its nodes, in percent."""
    test, y = data.split.test, data.labels
    if data.card["metric"] == "roc_auc":
        positives = int((y[test] == 1).sum())
        negatives = int((y[test] == 0).sum())
        score = data.card["result"]["test"]
        return auc_interval(math.nan if score is None else score, positives, negatives)
    return accuracy_interval(int((data.predicted[test] == y[test]).sum()), int(test.sum()))


def history_payload(data: RunData) -> dict[str, Any]:
    """Losses and scores per epoch; the parts of the pump's loss where they were recorded."""
    columns = {key: [_number(v) for v in values] for key, values in data.history.items()}
    weight = data.config.training.pump_weight
    pairs = zip(data.history["loss"], data.history["pump_loss"], strict=True)
    columns["cross_entropy"] = [_number(loss - weight * pump) for loss, pump in pairs]
    if data.recording is not None:
        for key in ("trace_ratio", "orthogonality"):
            known = dict(zip(data.recording.seen, getattr(data.recording, key), strict=True))
            epochs = data.history["epoch"]
            columns[key] = [_number(known.get(int(e), math.nan)) for e in epochs]
    return columns


def alpha_payload(data: RunData) -> dict[str, Any]:
    """Mixing weights at the selected epoch, and over epochs where they were recorded."""
    recording = data.recording
    return {
        "names": list(data.alpha),
        "values": [float(data.card["alpha"].get(name, v)) for name, v in data.alpha.items()],
        "seen": None if recording is None else recording.seen.tolist(),
        "epochs": None if recording is None else pack(recording.alpha, "f4"),
    }


def evaluation_payload(data: RunData) -> dict[str, Any]:
    """Confusion, scores per class and reliability of the test nodes, and of the other parts."""
    y, said = data.labels, data.predicted
    part = np.array(data.predictions["part"])
    found = {}
    for name in PARTS[1:]:
        inside = (part == name) & (y >= 0)
        if inside.any():
            counts = confusion(y[inside], said[inside], data.graph.num_classes)
            found[name] = {
                "nodes": int(inside.sum()),
                "confusion": counts.tolist(),
                "classes": class_scores(counts),
                "reliability": _reliability(data.probabilities[inside], y[inside]),
            }
    return found


def _reliability(shares: NDArray[np.float32], y: NDArray[np.int64]) -> dict[str, Any]:
    """Bins of calibrated confidence, and the expected error; shares, not percent."""
    table = calibration.reliability(shares, y)
    return {
        "error": calibration.calibration_error(table),
        "bins": [asdict(b) for b in table if b.count],
    }


def graph_payload(data: RunData) -> dict[str, Any]:
    """The card of the graph."""
    found = measure_graph(data.graph, structural=data.graph.num_nodes <= MOST_NODES)
    found["name"] = data.card["data"]["name"]
    return {"card": found, "rows": [list(row) for row in card_rows(found)]}


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
