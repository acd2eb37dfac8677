"""What each phase of a command takes: seconds, those of the CPU, and peak memory."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from djgnn.training.card import Phase
from djgnn.training.provenance import process_mib

EVERY = 0.05
"""Seconds between two looks at the memory in use."""


class Phases:
    """The phases of a command, one after the other.

    A phase that uses more memory than all before it has the process's own high-water mark, which
    is exact and is left alone, as others read it, too. The others have the most that was seen.

    Args:
        clock: Seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock, self.ended = clock, list["Phase"]()
        self.name, self.began, self.used = "", clock(), time.process_time()
        self.seen, self.before = 0.0, 0.0

    def begin(self, name: str) -> None:
        """Another phase has begun."""
        self.ended = self.records()
        self.name, self.began, self.used = name, self.clock(), time.process_time()
        self.seen, self.before = process_mib("VmRSS"), process_mib("VmHWM")
        gpu = _gpu()
        if gpu is not None:
            gpu.reset_peak_memory_stats()

    def look(self) -> None:
        """See how much memory is in use."""
        self.seen = max(self.seen, process_mib("VmRSS"))

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Look at the memory now and then, in a thread of its own."""
        over = threading.Event()

        def watch() -> None:
            while not over.wait(EVERY):
                self.look()

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def records(self) -> list[Phase]:
        """The phases so far, the present one as far as it is."""
        if not self.name:
            return []
        highest = process_mib("VmHWM")
        peak = highest if highest > self.before else max(self.seen, process_mib("VmRSS"))
        now: Phase = {"name": self.name, "seconds": self.clock() - self.began, "peak_mib": peak}
        now["cpu_seconds"] = time.process_time() - self.used  # of all threads
        gpu = _gpu()
        if gpu is not None:
            now["gpu_peak_mib"] = gpu.max_memory_allocated() / 2**20
        return [*self.ended, now]


def _gpu() -> Any:
    """CUDA, once it is in use."""
    import torch

    cuda: Any = torch.cuda
    return cuda if cuda.is_initialized() else None
