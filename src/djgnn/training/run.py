"""One run: a graph, a split, a configuration and a seed, to a trained model and its figures."""

import dataclasses
from typing import Any

import numpy as np
from torch import nn

from djgnn.errors import InputError
from djgnn.graph import Graph
from djgnn.graph.checks import check_trainable
from djgnn.graph.convert import overflow_remark
from djgnn.model import DJExperts
from djgnn.model.expert_mixture import Mixed
from djgnn.training.calibration import Calibration
from djgnn.training.config import TrainConfig
from djgnn.training.decoupled import prepare
from djgnn.training.experts import fit_experts
from djgnn.training.feature_baseline import FeatureReference
from djgnn.training.inputs import seeded
from djgnn.training.loop import Fitted, fit
from djgnn.training.progress import Hooks
from djgnn.training.selection import SplitResult, judge
from djgnn.training.targets import Targets
from djgnn.training.threads import suitable_threads


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
        split: Which split; a cross-fitted model learns from all of them, its folds.
        config: How to train.
        seed: Of weights and dropout.
        hooks: Progress, early end, checkpoint, recording.

    Raises:
        InputError: If the split has nothing to learn from or to select on, or the splits are not
            the folds of a cross-fitted model.
        FloatingPointError: If training diverged; it names features or weights that overflow.

    Example:
        >>> from djgnn.graph import heterophilic_sbm, random_splits
        >>> from djgnn.training import resolve
        >>> from djgnn.training.inputs import build_djgnn
        >>> graph = random_splits(heterophilic_sbm(160), num_splits=1)
        >>> config = resolve("paper", epochs=3, hidden_channels=8)
        >>> module, inputs = build_djgnn(config, graph)
        >>> fitted, result = train(module, inputs, graph, 0, config.training, seed=0)
        >>> 0 <= result.test <= 100
        True
    """
    folded = isinstance(module, Mixed) and module.folds > 1
    if folded and (graph.num_splits != module.folds or bool(graph.split(0).test.any())):
        raise InputError(
            f"{graph.name}: the configuration has {module.folds} folds, but the graph has splits "
            f"of its own; leave the option folds out (got {graph.num_splits} splits)"
        )
    splits = [graph.split(k) for k in (range(graph.num_splits) if folded else [split])]
    device, every = next(module.parameters()).device, []
    for parts in splits:
        check_trainable(graph.labels, parts.train, parts.val, graph.num_classes, graph.metric)
        every.append(Targets.of(graph, parts, device, config.class_weight))
    try:
        with suitable_threads(graph, device):
            if isinstance(module, DJExperts):
                reference = FeatureReference(module, inputs, graph, every, config, seed)
                fitted = fit_experts(module, inputs, every, config, seed, hooks, reference.train)
                trees = reference.logits(fitted)
                also = {} if trees is None else {"feature_trees": trees}
                fitted = dataclasses.replace(fitted, alone={**fitted.alone, **also})
            elif isinstance(module, Mixed):
                fitted = fit_experts(module, inputs, every, config, seed, hooks)
            else:
                prepare(module, inputs, config, seed)
                fitted = fit(module, inputs, every[0], config, seeded(seed, device), hooks)
    except FloatingPointError as error:
        remark = overflow_remark(graph)
        if remark is None:
            raise
        raise FloatingPointError(f"training diverged: {remark}") from error
    if hooks is not None and hooks.on_trained is not None:
        hooks.on_trained()
    known = fitted.evidence
    if known is None:
        held = fitted.logits[every[0].val].cpu().numpy()
        found = Calibration.fit(held, every[0].labels[1])
    else:
        found = Calibration.fit(known.logits.astype(np.float32), known.y)
    fitted = dataclasses.replace(fitted, calibration=found)
    return fitted, judge(fitted, graph.labels[splits[0].test], graph.metric, split)
