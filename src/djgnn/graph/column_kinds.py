"""Which kind a column of a node table is, and what is learned from its cells, never from labels."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from djgnn.errors import InputError
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
from djgnn.graph.encoders import (
    FALSE,
    TRUE,
    Block,
    Category,
    Date,
    Dropped,
    Encoder,
    Number,
    Raw,
    Text,
    Truth,
    count_words,
)

KINDS = ("number", "category", "text", "date", "truth", "raw", "drop")
MOST_LEVELS = 128
BUCKETS = 32
MOST_WORDS = 128
FEW_ROWS = 20  # fewer say nothing about whether a column is an id
ALL_DIFFERENT = 0.95
MOSTLY_ZERO = 0.75
SKEWED = 2.0
BLOCK_COLUMNS = 256
CODE = r"^\s*0\d"  # 00501 is not a number but a code
ID_NAME = re.compile(r"(^|[_\s\-])(id|uid|uuid|guid|key|index|idx|nr|no|number|pk|hash)$|^unnamed")
ID_CAMEL = re.compile(r"[a-z](ID|Id|Key|Index)$")
TIME_NAME = re.compile(r"date|time|stamp|since|created|updated|joined|_at$|^seen|_on$")


def read_columns(
    where: str, frame: pl.DataFrame, told: Mapping[str, str], known: Sequence[Encoder] | None
) -> tuple[list[Block], list[Encoder]]:
    """The features of every column, and what was learned.

    Args:
        where: The file, for messages.
        frame: The feature columns.
        told: Kinds by name or pattern (``f*``), as the user said.
        known: Encoders of an earlier table in the order of the columns; learned by default.

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
        return _date(where, column, "typed")
    text = blank(column.cast(pl.String))
    missing = text.null_count()
    if kind == "raw":
        odd = not_numbers(column, parse_numbers(column))
        return _category(name, text, missing) if bool(odd.all()) else Raw(name=name)
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
                return _number(name, values, found.null_count())
            return _of_numbers(name, values, found.null_count())
    form = _date_form(text) if kind in (None, "date") else None
    if form or kind == "date":
        return _date(where, column, form or DATES[0])
    if kind is None:
        kind = _kind_of_text(text.drop_nulls())
    if kind == "id":
        return Dropped(name=name, why="nearly all different, like an id")
    return _text(column, missing) if kind == "text" else _category(name, text, missing)


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
            return _fit_date(name, parse_dates(pl.Series(values.astype(np.int64)), form), form)
    if not missing and _is_id(name, values, low, high):
        return Dropped(name=name, why="whole numbers, all different, like an id")
    return _number(name, values, missing)


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
    return rows >= 10 * FEW_ROWS and 0.2 < middle < 0.8 and float(_skew(values)) < 1


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


def _number(name: str, values: NDArray[np.float64], missing: int) -> Number:
    """Learn the curve, the centre and the scale of numbers, none of which is missing."""
    if not values.size:
        return Number(name=name, missing=missing)
    zero = values == 0
    sparse = float(zero.mean()) > MOSTLY_ZERO and not missing
    size = np.abs(values[~zero])
    unit = float(np.median(size)) if size.size else 1.0
    fill = float(np.median(values))
    curve: Literal["plain", "log", "rank"] = "plain"
    told = values[~zero] if sparse else values
    if abs(_skew(told)) > SKEWED:
        bent = np.sign(told) * np.log1p(np.abs(told) / unit)
        curve = "log" if sparse or abs(_skew(bent)) <= SKEWED else "rank"
    encoder = Number(name=name, missing=missing, curve=curve, unit=unit, fill=fill)
    if curve == "rank":
        places = np.linspace(0, 1, 129)
        knots, first = np.unique(np.quantile(values, places), return_inverse=True)
        middle = np.bincount(first, places) / np.bincount(first)
        encoder = Number(
            name=name,
            missing=missing,
            curve=curve,
            knots=tuple(knots.tolist()),
            places=tuple(middle.tolist()),
            fill=fill,
        )
    bent = encoder.bend(told)
    centre = 0.0 if sparse else float(bent.mean())
    scale = float(np.sqrt(((bent - centre) ** 2).mean()))
    return msgspec.structs.replace(encoder, centre=centre, scale=scale if scale > 0 else 1.0)


def _skew(values: NDArray[np.float64]) -> float:
    """The skewness of numbers, 0 where it is not defined."""
    if values.size < 3:
        return 0.0
    largest = float(np.abs(values).max()) or 1.0
    off = values / largest - (values / largest).mean()
    spread = float((off**2).mean()) ** 1.5
    return float((off**3).mean()) / spread if spread > 0 else 0.0


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


def _category(name: str, text: pl.Series, missing: int) -> Category:
    """The commonest values, and hashes for the others where there are many."""
    counts = text.drop_nulls().value_counts(sort=False)
    values = counts.height
    if values > MOST_LEVELS:
        counts = counts.sort(["count", counts.columns[0]], descending=[True, False])
        counts = counts.head(MOST_LEVELS).filter(pl.col("count") >= max(2, len(text) / 1000))
    return Category(
        name=name,
        missing=missing,
        levels=tuple(sorted(counts[:, 0].to_list())),
        buckets=BUCKETS if values > MOST_LEVELS else 0,
        values=values,
    )


def _text(column: pl.Series, missing: int) -> Text:
    """How rare the words of each hash are; more hashes for more rows."""
    rows = len(column)
    buckets = min(MOST_WORDS, max(16, 2 ** int(np.log2(max(rows // 8, 1)))))
    with_word = (count_words(column, buckets) > 0).sum(axis=0)
    rarity = np.log((1 + rows) / (1 + with_word)) + 1
    return Text(name=column.name, missing=missing, rarity=tuple(np.asarray(rarity).tolist()))


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


def _date(where: str, column: pl.Series, form: str) -> Date:
    days = parse_dates(column, form)
    if not days.count():
        raise InputError(
            f"{where}: column {column.name!r} holds no dates; write them like 2024-12-31 "
            f"(got {str(column.drop_nulls().first())[:40]!r})"
        )
    return _fit_date(column.name, days, form)


def _fit_date(name: str, days: pl.Series, form: str) -> Date:
    """The centre and scale of days since 1970, and the cycles that they can tell apart."""
    values = days.drop_nulls().to_numpy()
    span, scale = float(np.ptp(values)), float(values.std())
    told = {"year": span > 366, "week": span > 14, "day": float(np.ptp(values % 1)) > 0}
    cycles: Any = tuple(cycle for cycle, useful in told.items() if useful)
    return Date(
        name=name,
        missing=days.null_count(),
        form=form,
        centre=float(values.mean()),
        scale=scale if scale > 0 else 1.0,
        fill=float(np.median(values)),
        cycles=cycles,
    )
