"""One run: a graph, a split, a configuration and a seed, to a trained model and its figures."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import torch
from torch import nn

from djgnn.graph import Graph
from djgnn.graph.checks import check_trainable
from djgnn.model import DJGNN
from djgnn.model.experts import Mixed
from djgnn.training import calibration
from djgnn.training.config import TrainConfig
from djgnn.training.experts import fit_experts
from djgnn.training.inputs import initialize, seeded
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
        initialize(module, seed)
        if config.decoupled and isinstance(module, DJGNN):
            train_pump(module, inputs, config)
        fitted = fit(module, inputs, targets, config, seeded(seed, device), hooks)
    held = fitted.logits[targets.val].cpu().numpy()
    scale = calibration.temperature(held, targets.val_y.cpu().numpy())
    fitted = dataclasses.replace(fitted, temperature=scale)
    labels = np.zeros(0, dtype=np.int64) if graph.y is None else graph.y[parts.test]
    return fitted, judge(fitted, labels, graph.metric, split)


def train_pump(module: DJGNN, inputs: tuple[Any, Any], config: TrainConfig) -> float:
    """Train the pump alone, without labels, then fix the filters (the paper's large-graph mode).

    Returns:
        The pump's last loss.
    """
    view: Any = module.view(*inputs)
    if module.pump is None:
        raise ValueError("a model without jumps has no pump to train")
    optimizer = torch.optim.Adam(module.pump.parameters(), lr=config.pump_lr)
    value = float("nan")
    for _ in range(config.pump_epochs):
        optimizer.zero_grad(set_to_none=True)
        loss: Any = view.positions(module.pump).loss
        loss.backward()
        view.reduce(module.pump.parameters())
        optimizer.step()
        value = float(loss.detach())
    optimizer.zero_grad(set_to_none=True)  # the next optimiser must not find this gradient
    module.freeze_pump(view)
    return value
