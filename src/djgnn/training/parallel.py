"""Several trainings at once on idle cores, with the same results as one after the other."""

import dataclasses
import queue
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

import torch

from djgnn.training.loop import Fitted
from djgnn.training.progress import EpochRecord, Hooks

Job = Callable[[Hooks], Fitted]
Aside = Callable[[Callable[[], bool]], None]
"""Work that is given what tells whether to stop."""


def in_turn(
    jobs: Sequence[tuple[Job, Hooks]],
    ahead: Sequence[bool],
    lanes: int,
    threads: int = 0,
    places: Sequence[float] | None = None,
    aside: Aside | None = None,
    second: Sequence[bool] | None = None,
) -> "Generator[Lane | Callable[[], Fitted]]":
    """Start trainings in order, so many at a time, and give a function for each that awaits it.

    While a caller waits for a result, its epochs are reported in the caller's thread. Trainings
    whose results were not requested are stopped when the iterator is closed.

    Args:
        jobs: What is trained, each with its hooks.
        ahead: Which of them are started at once; the others begin when their result is asked for.
        lanes: How many at a time.
        threads: That libraries have in each of them beside a GPU, where each has a stream of its
            own; 0 without one.
        places: By which those are started, the least first; by default in order.
        aside: Done in a second lane beside a GPU, and waited for.
        second: Which of those that are started at once are before it in that lane, which has a
            third as many threads; by default none.
    """
    over, second = threading.Event(), second or [False] * len(jobs)
    few = max(1, threads // 3) if threads else 0
    with (
        ThreadPoolExecutor(lanes, initializer=_with_threads, initargs=(threads,)) as pool,
        ThreadPoolExecutor(1, initializer=_with_threads, initargs=(few,)) as further,
    ):
        try:
            order = [i for i, at_once in enumerate(ahead) if at_once]
            order.sort(key=lambda i: i if places is None else places[i])
            begun = {i: Lane(further if second[i] else pool, *jobs[i], over) for i in order}
            last = None
            if aside is not None and threads and begun:
                last = further.submit(_run_aside, aside, over.is_set)
            waiting = (partial(job, hooks) for job, hooks in jobs)
            yield from [begun.get(i, later) for i, later in enumerate(waiting)]
            if last is not None:
                last.result()
        finally:
            over.set()
            for each in (pool, further):
                each.shutdown(cancel_futures=True)


class Lane:
    """A training in a thread of its own, whose epochs are reported in another: that of who calls it
    to wait for what was trained."""

    def __init__(
        self, pool: ThreadPoolExecutor, job: Job, hooks: Hooks, over: threading.Event
    ) -> None:
        self.hooks, self.job, self.over = hooks, job, over
        self.heard: queue.SimpleQueue[tuple[int, EpochRecord] | None] = queue.SimpleQueue()
        self.future = pool.submit(self._run)
        # However it ends, also where the lane itself could not be opened.
        self.future.add_done_callback(lambda _: self.heard.put(None))

    def _run(self) -> Fitted:
        stop, hooks = self.hooks.stop, self.hooks
        own = dataclasses.replace(
            hooks,
            on_epoch=lambda epochs, record: self.heard.put((epochs, record)),
            stop=lambda: self.over.is_set() or (stop is not None and stop()),
        )
        with _in_step():
            return self.job(own)

    @property
    def ended(self) -> bool:
        """Whether nobody has to wait."""
        return self.future.done()

    def __call__(self) -> Fitted:
        """What was trained, once it has ended."""
        while (heard := self.heard.get()) is not None:
            if self.hooks.on_epoch is not None:
                self.hooks.on_epoch(*heard)
        return self.future.result()


def _run_aside(work: Aside, stop: Callable[[], bool]) -> None:
    with _in_step():
        work(stop)


@contextmanager
def _in_step() -> Iterator[None]:
    """On a GPU: wait for the default stream first, and for its own at the end."""
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        yield
        return
    own = torch.cuda.current_stream()
    own.wait_stream(torch.cuda.default_stream())
    try:
        yield
    finally:
        own.synchronize()


def _with_threads(number: int) -> None:
    """Limit libraries, which count threads for every thread separately."""
    from threadpoolctl import threadpool_limits

    torch.set_num_threads(number or 1)
    threadpool_limits(number or 1)
    if number and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        # Its work must not wait for that of the networks.
        torch.cuda.set_stream(torch.cuda.Stream(priority=-1))  # type: ignore[no-untyped-call]
