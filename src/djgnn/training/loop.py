"""The training loop. It is handed the labels of training and validation nodes, and no others."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from djgnn.errors import InputError
from djgnn.training.calibration import Calibration
from djgnn.training.config import USUAL, Pace, TrainConfig
from djgnn.training.optimizer import Adam
from djgnn.training.out_of_fold import Evidence
from djgnn.training.passes import choose_passes
from djgnn.training.progress import EpochRecord, Hooks, Progress
from djgnn.training.selection import decision, score
from djgnn.training.targets import Targets

Decisions = np.ndarray[Any, Any]
STEADY = 15
"""Epochs before a learning rate grows."""


@dataclass(frozen=True)
class ExpertRecord:
    """What became of an expert: its weight, chosen epoch, epochs run, and figures at that epoch.

    `dropped` names the jumps that were taken out, because validation is no worse without them.
    """

    name: str
    weight: float
    epoch: int
    epochs: int
    validation: float
    validation_loss: float
    seconds: float
    dropped: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Fitted:
    """A trained model at its selected epoch.

    `epoch` is of a mixture the latest of its experts' epochs; `experts` says what became of them.
    `calibration` makes probabilities of its logits; `interrupted` says that it was stopped early.
    Of a cross-fitted mixture the logits of labelled nodes are those of the members that did not
    learn from them, and `evidence` is what its figures come from; of another one `alone` has logits
    of experts to compare it with. `by_expert` has all of them; `diverged` names who was left out.

    Shapes:
        logits ``[n, classes]``; held ``[validation nodes, classes]``, logits that no choice of an
        epoch flatters (:class:`djgnn.training.progress.Progress`); decided ``[test nodes]``, and
        decisions ``[epochs, test nodes]`` of every epoch, see
        :func:`djgnn.training.selection.decision`.

    Example:
        >>> {"module", "epoch", "logits", "history"} <= Fitted.__annotations__.keys()  # of `fit`
        True
    """

    module: nn.Module
    epoch: int
    validation: float
    validation_loss: float
    logits: Tensor
    held: Tensor
    history: tuple[EpochRecord, ...]
    decided: Decisions
    decisions: Decisions
    seconds: float
    calibration: Calibration = field(default_factory=Calibration)
    interrupted: bool = False
    experts: tuple[ExpertRecord, ...] = ()
    evidence: Evidence | None = None
    alone: Mapping[str, Tensor] = field(default_factory=dict)
    by_expert: Mapping[str, Tensor] = field(default_factory=dict)
    diverged: tuple[str, ...] = ()

    @property
    def merit(self) -> tuple[float, float]:
        """What runs are compared by: validation score, then lower loss."""
        return (self.validation, -self.validation_loss)


def fit(
    module: nn.Module,
    inputs: tuple[Any, Any],
    targets: Targets,
    config: TrainConfig,
    generator: Generator | None = None,
    hooks: Hooks | None = None,
    rival: Callable[[], float] = lambda: math.inf,
    hopeless: float = math.inf,
    chance: float = math.inf,
    pace: Pace = USUAL,
) -> Fitted:
    """Train a model and return it at its best epoch on validation, by ``config.select``.

    Ties go to the earlier epoch. The model's decisions on the
    test nodes are kept for every epoch, so that they can be scored afterwards by someone who
    holds the test labels; nothing here does. A run that diverges ends there, with the best epoch
    before.

    Args:
        module: ``module(x, structure, generator=...)`` gives logits; or a DJ-GNN.
        inputs: x and structure.
        targets: Labels to learn from and select on.
        config: How to train.
        generator: Source of dropout's randomness.
        hooks: Progress, early end, checkpoint, recording.
        rival: The lowest validation loss of other experts so far, see :meth:`TrainConfig.ends`; it
            is asked for only when it matters, for it may have to be waited for.
        hopeless: So many times it this one must soon be below, likewise.
        chance: The loss of class shares alone, likewise.
        pace: Its learning rate and how long it is waited for.

    Raises:
        FloatingPointError: If training diverged before any epoch could be kept.
        InputError: If the checkpoint is damaged or of another run.

    Example:
        >>> from djgnn.graph import heterophilic_sbm, random_splits
        >>> from djgnn.training import resolve
        >>> from djgnn.training.inputs import build_djgnn
        >>> graph = random_splits(heterophilic_sbm(160), num_splits=1)
        >>> config = resolve("paper", epochs=3, hidden_channels=8)
        >>> module, inputs = build_djgnn(config, graph)
        >>> fitted = fit(module, inputs, Targets.of(graph, graph.split(0)), config.training)
        >>> fitted.logits.shape == (graph.num_nodes, graph.num_classes)
        True
    """
    hooks = hooks or Hooks()
    checkpoint = hooks.checkpoint
    passes = choose_passes(module, inputs, targets, config)
    # Some models decay their parts differently.
    groups: Any = getattr(module, "parameter_groups", lambda decay: module.parameters())
    decay = config.decay(targets.train.numel())
    optimizer = Adam(groups(decay), lr=config.lr, weight_decay=decay)
    run = Progress() if checkpoint is None else checkpoint.restore(module, optimizer, generator)
    _check_size(run, targets)
    begun, spent = time.perf_counter(), run.seconds

    def over() -> bool:
        """Whether it has waited long enough; what others take is not its time."""
        nonlocal begun
        losses, least = [each.validation_loss for each in run.history], math.inf
        if config.compares(len(losses), hopeless, pace):
            asked = time.perf_counter()
            least = rival()
            begun += time.perf_counter() - asked
        return config.ends(losses, run.kept_epoch, least, hopeless, chance, pace)

    # A rival that was stopped, too, is better now than it was then.
    run.ended = run.ended or (bool(run.history) and over())
    interrupted = False
    while not run.ended and not interrupted:
        if pace.growth > 1:
            optimizer.set_rate(config.lr * grown(run.epoch, pace.growth))
        try:
            losses = passes.update(optimizer, generator)
            logits = passes.evaluate()
        except FloatingPointError:
            if run.kept_epoch < 0:
                raise
            run.ended = True
        else:
            decisions = decision(logits, targets.metric)
            record, halves = _record(run.epoch, losses, logits, decisions, targets)
            _keep_halves(run, halves, logits[targets.val])
            tested = decisions[targets.test].cpu().numpy()
            _keep(run, record, logits, tested, module, config.select)
            run.ended = over()
            if hooks.observer is not None:
                hooks.observer(record, module, passes.encoding, logits)
            if hooks.on_epoch is not None:
                hooks.on_epoch(config.epochs, record)
        run.seconds = spent + time.perf_counter() - begun
        interrupted = hooks.stop is not None and not run.ended and hooks.stop()
        if checkpoint is not None and (run.ended or interrupted or checkpoint.due):
            checkpoint.save(run, module, optimizer, generator)
    if run.kept_epoch < 0:
        raise FloatingPointError(
            "training diverged: the validation loss was never a number; lower the learning rate"
        )
    module.load_state_dict(run.kept)
    kept = run.history[run.kept_epoch]
    return Fitted(
        module=module,
        epoch=run.kept_epoch,
        validation=kept.validation,
        validation_loss=kept.validation_loss,
        logits=run.kept_logits,
        held=run.held,
        history=tuple(run.history),
        decided=run.decisions[run.kept_epoch],
        decisions=np.stack(run.decisions),
        seconds=run.seconds,
        interrupted=interrupted,
    )


def grown(epoch: int, growth: float) -> float:
    """By how much the learning rate has grown: from epoch 15 on, in proportion to the epochs.

    Example:
        >>> [grown(epoch, 4.0) for epoch in (0, 15, 30, 100)]
        [1.0, 1.0, 2.0, 4.0]
    """
    return min(growth, max(1.0, epoch / STEADY))


def _check_size(run: Progress, targets: Targets) -> None:
    """Refuse to continue with figures of another number of nodes.

    Raises:
        InputError: If a checkpoint holds some.
    """
    train, val, test = targets.nodes
    needed = 1 + max((int(part.max()) for part in (train, val, test) if len(part)), default=-1)
    short = run.kept_epoch >= 0 and run.kept_logits.shape[0] < needed
    other = run.kept_epoch >= 0 and len(run.held) != len(val)
    if short or other or any(len(each) != len(test) for each in run.decisions):
        raise InputError(
            "checkpoint: its figures are of another number of nodes; delete it and start anew "
            "without resuming"
        )


def _keep(
    run: Progress,
    record: EpochRecord,
    logits: Tensor,
    decisions: Decisions,
    module: nn.Module,
    select: str | None,
) -> None:
    """Add an epoch and its decisions on test nodes; keep its weights if it is the best so far."""
    better = record.merit(select) > run.best(select)
    run.history.append(record)
    run.decisions.append(decisions)
    if math.isfinite(record.validation_loss) and better:
        run.kept_epoch, run.kept_logits = record.epoch, logits
        for key, value in module.state_dict().items():  # into the buffers of the last time
            run.kept.setdefault(key, torch.empty_like(value)).copy_(value)


def _keep_halves(run: Progress, losses: list[float], held: Tensor) -> None:
    """Keep the logits of either half of the validation nodes where the other one is best so far."""
    if run.held.shape != held.shape:
        run.held = held.clone()
    for half in (0, 1):
        if losses[1 - half] < run.half_losses[1 - half]:
            run.held[half::2] = held[half::2]
    run.half_losses = [min(a, b) for a, b in zip(run.half_losses, losses, strict=True)]


def _record(
    epoch: int,
    losses: tuple[Tensor, Tensor],
    logits: Tensor,
    decisions: Tensor,
    targets: Targets,
) -> tuple[EpochRecord, list[float]]:
    """The figures of an epoch and the losses of two halves of validation, with one host
    synchronisation."""
    held, y, weight = logits[targets.val], targets.val_y, targets.class_weight
    parts = [F.cross_entropy(held[i::2], y[i::2], weight) for i in (0, 1)]
    of_validation = F.cross_entropy(held, y, weight)
    said = [decisions[targets.train], decisions[targets.val]]
    labels = (targets.train_y, targets.val_y)
    # What is right is counted on a GPU, for there are many nodes.
    counted = said[0].is_cuda and targets.metric == "accuracy" and all(map(len, said))
    right = [(a == b).sum() for a, b in zip(said, labels, strict=True)] if counted else []
    figures = [*losses, of_validation, *parts, *right]
    found = torch.stack([figure.double() for figure in figures]).tolist()
    loss, pump_loss, validation_loss, *halves = found[:5]
    scores = [100 * count / len(part) for count, part in zip(found[5:], said, strict=False)]
    if not counted:
        each = zip(said, targets.labels, strict=True)
        scores = [score(part.cpu().numpy(), label, targets.metric) for part, label in each]
    record = EpochRecord(
        epoch=epoch,
        loss=loss,
        pump_loss=pump_loss,
        train=scores[0],
        validation_loss=validation_loss,
        validation=scores[1],
    )
    return record, halves
