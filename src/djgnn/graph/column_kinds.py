"""Which kind a column of a node table is, found in its cells, never in labels."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from djgnn.errors import GiveawayWarning
from djgnn.graph.cells import (
    DATES,
    DAY,
    UNIX,
    Problems,
    blank,
    check_rows,
    not_numbers,
    parse_dates,
    parse_numbers,
)
from djgnn.graph.column_fits import (
    MOST_LEVELS,
    fit_category,
    fit_date,
    fit_days,
    fit_number,
    fit_text,
    skew,
)
from djgnn.graph.encoders import (
    FALSE,
    TRUE,
    Block,
    Dropped,
    Encoder,
    Raw,
    Truth,
)
from djgnn.graph.table_columns import there_for_labelled

KINDS = ("number", "category", "text", "date", "truth", "raw", "drop")
FEW_ROWS = 20  # fewer say nothing about whether a column is an id
ALL_DIFFERENT = 0.95
BLOCK_COLUMNS = 256
CODE = r"^\s*0\d"  # 00501 is not a number but a code
ID_NAME = re.compile(r"(^|[_\s\-])(id|uid|uuid|guid|key|index|idx|nr|no|number|pk|hash)$|^unnamed")
ID_CAMEL = re.compile(r"[a-z](ID|Id|Key|Index)$")
TIME_NAME = re.compile(r"date|time|stamp|since|created|updated|joined|_at$|^seen|_on$")


def read_columns(
    where: str,
    frame: pl.DataFrame,
    told: Mapping[str, str],
    known: Sequence[Encoder] | None,
    labelled: NDArray[np.bool_] | None = None,
) -> tuple[list[Block], list[Encoder]]:
    """The features of every column, and what was learned.

    Args:
        where: The file, for messages.
        frame: The feature columns.
        told: Kinds by name or pattern (``f*``), as the user said.
        known: Encoders of an earlier table in the order of the columns; learned by default.
        labelled: Which nodes have a label, if any can: a column that is there for these alone is
            left out unless its kind was said.

    Raises:
        InputError: With everything that is wrong in any column.
    """
    problems, blocks, encoders = Problems(), [], []
    for name in (name for name, kind in told.items() if kind not in KINDS):
        problems.found.append(
            f"{where}: column {name!r} must be one of {', '.join(KINDS)}; change `columns=` "
            f"(got {told[name]!r})"
        )
    problems.stop()
    for start in range(0, frame.width, BLOCK_COLUMNS):
        part = frame[:, start : start + BLOCK_COLUMNS]
        numbers = _plain_numbers(part)
        for place, column in enumerate(part.get_columns()):
            encoder: Encoder | None
            if known is None:
                kind = kind_said(column.name, told)
                encoder = problems.attempt(learn, where, column, numbers[place], kind)
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
    """The kind that was named for a column, by its name or else by a pattern.

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
    where: str, column: pl.Series, numbers: NDArray[np.float64] | None, kind: str | None
) -> Encoder:
    """Find out the kind of a column, unless it was said, and learn what its encoder needs.

    Args:
        where: The file, for messages.
        column: The cells.
        numbers: The same, if every cell is a finite number.
        kind: One of ``KINDS``.

    Raises:
        InputError: If the cells do not fit the kind, or are a mixture of numbers and text.
    """
    name = column.name
    if kind == "drop":
        return Dropped(name=name, why="as was said")
    if kind == "raw" and numbers is not None:
        return Raw(name=name)
    if kind is None and numbers is not None:
        return _of_numbers(name, numbers, 0)
    if column.dtype.is_temporal() and kind in (None, "date"):
        return fit_date(where, column, "typed")
    text = blank(column.cast(pl.String))
    missing = text.null_count()
    if kind == "raw":
        odd = not_numbers(column, parse_numbers(column))
        return fit_category(name, text, missing) if bool(odd.all()) else Raw(name=name)
    if missing == len(text):
        return Dropped(name=name, why="empty")
    if kind is None and text.n_unique() == 1:
        return Dropped(name=name, why="the same in every row")
    if kind in (None, "truth"):
        words = set(text.str.to_lowercase().unique().drop_nulls())
        if kind or (words <= {*TRUE, *FALSE} and words & {*TRUE} and words & {*FALSE}):
            return Truth(name=name, missing=missing)
    if kind in (None, "number"):
        found = parse_numbers(column)
        odd = not_numbers(column, found)
        share = found.count() / max(found.count() + int(odd.sum()), 1)
        coded = bool(text.str.contains(CODE).any()) or _date_form(text)
        if kind or (share > 0.5 and not coded):
            remedy = "correct it, or say what the column is with `columns=`, such as " + repr(
                f"{name}=category"
            )
            check_rows(where, column, odd, f"is not a number, as most of the column is; {remedy}")
            values = found.drop_nulls().to_numpy()
            if kind:
                return fit_number(name, values, found.null_count())
            return _of_numbers(name, values, found.null_count())
    form = _date_form(text) if kind in (None, "date") else None
    if form or kind == "date":
        return fit_date(where, column, form or DATES[0])
    if kind is None:
        kind = _kind_of_text(text.drop_nulls())
    if kind == "id":
        return Dropped(name=name, why="nearly all different, like an id")
    return fit_text(column, missing) if kind == "text" else fit_category(name, text, missing)


def _of_numbers(name: str, values: NDArray[np.float64], missing: int) -> Encoder:
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
    if not missing and _is_id(name, values, low, high):
        return Dropped(name=name, why="whole numbers, all different, like an id")
    return fit_number(name, values, missing)


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


def _date_form(text: pl.Series) -> str | None:
    """The form that nine in ten of the cells have, ``None`` if they are not dates."""
    cells = text.drop_nulls()
    head = cells.head(100)
    if not bool(head.str.contains(r"\d.*[-/. :]").any()):
        return None
    forms = [form for form in DATES if 10 * parse_dates(head, form).count() >= 9 * len(head)]
    found = [(parse_dates(cells, form).count(), -place) for place, form in enumerate(forms)]
    best = max(found, default=(0, 0))
    return forms[-best[1]] if 10 * best[0] >= 9 * len(cells) and best[0] else None
