"""What is learned from the cells of a column of a known kind: curves, scales, levels, words."""

from typing import Any, Literal

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from djgnn.errors import InputError
from djgnn.graph.date_cells import parse_dates
from djgnn.graph.encoders import Category, Date, Number, Text, count_words
from djgnn.graph.number_cells import Spelling

MOST_LEVELS = 128
BUCKETS = 32
MOST_WORDS = 128
MOSTLY_ZERO = 0.75
SKEWED = 2.0


def fit_number(name: str, values: NDArray[np.float64], missing: int, spelled: Spelling) -> Number:
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
    if abs(skew(told)) > SKEWED:
        bent = np.sign(told) * np.log1p(np.abs(told) / unit)
        curve = "log" if sparse or abs(skew(bent)) <= SKEWED else "rank"
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
    scale = scale if scale > 0 else 1.0
    return msgspec.structs.replace(encoder, centre=centre, scale=scale, spelled=spelled)


def skew(values: NDArray[np.float64]) -> float:
    """The skewness of numbers, 0 where it is not defined."""
    if values.size < 3:
        return 0.0
    largest = float(np.abs(values).max()) or 1.0
    off = values / largest - (values / largest).mean()
    spread = float((off**2).mean()) ** 1.5
    return float((off**3).mean()) / spread if spread > 0 else 0.0


def fit_category(name: str, text: pl.Series, missing: int) -> Category:
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


def fit_text(column: pl.Series, missing: int) -> Text:
    """How rare the words of each hash are; more hashes for more rows."""
    rows = len(column)
    buckets = min(MOST_WORDS, max(16, 2 ** int(np.log2(max(rows // 8, 1)))))
    with_word = (count_words(column, buckets) > 0).sum(axis=0)
    rarity = np.log((1 + rows) / (1 + with_word)) + 1
    return Text(name=column.name, missing=missing, rarity=tuple(np.asarray(rarity).tolist()))


def fit_date(where: str, column: pl.Series, form: str) -> Date:
    """As :func:`fit_days`, of cells of a form.

    Raises:
        InputError: If none of them is a date.
    """
    days = parse_dates(column, form)
    if not days.count():
        raise InputError(
            f"{where}: column {column.name!r} holds no dates; write them like 2024-12-31 "
            f"(got {str(column.drop_nulls().first())[:40]!r})"
        )
    return fit_days(column.name, days, form)


def fit_days(name: str, days: pl.Series, form: str) -> Date:
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
