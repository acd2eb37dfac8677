"""One run: a graph, a split, a configuration and a seed, to a trained model and its figures."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import torch
from torch import nn

from djgnn.graph import Graph
from djgnn.graph.checks import check_trainable
from djgnn.model import DJGNN
from djgnn.training import calibration
from djgnn.training.config import TrainConfig
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

    With ``config.structure_gate`` a DJ-GNN is trained with and without its structure branch. The
    branch has n x hidden weights of its own and is kept only if it raises the validation score by
    more than one standard error of a proportion of the validation nodes (for ROC-AUC, too).

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

    hooks = hooks or Hooks()

    def fresh(model: nn.Module, stage: str) -> Fitted:
        kept = None if hooks.checkpoint is None else hooks.checkpoint.stage(stage)
        initialize(model, seed)
        if config.decoupled and isinstance(model, DJGNN):
            train_pump(model, inputs, config)
        own = dataclasses.replace(hooks, checkpoint=kept)
        return fit(model, inputs, targets, config, seeded(seed, device), own)

    fitted = fresh(module, "first")
    gated = config.structure_gate and isinstance(module, DJGNN) and module.structure is not None
    if gated and isinstance(module, DJGNN) and not fitted.interrupted:
        plain = fresh(module.without_structure(), "second")
        spent = fitted.seconds + plain.seconds
        needed = plain.validation + standard_error(plain.validation, targets.val_y.numel())
        chosen = fitted if fitted.validation > needed else plain
        gate = {"with_structure": fitted.validation, "without_structure": plain.validation}
        fitted = dataclasses.replace(
            chosen, seconds=spent, gate=gate, interrupted=plain.interrupted
        )
    held = fitted.logits[targets.val].cpu().numpy()
    scale = calibration.temperature(held, targets.val_y.cpu().numpy())
    fitted = dataclasses.replace(fitted, temperature=scale)
    labels = np.zeros(0, dtype=np.int64) if graph.y is None else graph.y[parts.test]
    return fitted, judge(fitted, labels, graph.metric, split)


def standard_error(percent: float, count: int) -> float:
    """Standard error of a share of `count` nodes, both in percent.

    Example:
        >>> standard_error(50.0, 100)
        5.0
    """
    share = min(max(percent / 100, 0.0), 1.0)
    return 100 * math.sqrt(share * (1 - share) / max(count, 1))


def train_pump(module: DJGNN, inputs: tuple[Any, Any], config: TrainConfig) -> float:
    """Train the pump alone, without labels, then fix the filters (the paper's large-graph mode).

    Returns:
        The pump's last loss.
    """
    view: Any = module.view(*inputs)
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
