"""One run: a graph, a split, a configuration and a seed, to a trained model and its figures."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from torch import nn

from djgnn.graph import Graph
from djgnn.graph.checks import check_trainable
from djgnn.model.experts import Mixed
from djgnn.training.calibration import Calibration
from djgnn.training.config import TrainConfig
from djgnn.training.decoupled import prepare
from djgnn.training.experts import fit_experts
from djgnn.training.inputs import seeded
from djgnn.training.loop import Fitted, Targets, fit
from djgnn.training.progress import Hooks
from djgnn.training.selection import SplitResult, judge


def train(
    module: nn.Module,
    inputs: tuple[Any, Any],
    graph: Graph,
    split: int,
    config: TrainConfig,
    seed: int = 0,
    hooks: Hooks | None = None,
) -> tuple[Fitted, SplitResult]:
    """Train one model on one split from fresh weights, then score the test nodes.

    Args:
        module: The model; its weights are initialised first.
        inputs: x and structure.
        graph: The graph, for labels and split.
        split: Which split.
        config: How to train.
        seed: Of weights and dropout.
        hooks: Progress, early end, checkpoint, recording.

    Raises:
        InputError: If the split has nothing to learn from or to select on.
    """
    parts = graph.split(split)
    check_trainable(graph.y, parts.train, parts.val, graph.num_classes, graph.metric)
    device = next(module.parameters()).device
    targets = Targets.of(graph, parts, device, config.class_weight)
    if isinstance(module, Mixed):
        fitted = fit_experts(module, inputs, targets, config, seed, hooks)
    else:
        prepare(module, inputs, config, seed)
        fitted = fit(module, inputs, targets, config, seeded(seed, device), hooks)
    held = fitted.logits[targets.val].cpu().numpy()
    found = Calibration.fit(held, targets.labels[1])
    fitted = dataclasses.replace(fitted, calibration=found)
    labels = np.zeros(0, dtype=np.int64) if graph.y is None else graph.y[parts.test]
    return fitted, judge(fitted, labels, graph.metric, split)
