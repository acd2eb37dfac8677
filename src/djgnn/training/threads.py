"""How many threads a run uses: threads that wait for each other keep their cores busy."""

import math
import os
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path

import torch

from djgnn.graph import Graph
from djgnn.training.cuda_graphs import MOST_NODES

LARGE_NODES, LARGE_EDGES = 50_000, 1_000_000
MEASURED_ROWS, WIDTH, REPEATS = 50_000, 64, 5
GAIN = 1.1
"""So many times faster must several threads be than one to be used."""
QUOTA = Path("/sys/fs/cgroup/cpu.max")

LANE_NODES, MOST_LANES = 1000, 4
"""Fewer nodes gain nothing by training experts at the same time; more lanes gain hardly more."""

_chosen: list[tuple[int, int, int]] = []
"""Threads and lanes of the run, and threads of a lane beside a GPU."""


@contextmanager
def suitable_threads(graph: Graph, device: torch.device, known: int | None = None) -> Iterator[int]:
    """One thread for a small graph on the CPU, as many as help otherwise; gives the number.

    A step on a small graph is hundreds of short operations. Two threads gain little on an idle
    machine, and on a busy one they are several times slower than one. For a large graph both are
    tried for a moment. Within such a context another one changes nothing. Libraries of linear
    algebra have as many threads.

    Args:
        graph: What is trained on.
        device: Where.
        known: What was chosen before, by a run that is resumed: sums depend on it.
    """
    from threadpoolctl import threadpool_limits

    before, alone = torch.get_num_threads(), not torch.distributed.is_initialized()
    if _chosen:
        yield before
        return
    number, lanes, beside, limits = before, 1, 0, None
    if device.type == "cpu":
        small = graph.num_nodes < LARGE_NODES and graph.num_edges < LARGE_EDGES
        most = min(before, available())
        limits = number = known or (1 if small else _useful(most))
        if small and graph.num_nodes >= LANE_NODES and alone and number == 1:
            lanes = min(most, MOST_LANES)
    elif alone and graph.num_nodes > MOST_NODES:
        # No other thread may run while a CUDA graph is captured; larger graphs are not captured.
        # Some cores are left to other work.
        beside = 3 * available() // 4
    _chosen.append((number, lanes, beside))
    torch.set_num_threads(number)
    try:
        with threadpool_limits(limits):
            yield number
    finally:
        torch.set_num_threads(before)
        _chosen.pop()


def lanes() -> int:
    """How many experts of the run may be trained at the same time, each by one thread.

    Those never wait for each other, so a busy machine does not make them slower than one.
    """
    return _chosen[-1][1] if _chosen else 1


def beside() -> int:
    """How many threads the experts that follow no gradient have, beside networks on a GPU.

    0 where they do not run beside them: on the CPU, on graphs that are small enough for CUDA
    graphs, in several processes, and where there is one core.
    """
    return _chosen[-1][2] if _chosen else 0


def available(quota: Path = QUOTA) -> int:
    """Cores that this process may use: those it is bound to, and no more than a container has."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    with suppress(OSError, ValueError):
        most, period = quota.read_text("ascii").split()
        return max(1, min(cores or 1, math.ceil(int(most) / int(period))))
    return cores or 1


def _useful(most: int) -> int:
    """All threads, if they do the work of a step clearly faster than one."""
    if most == 1:
        return 1
    rows, weight = torch.ones(MEASURED_ROWS, WIDTH), torch.ones(WIDTH, WIDTH)
    before, seconds = torch.get_num_threads(), dict[int, float]()
    try:
        for number in (1, most):
            torch.set_num_threads(number)
            marks = [time.perf_counter()]
            for _ in range(REPEATS + 1):
                (rows @ weight).relu_()
                marks.append(time.perf_counter())
            took = [end - begin for begin, end in pairwise(marks)]
            seconds[number] = statistics.median(took[1:])  # the first starts the threads
    finally:
        torch.set_num_threads(before)
    return most if seconds[1] > GAIN * seconds[most] else 1
