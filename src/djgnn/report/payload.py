"""The data of a run's page, as plain values."""

from __future__ import annotations

import math
import shlex
from typing import Any

from djgnn.checking import json_values
from djgnn.report.arrays import pack
from djgnn.report.environment import environment_payload
from djgnn.report.evaluation import evaluation_payload, score_interval
from djgnn.report.graph_card import card_rows, measure_graph
from djgnn.report.nodes import MOST_NODES, nodes_payload
from djgnn.report.player import player_payload
from djgnn.report.run_data import RunData
from djgnn.training.folder import CONFIG, GRAPH

FORMAT = "djgnn-report-1"
DATA = ("name", "sha256", "num_nodes", "num_edges", "num_features", "classes")
RESULT = ("split", "validation", "test", "oracle_test", "epoch", "seconds")


def run_payload(data: RunData) -> dict[str, Any]:
    """The data of a run's page; numbers are those of the run folder's files, unrounded."""
    recording = data.recording
    card = measure_graph(data.graph, structural=data.graph.num_nodes <= MOST_NODES)
    card["name"] = data.card["data"]["name"]
    payload: dict[str, Any] = json_values(
        {
            "format": FORMAT,
            "kind": "run",
            "headline": headline(data),
            "classes": data.graph.classes(),
            "history": history_payload(data),
            "alpha": {
                "names": list(data.alpha),
                "values": [data.card["alpha"].get(name, v) for name, v in data.alpha.items()],
                "seen": None if recording is None else recording.seen,
                "epochs": None if recording is None else pack(recording.alpha, "f4"),
            },
            "evaluation": evaluation_payload(data),
            "graph": {"card": card, "rows": list(card_rows(card))},
            "player": player_payload(data),
            "nodes": nodes_payload(data),
            "environment": environment_payload(data),
        }
    )
    return payload


def headline(data: RunData) -> dict[str, Any]:
    """The result with its interval, and the command that trains the run again from its folder."""
    card, result, folder = data.card, data.card["result"], data.folder
    words = ["djgnn", "fit", "--graph", str(folder / GRAPH), "--config", str(folder / CONFIG)]
    words += ["--split", str(result["split"]), "--seed", str(card["seed"])]
    low, high = score_interval(data)
    return {
        "data": {key: card["data"][key] for key in DATA},
        "metric": card["metric"],
        "protocol": card["protocol"],
        "seed": card["seed"],
        "preset": data.config.preset,
        "result": {key: result[key] for key in RESULT},
        "test_low": low,
        "test_high": high,
        "test_nodes": int(data.split.test.sum()),
        "structure_gate": card["structure_gate"],
        "interrupted": card["interrupted"],
        "versions": card["versions"],
        "command": shlex.join([*words, "--out", f"{folder.name}-again"]),
        "config": data.config.to_dict(),
    }


def history_payload(data: RunData) -> dict[str, Any]:
    """Losses and scores per epoch; the parts of the pump's loss where they were recorded."""
    columns: dict[str, Any] = dict(data.history)
    weight = data.config.training.pump_weight
    columns["cross_entropy"] = data.history["loss"] - weight * data.history["pump_loss"]
    if data.recording is not None:
        for key in ("trace_ratio", "orthogonality"):
            known = dict(zip(data.recording.seen, getattr(data.recording, key), strict=True))
            columns[key] = [known.get(int(epoch), math.nan) for epoch in data.history["epoch"]]
    return columns
