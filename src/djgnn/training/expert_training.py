"""The training of one expert: its rates, its best epoch, the jumps that it can do without."""

import dataclasses
import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from djgnn.model import DJGNN, DJExperts
from djgnn.model.expert_mixture import Mixed
from djgnn.model.experts import kind_of
from djgnn.model.profile import Profile
from djgnn.model.table_experts import PlainExpert
from djgnn.training.config import MANY_NODES, USUAL, Pace, TrainConfig
from djgnn.training.decoupled import prepare
from djgnn.training.inputs import seeded
from djgnn.training.loop import Fitted, fit
from djgnn.training.passes import choose_passes
from djgnn.training.progress import Hooks, Progress
from djgnn.training.targets import Targets

HOPELESS = 3
"""With folds an expert that is so many times behind another is soon given up."""
GROWTH = 4.0
"""How many times its first rate a network ends with, where there are many training nodes: one that
still improves after a few epochs converges sooner, and often to a lower loss."""


@dataclass(frozen=True, eq=False)
class Training:
    """One expert of one fold, from fresh weights to its best epoch.

    Args:
        name: The expert.
        mixture: That it belongs to.
        inputs: x and structure of the mixture.
        targets: Labels to learn from and select on.
        config: How to train, the same for every expert.
        seed: Of weights and dropout.
        fold: The number of the fold.
        crossed: Whether there are other folds. What is far behind another expert is soon given up
            then, what has not begun to learn is waited for, and rates are those for all labels.
    """

    name: str
    mixture: Mixed
    inputs: tuple[Any, Any]
    targets: Targets
    config: TrainConfig
    seed: int
    fold: int
    crossed: bool

    @cached_property
    def rates(self) -> TrainConfig:
        """How it is trained."""
        return rates_of(self._expert, self.config, self._nodes)

    @property
    def _nodes(self) -> int:
        return count_nodes(self.targets, self.crossed)

    @cached_property
    def _bounds(self) -> tuple[float, float, Pace]:
        """When it ends: `hopeless`, `chance` and `pace` of :meth:`TrainConfig.ends`."""
        pace = USUAL
        if self._nodes >= MANY_NODES:
            grows = isinstance(self._expert, DJGNN | Profile) and not self.jumps
            pace = Pace(GROWTH if grows else 1.0, grows and not self._patient, self.jumps)
        if not self.crossed:
            return math.inf, math.inf, pace
        train_y, val_y = self.targets.labels
        counts = np.bincount(train_y, minlength=int(max(train_y.max(), val_y.max())) + 1) + 1
        return HOPELESS, float(-np.log(counts[val_y] / counts.sum()).mean()), pace

    @property
    def plain(self) -> bool:
        """Whether it follows no gradient."""
        return isinstance(self._expert, PlainExpert)

    @property
    def jumps(self) -> bool:
        """Whether it has jumps."""
        return isinstance(self._expert, DJGNN) and self._expert.pump is not None

    @property
    def _expert(self) -> nn.Module:
        return self.mixture.experts[self.name]

    @property
    def long(self) -> bool:
        """Whether it takes longer than the others."""
        return self._patient and self._nodes >= MANY_NODES

    @property
    def _patient(self) -> bool:
        """Whether it waits longer than others for its loss to fall again."""
        expert = self._expert
        return isinstance(expert, DJGNN) and any(branch.patient for branch in expert.parts)

    def run(self, rival: Callable[[], float], hooks: Hooks) -> Fitted:
        """Train it, beside others of the fold whose lowest loss `rival` tells."""
        expert, own = self._expert, self.mixture.inputs_of(self.name, self.inputs)
        prepare(expert, own, self.config, self.seed)
        generator = seeded(self.seed, self.targets.train.device)
        how = self.rates, generator, hooks, rival, *self._bounds
        fitted = fit(expert, own, self.targets, *how)
        return without_idle_jumps(fitted, own, self.targets, self.config)

    def differs(self, fitted: Fitted, rival: float) -> bool:
        """Whether its epochs would be more or fewer, had this rival been known all the time."""
        run, select = Progress(), self.rates.select
        losses = [each.validation_loss for each in fitted.history]
        for n, record in enumerate(fitted.history, 1):
            if record.merit(select) > run.best(select) and math.isfinite(record.validation_loss):
                run.kept_epoch = record.epoch
            run.history.append(record)
            if self.rates.ends(losses[:n], run.kept_epoch, rival, *self._bounds):
                return n < len(losses)
        return not fitted.interrupted


def count_nodes(targets: Targets, crossed: bool) -> int:
    """Training nodes; of folds those of all."""
    return targets.train.numel() + crossed * targets.val.numel()


def trained_part(mixture: DJExperts, targets: Targets) -> DJExperts:
    """The mixture without what is not trained: of `hops` and `mix`, where it has both, one.

    With many training nodes that is `mix`, with few `hops`.
    """
    kinds = {kind_of(name) for name in mixture.names}
    if not kinds >= {"hops", "mix"}:
        return mixture
    many = count_nodes(targets, mixture.folds > 1) >= MANY_NODES
    return mixture.only(kinds - {"hops" if many else "mix"})


def seed_of(name: str, seed: int) -> int:
    """By name: what becomes of an expert does not depend on which others there are."""
    return seed + zlib.crc32(name.encode())


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


@torch.no_grad()
def without_idle_jumps(
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
