"""One progress bar over all stages of `djgnn fit`, with a time left that learns from the run."""

import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

from djgnn.cli.phase_costs import Phases
from djgnn.cli.terminal import escape
from djgnn.model.config import PLAIN_NAMES
from djgnn.model.experts import kind_of
from djgnn.training.experts import ALWAYS
from djgnn.training.progress import EpochRecord, OnEpoch

COST = {
    "features": 0.6,
    "hops": 1.6,
    "mix": 1.9,
    "diffusion": 2.2,
    "deep": 7.0,
    "jumps": 5.0,
    "joint": 6.5,
}
"""Time of networks as multiples of that of the others, roughly; the mean over five own graphs."""
AHEAD, BEHIND = 0.5, 0.05
"""Chance that the other folds train a network, too: one that is ahead of the plain experts in the
first fold, and any other."""
LEAST_SEEN = 2
"""Networks that must have ended before anything is said about those to come."""
AFTER, LEAST_AFTER, TREES = 0.04, 3.0, 0.2
"""What comes after the training: a share of it, seconds, and of the time of boosting the share that
trees on features alone take, which the verdict compares with."""


class Estimate:
    """Seconds that a training will take, from the members of the mixture that have ended.

    Members of the same kind take the same time in every fold. In the first fold those to come are
    taken to be slower or faster than those that have ended as ``COST`` says; which of them the
    other folds train is known after it.

    Args:
        names: All members in order, those of the first fold first; one empty name for one network.
        folds: How many folds there are.
    """

    def __init__(self, names: Sequence[str], folds: int = 1) -> None:
        self.names, self.first = list(names), set(names[: len(names) // folds])
        self.took: dict[str, float] = {}
        self.least: dict[str, float] = {}
        self.current, self.done, self.epochs = self.names[0], 0, 1
        self.began, self.last = 0.0, 0.0

    def saw(self, name: str, epoch: int, epochs: int, now: float, loss: float = math.inf) -> None:
        """An epoch of a member has ended, of at most so many, `now` seconds after the start.

        `loss` is that of the validation nodes.
        """
        kind = kind_of(name)
        self.least[kind] = min(loss, self.least.get(kind, math.inf))
        if name != self.current and name in self.names:
            self.took[self.current] = self.last - self.began
            self.current, self.began = name, self.last
        self.done, self.epochs, self.last = epoch + 1, epochs, now

    def plan(self, names: Sequence[str]) -> None:
        """Which members are trained; of other folds than the first this is known after it."""
        self.names = [name for name in self.names if name in names or name == self.current]
        if self.last:
            self.first = set(self.names)

    def left(self, now: float) -> float | None:
        """Seconds left at a time; ``None`` as long as too little is known."""
        place = self.names.index(self.current)
        spent = now - self.began
        longest = spent * max(0, self.epochs - self.done) / max(1, self.done)
        if len(self.names) == 1:
            return longest
        kinds: dict[str, list[float]] = {}
        for name, seconds in self.took.items():
            kinds.setdefault(kind_of(name), []).append(seconds)
        usual = {kind: sum(each) / len(each) for kind, each in kinds.items()}
        seen = [kind for kind in usual if kind not in PLAIN_NAMES]
        if len(seen) < min(LEAST_SEEN, len({kind_of(n) for n in self.names} - {*PLAIN_NAMES})):
            return None
        unit = sum(usual[kind] for kind in seen) / max(
            sum(COST.get(kind, 1.0) for kind in seen), 1e-9
        )

        def expected(name: str) -> float:
            kind = kind_of(name)
            return usual.get(kind, unit * COST.get(kind, 1.0))

        total = min(longest, max(expected(self.current) - spent, 0.1 * spent))
        return total + sum(expected(n) * self._chance(n) for n in self.names[place + 1 :])

    def _chance(self, name: str) -> float:
        """That a member is trained at all."""
        kind = kind_of(name)
        if name in self.first or kind in ALWAYS:
            return 1.0
        plain = min((self.least[k] for k in ALWAYS if k in self.least), default=math.inf)
        return AHEAD if self.least.get(kind, math.inf) < plain else BEHIND

    def after(self, training: float) -> float:
        """Seconds that calibration, predictions and page take after a training of so many."""
        trees = [s for name, s in self.took.items() if kind_of(name) == "boosting"]
        members = sum(kind_of(name) == "boosting" for name in self.names)
        boosting = members * sum(trees) / max(len(trees), 1)
        return max(LEAST_AFTER, AFTER * training + TREES * boosting)


class _Left(ProgressColumn):
    """The time left, in words."""

    def __init__(self, left: Callable[[], float | None]) -> None:
        super().__init__()
        self.left = left

    def render(self, task: Task) -> Text:
        return Text(in_words(self.left()), style="progress.remaining")


def in_words(seconds: float | None) -> str:
    """A time left, no more exact than it is known.

    Example:
        >>> [in_words(s) for s in (None, 4.0, 43.0, 150.0, 5000.0)]
        ['', 'a few seconds left', 'about 45 s left', 'about 2.5 min left', 'about 83 min left']
    """
    if seconds is None:
        return ""
    if seconds < 8:
        return "a few seconds left"
    if seconds < 100:
        return f"about {5 * round(seconds / 5)} s left"
    minutes = seconds / 60
    return f"about {round(2 * minutes) / 2 if minutes < 10 else round(minutes):g} min left"


class Stages:
    """What the bar shows: the stage, how much is done, the time gone and the time left.

    Args:
        bar: With one task to be added.
        clock: Seconds.

    Attributes:
        phases: What each stage took so far.
    """

    def __init__(self, bar: Progress, clock: Callable[[], float] = time.monotonic) -> None:
        self.bar, self.clock, self.phases = bar, clock, Phases(clock)
        self.start, self.trained, self.share = clock(), 0.0, 0.0
        self.estimate: Estimate | None = None
        self.end: float | None = None
        self.task = bar.add_task("", total=None)

    def stage(self, name: str) -> None:
        """Another stage has begun."""
        now = self.clock()
        if self.estimate is not None:  # the training is over
            self.end = now + self.estimate.after(now - self.trained)
            self.estimate = None
        self.phases.begin(name)
        self._show(name)

    def training(
        self, title: str, names: Sequence[str], folds: int, after: Callable[[int], None]
    ) -> tuple[OnEpoch, Callable[[Sequence[str]], None]]:
        """The callbacks of a training: of its epochs, and of its plan after the first fold.

        `after` is called with the number of every epoch, too.
        """
        self.phases.begin("training")
        self.trained = self.clock()
        estimate = self.estimate = Estimate(names, folds)

        def report(total: int, record: EpochRecord) -> None:
            spent, loss = self.clock() - self.trained, record.validation_loss
            estimate.saw(record.expert, record.epoch, total, spent, loss)
            who = f"training {kind_of(record.expert)}" if record.expert else "training"
            self._show(f"{title}, {who}: validation {record.validation:.1f}")
            after(record.epoch)

        return report, estimate.plan

    def left(self) -> float | None:
        """Seconds until all is done, if that is known."""
        now = self.clock()
        if self.estimate is None:
            return None if self.end is None else max(0.0, self.end - now)
        spent = now - self.trained
        found = self.estimate.left(spent)
        return None if found is None else found + self.estimate.after(spent + found)

    def _show(self, name: str) -> None:
        left, gone = self.left(), self.clock() - self.start
        if left is not None:  # the bar never moves backwards
            self.share = max(self.share, gone / max(gone + left, 1e-9))
        total = 1.0 if self.share else None
        self.bar.update(self.task, description=escape(name), total=total, completed=self.share)


@contextmanager
def stages(quiet: bool = False) -> Iterator[Stages]:
    """The bar on standard error, off if `quiet` or if that is not a terminal.

    An exception has the name of the stage as its note.
    """
    console, held = Console(stderr=True), list[Stages]()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        _Left(lambda: held[0].left() if held else None),
    )
    with Progress(
        *columns,
        console=console,
        transient=True,
        disable=quiet or not console.is_terminal,
        redirect_stdout=sys.stdout.isatty(),  # a pipe gets what is printed, not the terminal
    ) as bar:
        held.append(Stages(bar))
        phases = held[0].phases
        with phases.watched():
            try:
                yield held[0]
            except BaseException as error:
                error.add_note(phases.name)
                raise
