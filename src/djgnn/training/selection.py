"""Selection protocols: which epoch a reported figure was read at."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from djgnn.training.loop import Fitted
from djgnn.training.metrics import score

if TYPE_CHECKING:
    from numpy.typing import NDArray

PROTOCOLS = ("validation", "oracle")


@dataclass(frozen=True)
class SplitResult:
    """Figures of one split, in percent.

    `test` is read at the epoch of the best validation score. `oracle_test` is the largest test
    score of all epochs, the figure that the published code reports: it peeks at the test labels
    and is here to explain published numbers, never to be compared with honest ones.
    """

    split: int
    validation: float
    test: float
    oracle_test: float
    epoch: int
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


def judge(fitted: Fitted, test_y: NDArray[np.int64], metric: str, split: int = 0) -> SplitResult:
    """Score the test nodes of a finished run, under both protocols.

    This is the only place where test labels meet a model, and the model is finished.
    """
    scores = [score(row, test_y, metric) for row in fitted.decisions]
    return SplitResult(
        split=split,
        validation=fitted.validation,
        test=scores[fitted.epoch],
        oracle_test=max((s for s in scores if not math.isnan(s)), default=math.nan),
        epoch=fitted.epoch,
        seconds=fitted.seconds,
    )
