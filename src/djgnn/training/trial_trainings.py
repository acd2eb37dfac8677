"""How many epochs networks will take: some are trained for a while, the others resemble them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from djgnn.model import DJExperts
from djgnn.model.config import PLAIN_NAMES
from djgnn.model.experts import Member, kind_of
from djgnn.training.config import LEAST_GAIN, LEAST_PATIENCE, MANY_NODES, TrainConfig, last_gain
from djgnn.training.expert_training import Training, seed_of
from djgnn.training.progress import Hooks
from djgnn.training.targets import Targets

EPOCHS = {
    "shares": 1,
    "propagation": 4,
    "boosting": 6,
    "forest": 1,
    "features": 41,
    "profile": 43,
    "given": 67,
    "transposed": 36,
    "symmetric": 59,
    "hops": 67,
    "diffusion": 72,
    "rows": 44,
    "columns": 36,
    "deep": 45,
    "jumps": 51,
    "joint": 60,
}
"""After how many epochs experts stop with ``patience="auto"``: geometric means over 18 data sets,
three splits each, and of trees over fewer."""
MANY = {
    "boosting": 10,
    "features": 53,
    "profile": 51,
    "given": 92,
    "hops": 105,
    "mix": 145,
    "diffusion": 85,
    "rows": 38,
    "deep": 130,
    "jumps": 34,
    "joint": 34,
}
"""The same where there are many training nodes and rates grow, over four sets; of `deep`, which
takes more than twice as many on one of them, a little more."""
LIKE = {
    "profile": "features",
    "hops": "features",
    "mix": "features",
    "diffusion": "features",
    "symmetric": "given",
    "columns": "rows",
    "deep": "hops",
    "jumps": "rows",
    "joint": "rows",
}
"""The cheaper network whose epochs, relative to the usual ones, predict those of a costlier one."""
RESEMBLANCE = 0.8
"""How closely, as an exponent of the ratio."""
FIRST = ("features", "rows", "hops")
"""Tried first, because others resemble them; then the cheapest."""
BEST_EPOCH = 60
"""A usual best epoch, with a patience of so many epochs after it."""
SHARE, LEAST_SECONDS, MOST_SECONDS = 0.1, 3.0, 15.0
"""Seconds of all trials, as a share of what training usually takes, and bounds of them."""
SHORT, RECENT = LEAST_PATIENCE + 3, 4
"""Epochs of a trial that tells whether the loss still falls: in the last few of them."""
LONG = 150
"""Epochs expected of a network whose loss still falls then."""


def usual_epochs(kind: str, nodes: int, training: TrainConfig) -> int:
    """How many epochs a kind of expert usually takes on so many training nodes.

    Example:
        >>> usual_epochs("deep", 100, TrainConfig(epochs=70, patience=None))
        70
        >>> usual_epochs("forest", 100, TrainConfig(epochs=70, patience=None))
        1
    """
    known = {**EPOCHS, **MANY} if nodes >= MANY_NODES else EPOCHS
    usual = known.get(kind, known["joint"])
    if training.patience is None and kind not in PLAIN_NAMES:
        usual = training.epochs
    elif isinstance(training.patience, int) and kind not in PLAIN_NAMES:
        usual = BEST_EPOCH + training.patience
    return min(usual, training.epochs)


def expected_epochs(
    trained: Sequence[Member],
    seconds: Mapping[str, float],
    inputs: tuple[Any, Any],
    targets: Targets,
    training: TrainConfig,
    seed: int,
) -> dict[str, float]:
    """After how many epochs each of some networks will stop, by kind.

    Trials are the trainings themselves, with the same seed, as long as the time for them lasts; so
    what ends in a trial ends there. With a patience of a number of epochs there are none.

    Args:
        trained: Networks of one fold.
        seconds: An epoch of each takes, by kind.
        inputs: x and structure of the model.
        targets: Labels to learn from and select on.
        training: How to train.
        seed: Of weights and dropout.
    """
    nodes, kinds = targets.train.numel(), [kind_of(own.name) for own in trained]
    usual = {kind: usual_epochs(kind, nodes, training) for kind in kinds}
    if training.patience != "auto" or not isinstance(trained[0].model, DJExperts):
        return dict(usual)
    whole = sum(seconds[kind] * epochs for kind, epochs in usual.items())
    left = min(MOST_SECONDS, max(LEAST_SECONDS, SHARE * whole))
    found: dict[str, float] = {}
    rival = math.inf
    for own in sorted(trained, key=lambda own: _turn(kind_of(own.name), seconds)):
        kind = kind_of(own.name)
        affordable = int(left / seconds[kind])
        if kind == "hops":
            affordable = SHORT if affordable else 0
        if affordable < SHORT:
            continue
        found[kind], rival, spent = _trial(own, inputs, targets, training, affordable, seed, rival)
        left -= spent
    for kind, epochs in usual.items():
        if kind not in found:
            other = LIKE.get(kind, "")
            factor = found[other] / usual[other] if other in found else 1.0
            found[kind] = max(LEAST_PATIENCE + 1, epochs * factor**RESEMBLANCE)
    return {kind: min(epochs, training.epochs) for kind, epochs in found.items()}


def _turn(kind: str, seconds: Mapping[str, float]) -> tuple[int, float]:
    return FIRST.index(kind) if kind in FIRST else len(FIRST), seconds[kind]


def _trial(
    own: Member,
    inputs: tuple[Any, Any],
    targets: Targets,
    training: TrainConfig,
    most: int,
    seed: int,
    rival: float,
) -> tuple[float, float, float]:
    """Its epochs, known or expected after at most so many; the lowest loss so far; its seconds."""
    model: Any = own.model
    short = replace(training, epochs=min(most, training.epochs))
    about = (own.name, model, inputs, targets, short, seed_of(own.name, seed), 0, model.folds > 1)
    fitted = Training(*about).run(lambda: rival, Hooks())
    losses = [each.validation_loss for each in fitted.history]
    lowest = min(rival, fitted.validation_loss)
    mark = last_gain(losses, LEAST_GAIN)
    epochs = float(len(losses))
    if epochs == short.epochs:
        fell = len(losses) - 1 - mark < RECENT
        epochs = max(LONG, 1.25 * epochs) if fell else mark + 1 + max(mark, LEAST_PATIENCE)
    return epochs, lowest, fitted.seconds
