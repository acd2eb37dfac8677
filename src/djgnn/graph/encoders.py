"""What becomes of a column of a node table: values learned once, stored as JSON and used again.

Every encoder has the same three methods: `names` of the features it makes, `encode` for the cells
of any table, and `line`, which says in words what it does.
"""

import math
import warnings
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
import numpy as np
import polars as pl
import scipy.sparse as sp
from numpy.typing import NDArray

from djgnn.errors import UnseenCategoryWarning
from djgnn.graph.cells import blank, check_rows
from djgnn.graph.date_cells import parse_dates
from djgnn.graph.number_cells import Spelling, check_numbers, parse_numbers

Block = Any  # NDArray[np.float32] [n, width] or sp.csr_array
TRUE = ("true", "yes", "y", "t", "on", "1", "1.0")
FALSE = ("false", "no", "n", "f", "off", "0", "0.0")
TRUTH = {"true": "1", "false": "0"}
PERIODS = {"year": 365.2425, "week": 7.0, "day": 1.0}
MOST_SPREAD = 10.0  # standard deviations


class Column(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """The name of a column and how many of its cells were missing."""

    name: str
    missing: int = 0

    def names(self) -> list[str]:
        """The value, and whether it is missing where some were."""
        return [self.name] + [f"{self.name} (missing)"] * bool(self.missing)

    def _gaps(self, filled: str) -> str:
        return f"; {self.missing:,} missing, {filled}" if self.missing else ""


class Raw(Column, frozen=True, kw_only=True, tag="raw"):
    """A number as it is."""

    spelled: Spelling = Spelling()

    def line(self) -> str:
        """What is done, in words."""
        return f"number{self.spelled}, as it is"

    def encode(self, where: str, column: pl.Series, numbers: Any = None) -> Block:
        """The numbers; an empty cell is an error."""
        values = _trained_numbers(where, column, numbers, self.spelled)
        with np.errstate(over="ignore"):
            bad = ~np.isfinite(values.astype(np.float32))
        problem = "is not a finite number, which it must be if it is taken as it is; correct it"
        check_rows(where, column, bad, problem, "is empty; fill it with a number")
        return values.astype(np.float32)[:, None]


class Number(Column, frozen=True, kw_only=True, tag="number"):
    """A standardised number, after a curve that takes its skewness away."""

    curve: Literal["plain", "log", "rank"] = "plain"
    unit: float = 1.0
    knots: tuple[float, ...] = ()
    places: tuple[float, ...] = ()
    centre: float = 0.0
    scale: float = 1.0
    fill: float = 0.0
    spelled: Spelling = Spelling()

    def line(self) -> str:
        """What is done, in words."""
        how = {"plain": "", "log": "skewed, so its logarithm, ", "rank": "skewed, so its rank, "}
        scaled = "standardised" if self.centre else "scaled"
        filled = self._gaps("filled with the median and flagged")
        return f"number{self.spelled}, {how[self.curve]}{scaled}{filled}"

    def bend(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """The curve, before it is standardised."""
        if self.curve == "log":
            return np.sign(values) * np.log1p(np.abs(values) / self.unit)
        if self.curve == "rank":
            return np.interp(values, self.knots, self.places)
        return values

    def encode(self, where: str, column: pl.Series, numbers: Any = None) -> Block:
        """Standardised numbers; a missing one is the median, and flagged if some were before."""
        values = _trained_numbers(where, column, numbers, self.spelled)
        gone = ~np.isfinite(values)
        bent = self.bend(np.where(gone, self.fill, values))
        bent = np.clip((bent - self.centre) / self.scale, -MOST_SPREAD, MOST_SPREAD)
        parts = [bent, gone] if self.missing else [bent]
        return np.stack(parts, axis=1).astype(np.float32)


class Truth(Column, frozen=True, kw_only=True, tag="truth"):
    """True is 1, false is 0."""

    def line(self) -> str:
        """What is done, in words."""
        return "true or false" + self._gaps("taken for false and flagged")

    def encode(self, where: str, column: pl.Series, numbers: Any = None) -> Block:
        """Zeros and ones, in any spelling."""
        if numbers is None or not np.isin(numbers, (0, 1)).all():
            words = blank(column.cast(pl.String)).str.to_lowercase()
            spelled = {**dict.fromkeys(TRUE, 1.0), **dict.fromkeys(FALSE, 0.0)}
            found = words.replace_strict(spelled, default=None, return_dtype=pl.Float64)
            bad = found.is_null() & words.is_not_null()
            check_rows(where, column, bad, "is neither true nor false; correct it")
            numbers = found.to_numpy()
        gone = ~np.isfinite(numbers)
        parts = [np.where(gone, 0, numbers), gone] if self.missing else [np.where(gone, 0, numbers)]
        return np.stack(parts, axis=1).astype(np.float32)


class Category(Column, frozen=True, kw_only=True, tag="category"):
    """One feature for each of the commonest values; the others share some by a hash of the text."""

    levels: tuple[str, ...]
    buckets: int = 0
    values: int = 0

    def names(self) -> list[str]:
        """``hue=red`` for a value, ``hue#3`` for a hash."""
        hashed = [f"{self.name}#{place}" for place in range(self.buckets)]
        return [f"{self.name}={level}" for level in self.levels] + hashed

    def line(self) -> str:
        """What is done, in words."""
        said = f"category, {self.values or len(self.levels)} values"
        if self.buckets:
            said += f", the {len(self.levels)} commonest, others hashed to {self.buckets} columns"
        return said + self._gaps("no value")

    def encode(self, where: str, column: pl.Series, numbers: Any = None) -> Block:
        """One-hot rows; a missing value, and an unseen one without hashes, is all zero."""
        text = column.cast(pl.String)
        if column.dtype.is_float():
            text = column.fill_nan(None).cast(pl.String)
            text = text.zip_with(text.is_in(list(self.levels)), text.str.strip_suffix(".0"))
        if column.dtype == pl.Boolean:  # "True" in one program's text is "true" in another's
            text = text.replace({level.casefold(): level for level in self.levels})
        text = text.zip_with(text.is_in(list(self.levels)).fill_null(False), blank(text))
        codes = text.cast(pl.Enum(self.levels), strict=False).to_physical().cast(pl.Int64)
        places = codes.fill_null(-1).to_numpy().copy()
        rest = (codes.is_null() & text.is_not_null()).to_numpy()
        if rest.any() and self.buckets:
            hashes = {w: zlib.crc32(w.encode()) % self.buckets for w in text.unique().drop_nulls()}
            others = [len(self.levels) + hashes[word] for word in text.filter(rest)]
            places[rest] = others
        elif rest.any():
            row = int(np.argmax(rest))
            warnings.warn(
                f"{where}: row {row + 1}, column {column.name!r}: {str(text[row])[:80]!r} was "
                f"never seen in training and counts as no category ({int(rest.sum())} such rows)",
                UnseenCategoryWarning,
                stacklevel=5,
            )
        rows = np.flatnonzero(places >= 0)
        ones = np.ones(rows.size, dtype=np.float32)
        shape = (len(column), len(self.levels) + self.buckets)
        return sp.csr_array((ones, (rows, places[rows])), shape=shape)


class Date(Column, frozen=True, kw_only=True, tag="date"):
    """A point in time as a standardised number, and where it stands in the year, week and day."""

    form: str
    centre: float
    scale: float
    fill: float
    cycles: tuple[Literal["year", "week", "day"], ...] = ()

    def names(self) -> list[str]:
        """The number, two per cycle, and whether it is missing where some were."""
        waves = [f"{self.name} ({c}, {part})" for c in self.cycles for part in ("sin", "cos")]
        return [self.name, *waves] + [f"{self.name} (missing)"] * bool(self.missing)

    def line(self) -> str:
        """What is done, in words."""
        cycles = "".join(f", place in the {cycle}" for cycle in self.cycles)
        filled = self._gaps("filled with the median and flagged")
        return f"date ({self.form}), a standardised number{cycles}{filled}"

    def encode(self, where: str, column: pl.Series, numbers: Any = None) -> Block:
        """Days since 1970, standardised, with sines and cosines."""
        found = parse_dates(column, self.form)
        bad = found.is_null() & blank(column.cast(pl.String)).is_not_null()
        check_rows(where, column, bad, f"is not a date like the others ({self.form}); correct it")
        days = found.fill_null(float("nan")).to_numpy()
        gone = ~np.isfinite(days)
        days = np.where(gone, self.fill, days)
        parts = [np.clip((days - self.centre) / self.scale, -MOST_SPREAD, MOST_SPREAD)]
        for cycle in self.cycles:
            angle = 2 * math.pi * days / PERIODS[cycle]
            parts += [np.sin(angle), np.cos(angle)]
        return np.stack([*parts, gone] if self.missing else parts, axis=1).astype(np.float32)


class Text(Column, frozen=True, kw_only=True, tag="text"):
    """Free text: counts of words, hashed and weighted by their rarity (TF-IDF)."""

    rarity: tuple[float, ...]

    def names(self) -> list[str]:
        """``story#3`` for a hash."""
        return [f"{self.name}#{place}" for place in range(len(self.rarity))]

    def line(self) -> str:
        """What is done, in words."""
        width = len(self.rarity)
        return f"free text, words hashed to {width} columns (TF-IDF){self._gaps('no words')}"

    def encode(self, where: str, column: pl.Series, numbers: Any = None) -> Block:
        """TF-IDF rows of length 1; an empty text is all zero."""
        from sklearn.preprocessing import normalize

        counts = count_words(column, len(self.rarity))
        return normalize(counts @ sp.diags_array(np.array(self.rarity))).astype(np.float32)


class Dropped(Column, frozen=True, kw_only=True, tag="drop"):
    """A column that is left out, and why."""

    why: str

    def names(self) -> list[str]:
        """None."""
        return []

    def line(self) -> str:
        """What is done, in words."""
        return f"left out: {self.why}"

    def encode(self, where: str, column: pl.Series, numbers: Any = None) -> Block:
        """No features."""
        return np.zeros((len(column), 0), dtype=np.float32)


Encoder = Raw | Number | Truth | Category | Date | Text | Dropped


def count_words(column: pl.Series, buckets: int) -> Any:
    """How often a word of each hash occurs in each text, ``[n, buckets]``."""
    from sklearn.feature_extraction.text import HashingVectorizer

    hashing = HashingVectorizer(n_features=buckets, alternate_sign=False, norm=None)
    return sp.csr_array(hashing.transform(blank(column.cast(pl.String)).fill_null("").to_list()))


def stored_encoders(reading: Mapping[str, Any]) -> list[Encoder]:
    """The encoders of a graph's tables, from its card; those of version 0.1 too.

    Raises:
        msgspec.ValidationError: If the card is damaged.
    """
    if "columns" in reading:
        return msgspec.convert(reading["columns"], list[Encoder])
    return [
        Raw(name=name) if levels is None else Category(name=name, levels=tuple(levels))
        for name, levels in reading.get("features", ())
    ]


def lines_of(encoders: Sequence[Encoder]) -> list[str]:
    """What was done with each column, in words; neighbours that are treated alike share a line."""
    groups: list[tuple[str, list[str]]] = []
    for encoder in encoders:
        line = encoder.line()
        if not groups or groups[-1][0] != line:
            groups.append((line, []))
        groups[-1][1].append(encoder.name)
    return [
        f"{', '.join(names)}: {line}"
        if len(names) < 6
        else f"{names[0]}, {names[1]} ... {names[-1]} ({len(names)} columns): {line}"
        for line, names in groups
    ]


def join_blocks(blocks: Sequence[Block]) -> Any:
    """One matrix of all features, sparse if that is smaller; ``None`` without any."""
    from djgnn.graph.convert import SPARSE_BELOW, SPARSE_COLUMNS, compact

    blocks = [block for block in blocks if block.shape[1]]
    if not blocks:
        return None
    if not any(sp.issparse(block) for block in blocks):
        return compact(np.concatenate(blocks, axis=1))
    x = sp.csr_array(sp.hstack([sp.csr_array(block) for block in blocks], format="csr"))
    narrow = x.shape[1] <= SPARSE_COLUMNS or x.nnz >= SPARSE_BELOW * x.shape[0] * x.shape[1]
    return x.toarray() if narrow else x


def _trained_numbers(
    where: str, column: pl.Series, numbers: Any, spelled: Spelling
) -> NDArray[np.float64]:
    """A column of numbers, NaN where one is missing.

    Raises:
        InputError: At a text, or a number that is written otherwise than those of training.
    """
    text = column.dtype == pl.String
    if numbers is not None and not (text and str(spelled)):
        return np.asarray(numbers, dtype=np.float64)
    if text:  # a truth value in one format is 0 or 1 in another
        low = column.str.strip_chars().str.to_lowercase()
        column = column.zip_with(~low.is_in(list(TRUTH)), low.replace(TRUTH))
    found = parse_numbers(column, spelled)
    problem = f"is not a finite number{spelled}, as the model was trained with; correct it"
    check_numbers(where, column, found, problem)
    return found.fill_null(float("nan")).to_numpy()
