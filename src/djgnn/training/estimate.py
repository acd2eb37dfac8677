"""What a fit will cost here: a few epochs are run and timed, the rest is arithmetic."""

import time
from dataclasses import dataclass, replace

import numpy as np
import torch

from djgnn.graph import Graph, Split
from djgnn.graph.checks import check_trainable
from djgnn.model import DJGNN, DJExperts
from djgnn.model.experts import Member, members
from djgnn.model.plain import PlainExpert
from djgnn.training.config import RunConfig
from djgnn.training.inputs import build_djgnn, initialize, seeded
from djgnn.training.loop import Targets, fit
from djgnn.training.progress import Hooks
from djgnn.training.provenance import PeakMemory
from djgnn.training.threads import suitable_threads

LEAST_EPOCHS, MOST_EPOCHS = 3, 12
PROBE_SECONDS = 1.5
# Over hundreds of epochs the C library keeps some freed memory in fragments.
FRAGMENTS = 1.15


@dataclass(frozen=True)
class CostEstimate:
    """Time and memory of a fit.

    `trainings` counts the networks, each trained by itself; `seconds_per_epoch` is their mean.
    Plain experts take little beside them and are left out.
    `seconds` is for all epochs of the configuration; early stopping ends most runs before.
    `least_seconds` is for a run that stops as early as its patience allows and gives its experts up
    after the first fold.
    """

    epochs: int
    trainings: int
    seconds_per_epoch: float
    seconds: float
    least_seconds: float
    memory_mib: float
    device: str
    threads: int


def _trained(module: DJGNN | DJExperts) -> list[Member]:
    """The members that follow a gradient; plain ones take seconds."""
    return [own for own in members(module) if not isinstance(own.module, PlainExpert)]


def estimate(
    graph: Graph, config: RunConfig, split: int = 0, device: torch.device | str = "cpu"
) -> CostEstimate:
    """Run a few epochs of every training that a fit consists of, and extrapolate.

    Args:
        graph: With labels and a split.
        config: What would be fitted.
        split: Which split.
        device: Where.

    Raises:
        InputError: If the split has nothing to learn from or to select on.
    """
    parts = graph.split(split)
    check_trainable(graph.y, parts.train, parts.val, graph.num_classes, graph.metric)
    with suitable_threads(graph, torch.device(device)) as threads:
        return _probe(graph, parts, config, torch.device(device), threads)


def _probe(
    graph: Graph, parts: Split, config: RunConfig, where: torch.device, threads: int
) -> CostEstimate:
    """The members of the first fold are tried; those of the others take as long."""
    memory = PeakMemory(where.type)
    begun = time.perf_counter()
    module, inputs = build_djgnn(config, graph, where)
    targets = Targets.of(graph, parts, where)
    built = time.perf_counter() - begun
    training, every, folds = config.training, _trained(module), config.model.folds or 1
    trained = every[: len(every) // folds]
    short = replace(training, epochs=MOST_EPOCHS, patience=None)
    epoch, most = 0.0, PROBE_SECONDS / len(trained)
    for network in trained:
        initialize(network.module, 0)
        marks = [time.perf_counter()]

        def enough(marks: list[float] = marks) -> bool:
            marks.append(time.perf_counter())
            return len(marks) > LEAST_EPOCHS + 1 and marks[-1] - marks[0] > most

        own = network.inputs_of(inputs)
        fit(network.module, own, targets, short, seeded(0, where), Hooks(stop=enough))
        epoch += float(np.median(np.diff(marks)[1:]))  # the first warms up
    soonest = 1
    while not training.ends([0.0] * soonest, 0):
        soonest += 1
    return CostEstimate(
        epochs=training.epochs,
        trainings=len(every),
        seconds_per_epoch=epoch / len(trained),
        seconds=built + training.epochs * folds * epoch,
        least_seconds=built + soonest * epoch,
        memory_mib=FRAGMENTS * memory.mib(),
        device=where.type,
        threads=threads,
    )
