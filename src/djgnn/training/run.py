"""One run: a graph, a split, a configuration and a seed, to a trained model and its figures."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from djgnn.graph import Graph
from djgnn.graph.checks import check_trainable
from djgnn.model import DJGNN
from djgnn.training.config import TrainConfig
from djgnn.training.inputs import initialize, seeded
from djgnn.training.loop import Fitted, Observer, Progress, Targets, fit
from djgnn.training.selection import SplitResult, judge


def train(
    module: nn.Module,
    inputs: tuple[Any, Any],
    graph: Graph,
    split: int,
    config: TrainConfig,
    seed: int = 0,
    progress: Progress | None = None,
    observer: Observer | None = None,
) -> tuple[Fitted, SplitResult]:
    """Train one model on one split from fresh weights, then score the test nodes.

    With ``config.structure_gate`` a DJ-GNN is trained with and without its structure branch. The
    branch has n x hidden weights of its own and is kept only if it raises the validation score by
    more than one standard error of that score.

    Raises:
        InputError: If the split has nothing to learn from or to select on.
    """
    parts = graph.split(split)
    check_trainable(graph.y, parts.train, parts.val, graph.num_classes)
    targets = Targets.of(graph, parts, next(module.parameters()).device)
    fitted = _fit_fresh(module, inputs, targets, config, seed, progress, observer)
    if config.structure_gate and isinstance(module, DJGNN) and module.structure is not None:
        other = module.without_structure()
        plain = _fit_fresh(other, inputs, targets, config, seed, progress, observer)
        spent = fitted.seconds + plain.seconds
        needed = plain.validation + standard_error(plain.validation, targets.val_y.numel())
        chosen = fitted if fitted.validation > needed else plain
        gate = {"with_structure": fitted.validation, "without_structure": plain.validation}
        fitted = dataclasses.replace(chosen, seconds=spent, gate=gate)
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


def _fit_fresh(
    module: nn.Module,
    inputs: tuple[Any, Any],
    targets: Targets,
    config: TrainConfig,
    seed: int,
    progress: Progress | None,
    observer: Observer | None,
) -> Fitted:
    device = next(module.parameters()).device
    initialize(module, seed)
    if config.decoupled and isinstance(module, DJGNN):
        train_pump(module, inputs, config)
    return fit(module, inputs, targets, config, seeded(seed, device), progress, observer)


def train_pump(module: DJGNN, inputs: tuple[Any, Any], config: TrainConfig) -> float:
    """Train the pump alone, without labels, then fix the filters (the paper's large-graph mode).

    Returns:
        The pump's last loss.
    """
    operators = inputs[1]
    optimizer = torch.optim.Adam(module.pump.parameters(), lr=config.pump_lr)
    value = float("nan")
    for _ in range(config.pump_epochs):
        optimizer.zero_grad(set_to_none=True)
        out = module.pump(operators.adjacency, operators.degree)
        loss = out.trace_ratio + out.orthogonality
        loss.backward()
        optimizer.step()
        value = float(loss.detach())
    module.freeze_pump(operators)
    return value


def probabilities(fitted: Fitted) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Class probabilities of every node at the selected epoch, ``[n, classes]``."""
    values: np.ndarray[Any, np.dtype[np.float32]] = F.softmax(fitted.logits, dim=1).cpu().numpy()
    return values
