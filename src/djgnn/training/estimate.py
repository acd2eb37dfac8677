"""What a fit will cost here: a few epochs of every expert are timed, the rest is extrapolated."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from djgnn.graph import Graph
from djgnn.graph.checks import check_trainable
from djgnn.graph.table_rules import column_groups
from djgnn.model import DJExperts
from djgnn.model.experts import Member, kind_of, members
from djgnn.model.table_experts import PlainExpert
from djgnn.training.config import RunConfig, TrainConfig
from djgnn.training.expert_training import trained_part
from djgnn.training.experts import ALWAYS
from djgnn.training.importance import MOST_GROUPS, REPEATS, SECONDS
from djgnn.training.inputs import build_djgnn, initialize, seeded
from djgnn.training.loop import fit
from djgnn.training.progress import Hooks
from djgnn.training.provenance import PeakMemory
from djgnn.training.targets import Targets
from djgnn.training.threads import lanes, suitable_threads
from djgnn.training.trial_trainings import expected_epochs, usual_epochs

LEAST_EPOCHS, MOST_EPOCHS = 3, 12
PROBE_SECONDS = 1.5
# Over hundreds of epochs the C library keeps some freed memory in fragments.
FRAGMENTS = 1.05

TREE_NODES = 20_000
TREE_SECONDS = {"boosting": 2.8e-5, "forest": 2.3e-4}
"""Seconds of a step for a node, on graphs that are too large to try it."""
OTHER_FOLDS = 0.25
"""Chance that a network that must prove itself in the first fold is trained in the others."""
EFFICIENCY = 0.92
"""Of experts that are trained at the same time, beside one after the other."""
PASS = 0.3
"""Time of an evaluation as a share of that of an epoch."""
TABLES_SECONDS, PAGE_SECONDS, NODE_SECONDS, PAGE_MIB = 1.0, 2.2, 2e-5, 110.0
"""What predictions and page take at least, and what else for a node; memory of the page."""


@dataclass(frozen=True)
class CostEstimate:
    """Time and memory of a fit.

    `trainings` counts the networks, each trained by itself; `seconds_per_epoch` is their mean.
    `seconds` is for all epochs of the configuration; early stopping ends most runs before.
    `least_seconds` is for a run that stops as early as its patience allows and gives its experts up
    after the first fold. Both are of networks alone, as is `memory_mib`, beside libraries and data.

    `expected_seconds` and `peak_mib` are of the whole command, by measurements on other graphs:
    start, reading, checks, all experts with early stopping, calibration, predictions, page;
    `phases` divides the seconds.
    """

    epochs: int
    trainings: int
    seconds_per_epoch: float
    seconds: float
    least_seconds: float
    memory_mib: float
    device: str
    threads: int
    expected_seconds: float
    peak_mib: float
    phases: dict[str, float]


def estimate(
    graph: Graph,
    config: RunConfig,
    split: int = 0,
    device: torch.device | str = "cpu",
    reading: float = 0.0,
    measures: float = 0.0,
    seed: int = 0,
) -> CostEstimate:
    """Run a few epochs of every training that a fit consists of, some for longer, and extrapolate.

    Args:
        graph: With labels and a split.
        config: What would be fitted.
        split: Which split.
        device: Where.
        reading: Seconds that starting and reading the graph took.
        measures: Seconds that its measures took, which the page has, too.
        seed: Of weights and dropout.

    Raises:
        InputError: If the split has nothing to learn from or to select on.
    """
    parts, where = graph.split(split), torch.device(device)
    check_trainable(graph.labels, parts.train, parts.val, graph.num_classes, graph.metric)
    with suitable_threads(graph, where) as threads:
        memory, begun = PeakMemory(where.type), time.perf_counter()
        module, inputs = build_djgnn(config, graph, where)
        targets = Targets.of(graph, parts, where)
        built, ready = time.perf_counter() - begun, memory.mib()
        training, folds = config.training, config.model.folds or 1
        if isinstance(module, DJExperts):
            module = trained_part(module, targets)
        every = members(module)
        of_fold = every[: len(every) // folds]  # those of the others take as long
        trained = [own for own in of_fold if not isinstance(own.module, PlainExpert)]
        steps = {own.name: _step(own, inputs, targets, training, len(trained)) for own in trained}
        held, abreast = memory.mib(), min(lanes(), len(of_fold))
        for own in of_fold:
            if own.name not in steps:
                steps[own.name] = _plain_step(own, inputs, targets, training)
        seconds = {kind_of(name): step for name, step in steps.items()}
        nodes = targets.train.numel()
        epochs: dict[str, float] = {kind: usual_epochs(kind, nodes, training) for kind in seconds}
        epochs |= expected_epochs(trained, seconds, inputs, targets, training, seed)
    kinds = [kind_of(own.name) for own in of_fold]
    first = [seconds[kind] * epochs[kind] for kind in kinds]
    chances = [1.0 if kind in ALWAYS else OTHER_FOLDS for kind in kinds]
    others = [(folds - 1) * c * t for c, t in zip(chances, first, strict=True)]
    epoch, soonest = sum(steps[own.name] for own in trained), 1
    while not training.ends([0.0] * soonest, 0):
        soonest += 1
    phases = {
        "reading": reading,
        "training": built + _side_by_side([*first, *others], abreast),
        "predictions": TABLES_SECONDS + _importance(graph, PASS * sum(steps.values())),
        "report": built + measures + PAGE_SECONDS + NODE_SECONDS * graph.num_nodes,
    }
    peak = ready + FRAGMENTS * abreast * (held - ready)
    if where.type != "cuda":  # of the process: libraries, data, the larger of training and page
        peak = memory.before + max(peak, PAGE_MIB)
    return CostEstimate(
        epochs=training.epochs,
        trainings=len(trained) * folds,
        seconds_per_epoch=epoch / len(trained),
        seconds=built + training.epochs * folds * epoch,
        least_seconds=built + soonest * epoch,
        memory_mib=FRAGMENTS * held,
        device=where.type,
        threads=threads,
        expected_seconds=sum(phases.values()),
        peak_mib=peak,
        phases=phases,
    )


def _step(
    own: Member, inputs: tuple[object, object], targets: Targets, training: TrainConfig, others: int
) -> float:
    """Seconds of an epoch of a network; the first one warms up."""
    initialize(own.module, 0)
    marks = [time.perf_counter()]

    def enough() -> bool:
        marks.append(time.perf_counter())
        return len(marks) > LEAST_EPOCHS + 1 and marks[-1] - marks[0] > PROBE_SECONDS / others

    short = replace(training, epochs=MOST_EPOCHS, patience=None)
    generator = seeded(0, targets.train.device)
    fit(own.module, own.inputs_of(inputs), targets, short, generator, Hooks(stop=enough))
    return float(np.median(np.diff(marks)[1:]))


def _plain_step(
    own: Member, inputs: tuple[object, object], targets: Targets, training: TrainConfig
) -> float:
    """Seconds of a step of an expert that follows no gradient."""
    kind, n = kind_of(own.name), own.model.num_nodes
    if kind in TREE_SECONDS and n > TREE_NODES:
        return TREE_SECONDS[kind] * n
    initialize(own.module, 0)
    begun, one = time.perf_counter(), replace(training, epochs=1)
    fit(own.module, own.inputs_of(inputs), targets, one, seeded(0, targets.train.device))
    return time.perf_counter() - begun


def _side_by_side(seconds: Sequence[float], lanes: int) -> float:
    """Until the last of some trainings ends, each in the lane that is free first.

    Example:
        >>> _side_by_side([1.0, 1.0, 4.0], 1)
        6.0
        >>> round(EFFICIENCY * _side_by_side([1.0, 1.0, 4.0], 2), 9)
        5.0
    """
    busy = [0.0] * lanes
    for each in seconds:
        busy[busy.index(min(busy))] += each
    return max(busy) / (EFFICIENCY if lanes > 1 else 1)


def _importance(graph: Graph, once: float) -> float:
    """Seconds that the importance of columns takes, where a pass takes so long."""
    groups = min(MOST_GROUPS, len(column_groups(graph) or [1])) if graph.num_features else 0
    rough = REPEATS * groups * once
    return 0.0 if rough > 3 * SECONDS else rough
