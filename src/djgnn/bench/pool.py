"""Splits of cells, run in this process or over several, every outcome turned into a record.

A worker is a child process with one thread. One that the system kills, most likely for its memory,
or that runs out of time costs its split; the rest continues.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from djgnn.bench.cell import Built, build, run_split, train_split
from djgnn.bench.record import SplitRecord
from djgnn.bench.spec import CellSpec, data_key, split_sizes
from djgnn.checking import json_values
from djgnn.graph import Graph
from djgnn.training.inputs import choose_device
from djgnn.training.provenance import PeakMemory

Unit = tuple[CellSpec, int]
"""One split of one cell."""
Lost = Callable[[Unit, str, str, float], SplitRecord]
"""Makes the record of a split that its process did not survive: status, reason, seconds."""
_OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "cannot allocate memory")


@dataclass(frozen=True)
class Limits:
    """How long things may take, in seconds; ``None`` is without limit.

    Args:
        split: One split; a longer one is ended and recorded as out of time.
        total: Everything; what is not finished then is ended and not recorded.
    """

    split: float | None = None
    total: float | None = None


class Runner:
    """Runs splits one after another in this process; keeps the last graph and the last model.

    Args:
        device: ``"auto"``, ``"cpu"`` or ``"cuda"``.
        data: Folder with data sets, looked in first.
    """

    def __init__(self, device: str = "auto", data: str | Path | None = None) -> None:
        self.device = choose_device(device)
        self.data = data
        self._graph: tuple[str, Graph] | None = None
        self._built: tuple[tuple[str, str], Built] | None = None

    def run(self, spec: CellSpec, split: int) -> SplitRecord:
        """Train one split; what goes wrong is recorded, not raised.

        Raises:
            InputError: If the data set itself cannot be loaded: then there is nothing to record.
        """
        if self._graph is None or self._graph[0] != spec.dataset:
            self._built = None
            self._graph = (spec.dataset, Graph.load(spec.dataset, data=self.data))
        graph = self._graph[1]
        begun, memory = time.perf_counter(), PeakMemory(self.device.type)
        result: dict[str, float | None] | None = None
        status, reason, parameters = "done", "", 0
        try:
            wanted = (spec.model, repr(spec.config))
            if self._built is None or self._built[0] != wanted:
                self._built = None  # frees the old one before the new one is made
                self._built = (wanted, build(spec.recipe(), graph, self.device))
            built = self._built[1]
            parameters = built.parameters
            if spec.evaluate:
                result = json_values(run_split(built, graph, split, spec.seed).to_dict())
            else:
                fitted = train_split(built, graph, split, spec.seed)
                figures = {key: getattr(fitted, key) for key in ("validation", "epoch", "seconds")}
                result = json_values({"split": split, **figures})
        except Exception as error:
            status, reason = describe(error)
            self._built = None
            if self.device.type == "cuda":
                torch.cuda.empty_cache()
        outcome = {"status": status, "reason": reason, "result": result, "parameters": parameters}
        cost = {"peak_memory_mib": memory.mib(), "seconds": time.perf_counter() - begun}
        place = {"sizes": split_sizes(graph, split), "device": self.device.type}
        return SplitRecord.of(spec, split, data_key(graph), **outcome, **cost, **place)


class Worker:
    """A child process that runs splits, started when it is needed and again after it ended.

    Args:
        lost: Makes the record of a split that ended its process.
        device: ``"auto"``, ``"cpu"`` or ``"cuda"``.
        data: Folder with data sets, looked in first.
        limit: Most seconds of a split.
    """

    def __init__(
        self, lost: Lost, device: str, data: str | Path | None, limit: float | None = None
    ) -> None:
        self.last: CellSpec | None = None
        self._lost, self._limit = lost, limit
        self._options = (device, None if data is None else str(data))
        self._child: tuple[Any, Connection] | None = None
        self._served = self._closed = False

    def run(self, spec: CellSpec, split: int) -> SplitRecord:
        """Run a split in the child and wait for its record.

        A child that ends is held against the split only if it ran nothing before; otherwise the
        split is tried once more, in a new child with all memory free.

        Raises:
            InputError: If the data set itself cannot be loaded.
            RuntimeError: If the worker was closed.
        """
        self.last = spec
        while True:
            begun, (process, pipe) = time.monotonic(), self.start()
            try:
                pipe.send((spec, split))
                late = not pipe.poll(self._limit)
                answer: SplitRecord | Exception | None = None if late else pipe.recv()
            except (EOFError, OSError):
                late, answer = False, None
            if isinstance(answer, Exception):
                raise answer
            if answer is not None:
                self._served = True
                return answer
            process.kill()
            process.join()
            pipe.close()
            self._child = None
            if self._closed:
                raise RuntimeError("the worker was closed")
            if late or not self._served:
                code = None if late else process.exitcode
                status, reason = "failed", f"the process ended with status {code}"
                if late:
                    status, reason = "out of time", f"ended after {self._limit:g} seconds"
                elif code is not None and code < 0:
                    status = "out of memory"
                    reason = f"killed by signal {-code}, most likely for its memory"
                return self._lost((spec, split), status, reason, time.monotonic() - begun)

    def start(self) -> tuple[Any, Connection]:
        """The child and our end of its pipe; it is started if there is none.

        Raises:
            RuntimeError: If the worker was closed.
        """
        if self._closed:
            raise RuntimeError("the worker was closed")
        if self._child is None:
            context = multiprocessing.get_context("spawn")
            ours, theirs = context.Pipe()
            arguments = (theirs, *self._options)
            process = context.Process(target=_serve_splits, args=arguments, daemon=True)
            process.start()
            theirs.close()
            self._child, self._served = (process, ours), False
        return self._child

    def close(self) -> None:
        """End the child, whatever it is doing; a split that is running then raises an error."""
        self._closed = True
        if self._child is not None:
            self._child[0].kill()


def run_units(
    units: Sequence[Unit],
    *,
    lost: Lost,
    workers: int = 1,
    device: str = "auto",
    data: str | Path | None = None,
    limits: Limits | None = None,
) -> Iterator[SplitRecord]:
    """Run splits and give each record as soon as it is there.

    Args:
        units: What to run. Units of one cell go to one process while there is other work for the
            rest, because building a model may take longer than training it.
        lost: Makes the record of a split that ended its process.
        workers: Number of processes; 0 runs in this one, where nothing can be ended or survived.
        device: ``"auto"``, ``"cpu"`` or ``"cuda"``.
        data: Folder with data sets, looked in first.
        limits: How long things may take.
    """
    limits, waiting = limits or Limits(), list(units)
    if workers < 1:
        runner = Runner(device, data)
        for spec, split in waiting:
            yield runner.run(spec, split)
        return
    end = None if limits.total is None else time.monotonic() + limits.total
    idle = [Worker(lost, device, data, limits.split) for _ in range(min(workers, len(waiting)))]
    pool, busy = tuple(idle), dict[Future[SplitRecord], Worker]()
    with ThreadPoolExecutor(max(1, len(pool))) as threads:
        try:
            while waiting or busy:
                while idle and waiting:
                    worker = idle.pop()
                    unit = waiting.pop(_next_unit(waiting, worker, busy.values()))
                    worker.start()
                    busy[threads.submit(worker.run, *unit)] = worker
                left = None if end is None else max(0.0, end - time.monotonic())
                done = wait(busy, left, FIRST_COMPLETED).done
                if not done:
                    return
                idle += [busy.pop(future) for future in done]
                for future in done:
                    yield future.result()
        finally:
            for worker in pool:
                worker.close()


def describe(error: BaseException) -> tuple[str, str]:
    """The status and the reason of a failure.

    Example:
        >>> describe(RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"))
        ('out of memory', 'RuntimeError: CUDA out of memory. Tried to allocate 2 GiB')
    """
    text = " ".join(str(error).split())[:300]
    memory = isinstance(error, MemoryError | torch.OutOfMemoryError)
    memory = memory or any(words in text.lower() for words in _OUT_OF_MEMORY)
    return ("out of memory" if memory else "failed", f"{type(error).__name__}: {text}")


def _next_unit(waiting: Sequence[Unit], worker: Worker, busy: Any) -> int:
    """Which unit a worker runs next: of its last cell, else of a cell that no other is at."""
    taken = {id(other.last) for other in busy}
    return min(
        range(len(waiting)),
        key=lambda i: (waiting[i][0] is not worker.last, id(waiting[i][0]) in taken, i),
    )


def _serve_splits(pipe: Connection, device: str, data: str | None) -> None:
    """What a child does: receive a unit, run it, send its record, until the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt means
    parent = multiprocessing.parent_process()

    def end_with_parent() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    try:
        runner = Runner(device, data)
        while True:
            pipe.send(runner.run(*pipe.recv()))
    except EOFError:
        return
    except Exception as error:
        pipe.send(error)
