"""The node explorer's data: every node of a graph of moderate size, or a sample of a larger one."""

from __future__ import annotations

from typing import Any

import numpy as np

from djgnn.report.arrays import pack, pack_index
from djgnn.report.run_data import PARTS, RunData

MOST_NODES = 50_000
MOST_CLASSES = 5
ADJACENCY_BYTES = 5 << 20


def nodes_payload(data: RunData, most: int = MOST_NODES) -> dict[str, Any]:
    """Names, labels, predictions, probabilities, contributions, jumps and edges.

    Labels, predictions and edges are those of all nodes. The rest is of the nodes shown: all, or
    `most` of them chosen evenly at random.
    """
    n, classes = data.graph.num_nodes, data.graph.num_classes
    rng = np.random.default_rng(0)
    chosen = np.arange(n) if n <= most else np.sort(rng.choice(n, most, replace=False))
    top = np.argsort(-data.probabilities[chosen], axis=1, kind="stable")[:, :MOST_CLASSES]
    for i in np.flatnonzero(top[:, 0] != data.predicted[chosen]):
        # rounding put another class beside the predicted one: the predicted class goes first
        first = data.predicted[chosen[i]]
        top[i] = [first, *top[i][top[i] != first]][: top.shape[1]]
    names = data.graph.names()
    flags = data.predictions.get("flags", [])
    part = np.array([PARTS.index(p) for p in data.predictions["part"]])
    return {
        "count": n,
        "shown": None if chosen.size == n else pack_index(chosen, n),
        "names": None if data.graph.node_names is None else [names[i] for i in chosen],
        # one more than the class; 0 = unknown
        "labels": pack_index(data.labels + 1, classes + 1),
        "predicted": pack_index(data.predicted, classes),
        "part": pack_index(part, len(PARTS)),
        "flags": [flags[i] for i in chosen] if any(flags) else None,
        "probability": pack([float(data.predictions["probability"][i]) for i in chosen], "f4"),
        "margin": pack([float(data.predictions["margin"][i]) for i in chosen], "f4"),
        "top": pack_index(top, classes),
        "probabilities": pack(np.take_along_axis(data.probabilities[chosen], top, axis=1), "f4"),
        # of the predicted class and of the one after it
        "contributions": pack(
            np.take_along_axis(data.contributions[chosen], top[:, None, :2], axis=2), "f4"
        ),
        "bias": pack(np.take_along_axis(data.bias[chosen], top[:, :2], axis=1), "f4"),
        "ranks": pack_index(data.ranks[chosen], n),
        "weights": pack(data.weight[chosen], "f4"),
        "branches": data.branches,
        "edges": _edges(data),
    }


def _edges(data: RunData) -> dict[str, Any]:
    """Out-neighbours as CSR; where they are too many, at most `kept` of each node."""
    n, a = data.graph.num_nodes, data.graph.adjacency
    budget = ADJACENCY_BYTES // (1 if n <= 1 << 8 else 2 if n <= 1 << 16 else 4)
    degree = np.diff(a.indptr)
    kept = int(degree.max(initial=0))
    while kept > 1 and np.minimum(degree, kept).sum() > budget:
        kept = int(kept * 0.8)
    within = np.arange(a.nnz) - np.repeat(a.indptr[:-1], degree) < kept
    return {
        "complete": bool(within.all()),
        "kept": kept,
        "degree": pack(np.minimum(degree, kept), "u4" if kept > 65535 else "u2"),
        "target": pack_index(a.indices[within], n),
    }
