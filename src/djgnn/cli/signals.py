"""Ctrl-C and SIGTERM during training: finish the epoch, keep what there is."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

STOPPED = 130


@contextmanager
def stoppable(silent: bool = False) -> Iterator[Callable[[], bool]]:
    """Give a function that says whether the user wants to stop.

    The first signal asks politely; the second raises `KeyboardInterrupt` at once.

    Args:
        silent: Say nothing; another process does.
    """
    asked = False

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        if not silent:
            print("stopping after this epoch; once more stops at once", file=sys.stderr)

    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            before[number] = signal.signal(number, ask)
    try:
        yield lambda: asked
    finally:
        for held, handler in before.items():
            signal.signal(held, handler)
