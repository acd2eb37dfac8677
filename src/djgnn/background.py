"""Work that begins before its result is wanted, while libraries are imported or others compute."""

from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import TypeVar

T = TypeVar("T")


def in_thread(work: Callable[[], T]) -> Callable[[], T]:
    """Begin some work in a thread; a process that ends before does not wait for it.

    Returns:
        What gives its result, or raises what it raised.

    Example:
        >>> wait = in_thread(lambda: 6 * 7)
        >>> wait()
        42
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    Thread(target=run, daemon=True).start()
    return future.result
