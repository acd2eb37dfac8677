"""Training of a mixture: every expert to its own best epoch, then their weights.

Experts share no weight, so each is trained by itself, and one that has stopped costs nothing more.
What validation nodes decide is each expert's epoch, the temperature that makes its probabilities
comparable, the few weights of the mixture, and which jumps are dropped.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
import zlib
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from djgnn.errors import DJGNNWarning
from djgnn.model import DJGNN
from djgnn.model.experts import Mixed
from djgnn.model.plain import PlainExpert
from djgnn.training import calibration
from djgnn.training.config import MANY_NODES, TrainConfig
from djgnn.training.decoupled import prepare
from djgnn.training.inputs import initialize, seeded
from djgnn.training.loop import ExpertRecord, Fitted, Targets, fit
from djgnn.training.passes import choose_passes
from djgnn.training.progress import EpochRecord, Hooks
from djgnn.training.selection import decision, score

ROUNDS = 200


def mixing_weights(
    likelihood: NDArray[np.float64], counts: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    r"""The weights of a mixture by expectation maximisation, with one pseudo-count each.

    .. math::
        r_{ei} = \frac{w_e\, p_e(y_i)}{\sum_f w_f\, p_f(y_i)}, \qquad
        w_e = \frac{1 + \sum_i r_{ei}}{\sum_f (1 + \sum_i r_{fi})}

    Args:
        likelihood: Probability that each expert gives to the label of each node; nodes that no
            expert was trained on.
        counts: As how many nodes each of them counts, 1 if absent.

    Shapes:
        likelihood ``[experts, m]``, counts ``[m]``, result ``[experts]``.

    Example:
        >>> mixing_weights(np.array([[0.9] * 98, [0.1] * 98])).round(2).tolist()
        [0.99, 0.01]
    """
    experts = len(likelihood)
    weights = np.full(experts, 1 / experts)
    floor, times = np.finfo(np.float64).tiny, 1.0 if counts is None else counts
    for _ in range(ROUNDS):
        parts = weights[:, None] * likelihood
        weights = 1 + (parts / np.maximum(parts.sum(axis=0), floor) * times).sum(axis=1)
        weights /= weights.sum()
    return weights


def fit_experts(
    module: Mixed,
    inputs: tuple[Any, Any],
    targets: Targets,
    config: TrainConfig,
    seed: int = 0,
    hooks: Hooks | None = None,
) -> Fitted:
    """Train every expert from fresh weights, then mix them.

    An expert that diverges is left out, and so are those that a stop leaves untrained: their
    weight is 0.

    Args:
        module: The mixture.
        inputs: x and structure.
        targets: Labels to learn from and select on.
        config: How to train, the same for every expert.
        seed: Of weights and dropout.
        hooks: Progress, early end, checkpoint, recording.

    Raises:
        FloatingPointError: If all experts diverged.
        InputError: If a checkpoint is damaged or of another run.
    """
    hooks = hooks or Hooks()
    found: dict[str, Fitted] = {}
    trouble: FloatingPointError | None = None
    rival = math.inf
    # By name: what becomes of an expert does not depend on which others there are.
    seeds = {name: seed + zlib.crc32(name.encode()) for name in module.names}
    for name, expert in module.experts.items():
        own, generator = module.inputs_of(name, inputs), seeded(seeds[name], targets.train.device)
        rates = rates_of(expert, config, targets.train.numel())
        prepare(expert, own, config, seeds[name])
        try:
            fitted = fit(expert, own, targets, rates, generator, _of(hooks, name), rival)
            rival = min(rival, fitted.validation_loss)
        except FloatingPointError as error:
            trouble = error
            warnings.warn(f"expert {name} left out: {error}", DJGNNWarning, stacklevel=2)
            continue
        found[name] = _without_idle_jumps(fitted, own, targets, config)
        if fitted.interrupted:
            break
    for name, expert in module.experts.items():
        if name not in found:  # diverged or never begun: weights that are numbers, for one seed one
            initialize(expert, seeds[name])
    if not found:
        raise trouble or FloatingPointError("training diverged: there is no expert")
    return _mixed(module, found, targets)


def rates_of(expert: nn.Module, config: TrainConfig, nodes: int) -> TrainConfig:
    """How to train an expert on so many nodes: at the rates of its branch, if it has one alone.

    A plain expert has epochs and patience of its own.
    """
    if isinstance(expert, PlainExpert):
        epochs = min(config.epochs, expert.epochs)
        return dataclasses.replace(config, epochs=epochs, patience=expert.patience)
    branches = expert.parts if isinstance(expert, DJGNN) else ()
    lr, decay = branches[0].rates(nodes >= MANY_NODES) if len(branches) == 1 else (1.0, 1.0)
    return dataclasses.replace(config, lr=lr * config.lr, weight_decay=decay * config.decay(nodes))


def _of(hooks: Hooks, name: str) -> Hooks:
    """The hooks of one expert: its epochs carry its name, its checkpoint is a stage."""
    follow = hooks.on_epoch

    def on_epoch(epochs: int, record: EpochRecord) -> None:
        if follow is not None:
            follow(epochs, dataclasses.replace(record, expert=name))

    checkpoint = None if hooks.checkpoint is None else hooks.checkpoint.stage(name)
    return dataclasses.replace(hooks, on_epoch=on_epoch, checkpoint=checkpoint)


def _mixed(module: Mixed, found: dict[str, Fitted], targets: Targets) -> Fitted:
    """The mixture of trained experts, with its weights in place."""
    y, rows = targets.labels[1], targets.val
    weights, temperatures = np.zeros(len(module.names)), np.ones(len(module.names))
    places = [module.names.index(name) for name in found]
    held = [each.logits[rows].cpu().numpy() for each in found.values()]
    counts = None
    if targets.class_weight is not None:  # as the losses count them
        counts = targets.class_weight.cpu().numpy().astype(np.float64)[y]
        counts *= y.size / max(counts.sum(), np.finfo(np.float64).tiny)
    temperatures[places] = [calibration.temperature(each, y, counts) for each in held]
    chosen = [
        calibration.probabilities(each, scale)[np.arange(y.size), y]
        for each, scale in zip(held, temperatures[places], strict=True)
    ]
    weights[places] = mixing_weights(np.stack(chosen).astype(np.float64), counts)
    module.weights.copy_(torch.from_numpy(weights))
    module.temperatures.copy_(torch.from_numpy(temperatures))
    blank = torch.zeros_like(next(iter(found.values())).logits)
    answer = module.combine([found[n].logits if n in found else blank for n in module.names])
    decided = decision(answer, targets.metric).cpu().numpy()
    validation = score(decided[targets.nodes[1]], targets.labels[1], targets.metric)
    history = tuple(
        dataclasses.replace(record, expert=name)
        for name, each in found.items()
        for record in each.history
    )
    records = tuple(
        ExpertRecord(
            name,
            float(weights[module.names.index(name)]),
            each.epoch,
            len(each.history),
            each.validation,
            each.validation_loss,
            each.seconds,
            _dropped(each.module),
        )
        for name, each in found.items()
    )
    return Fitted(
        module=module,
        epoch=max(each.epoch for each in found.values()),
        validation=validation,
        validation_loss=float(F.nll_loss(answer[rows], targets.val_y)),
        logits=answer,
        history=history,
        decided=decided[targets.nodes[2]],
        decisions=np.concatenate([each.decisions for each in found.values()]),
        seconds=sum(each.seconds for each in found.values()),
        interrupted=any(each.interrupted for each in found.values()),
        experts=records,
    )


def _dropped(module: Any) -> tuple[str, ...]:
    """The jumps of an expert that were taken out."""
    if not isinstance(module, DJGNN) or module.jumps is None:
        return ()
    named = zip(module.branch_names, module.mixture.alpha.tolist(), strict=True)
    return tuple(name for name, alpha in named if alpha == 0)


@torch.no_grad()
def _without_idle_jumps(
    fitted: Fitted, inputs: tuple[Any, Any], targets: Targets, config: TrainConfig
) -> Fitted:
    """Take out the jumps without which validation is no worse, one after the other.

    Only automatic jumps are taken out: a number that was asked for is kept.
    """
    module = fitted.module
    if not isinstance(module, DJGNN) or module.config.num_jumps != "auto" or module.jumps is None:
        return fitted
    passes: Any = choose_passes(module, inputs, targets, config)
    added, mixture = passes.added(targets.val), module.mixture

    def loss(first: Tensor) -> float:
        return float(F.cross_entropy(mixture.rest(first), targets.val_y))

    total = added.sum(dim=1) + mixture.biases[0]
    far = [module.branch_names.index(name) for name in module.jumps.labels[1:]]
    best = loss(total)
    while far:
        losses = [loss(total - added[:, k]) for k in far]
        least = int(np.argmin(losses))
        if losses[least] > best:
            break
        number, best = far.pop(least), losses[least]
        total = total - added[:, number]
        mixture.drop(number)
    return dataclasses.replace(fitted, logits=passes.evaluate())
