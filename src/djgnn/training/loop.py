"""The training loop. It is handed the labels of training and validation nodes, and no others."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from djgnn.graph import Graph, Split
from djgnn.model.djgnn import Encoding
from djgnn.training.allocator import release_free_memory
from djgnn.training.config import TrainConfig
from djgnn.training.metrics import decision, score
from djgnn.training.passes import Passes, two_phase

Progress = Callable[[int, "EpochRecord"], None]
# Looks on after every epoch: its record, the model, the first half of its pass, all logits.
Observer = Callable[["EpochRecord", nn.Module, Encoding | None, Tensor], None]


@dataclass(frozen=True)
class Targets:
    """What a run may learn from (train) and select on (val); the test nodes come without labels."""

    train: Tensor
    train_y: Tensor
    val: Tensor
    val_y: Tensor
    test: Tensor
    metric: str

    @classmethod
    def of(cls, graph: Graph, split: Split, device: torch.device | str = "cpu") -> Targets:
        """Take the labels of one split out of a graph."""
        y = np.zeros(0, dtype=np.int64) if graph.y is None else graph.y
        parts = (np.flatnonzero(mask) for mask in (split.train, split.val, split.test))
        train, val, test = (torch.from_numpy(part).to(device) for part in parts)
        train_y, val_y = (torch.from_numpy(y[m]).to(device) for m in (split.train, split.val))
        return cls(train, train_y, val, val_y, test, graph.metric)


@dataclass(frozen=True)
class EpochRecord:
    """One row of the history; losses as trained on, scores in percent."""

    epoch: int
    loss: float
    pump_loss: float
    train: float
    validation_loss: float
    validation: float

    @property
    def merit(self) -> tuple[float, float]:
        """What epochs are compared by: validation score, then lower validation loss."""
        return (self.validation, -self.validation_loss)


@dataclass(frozen=True, eq=False)
class Fitted:
    """A trained model at its selected epoch.

    `gate` has the validation scores with and without the structure branch where both were tried.

    Shapes:
        logits ``[n, classes]``; decisions ``[epochs, test nodes]``, see
        :func:`djgnn.training.metrics.decision`.
    """

    module: nn.Module
    epoch: int
    validation: float
    logits: Tensor
    history: tuple[EpochRecord, ...]
    decisions: np.ndarray[Any, Any]
    seconds: float
    gate: dict[str, float] | None = None

    @property
    def merit(self) -> tuple[float, float]:
        """What epochs, and runs, are compared by: validation score, then lower loss."""
        return self.history[self.epoch].merit


def fit(
    module: nn.Module,
    inputs: tuple[Any, Any],
    targets: Targets,
    config: TrainConfig,
    generator: torch.Generator | None = None,
    progress: Progress | None = None,
    observer: Observer | None = None,
) -> Fitted:
    """Train a model and return it at the epoch with the best validation score.

    Ties go to the lower validation loss, then to the earlier epoch. The model's decisions on the
    test nodes are kept for every epoch, so that they can be scored afterwards by someone who
    holds the test labels; nothing here does. A run that diverges ends there, with the best epoch
    before.

    Args:
        module: ``module(x, structure, generator=...)`` gives logits, or logits and a further loss.
        inputs: x and structure.
        targets: Labels to learn from and select on.
        config: How to train.
        generator: Source of dropout's randomness.
        progress: Called after every epoch.
        observer: Called after every epoch too, with what a recording needs.

    Raises:
        FloatingPointError: If training diverged before any epoch could be kept.
    """
    begun = time.perf_counter()
    optimizer = torch.optim.Adam(_groups(module, config), lr=config.lr, fused=True)
    passes = two_phase(module, inputs, targets.train)
    history: list[EpochRecord] = []
    decisions: list[np.ndarray[Any, Any]] = []
    best: tuple[float, float] = (-math.inf, -math.inf)
    kept: dict[str, Tensor] = {}
    kept_logits, kept_epoch = torch.empty(0), -1
    for epoch in range(config.epochs):
        try:
            loss, pump_loss = step(passes, targets, config, optimizer, generator)
            logits = passes.evaluate()
        except FloatingPointError:
            if kept_epoch < 0:
                raise
            break
        record = _record(epoch, loss, pump_loss, logits, targets)
        history.append(record)
        decisions.append(decision(logits[targets.test], targets.metric).cpu().numpy())
        if math.isfinite(record.validation_loss) and record.merit > best:
            best, kept_epoch, kept_logits = record.merit, epoch, logits
            kept = _copy(module.state_dict(), kept)
        if observer is not None:
            observer(record, module, getattr(passes, "encoding", None), logits)
        release_free_memory(epoch)
        if progress is not None:
            progress(config.epochs, record)
        if config.patience is not None and epoch - kept_epoch >= config.patience:
            break
    if kept_epoch < 0:
        raise FloatingPointError(
            "training diverged: the validation loss was never a number; lower the learning rate"
        )
    module.load_state_dict(kept)
    return Fitted(
        module=module,
        epoch=kept_epoch,
        validation=best[0],
        logits=kept_logits,
        history=tuple(history),
        decisions=np.stack(decisions),
        seconds=time.perf_counter() - begun,
    )


def step(
    passes: Passes,
    targets: Targets,
    config: TrainConfig,
    optimizer: torch.optim.Optimizer,
    generator: torch.Generator | None = None,
) -> tuple[Tensor, Tensor]:
    """One step of the optimiser: cross-entropy on the training nodes + lambda x pump loss."""
    logits, pump_loss = passes.train(generator)
    loss = F.cross_entropy(logits, targets.train_y) + config.pump_weight * pump_loss
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.detach(), pump_loss.detach()


def _groups(module: nn.Module, config: TrainConfig) -> Iterable[Any]:
    own = config.structure_weight_decay
    if hasattr(module, "parameter_groups"):
        decay = config.weight_decay if own is None else own
        split: Any = module.parameter_groups
        groups: list[dict[str, Any]] = split(config.weight_decay, decay)
        return groups
    return [{"params": list(module.parameters()), "weight_decay": config.weight_decay}]


def _record(
    epoch: int, loss: Tensor, pump_loss: Tensor, logits: Tensor, targets: Targets
) -> EpochRecord:
    val_logits = logits[targets.val]
    return EpochRecord(
        epoch=epoch,
        loss=float(loss),
        pump_loss=float(pump_loss),
        train=_score(logits[targets.train], targets.train_y, targets.metric),
        validation_loss=float(F.cross_entropy(val_logits, targets.val_y)),
        validation=_score(val_logits, targets.val_y, targets.metric),
    )


def _score(logits: Tensor, y: Tensor, metric: str) -> float:
    return score(decision(logits, metric).cpu().numpy(), y.cpu().numpy(), metric)


def _copy(state: dict[str, Tensor], into: dict[str, Tensor]) -> dict[str, Tensor]:
    """Copy the weights, into the buffers of the last time where there are any."""
    for key, value in state.items():
        if key in into:
            into[key].copy_(value)
        else:
            into[key] = value.detach().clone()
    return into
