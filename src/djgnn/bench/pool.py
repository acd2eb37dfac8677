"""Splits over several processes: each has one thread, none outlives its parent, a dead one counts.

The standard library's pools give up as a whole when the system kills one process for its memory;
here that split is recorded as out of memory and the rest goes on.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from djgnn.bench.record import SplitRecord
from djgnn.bench.spec import CellSpec

Unit = tuple[CellSpec, int]
"""One split of one cell."""
Lost = Callable[[Unit, str, str, float], SplitRecord]
"""Makes the record of a split that its process did not survive: status, reason, seconds."""
BEGUN = "begun"
"""What a worker answers to a unit; without it a dead one never got to it."""


@dataclass(frozen=True)
class Limits:
    """How long things may take, in seconds; ``None`` is for ever.

    Args:
        split: One split; a longer one is ended and recorded as out of time.
        total: Everything; what is not finished then is ended and not recorded.
    """

    split: float | None = None
    total: float | None = None


def run_units(
    units: Sequence[Unit],
    *,
    workers: int = 1,
    device: str = "auto",
    data: str | Path | None = None,
    limits: Limits | None = None,
    lost: Lost | None = None,
) -> Iterator[SplitRecord]:
    """Run splits and give each record as soon as it is there.

    Args:
        units: What to run. Units of one cell go to one process while there is other work for the
            rest, because building a model may take longer than training it.
        workers: Number of processes; 0 runs in this one, where nothing can be ended or survived.
        device: ``"auto"``, ``"cpu"`` or ``"cuda"``.
        data: Folder with data sets, looked in first.
        limits: How long things may take.
        lost: Makes the record of a split that ended its process; without it that is an error.
    """
    if workers < 1:
        from djgnn.bench.runner import Runner

        runner = Runner(device, data)
        for spec, split in units:
            yield runner.run(spec, split)
        return
    options = (device, None if data is None else str(data))
    pool = _Pool(list(units), limits or Limits(), lost, options)
    try:
        yield from pool.run(min(workers, len(units)))
    finally:
        pool.end()


@dataclass(eq=False)
class _Process:
    """A worker, the end of its pipe, what it is at, and whether it has finished anything."""

    process: Any
    pipe: Connection
    unit: Unit | None = None
    since: float = 0.0
    last: CellSpec | None = None
    begun: bool = False
    served: bool = False


@dataclass(eq=False)
class _Pool:
    waiting: list[Unit]
    limits: Limits
    lost: Lost | None
    options: tuple[str, str | None]
    live: list[_Process] = field(default_factory=list)

    def run(self, workers: int) -> Iterator[SplitRecord]:
        begun = time.monotonic()
        for _ in range(workers):
            self._start()
        while self.live:
            for worker in list(self.live):
                if worker.unit is None:
                    self._give(worker)
            if not self.live:
                return
            yield from self._collect(begun)
            if self.limits.total is not None and time.monotonic() - begun > self.limits.total:
                return

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=serve, args=(theirs, *self.options), daemon=True)
        process.start()
        theirs.close()
        self.live.append(_Process(process, ours))

    def _give(self, worker: _Process) -> None:
        """Hand the worker its next unit: of its last cell, else of a cell nobody is at."""
        if not self.waiting:
            with suppress(OSError):  # it may have been killed since
                worker.pipe.send(None)
            worker.pipe.close()
            worker.process.join(5)
            self.live.remove(worker)
            return
        taken = {id(w.last) for w in self.live if w is not worker and w.unit is not None}
        ranked = (
            (spec is not worker.last, id(spec) in taken, place)
            for place, (spec, _) in enumerate(self.waiting)
        )
        worker.unit = self.waiting.pop(min(ranked)[-1])
        worker.last, worker.since, worker.begun = worker.unit[0], time.monotonic(), False
        with suppress(OSError):  # a dead one is found, with its unit, when answers are collected
            worker.pipe.send(worker.unit)

    def _collect(self, begun: float) -> Iterator[SplitRecord]:
        """Wait for a worker to answer, to die, or to run out of time."""
        handles = {w.pipe: w for w in self.live} | {w.process.sentinel: w for w in self.live}
        ready = wait(list(handles), timeout=self._patience(begun))
        for worker in {handles[handle] for handle in ready}:
            try:
                answer: SplitRecord | BaseException | str = worker.pipe.recv()
            except (EOFError, OSError):
                if worker.served and not worker.begun:
                    self._replace(worker)
                else:
                    yield self._buried(worker, *_killed(worker.process))
                continue
            if isinstance(answer, BaseException):
                raise answer
            if isinstance(answer, str):
                worker.begun = True
                continue
            worker.unit, worker.served = None, True
            yield answer
        limit = self.limits.split
        for worker in [w for w in self.live if w.unit is not None]:
            if limit is not None and time.monotonic() - worker.since > limit:
                yield self._buried(worker, "out of time", f"ended after {limit:g} seconds")

    def _patience(self, begun: float) -> float | None:
        ends = [begun + self.limits.total] if self.limits.total is not None else []
        if self.limits.split is not None:
            ends += [w.since + self.limits.split for w in self.live if w.unit is not None]
        return max(0.0, min(ends) - time.monotonic()) + 0.01 if ends else None

    def _replace(self, worker: _Process) -> None:
        """Put back the unit of a worker that died between two of them, and start another one."""
        assert worker.unit is not None
        self.waiting.insert(0, worker.unit)
        self._stop(worker)
        self._start()

    def _buried(self, worker: _Process, status: str, reason: str) -> SplitRecord:
        """Record what a dead or late worker was at, and start another one."""
        unit, spent = worker.unit, time.monotonic() - worker.since
        self._stop(worker)
        if unit is None or self.lost is None:
            raise RuntimeError(f"a process of the pool ended: {reason}")
        if self.waiting:
            self._start()
        return self.lost(unit, status, reason, spent)

    def _stop(self, worker: _Process) -> None:
        self.live.remove(worker)
        worker.pipe.close()
        worker.process.kill()
        worker.process.join()

    def end(self) -> None:
        for worker in list(self.live):
            self._stop(worker)


def serve(pipe: Connection, device: str, data: str | None) -> None:
    """A worker's life: take a unit, say so, run it, send its record, until there are no more."""
    die_with_the_parent()
    import torch

    from djgnn.bench.runner import Runner

    torch.set_num_threads(1)
    try:
        runner = Runner(device, data)
        while (unit := pipe.recv()) is not None:
            pipe.send(BEGUN)
            pipe.send(runner.run(*unit))
    except (EOFError, KeyboardInterrupt):
        return
    except BaseException as error:
        pipe.send(error if isinstance(error, Exception) else RuntimeError(repr(error)))


def die_with_the_parent() -> None:
    """End this process as soon as its parent is gone, however it went."""
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _killed(process: Any) -> tuple[str, str]:
    """What it means that a process ended without an answer."""
    process.join(5)
    code = process.exitcode
    if code is not None and code < 0:
        return "out of memory", f"killed by signal {-code}, most likely for its memory"
    return "failed", f"the process ended with status {code}"
