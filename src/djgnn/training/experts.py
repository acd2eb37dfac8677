"""Training of a mixture: every expert to its own best epoch, then their weights.

Experts share no weight, so each is trained by itself, and one that has stopped costs nothing more.
What validation nodes decide is each expert's epoch, the temperature that makes its probabilities
comparable, the few weights of the mixture, and which jumps are dropped.
"""

import dataclasses
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import Any

import numpy as np

from djgnn.errors import DJGNNWarning
from djgnn.model import DJGNN, DJExperts
from djgnn.model.config import PLAIN_NAMES
from djgnn.model.expert_mixture import Mixed
from djgnn.model.experts import kind_of
from djgnn.training.calibration import Calibration, temperature
from djgnn.training.config import TrainConfig
from djgnn.training.expert_training import Training, seed_of, trained_part
from djgnn.training.inputs import initialize
from djgnn.training.kernel_warmup import early
from djgnn.training.loop import Fitted
from djgnn.training.mixture import counts_of, folds_of, mixture_of
from djgnn.training.mixture_weights import mixing_weights
from djgnn.training.parallel import Aside, Job, Lane, in_turn
from djgnn.training.progress import EpochRecord, Hooks
from djgnn.training.targets import Targets
from djgnn.training.threads import beside, lanes

ALWAYS: tuple[str, ...] = (*PLAIN_NAMES, "features", "profile")
"""Experts that are trained in every fold: quick ones, and what the graph must surpass."""
EARLY = 4.5
"""How many places early a long training starts, so that the last ones need not wait for it."""
MOST_NETWORKS, LEAST_RAISE = 5, 0.001
"""Most further networks, and what each must add to the mean log-likelihood of the first fold."""


def fit_experts(
    module: Mixed,
    inputs: tuple[Any, Any],
    targets: Targets | Sequence[Targets],
    config: TrainConfig,
    seed: int = 0,
    hooks: Hooks | None = None,
    aside: Aside | None = None,
) -> Fitted:
    """Train every expert from fresh weights, then mix them.

    An expert that diverges is left out, and so are those that a stop leaves untrained: their
    weight is 0. Of a cross-fitted mixture every member is trained on the nodes outside of its fold;
    networks that have next to no weight in the first fold are not trained in the others.
    The mixture that is returned is
    :func:`djgnn.training.expert_training.trained_part` of the given one.

    Args:
        module: The mixture.
        inputs: x and structure.
        targets: Labels to learn from and select on, of every fold.
        config: How to train, the same for every expert.
        seed: Of weights and dropout.
        hooks: Progress, early end, checkpoint, recording.
        aside: What may be done beside networks on a GPU.

    Raises:
        FloatingPointError: If all experts diverged.
        InputError: If a checkpoint is damaged or of another run.
    """
    hooks, folds = hooks or Hooks(), [targets] if isinstance(targets, Targets) else list(targets)
    if isinstance(module, DJExperts):
        module = trained_part(module, folds[0])
        if hooks.on_plan is not None:
            hooks.on_plan(module.names)
    found: dict[str, Fitted] = {}
    diverged: dict[str, FloatingPointError] = {}
    seeds = {name: seed_of(name, seed) for name in module.names}
    trainings = [
        Training(name, module, inputs, folds[k], config, seeds[name], k, len(folds) > 1)
        for name, k in zip(module.names, folds_of(module), strict=True)
    ]
    if beside():
        trainings.sort(key=_turn)
    # A recording is of one training after the other, and batches are there to save memory.
    together = hooks.observer is None and config.batch_size is None
    how = (lanes(), beside()) if together else (1, 0)
    for first in (True, False):
        wanted = [t for t in trainings if (t.fold == 0) == first]
        if wanted and not first:
            idle = {*_idle(found, folds[0]), *diverged}
            wanted = [t for t in wanted if kind_of(t.name) not in idle]
            if hooks.on_plan is not None:
                hooks.on_plan([n for n in module.names if kind_of(n) not in idle])
        last = aside if len(folds) == 1 or not first else None
        for name, result in _results(wanted, hooks, *how, last):
            if isinstance(result, Fitted):
                found[name] = result
                if beside() and isinstance(result.module, DJGNN):
                    result.module.cpu()  # where it is not in the way of those to come
                if hooks.on_end is not None:
                    hooks.on_end(result.module)
                continue
            diverged[kind_of(name)] = result
            warnings.warn(f"expert {name} left out: {result}", DJGNNWarning, stacklevel=2)
        if any(each.interrupted for each in found.values()):
            break
    if hooks.checkpoint is not None:
        hooks.checkpoint.finish()
    module.experts.to(module.weights.device)
    found = {name: found[name] for name in module.names if name in found}
    for name, expert in module.experts.items():
        if name not in found:  # diverged or never trained: finite weights by seed
            initialize(expert, seeds[name])
    if not found:
        nobody = FloatingPointError("training diverged: there is no expert")
        raise next(iter(diverged.values()), nobody)
    return dataclasses.replace(mixture_of(module, found, folds), diverged=tuple(diverged))


def _turn(training: Training) -> int:
    """The order of training where plain experts run beside networks on a GPU.

    First networks without jumps, which neither wait for plain experts nor are compared with them,
    then plain experts, then the networks with jumps, which cost most. They do not wait for the
    forest, which takes long and is hardly ever ahead of boosting.
    """
    if training.plain:
        return 3 if kind_of(training.name) == "forest" else 1
    return 2 * training.jumps


def _results(
    trainings: Sequence[Training],
    hooks: Hooks,
    most: int,
    threads: int = 0,
    aside: Aside | None = None,
) -> Iterator[tuple[str, Fitted | FloatingPointError]]:
    """Train experts, at most so many at a time, up to the first one that is interrupted.

    An expert is compared with those before it. Where it was trained beside one of them, and what
    became of that one would have ended it at another epoch, it is trained again: the result does
    not depend on how many were trained at a time. Beside a GPU the experts that are compared with
    no other have lanes: boosting, which takes longest, one with so many threads, the others and
    what is `aside` a second one. They are waited for when one that comes after them is to be
    compared.
    """
    rivals: dict[int, float] = {}
    known: list[tuple[str, Fitted | FloatingPointError]] = []
    late: list[tuple[Lane, Callable[[], None]]] = []

    def end(
        each: Training, job: Job, own: Hooks, begun: bool, result: Callable[[], Fitted]
    ) -> None:
        """Wait for a training, which counts as a rival of those that come after it."""
        try:
            fitted = result()
            if begun and each.differs(fitted, rivals.get(each.fold, math.inf)):
                if own.checkpoint is not None:
                    own.checkpoint.forget()
                fitted = job(own)
        except FloatingPointError as error:
            known.append((each.name, error))
            return
        rivals[each.fold] = min(rivals.get(each.fold, math.inf), fitted.validation_loss)
        known.append((each.name, fitted))

    def rival(fold: int) -> float:
        while late:
            late.pop(0)[1]()
        return rivals.get(fold, math.inf)

    def stopped() -> bool:
        """Whether there will be no more; what has ended by then is not lost."""
        if not any(isinstance(found, Fitted) and found.interrupted for _, found in known):
            return False
        for lane, waiting in late:
            if lane.ended:
                waiting()
        return True

    jobs = [(partial(t.run, partial(rival, t.fold)), _of(hooks, t.name)) for t in trainings]
    ahead = [most > 1 or (threads > 0 and training.plain) for training in trainings]
    places = [i - EARLY * training.long for i, training in enumerate(trainings)]
    second = [threads > 0 and kind_of(training.name) != "boosting" for training in trainings]
    results = in_turn(jobs, ahead, most, threads, places, aside, second)
    with early(trainings, threads > 0), closing(results):
        for each, job, begun, result in zip(trainings, jobs, ahead, results, strict=True):
            waiting = partial(end, each, *job, begun, result)
            if threads and isinstance(result, Lane):
                late.append((result, waiting))
            else:
                waiting()
            if each is trainings[-1]:
                rival(each.fold)
            over = stopped()
            yield from known
            known.clear()
            if over:
                return


def _idle(found: dict[str, Fitted], targets: Targets) -> set[str]:
    """The kinds of networks that hardly anything is lost without, judged by the first fold.

    Beside the quick ones those are wanted that raise the likelihood of its held-out nodes most, one
    after the other, as long as each raises its mean logarithm by a thousandth.
    """
    y, rows, counts = targets.labels[1], np.arange(targets.val_y.numel()), counts_of(targets)
    likelihood = {}
    for name, each in found.items():
        held = each.held.cpu().numpy()
        shares = Calibration(temperature(held, y, counts)).probabilities(held)
        likelihood[kind_of(name)] = shares[rows, y].astype(float)
    floor = np.finfo(np.float64).tiny

    def gained(kinds: Sequence[str]) -> float:
        chosen = np.stack([likelihood[kind] for kind in kinds])
        mixed = np.maximum(mixing_weights(chosen, counts) @ chosen, floor)
        return float(np.average(np.log(mixed), weights=counts))

    wanted = [kind for kind in likelihood if kind in ALWAYS]
    rest = [kind for kind in likelihood if kind not in ALWAYS]
    best = gained(wanted) if wanted else -math.inf
    for _ in range(min(MOST_NETWORKS, len(rest))):
        value, kind = max((gained([*wanted, kind]), kind) for kind in rest)
        if value < best + LEAST_RAISE:
            break
        best = value
        wanted.append(kind)
        rest.remove(kind)
    return set(rest)


def _of(hooks: Hooks, name: str) -> Hooks:
    """The hooks of one expert: its epochs carry its name, its checkpoint is a stage."""
    follow = hooks.on_epoch

    def on_epoch(epochs: int, record: EpochRecord) -> None:
        if follow is not None:
            follow(epochs, dataclasses.replace(record, expert=name))

    checkpoint = None if hooks.checkpoint is None else hooks.checkpoint.stage(name)
    return dataclasses.replace(hooks, on_epoch=on_epoch, checkpoint=checkpoint)
