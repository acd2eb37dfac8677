"""Splits of cells, run in this process or over several, every outcome turned into a record.

A worker is a child process with one thread. One that the system kills, most likely for its memory,
or that runs out of time costs its split; the rest continues.
"""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypedDict, Unpack

import torch

from djgnn.bench.cell import Built, build, run_split, train_split
from djgnn.bench.record import SplitRecord
from djgnn.bench.spec import CellSpec, DataFacts
from djgnn.bench.store import FinishedCell, Store, Unit, finished_cells, missing_units
from djgnn.checking import json_values
from djgnn.errors import is_memory
from djgnn.graph import Graph
from djgnn.training.inputs import choose_device
from djgnn.training.provenance import PeakMemory


class Runner:
    """Runs splits one after another in this process; keeps the last graph and the last model."""

    def __init__(self, device: str, data: str | Path | None = None) -> None:
        self.device = choose_device(device)
        self.data = data
        self._graph: tuple[str, Graph, DataFacts] | None = None
        self._built: tuple[tuple[str, str], Built] | None = None

    def run(self, spec: CellSpec, split: int) -> SplitRecord:
        """Train one split; what goes wrong is recorded, not raised.

        Raises:
            InputError: If the data set itself cannot be loaded: then there is nothing to record.
        """
        if self._graph is None or self._graph[0] != spec.dataset:
            self._built = None
            graph = Graph.load(spec.dataset, data=self.data)
            self._graph = (spec.dataset, graph, DataFacts.of(graph))
        _, graph, facts = self._graph
        begun, memory = time.perf_counter(), PeakMemory(self.device.type)
        outcome: dict[str, Any] = {}
        try:
            wanted = (spec.model, repr(spec.config))
            if self._built is None or self._built[0] != wanted:
                self._built = None  # frees the old one before the new one is made
                self._built = (wanted, build(spec.recipe(), graph, self.device))
            built = self._built[1]
            outcome["parameters"] = built.parameters
            if spec.evaluate:
                result = run_split(built, graph, split, spec.seed).to_dict()
            else:
                fitted = train_split(built, graph, split, spec.seed)
                result = {key: getattr(fitted, key) for key in ("validation", "epoch", "seconds")}
            outcome["result"] = json_values({"split": split, **result})
        except Exception as error:
            outcome["status"], outcome["reason"] = describe(error)
            self._built = None
            if self.device.type == "cuda":
                torch.cuda.empty_cache()
        outcome |= {"peak_memory_mib": memory.mib(), "seconds": time.perf_counter() - begun}
        return SplitRecord.of(spec, split, facts, device=self.device.type, **outcome)


class Worker:
    """A child process that runs splits, started when it is needed and again after it ended.

    Args:
        facts: Facts of the data sets, for the record of a split that ended its process.
        device: See :class:`PoolOptions`, as for `data`.
        limit: Most seconds of a split.
    """

    def __init__(
        self,
        facts: Mapping[str, DataFacts],
        device: str,
        data: str | Path | None,
        limit: float | None = None,
    ) -> None:
        self.last: CellSpec | None = None
        self._facts, self._limit, self._options = facts, limit, (device, data)
        self._child: tuple[Any, Connection] | None = None
        self._served, self._closed = False, threading.Event()

    def run(self, spec: CellSpec, split: int) -> SplitRecord:
        """Run a split in the child and wait for its record.

        A crash counts against a split only if the child had run nothing before; otherwise the
        split is tried once more, in a new child with all memory free.

        Raises:
            InputError: If the data set itself cannot be loaded.
            RuntimeError: If the worker was closed.
        """
        while True:
            begun, (process, pipe) = time.monotonic(), self._start()
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
            if late or not (self._served or self._closed.is_set()):
                break
        status, reason = "failed", f"the process ended with status {process.exitcode}"
        if late:
            status, reason = "out of time", f"ended after {self._limit:g} seconds"
        elif process.exitcode < 0:
            status = "out of memory"
            reason = f"killed by signal {-process.exitcode}, most likely for its memory"
        outcome = {"status": status, "reason": reason, "seconds": time.monotonic() - begun}
        device = choose_device(self._options[0]).type
        return SplitRecord.of(spec, split, self._facts[spec.dataset], device=device, **outcome)

    def _start(self) -> tuple[Any, Connection]:
        """The child and our end of its pipe; it is started if there is none."""
        if self._closed.is_set():
            raise RuntimeError("the worker was closed")
        if self._child is None:
            context = multiprocessing.get_context("spawn")
            ours, theirs = context.Pipe()
            arguments = (theirs, *self._options)
            process = context.Process(target=_serve_splits, args=arguments, daemon=True)
            process.start()
            theirs.close()
            self._child, self._served = (process, ours), False
            if self._closed.is_set():  # by another thread, while the child was starting
                process.kill()
        return self._child

    def close(self) -> None:
        """End the child, whatever it is doing; a split that is running then raises an error."""
        self._closed.set()
        if self._child is not None:
            self._child[0].kill()


class PoolOptions(TypedDict, total=False):
    """How splits are run.

    Args:
        workers: Number of processes, 1 by default; 0 runs in this one, where nothing can be ended
            or survived.
        device: ``"auto"`` (the default), ``"cpu"`` or ``"cuda"``.
        data: Folder with data sets, looked in first.
        split_limit: Seconds of one split; a longer one is ended and recorded as out of time.
        total_limit: Seconds of everything; what is not finished then is ended and not recorded.
    """

    workers: int
    device: str
    data: str | Path | None
    split_limit: float | None
    total_limit: float | None


def run_units(
    units: Sequence[Unit], facts: Mapping[str, DataFacts], **options: Unpack[PoolOptions]
) -> Iterator[SplitRecord]:
    """Run splits and give each record as soon as it is there.

    Args:
        units: What to run. Units of one cell go to one process while there is other work for the
            rest, because building a model may take longer than training it.
        facts: Facts of every data set among them.
        options: How, see :class:`PoolOptions`.
    """
    waiting, total = list(units), options.get("total_limit")
    workers, place = options.get("workers", 1), (options.get("device", "auto"), options.get("data"))
    if workers < 1:
        runner = Runner(*place)
        yield from (runner.run(spec, split) for spec, split in waiting)
        return
    end, limit = None if total is None else time.monotonic() + total, options.get("split_limit")
    idle = [Worker(facts, *place, limit) for _ in range(min(workers, len(waiting)))]
    pool, busy = tuple(idle), dict[Future[SplitRecord], Worker]()
    with ThreadPoolExecutor(max(1, len(pool))) as threads:
        try:
            while waiting or busy:
                while idle and waiting:
                    worker, taken = idle.pop(), {id(other.last) for other in busy.values()}
                    # Of its last cell, else of a cell that no other process is running.
                    order = [(s is not worker.last, id(s) in taken) for s, _ in waiting]
                    spec, split = waiting.pop(order.index(min(order)))
                    worker.last = spec
                    busy[threads.submit(worker.run, spec, split)] = worker
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


def run_plan(
    specs: Sequence[CellSpec],
    facts: Mapping[str, DataFacts],
    store: Store,
    *,
    retry_failed: bool = False,
    follow: Callable[[int, int, SplitRecord], None] | None = None,
    **options: Unpack[PoolOptions],
) -> list[FinishedCell]:
    """Run the splits that are missing, keep each at once, and return the finished cells.

    Killed at any point, it leaves finished splits only; started again, it repeats none of them.

    Args:
        specs: The cells.
        facts: Facts of every data set among them.
        store: Where results are kept and looked for.
        retry_failed: Run failed splits again.
        follow: Called after every split with the number of splits run, of all, and its record.
        options: How, see :class:`PoolOptions`.
    """
    units = missing_units(specs, facts, store, retry_failed)
    for number, record in enumerate(run_units(units, facts, **options), start=1):
        store.put(record)
        if follow is not None:
            follow(number, len(units), record)
    return finished_cells(specs, facts, store)


def describe(error: BaseException) -> tuple[str, str]:
    """The status and the reason of a failure.

    Example:
        >>> describe(RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"))
        ('out of memory', 'RuntimeError: CUDA out of memory. Tried to allocate 2 GiB')
    """
    text = " ".join(str(error).split())[:300]
    return ("out of memory" if is_memory(error) else "failed", f"{type(error).__name__}: {text}")


def _serve_splits(pipe: Connection, device: str, data: str | Path | None) -> None:
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
