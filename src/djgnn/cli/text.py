"""Text on its way to a terminal: names from outside are shown, never obeyed."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from rich import markup
from rich.console import Console

from djgnn.errors import DJGNNWarning

# A control character is shown by its picture (U+2400 and on), those from U+0080 by a diamond.
_PICTURES = {
    **{code: 0x2400 + code for code in range(0x20)},
    0x7F: 0x2421,
    **dict.fromkeys(range(0x80, 0xA0), 0xFFFD),
    **dict.fromkeys(range(0xD800, 0xE000), 0xFFFD),
}
UNLIMITED = 1_000_000


def printable(text: str) -> str:
    """Text without control characters, which could move the cursor, colour or rename a window.

    Example:
        >>> printable("a\\x1b[31mb")
        'a␛[31mb'
    """
    return text.translate(_PICTURES)


def escape(text: str) -> str:
    """Text for `rich`: no control character, and its square brackets are no markup.

    Example:
        >>> escape("[red]\\x07")
        '\\\\[red]␇'
    """
    return markup.escape(printable(text))


def warn(text: str) -> None:
    """A word beside the output."""
    print("warning:", printable(text), file=sys.stderr)


@contextmanager
def spoken_once() -> Iterator[None]:
    """Print the warnings of this package in one line each, and none twice."""
    said: set[str] = set()
    with warnings.catch_warnings():
        usual = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            text = " ".join(str(message).splitlines())
            if not issubclass(category, DJGNNWarning):
                usual(message, category, filename, lineno, file, line)
            elif text not in said:
                said.add(text)
                warn(text)

        warnings.simplefilter("always", DJGNNWarning)
        warnings.showwarning = show
        yield


def wide_console() -> Console:
    """Standard output as wide as its terminal, and as wide as it takes in a file or a pipe."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else UNLIMITED)
