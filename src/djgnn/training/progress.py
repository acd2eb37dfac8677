"""Where a run stands between two epochs."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor


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


@dataclass
class Progress:
    """Where a run stands after an epoch, and the best that it has seen."""

    history: list[EpochRecord] = field(default_factory=list)
    decisions: list[np.ndarray[Any, Any]] = field(default_factory=list)
    best: tuple[float, float] = (-math.inf, -math.inf)
    kept: dict[str, Tensor] = field(default_factory=dict)
    kept_logits: Tensor = field(default_factory=lambda: torch.empty(0))
    kept_epoch: int = -1
    seconds: float = 0.0
    ended: bool = False

    @property
    def epoch(self) -> int:
        """Epochs done."""
        return len(self.history)
