"""The terminal: names from outside without control characters, progress bars, Ctrl-C."""

from __future__ import annotations

import json
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

from rich import markup
from rich.console import Console
from rich.progress import Progress

from djgnn.errors import DJGNNWarning, printable

if TYPE_CHECKING:
    from djgnn.training.progress import EpochRecord, OnEpoch

UNLIMITED = 1_000_000
STOPPED = 130
Follower = Callable[..., Any]


def escape(text: str) -> str:
    """Text for `rich`: without control characters, square brackets are not read as markup.

    Example:
        >>> escape("[red]\\x07")
        '\\\\[red]␇'
    """
    return markup.escape(printable(text))


def print_json(values: Any, wanted: bool) -> None:
    """Print one JSON object if it is `wanted`; a terminal gets no control characters."""
    if wanted:
        text = json.dumps(values, ensure_ascii=False)
        print(printable(text) if sys.stdout.isatty() else text)


def warn(text: str | None) -> None:
    """Print a warning on standard error, if there is one."""
    if text is not None:
        print("warning:", printable(text), file=sys.stderr)


@contextmanager
def warnings_once(reword: Callable[[str], str] = str) -> Iterator[list[str]]:
    """Print each warning of this package in one line, and only once, as `reword` puts it.

    Gives a list that has them in the end.
    """
    said: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DJGNNWarning)
        try:
            yield said
        finally:
            ours = [w for w in caught if issubclass(w.category, DJGNNWarning)]
            texts = dict.fromkeys(" ".join(str(w.message).splitlines()) for w in ours)
            said += map(reword, texts)
            for text in said:
                warn(text)
    for other in caught:
        if other not in ours:
            warnings.warn_explicit(other.message, other.category, other.filename, other.lineno)


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Print each warning of this package at once, in one line; deprecations are not hidden."""
    with warnings.catch_warnings():
        usual = warnings.showwarning

        def show(message: Any, category: type[Warning], *place: Any, **more: Any) -> None:
            if issubclass(category, DJGNNWarning):
                warn(" ".join(str(message).splitlines()))
            else:
                usual(message, category, *place, **more)

        warnings.simplefilter("once", DJGNNWarning)
        warnings.showwarning = show
        yield


def wide_console() -> Console:
    """Standard output as wide as its terminal; without a limit in a file or a pipe."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else UNLIMITED)


@contextmanager
def epochs(quiet: bool = False) -> Iterator[Follower]:
    """A progress display on standard error, off if `quiet` or if that is not a terminal.

    Gives a function that makes the callback of one training run, called after every epoch, from
    its title and from what else to call, with the number of the epoch.
    """
    console = Console(stderr=True)
    shown = console.is_terminal and not quiet
    with Progress(console=console, transient=True, disable=not shown) as bar:

        def follow(title: str, after: Callable[[int], None] | None = None) -> OnEpoch:
            task = bar.add_task(title, total=None)

            def report(total: int, record: EpochRecord) -> None:
                who = f"{title}, {record.expert}" if record.expert else title
                name = f"{who}: validation {record.validation:.1f}"
                bar.update(task, total=total, completed=record.epoch + 1, description=name)
                if after is not None:
                    after(record.epoch)

            return report

        yield follow


@contextmanager
def stoppable(silent: bool = False) -> Iterator[Callable[[], bool]]:
    """Give a function that says whether the user wants to stop, by Ctrl-C or SIGTERM.

    The first signal asks to stop after the epoch; the second raises `KeyboardInterrupt` at once.

    Args:
        silent: Print nothing; another process does.
    """
    asked = False

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        if not silent:
            print("stopping after this epoch; press Ctrl-C again to stop at once", file=sys.stderr)

    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            before[number] = signal.signal(number, ask)
    try:
        yield lambda: asked
    finally:
        for held, handler in before.items():
            signal.signal(held, handler)
