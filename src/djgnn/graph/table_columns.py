"""Columns of a node table: what features, labels and splits they make."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from djgnn.errors import DoubtfulLabelWarning, InputError, UnseenCategoryWarning
from djgnn.graph.convert import compact
from djgnn.graph.labels import class_order, plain_number
from djgnn.graph.table_files import row_error

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

PARTS = {
    **dict.fromkeys(("train", "training", "tr"), 0),
    **dict.fromkeys(("val", "valid", "validation", "dev"), 1),
    **dict.fromkeys(("test", "testing", "te"), 2),
}
MOST_CATEGORIES = 64
FEW_CATEGORIES = 8
# Words for no label in other programs; here only said, as one could be a class.
MISSING = frozenset(("na", "n/a", "nan", "null", "none", "nil", "?", "unknown", "missing"))
TRUTH = {"true": "1", "false": "0"}
COMMA = r"^-?\d+,\d+$"


def read_labels(
    where: str, column: pl.Series, unknown: Sequence[str]
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Classes from a column: the distinct values in order, by number if all are numbers.

    Raises:
        InputError: If treating ``-1`` as unknown leaves fewer than two classes.
    """
    import polars as pl

    text = column.cast(pl.String)
    words = text.unique().drop_nulls().to_list()
    met = set(map(plain_number, words))
    none = {plain_number(word) for word in unknown}
    missing = text.is_null() | text.is_in([word for word in words if plain_number(word) in none])
    if column.dtype.is_float():
        missing |= column.is_nan().fill_null(True)
    names = class_order(text.filter(~missing).unique().to_list())
    if len(names) < 2 and "-1" in none and "-1" in map(plain_number, words):
        raise InputError(
            f"{where}: column {column.name!r}: -1 means unknown, and without it fewer than two "
            f"classes are left; if -1 is a class, pass `unknown=('',)` (--unknown '') "
            f"(got classes {names})"
        )
    unmet = [word for word in unknown if plain_number(word) not in met]
    _doubt_labels(where, column.name, names, unmet)
    known = text.set(missing, None).cast(pl.Enum(names))
    return known.to_physical().cast(pl.Int64).fill_null(-1).to_numpy(), tuple(names)


def _doubt_labels(where: str, name: str, classes: Sequence[str], unmet: Sequence[str]) -> None:
    """Say which classes look like none or the same, and which words for unknown never occur."""
    alike: dict[str, str] = {}
    for word in classes:
        other = alike.setdefault(plain_number(word.strip()), word)
        if other != word:
            warnings.warn(
                f"{where}: column {name!r}: {other!r} and {word!r} are taken for two classes; "
                "write them alike if they are one",
                DoubtfulLabelWarning,
                stacklevel=4,
            )
    for word in classes:
        if word.casefold() in MISSING:
            warnings.warn(
                f"{where}: column {name!r}: {word!r} is taken for a class and looks like a missing "
                f"label; pass `unknown=('', {word!r})` (--unknown {word}) if it is one",
                DoubtfulLabelWarning,
                stacklevel=4,
            )
    for word in unmet:
        if plain_number(word) not in ("", "-1"):
            warnings.warn(
                f"{where}: column {name!r}: no cell is {word!r}, which was to mean unknown; check "
                "`unknown=` (--unknown)",
                DoubtfulLabelWarning,
                stacklevel=4,
            )


def read_split(where: str, column: pl.Series, y: NDArray[np.int64] | None) -> dict[str, Any]:
    """Masks of one split from a column of train / val / test; an empty cell is in no part.

    A test node without a label is left out, as there is nothing to score.

    Raises:
        InputError: At an unknown word, or a training or validation node without a label.
    """
    import polars as pl

    text = column.cast(pl.String).fill_null("").str.strip_chars().str.to_lowercase()
    codes = text.replace_strict(PARTS | {"": -1}, default=-2, return_dtype=pl.Int64).to_numpy()
    if (codes == -2).any():
        row = int(np.argmax(codes == -2))
        raise row_error(where, row, column.name, "must be train, val, test or empty", column[row])
    if (codes == -1).all():
        return {}
    if y is None:
        raise InputError(
            f"{where}: column {column.name!r} gives a split but there are no labels; name the "
            "label column with `label=` (--label) (got none)"
        )
    bare = (codes >= 0) & (codes < 2) & (y < 0)
    if bare.any():
        row = int(np.argmax(bare))
        raise row_error(
            where, row, column.name, "this node has no label; leave its split empty", column[row]
        )
    labelled = y >= 0
    keys = ("train_mask", "val_mask", "test_mask")
    return {key: (codes == part) & labelled for part, key in enumerate(keys)}


def read_features(
    where: str, frame: pl.DataFrame, known: Mapping[str, tuple[str, ...] | None] | None = None
) -> tuple[Any, dict[str, tuple[str, ...] | None]]:
    """A matrix from the feature columns: numbers as they are, categories as one-hot columns.

    Args:
        where: The file, for messages.
        frame: The feature columns.
        known: What they were in an earlier table; found out by default.

    Returns:
        The matrix, ``None`` without columns; and for every column ``None`` if it holds numbers,
        else its categories.

    Raises:
        InputError: At a missing value, a text among numbers, or a column of free text.
    """
    if not frame.width:
        return None, {}
    blocks: list[Any] = []
    found: dict[str, tuple[str, ...] | None] = {}
    pending: list[pl.Series] = []
    finite = _finite(frame)
    for place, column in enumerate(frame.get_columns()):
        levels = None if known is None else known[column.name]
        numbers = column if place in finite else None
        if numbers is None and levels is None:
            numbers = _as_numbers(where, column, sure=known is not None)
        if numbers is not None and levels is None:
            pending.append(numbers)
            found[column.name] = None
            continue
        blocks += _stack(pending)
        pending = []
        levels = _levels(where, column) if levels is None else levels
        found[column.name] = levels
        blocks.append(_one_hot(_codes(where, column, levels), len(levels)))
    blocks += _stack(pending)
    return compact(blocks[0] if len(blocks) == 1 else np.hstack(blocks)), found


def feature_names(columns: Mapping[str, tuple[str, ...] | None]) -> list[str]:
    """The names of the columns of the matrix that :func:`read_features` makes.

    Example:
        >>> feature_names({"size": None, "hue": ("red", "sky")})
        ['size', 'hue=red', 'hue=sky']
    """
    return [
        name if level is None else f"{name}={level}"
        for name, levels in columns.items()
        for level in ((None,) if levels is None else levels)
    ]


def comma_hint(cell: object) -> str:
    """What to add to a message about a number written with a decimal comma.

    Example:
        >>> comma_hint("3,25"), comma_hint("3.25")
        ('; write a decimal point, not a comma', '')
    """
    decimal = isinstance(cell, str) and re.search(COMMA, cell.strip())
    return "; write a decimal point, not a comma" if decimal else ""


def _finite(frame: pl.DataFrame) -> set[int]:
    """The places of the columns that are float32 and finite already: asked all at once."""
    import polars as pl

    columns = frame.get_columns()
    floats = [c.alias(str(i)) for i, c in enumerate(columns) if c.dtype == pl.Float32]
    if not floats or not frame.height:
        return set()
    answer = pl.DataFrame(floats).select(pl.all().is_finite().fill_null(False).all())
    return {int(name) for name, good in answer.row(0, named=True).items() if good}


def _stack(columns: list[pl.Series]) -> list[NDArray[np.float32]]:
    import polars as pl

    return [pl.DataFrame(columns).to_numpy()] if columns else []


def _as_numbers(where: str, column: pl.Series, sure: bool = False) -> pl.Series | None:
    """The column as float32, ``None`` if it is text; a mixture is an error, as is text if `sure`.

    Decimal commas are no text.
    """
    import polars as pl

    if column.dtype.is_numeric() or column.dtype == pl.Boolean:
        text = None
        numbers = column.cast(pl.Float32, strict=False)
        empty = column.is_null()
    else:
        text = column.cast(pl.String).str.strip_chars()
        numbers = (text.str.to_lowercase().replace(TRUTH) if sure else text).cast(
            pl.Float32, strict=False
        )
        empty = text.is_null() | (text == "")
    filled = len(column) - int(empty.sum())
    figures = int(numbers.is_not_null().sum())
    if not sure and (2 * figures <= filled or filled == 0):
        if text is not None:
            _refuse_commas(
                where, column, text.str.contains(COMMA).fill_null(False), filled, figures
            )
        return None
    bad = numbers.is_null() | ~numbers.is_finite().fill_null(False)
    if bad.any():
        row = int(np.argmax(bad.to_numpy()))
        if empty[row]:
            what = "is empty; fill it" + (" with a number" if sure else " or drop the column")
        else:
            what = "is not a finite number" + (
                ", as the model was trained with; mend it"
                if sure
                else "; mend it or leave it out with `exclude=` (--exclude)"
            )
        raise row_error(where, row, column.name, what + comma_hint(column[row]), column[row])
    return numbers


def _refuse_commas(
    where: str, column: pl.Series, commas: pl.Series, filled: int, figures: int
) -> None:
    """Refuse text in which most cells would be numbers but for their decimal comma."""
    if commas.any() and 2 * (int(commas.sum()) + figures) > filled:
        row = int(np.argmax(commas.to_numpy()))
        raise row_error(
            where,
            row,
            column.name,
            "is a number with a decimal comma; write a point, or leave the column out with "
            "`exclude=` (--exclude)",
            column[row],
        )


def _levels(where: str, column: pl.Series) -> tuple[str, ...]:
    """The categories of a column of text."""
    import polars as pl

    text = column.cast(pl.String)
    levels = sorted(text.filter(text != "").unique().to_list())
    limit = max(FEW_CATEGORIES, min(MOST_CATEGORIES, len(column) // 2))
    if not levels:
        raise InputError(
            f"{where}: column {column.name!r} is empty; drop it or leave it out with "
            f"`exclude=` (--exclude) (got {len(column)} empty cells)"
        )
    if len(levels) > limit:
        raise InputError(
            f"{where}: column {column.name!r} is free text, {len(levels)} different values in "
            f"{len(column)} rows; encode it as numbers or leave it out with "
            f"`exclude=` (--exclude) (got {levels[0][:40]!r})"
        )
    return tuple(levels)


def _codes(where: str, column: pl.Series, levels: tuple[str, ...]) -> NDArray[np.int64]:
    """The place of every cell in `levels`, -1 if it is empty; or unseen, with a warning."""
    import polars as pl

    text = column.cast(pl.String)
    if column.dtype.is_float():
        text = column.fill_nan(None).cast(pl.String)
        whole = text.str.strip_suffix(".0")
        text = text.zip_with(text.is_in(list(levels)), whole)
    if column.dtype == pl.Boolean:  # "True" in one program's text is "true" in another's
        words = {level.casefold(): level for level in levels}
        text = text.replace(words)
    text = text.set(text == "", None)
    codes = text.cast(pl.Enum(levels), strict=False).to_physical().cast(pl.Int64)
    unseen = (codes.is_null() & text.is_not_null()).to_numpy()
    if unseen.any():
        row, count = int(np.argmax(unseen)), int(unseen.sum())
        warnings.warn(
            f"{where}: row {row + 1}, column {column.name!r}: {str(text[row])[:80]!r} was never "
            f"seen in training and counts as no category ({count} such rows)",
            UnseenCategoryWarning,
            stacklevel=5,
        )
    return codes.fill_null(-1).to_numpy()


def _one_hot(codes: NDArray[np.int64], width: int) -> NDArray[np.float32]:
    rows = np.flatnonzero(codes >= 0)
    ones = np.ones(rows.size, dtype=np.float32)
    matrix = sp.csr_array((ones, (rows, codes[rows])), shape=(codes.size, width))
    dense: NDArray[np.float32] = matrix.toarray()
    return dense
