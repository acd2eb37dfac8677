"""The small vocabulary of what can go wrong: one error for bad input, one warning per cause."""

import sys
from collections.abc import Sequence
from typing import Any

MOST_LISTED = 20
NO_MEMORY = (
    "out of memory",
    "not enough memory",
    "can't allocate memory",
    "cannot allocate memory",
    "bad_alloc",
)

# A control character is shown by its picture (U+2400 and on), those from U+0080 by a diamond.
_PICTURES = {
    **{code: 0x2400 + code for code in range(0x20)},
    0x7F: 0x2421,
    **dict.fromkeys(range(0x80, 0xA0), 0xFFFD),
    **dict.fromkeys(range(0xD800, 0xE000), 0xFFFD),
}


def printable(text: str) -> str:
    """Text without control characters, which could move the cursor, colour or rename a window.

    Example:
        >>> printable("a\\x1b[31mb")
        'a␛[31mb'
    """
    return text.translate(_PICTURES)


def is_memory(error: BaseException) -> bool:
    """Whether memory could not be had, on the CPU or a GPU.

    Example:
        >>> is_memory(MemoryError()), is_memory(OSError(12, "Cannot allocate memory"))
        (True, True)
    """
    of_gpu = getattr(sys.modules.get("torch"), "OutOfMemoryError", MemoryError)
    said = str(error).lower()
    return isinstance(error, MemoryError | of_gpu) or any(words in said for words in NO_MEMORY)


class InputError(ValueError):
    """What came in cannot be used. The message says what, where and how to correct it.

    Example:
        >>> from djgnn import Graph
        >>> Graph([[0, 1], [1, 5]], 3)
        Traceback (most recent call last):
        djgnn.errors.InputError: edge_index[1, 1]: ...
    """


class TableError(InputError):
    """Tables have several problems; all of them are listed, each with its remedy."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        lines = [f"  {number}. {text}" for number, text in enumerate(problems[:MOST_LISTED], 1)]
        more = len(problems) - MOST_LISTED
        lines += [f"  and {more} more"] if more > 0 else []
        super().__init__("\n".join([f"{len(problems)} problems:", *lines]))

    def __reduce__(self) -> tuple[Any, ...]:
        return TableError, (self.problems,)


class OutputError(OSError):
    """The place for results cannot be written or has no space left."""


class DataNotFoundError(InputError):
    """A data set is neither on this machine nor could it be downloaded."""


class ProcessLostError(RuntimeError):
    """Another process of the same run has ended, or never connected."""


class DJGNNWarning(UserWarning):
    """Base of every warning of this package."""


class DeprecatedWarning(DJGNNWarning, DeprecationWarning):
    """Something stable will go away in the next major version; the text names what to use instead.

    Example:
        >>> issubclass(DeprecatedWarning, DeprecationWarning)
        True
    """


class NotConvergedWarning(DJGNNWarning):
    """An iteration stopped at its limit before it reached its tolerance."""


class DisconnectedWarning(DJGNNWarning):
    """The graph has several components and the result covers the largest only."""


class DamagedRecordWarning(DJGNNWarning):
    """A file in a folder of results is not what its name says, and is not used."""


class DoubtfulLabelWarning(DJGNNWarning):
    """Labels may be meant otherwise: two classes look alike, or a word may be one or unknown."""


class UnseenCategoryWarning(DJGNNWarning):
    """A new node has a category that no node had in training."""


class GiveawayWarning(DJGNNWarning):
    """A feature column alone gives the label away, or is there for labelled nodes only."""


class ReadingWarning(DJGNNWarning):
    """A part of a table was left out, or was read otherwise than it is written."""
