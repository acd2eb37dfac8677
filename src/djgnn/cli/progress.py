"""A progress bar over epochs: on a terminal only, on standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from djgnn.training.loop import Follow
    from djgnn.training.progress import EpochRecord


class Epochs:
    """Makes a callback for each training run; silent where nobody watches."""

    def __init__(self, bar: Progress | None) -> None:
        self._bar = bar

    def follow(self, title: str, after: Callable[[int], None] | None = None) -> Follow:
        """A callback for one run, called after every epoch; `after` gets the epoch's number."""
        bar = self._bar
        task = None if bar is None else bar.add_task(title, total=None, score="")

        def report(total: int, record: EpochRecord) -> None:
            if bar is not None and task is not None:
                score = f"validation {record.validation:.1f}"
                bar.update(task, total=total, completed=record.epoch + 1, score=score)
            if after is not None:
                after(record.epoch)

        return report


@contextmanager
def epochs(quiet: bool = False) -> Iterator[Epochs]:
    """A progress display, off if `quiet` or if standard error is no terminal."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield Epochs(None)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
        TextColumn("{task.fields[score]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        yield Epochs(bar)
