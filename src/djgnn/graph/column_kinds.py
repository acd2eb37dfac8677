"""Which kind a column of a node table is, found in its cells, never in labels."""

import re
import warnings
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from djgnn.errors import GiveawayWarning, ReadingWarning
from djgnn.graph.cells import Problems, blank
from djgnn.graph.column_fits import (
    MOST_LEVELS,
    fit_category,
    fit_date,
    fit_days,
    fit_number,
    fit_text,
    skew,
)
from djgnn.graph.date_cells import DATES, DAY, UNIX, date_form, parse_dates
from djgnn.graph.encoders import FALSE, TRUE, Block, Dropped, Encoder, Raw, Truth
from djgnn.graph.number_cells import (
    POINT,
    Spelling,
    Usual,
    check_numbers,
    find_decimal,
    may_be_thousands,
    not_numbers,
    plain_decimal,
    read_numbers,
    usual_decimal,
)
from djgnn.graph.table_columns import there_for_labelled

KINDS = ("number", "category", "text", "date", "truth", "raw", "drop")
SAID = {*KINDS, "number:.", "number:,", *(f"date:{form}" for form in DATES)}
FEW_ROWS = 20  # fewer say nothing about whether a column is an id
ALL_DIFFERENT = 0.95
BLOCK_COLUMNS = 256
MEASURED = r"^[^\w]*([1-9]|0[.,])[\d.,'\s]*[^\d\s]{0,6}$"
ALONE = "write that alone, or one unit in all cells, to use it"
CODE = r"^\s*0\d"  # 00501 is not a number but a code
ID_NAME = re.compile(r"(^|[_\s\-])(id|uid|uuid|guid|key|index|idx|nr|no|number|pk|hash)$|^unnamed")
ID_CAMEL = re.compile(r"[a-z](ID|Id|Key|Index)$")
TIME_NAME = re.compile(r"date|time|stamp|since|created|updated|joined|_at$|^seen|_on$")


def read_columns(
    where: str,
    frame: pl.DataFrame,
    told: Mapping[str, str],
    known: Sequence[Encoder] | None,
    semicolons: bool = False,
    labelled: NDArray[np.bool_] | None = None,
) -> tuple[list[Block], list[Encoder]]:
    """The features of every column, and what was learned.

    Args:
        where: The file, for messages.
        frame: The feature columns.
        told: Kinds by name or pattern (``f*``), as the user said.
        known: Encoders of an earlier table in the order of the columns; learned by default.
        semicolons: Whether they separate the cells of the file, as where a comma is decimal.
        labelled: Which nodes have a label, if any can: a column that is there for these alone is
            left out unless its kind was said.

    Raises:
        InputError: With everything that is wrong in any column.
    """
    problems, blocks, encoders = Problems(), [], []
    for name in (name for name, kind in told.items() if kind not in SAID):
        problems.found.append(
            f"{where}: column {name!r} must be one of {', '.join(KINDS)}, or like number:, and "
            f"date:{DATES[0]}; change `columns=` (got {told[name]!r})"
        )
    problems.stop()
    usual = usual_decimal(frame, semicolons) if known is None else POINT
    for start in range(0, frame.width, BLOCK_COLUMNS):
        part = frame[:, start : start + BLOCK_COLUMNS]
        numbers = _plain_numbers(part)
        for place, column in enumerate(part.get_columns()):
            encoder: Encoder | None
            if known is None:
                kind = kind_said(column.name, told)
                encoder = problems.attempt(learn, where, column, numbers[place], kind, usual)
                if encoder and encoder.names() and kind is None and labelled is not None:
                    useless = there_for_labelled(column, labelled)
                    encoder = _left_out(where, encoder) if useless else encoder
            else:
                encoder = known[start + place]
            if encoder is None:
                continue
            block = problems.attempt(encoder.encode, where, column, numbers[place])
            if block is not None:
                blocks.append(block)
                encoders.append(encoder)
    problems.stop()
    return blocks, encoders


def kind_said(name: str, told: Mapping[str, str]) -> str | None:
    """The kind that was given for a column, by its name or else by a pattern.

    Example:
        >>> kind_said("f1", {"f*": "raw"}), kind_said("*", {"*": "drop"}), kind_said("g", {})
        ('raw', 'drop', None)
    """
    if name in told:
        return told[name]
    return next((kind for pattern, kind in told.items() if fnmatchcase(name, pattern)), None)


def _left_out(where: str, encoder: Encoder) -> Dropped:
    """Leave out a column that is there for labelled nodes alone, with a warning."""
    name, kind = encoder.name, encoder.__struct_config__.tag
    warnings.warn(
        f"{where}: column {name!r} is left out: nodes without a label have no value in it, or all "
        "the same, so that it cannot help to predict them but may flatter every score; keep it "
        f"with `columns=` {name}={kind}",
        GiveawayWarning,
        stacklevel=5,
    )
    return Dropped(name=name, why="nodes without a label have no value, or all the same")


def _plain_numbers(frame: pl.DataFrame) -> list[NDArray[np.float64] | None]:
    """Every column that holds nothing but finite numbers, all in one pass; else ``None``."""
    kept = {
        str(place): column
        for place, column in enumerate(frame.get_columns())
        if column.dtype.is_numeric() or column.dtype in (pl.String, pl.Boolean)
    }
    if not kept:
        return [None] * frame.width
    plain = pl.DataFrame([column.alias(place) for place, column in kept.items()])
    numbers = plain.select(pl.all().cast(pl.Float64, strict=False))
    good = numbers.select(pl.all().is_finite().fill_null(False).all()).row(0, named=True)
    codes = plain.select(pl.col(pl.String).str.contains(CODE).any())
    good |= {
        place: False
        for place, coded in zip(codes.columns, codes.row(0) if codes.width else (), strict=True)
        if coded
    }
    return [numbers[p].to_numpy() if good.get(p) else None for p in map(str, range(frame.width))]


def learn(
    where: str,
    column: pl.Series,
    numbers: NDArray[np.float64] | None,
    kind: str | None,
    usual: Usual,
) -> Encoder:
    """Detect the kind of a column, unless it was given, and learn what its encoder needs.

    Args:
        where: The file, for messages.
        column: The cells.
        numbers: The same, if every cell is a finite number.
        kind: One of ``SAID``.
        usual: The decimal mark of the file.

    Raises:
        InputError: If the cells do not fit the kind, or are a mixture of numbers and text.
    """
    name = column.name
    kind, _, detail = kind.partition(":") if kind else (None, "", "")
    if kind == "drop":
        return Dropped(name=name, why="as requested")
    if numbers is not None and kind in (None, "raw"):
        settled = plain_decimal(column, numbers)
        spelled = Spelling(find_decimal(column, usual) if settled is None else settled)
        if spelled.decimal != ",":
            if kind == "raw":
                return Raw(name=name, spelled=spelled)
            if settled is None:
                _warn_of_marks(where, column, spelled, usual)
            return _of_numbers(name, numbers, 0, spelled)
    if column.dtype.is_temporal() and kind in (None, "date"):
        return fit_date(where, column, "typed")
    text = blank(column.cast(pl.String))
    missing = text.null_count()
    if kind == "raw":
        found, spelled = read_numbers(column, None, usual)
        odd = bool(not_numbers(column, found).all())
        return fit_category(name, text, missing) if odd else Raw(name=name, spelled=spelled)
    if missing == len(text):
        return Dropped(name=name, why="empty")
    if kind is None and text.n_unique() == 1:
        return Dropped(name=name, why="the same in every row")
    if kind in (None, "truth"):
        words = set(text.str.to_lowercase().unique().drop_nulls())
        if kind or (words <= {*TRUE, *FALSE} and words & {*TRUE} and words & {*FALSE}):
            return Truth(name=name, missing=missing)
    form = _found_form(where, text) if kind in (None, "date") and not detail else None
    if kind == "number" or (kind is None and not form and not text.str.contains(CODE).any()):
        encoder = _written_numbers(where, column, kind, detail, usual)
        if encoder is not None:
            return encoder
    if form or kind == "date":
        return fit_date(where, column, detail or form or DATES[0])
    if kind is None:
        kind = _kind_of_text(text.drop_nulls())
    if kind == "id":
        measured = float(text.str.contains(MEASURED).mean() or 0) > 0.5  # type: ignore[arg-type]
        what = f"most begin with a number; {ALONE}" if measured else "like an id"
        return Dropped(name=name, why=f"nearly all different, {what}")
    return fit_text(column, missing) if kind == "text" else fit_category(name, text, missing)


def _found_form(where: str, text: pl.Series) -> str | None:
    """The form of dates, if these are any, with a warning if day and month could be exchanged."""
    form, other = date_form(text)
    if other:
        warnings.warn(
            f"{where}: column {text.name!r}: every date can be read as {form} and as {other}, the "
            f"first is taken; if that is wrong, say so with `columns=` '{text.name}=date:{other}'",
            ReadingWarning,
            stacklevel=5,
        )
    return form


def _written_numbers(
    where: str, column: pl.Series, kind: str | None, decimal: str, usual: Usual
) -> Encoder | None:
    """What is learned of a column that is said to hold numbers, or mostly does; else ``None``.

    Raises:
        InputError: If some of its cells are not numbers, or written with another decimal mark.
    """
    found, spelled = read_numbers(column, None, usual)
    if decimal:
        spelled = Spelling("," if decimal == "," else ".", spelled.unit)
        found = read_numbers(column, spelled)[0]
    odd = int(not_numbers(column, found).sum())
    if not kind and found.count() <= odd:
        return None
    name = column.name
    remedy = f"correct it, or say what the column is with `columns=`, such as '{name}=category'"
    problem = f"is not a number{spelled}, as most of the column is; {remedy}"
    check_numbers(where, column, found, problem)
    if not decimal:
        _warn_of_marks(where, column.filter(found.is_not_null()), spelled, usual)
    values, missing = found.drop_nulls().to_numpy(), found.null_count()
    encoder = None if kind else _of_numbers(name, values, missing, spelled)
    if encoder is None or isinstance(encoder, Truth):  # it does not know these spellings
        return fit_number(name, values, missing, spelled)
    return encoder


def _warn_of_marks(where: str, column: pl.Series, spelled: Spelling, usual: Usual) -> None:
    """Warn if decimals may be thousands, or if only some numbers have a percent sign."""
    if column.dtype != pl.String:
        return
    place, cells, doubts = f"{where}: column {column.name!r}", column.str.strip_chars(), []
    if spelled.decimal and may_be_thousands(cells, spelled.decimal, usual):
        got = cells.filter(cells.str.contains(spelled.decimal, literal=True)).first()
        mark, other = ("point", ",") if spelled.decimal == "." else ("comma", ".")
        doubts.append(
            f"{got!r} and the like are read with a decimal {mark} and may be thousands; if they "
            f"are, say so with `columns=` '{column.name}=number:{other}'"
        )
    percent = cells.str.ends_with("%").sum() if spelled.unit != "%" else 0
    if percent:
        doubts.append(
            f"{percent} of {len(cells)} numbers have a percent sign, which is left out; write all "
            "of them alike"
        )
    for doubt in doubts:
        warnings.warn(f"{place}: {doubt}", ReadingWarning, stacklevel=5)


def _of_numbers(name: str, values: NDArray[np.float64], missing: int, spelled: Spelling) -> Encoder:
    """A column of numbers: truth values, an id, a date, or just numbers."""
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)
    if low == high and not missing:
        return Dropped(name=name, why="the same in every row")
    if low == 0 and high == 1 and bool(np.isin(values, (0, 1)).all()):
        return Truth(name=name, missing=missing)
    if low >= 0 and high > 1e7 and bool((values == np.rint(values)).all()):
        form = _time_form(name, values, low, high)
        if form:
            return fit_days(name, parse_dates(pl.Series(values.astype(np.int64)), form), form)
    if not missing and not spelled.unit and _is_id(name, values, low, high):
        return Dropped(name=name, why="whole numbers, all different, like an id")
    return fit_number(name, values, missing, spelled)


def _is_id(name: str, values: NDArray[np.float64], low: float, high: float) -> bool:
    """Whether numbers look like a second id.

    Whole, all different, and named like an id, or in one row of numbers without large gaps, or many
    and spread evenly, as counts and measures are not.
    """
    rows = values.size
    if rows < FEW_ROWS or bool((values != np.rint(values)).any()) or np.unique(values).size < rows:
        return False
    if ID_NAME.search(name.strip().lower()) or ID_CAMEL.search(name.strip()):
        return True
    if high - low < 1.5 * rows:
        return True
    middle = (float(np.median(values)) - low) / (high - low)
    return rows >= 10 * FEW_ROWS and 0.2 < middle < 0.8 and float(skew(values)) < 1


def _time_form(name: str, values: NDArray[np.float64], low: float, high: float) -> str | None:
    """The form of points in time that are written as whole numbers, if their name says so."""
    if low >= 19000101 and high <= 21001231:
        days = (
            pl.Series(values.astype(np.int64)).cast(pl.String).str.to_date("%Y%m%d", strict=False)
        )
        return DAY if days.null_count() == 0 else None
    if TIME_NAME.search(name.lower()):
        for form, unit in UNIX.items():
            if 1e8 * unit <= low and high <= 5e9 * unit:
                return form
    return None


def _kind_of_text(text: pl.Series) -> Literal["id", "text", "category"]:
    """Free text, an id, or a category, of cells that are all there."""
    rows, different = len(text), text.n_unique()
    spaced = float(text.str.contains(r"\S\s+\S").mean() or 0)  # type: ignore[arg-type]
    long = float(text.str.len_chars().mean() or 0) > 40  # type: ignore[arg-type]
    if rows < FEW_ROWS or different <= MOST_LEVELS // 8 or (2 * different <= rows and not long):
        return "category"
    if spaced > 0.5:
        words = text.head(5000).str.to_lowercase().str.extract_all(r"\w\w+").explode().drop_nulls()
        return "text" if words.n_unique() < 0.8 * len(words) else "id"
    return "id" if different >= ALL_DIFFERENT * rows else "category"
