"""The state of a run between two epochs, and the hooks that watch, stop, record and keep it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from djgnn.model.views import Encoding
    from djgnn.training.checkpoint import Checkpoint


@dataclass(frozen=True)
class EpochRecord:
    """One row of the history; losses as trained on, scores in percent.

    `expert` is whose epoch it was, empty for a model that is one network.
    """

    epoch: int
    loss: float
    pump_loss: float
    train: float
    validation_loss: float
    validation: float
    expert: str = ""

    def merit(self, select: str | None = None) -> tuple[float, float]:
        """What epochs are compared by, see :class:`djgnn.training.TrainConfig`."""
        if select == "loss":
            return (-self.validation_loss, self.validation)
        return (self.validation, -self.validation_loss)


@dataclass
class Progress:
    """The state of a run after an epoch, and its best epoch so far.

    `held` are logits of the validation nodes, in two halves, each at the epoch that is best on the
    other one so far: the choice of the epoch does not flatter them. `half_losses` are the losses of
    the halves at these epochs.
    """

    history: list[EpochRecord] = field(default_factory=list)
    decisions: list[np.ndarray[Any, Any]] = field(default_factory=list)
    kept: dict[str, Tensor] = field(default_factory=dict)
    kept_logits: Tensor = field(default_factory=lambda: torch.empty(0))
    kept_epoch: int = -1
    held: Tensor = field(default_factory=lambda: torch.empty(0))
    half_losses: list[float] = field(default_factory=lambda: [math.inf, math.inf])
    seconds: float = 0.0
    ended: bool = False

    @property
    def epoch(self) -> int:
        """Epochs done."""
        return len(self.history)

    def best(self, select: str | None) -> tuple[float, float]:
        """What the next epoch must surpass."""
        if self.kept_epoch < 0:
            return (-math.inf, -math.inf)
        return self.history[self.kept_epoch].merit(select)


OnEpoch = Callable[[int, EpochRecord], None]
Observer = Callable[[EpochRecord, nn.Module, "Encoding | None", Tensor], None]


@dataclass(frozen=True)
class Hooks:
    """Optional parts of a run; none of them changes its result.

    Args:
        on_epoch: Called after every epoch with the number of all epochs and its record.
        stop: Asked after every epoch; if it says so the run ends there, with its best epoch.
        checkpoint: Where the run is kept; one that exists is continued, to the same end.
        observer: Called after every epoch with its record, the model, the first half of the
            evaluation (where the model has one) and all logits.
        on_end: Called with every expert once it is trained; from then on only its weights are
            read, to store or record it.
        on_plan: Called with the names of the members that are trained: before the first one, and
            after the first fold of a cross-fitted mixture.
        on_trained: Called once nothing is trained any more; the calibration comes next.
    """

    on_epoch: OnEpoch | None = None
    stop: Callable[[], bool] | None = None
    checkpoint: Checkpoint | None = None
    observer: Observer | None = None
    on_end: Callable[[nn.Module], None] | None = None
    on_plan: Callable[[Sequence[str]], None] | None = None
    on_trained: Callable[[], None] | None = None
