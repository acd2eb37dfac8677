"""The honest protocol: loop, selection, configurations, run folders."""

from djgnn.training.config import RunConfig, TrainConfig, named_configurations, resolve
from djgnn.training.loop import Fitted, fit
from djgnn.training.run import train
from djgnn.training.selection import PROTOCOLS, SplitResult, judge
from djgnn.training.targets import Targets

__all__ = [
    "PROTOCOLS",
    "Fitted",
    "RunConfig",
    "SplitResult",
    "Targets",
    "TrainConfig",
    "fit",
    "judge",
    "named_configurations",
    "resolve",
    "train",
]
