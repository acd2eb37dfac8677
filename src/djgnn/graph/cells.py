"""Cells of tables as people write them: gaps, and what is wrong with cells."""

import re
from collections.abc import Callable, Collection
from typing import Any, ParamSpec, TypeVar

import numpy as np
import polars as pl

from djgnn.errors import InputError, TableError

P = ParamSpec("P")
R = TypeVar("R")

# Words for a missing value, in small letters.
GAPS = frozenset(("", "\\n", "na", "n/a", "#n/a", "#na", "<na>", "nan", "-nan", "null", "none"))


def blank(text: pl.Series, gaps: Collection[str] = GAPS) -> pl.Series:
    """Text without spaces around it; missing where it is a word for that.

    Args:
        text: The cells.
        gaps: The words, in small letters.

    Example:
        >>> blank(pl.Series([" a", "N/A", "\\\\N", "0"])).to_list()
        ['a', None, None, '0']
    """
    text = text.str.strip_chars()
    return text.set(text.str.to_lowercase().is_in(list(gaps)), None)


def check_rows(
    where: str, column: pl.Series, bad: Any, problem: str, empty: str | None = None
) -> None:
    """Raise an error at the first bad row, if there is one; rows count from 1 below the header.

    Args:
        where: The file, for the message.
        column: The cells.
        bad: Whether a cell is wrong.
        problem: What is wrong, and the remedy.
        empty: The same for a cell without content.

    Raises:
        InputError: With file, row, column and cell.
    """
    if not bad.any():
        return
    row = int(np.argmax(np.asarray(bad)))
    cell = column[row]
    if empty is not None and not str("" if cell is None else cell).strip():
        problem = empty
    if "number" in problem and isinstance(cell, str) and re.search(r"^-?\d+,\d+$", cell.strip()):
        problem += "; write a decimal point, not a comma"
    got = repr(cell[:80] if isinstance(cell, str) else cell)
    raise InputError(f"{where}: row {row + 1}, column {column.name[:80]!r}: {problem} (got {got})")


class Problems:
    """Collects what is wrong, so that all of it is said at once.

    Example:
        >>> problems = Problems()
        >>> problems.attempt(check_rows, "n.csv", pl.Series("z", [1]), np.array([True]), "is odd")
        >>> problems.stop()
        Traceback (most recent call last):
        djgnn.errors.InputError: n.csv: row 1, column 'z': is odd (got 1)
    """

    def __init__(self) -> None:
        self.found: list[str] = []

    def attempt(self, work: Callable[P, R], *args: P.args, **options: P.kwargs) -> R | None:
        """What `work` returns; ``None``, and its complaints kept, if the input is wrong."""
        try:
            return work(*args, **options)
        except TableError as error:
            self.found += error.problems
        except InputError as error:
            self.found.append(str(error))
        return None

    def stop(self) -> None:
        """Raise an error with everything that was found, if anything was.

        Raises:
            InputError: The problem; a `TableError` if there are several.
        """
        found = list(dict.fromkeys(self.found))
        if len(found) == 1:
            raise InputError(found[0])
        if found:
            raise TableError(found)
