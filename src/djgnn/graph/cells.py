"""Cells of tables as people write them: gaps, numbers, dates; and what is wrong with them."""

import re
from collections.abc import Callable, Collection
from typing import Any, ParamSpec, TypeVar

import numpy as np
import polars as pl

from djgnn.errors import InputError, TableError

P = ParamSpec("P")
R = TypeVar("R")

# Words for a missing value, in small letters; the others only in a column of numbers.
GAPS = frozenset(("", "\\n", "na", "n/a", "#n/a", "#na", "<na>", "nan", "-nan", "null", "none"))
NUMBER_GAPS = GAPS | {"?", "-", ".", "--", "unknown", "missing", "n.a.", "inf", "-inf", "+inf"}
NUMBER_GAPS |= {"infinity", "-infinity", "#div/0!", "#value!", "#ref!", "#num!"}
THOUSANDS = r"^[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d+)?$"
COMMA = r"^[+-]?\d{1,3}(\.?\d{3})*,\d+$|^[+-]?\d+,\d+$"
DATES = (
    "%Y-%m-%d",
    "%Y-%m-%d %H:%M:%S%.f",
    "%Y-%m-%d %H:%M",
    "%Y/%m/%d",
    "%Y/%m/%d %H:%M:%S",
    "%Y/%m/%d %H:%M",
    "%d.%m.%Y",
    "%d.%m.%Y %H:%M:%S",
    "%d.%m.%Y %H:%M",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%d/%m/%Y %H:%M:%S",
    "%m/%d/%Y %H:%M:%S",
    "%d/%m/%Y %H:%M",
    "%m/%d/%Y %H:%M",
    "%d-%m-%Y",
    "%m-%d-%Y",
    "%d %b %Y",
    "%d %B %Y",
    "%b %d, %Y",
    "%B %d, %Y",
    "%d-%b-%Y",
)
UNIX = {"seconds since 1970": 1.0, "milliseconds since 1970": 1000.0}
DAY = "YYYYMMDD"
SECONDS = 86400.0


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


def parse_numbers(column: pl.Series) -> pl.Series:
    """The cells as float64, missing where they are not finite numbers.

    ``1,234.5`` has marks of thousands, ``3,5`` a decimal comma (if all cells with a comma could be
    either, they are thousands); a currency or percent sign is left out.

    Example:
        >>> parse_numbers(pl.Series(["$1,200", "30%", "x"])).to_list()
        [1200.0, 30.0, None]
        >>> parse_numbers(pl.Series(["1,5", "1.234,25", "7"])).to_list()
        [1.5, 1234.25, 7.0]
    """
    if column.dtype != pl.String:
        numbers = column.cast(pl.Float64, strict=False)
        return numbers.set(~numbers.is_finite().fill_null(False), None)
    text = blank(column, NUMBER_GAPS)
    numbers = text.cast(pl.Float64, strict=False)
    if numbers.null_count() > text.null_count():
        text = text.str.replace(r"^([+-]?)[$€£]\s*", "${1}").str.replace(r"\s*[%€]$", "")
        commas = text.filter(text.str.contains(",", literal=True).fill_null(False))
        if len(commas) and bool(commas.str.contains(THOUSANDS).all()):
            text = text.str.replace_all(",", "", literal=True)
        elif len(commas):
            held = text.str.contains(COMMA).fill_null(False)
            plain = text.str.replace_all(".", "", literal=True).str.replace(",", ".", literal=True)
            text = plain.zip_with(held, text)
        numbers = text.cast(pl.Float64, strict=False)
    return numbers.set(~numbers.is_finite().fill_null(False), None)


def not_numbers(column: pl.Series, numbers: pl.Series) -> pl.Series:
    """Which cells are neither a number nor missing, given what :func:`parse_numbers` found."""
    if column.dtype != pl.String:
        return pl.repeat(False, len(column), eager=True)
    return numbers.is_null() & blank(column, NUMBER_GAPS).is_not_null()


def parse_dates(column: pl.Series, form: str) -> pl.Series:
    """Days since 1970 as float64, missing where a cell is not of the form.

    Args:
        column: Text, numbers, or dates of a typed table.
        form: One of ``DATES`` or ``UNIX``, ``DAY``, or ``typed``.

    Example:
        >>> parse_dates(pl.Series(["1970-01-02", "?"]), "%Y-%m-%d").to_list()
        [1.0, None]
        >>> parse_dates(pl.Series(["1970-01-02T12:00:00Z"]), "%Y-%m-%d %H:%M:%S%.f").to_list()
        [1.5]
    """
    if column.dtype.is_temporal():
        moments = column.cast(pl.Datetime("us"), strict=False)
    elif form in UNIX:
        return parse_numbers(column) / (SECONDS * UNIX[form])
    else:
        text = blank(column.cast(pl.String)).str.replace(r"^(\d{4}-\d\d)$", "${1}-01")
        text = text.str.replace(r"(\d)[T ](\d.*?)\s*(Z|UTC|[+-]\d\d:?\d\d)?$", "${1} ${2}")
        form = "%Y%m%d" if form in (DAY, "typed") else form
        if "%H" in form:
            moments = text.str.to_datetime(form, strict=False, time_unit="us")
        else:
            moments = text.str.to_date(form, strict=False).cast(pl.Datetime("us"))
    return moments.to_physical().cast(pl.Float64) / (1e6 * SECONDS)


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
