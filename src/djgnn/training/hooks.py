"""What a run can be given to watch, stop, record and keep it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor, nn

from djgnn.training.progress import EpochRecord

if TYPE_CHECKING:
    from djgnn.model.views import Encoding
    from djgnn.training.checkpoint import Checkpoint

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
    """

    on_epoch: OnEpoch | None = None
    stop: Callable[[], bool] | None = None
    checkpoint: Checkpoint | None = None
    observer: Observer | None = None
