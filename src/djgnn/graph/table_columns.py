"""Where a column becomes features (see :func:`encode_column`), labels, a split or weights."""

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from djgnn.errors import DoubtfulLabelWarning, InputError, UnseenCategoryWarning
from djgnn.graph.convert import compact
from djgnn.graph.labels import class_order, plain_number
from djgnn.graph.table_files import COMMA, check_rows
from djgnn.graph.table_rules import Features

MOST_CATEGORIES = 64
FEW_CATEGORIES = 8
TRUTH = {"true": "1", "false": "0"}
PARTS = {
    **dict.fromkeys(("train", "training", "tr"), 0),
    **dict.fromkeys(("val", "valid", "validation", "dev"), 1),
    **dict.fromkeys(("test", "testing", "te"), 2),
}
# Words for a missing label in other programs. One of them could be a class: only a warning.
MISSING = frozenset(("na", "n/a", "nan", "null", "none", "nil", "?", "unknown", "missing"))


def read_features(
    where: str, frame: pl.DataFrame, known: Features | None = None
) -> tuple[Any, Features]:
    """A matrix from the feature columns of a node table.

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
    plain = [
        c if c.dtype.is_numeric() or c.dtype == pl.Boolean else c.cast(pl.String)
        for c in frame.get_columns()
    ]
    # All columns at once: whatever is a finite number everywhere needs no second look.
    numbers = pl.DataFrame([c.alias(str(place)) for place, c in enumerate(plain)]).select(
        pl.all().cast(pl.Float32, strict=False)
    )
    finite = numbers.select(pl.all().is_finite().fill_null(False).all()).row(0)
    encoded: list[pl.Series] = []
    found: dict[str, Sequence[str] | None] = {}
    for place, column in enumerate(plain):
        levels = None if known is None else known[column.name]
        given = numbers[:, place] if finite[place] else None
        parts, levels = encode_column(where, column, given, levels, trained=known is not None)
        found[column.name] = levels
        encoded += parts
    matrix = pl.DataFrame([c.alias(str(place)) for place, c in enumerate(encoded)]).to_numpy()
    return compact(matrix), found


def encode_column(
    where: str,
    column: pl.Series,
    numbers: pl.Series | None,
    levels: Sequence[str] | None,
    trained: bool,
) -> tuple[list[pl.Series], Sequence[str] | None]:
    """The features of one column: a number as it is, a category as one column per level.

    Args:
        where: The file, for messages.
        column: Numbers, truth values or text.
        numbers: The same as float32, if every cell is a finite number.
        levels: The categories of an earlier table.
        trained: Whether the column was in an earlier table; without `levels` it was a number.

    Returns:
        Columns of float32; and the categories, ``None`` for numbers.

    Raises:
        InputError: At a cell that does not fit, or if the column is empty or free text.
    """
    if levels is None:
        numbers = _numbers(where, column, trained) if numbers is None else numbers
        if numbers is not None:
            return [numbers], None
        text = column.cast(pl.String)
        levels = sorted(text.filter(text != "").unique().to_list())
        rows, named = len(column), f"{where}: column {column.name!r}"
        if not levels:
            remedy = "drop it or leave it out with `exclude=`"
            raise InputError(f"{named} is empty; {remedy} (got {rows} empty cells)")
        if len(levels) > max(FEW_CATEGORIES, min(MOST_CATEGORIES, rows // 2)):
            raise InputError(
                f"{named} is free text, {len(levels)} different values in {rows} rows; encode it "
                f"as numbers or leave it out with `exclude=` (got {levels[0][:40]!r})"
            )
    codes = _codes(where, column, levels)
    return [(codes == code).cast(pl.Float32) for code in range(len(levels))], levels


def feature_names(columns: Features) -> list[str]:
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


def read_weights(where: str, column: pl.Series) -> NDArray[np.float64]:
    """The weights of an edge table, numbers of zero or more.

    Raises:
        InputError: At the first cell that is not.
    """
    values = column.str.strip_chars() if column.dtype == pl.String else column
    numbers = values.cast(pl.Float64, strict=False)
    good = numbers.is_finite().fill_null(False) & (numbers >= 0).fill_null(False)
    check_rows(where, column, ~good, "a weight is a number of zero or more")
    return numbers.to_numpy()


def _numbers(where: str, column: pl.Series, trained: bool) -> pl.Series | None:
    """The column as float32, ``None`` if it is text; a mixture is an error.

    In a column that was a number in training, text is an error too. Numbers with a decimal comma
    are an error and not text.
    """
    text, is_text = column, column.dtype == pl.String
    if is_text:
        text = column.str.strip_chars()
        text = text.set(text == "", None)
        text = text.str.to_lowercase().replace(TRUTH) if trained else text
    numbers = text.cast(pl.Float32, strict=False)
    filled, figures = text.count(), numbers.count()
    remedy = "correct it or leave the column out with `exclude=`"
    if not trained and (2 * figures <= filled or filled == 0):
        commas = text.str.contains(COMMA).fill_null(False) if is_text else text.is_null()
        if filled and 2 * (int(commas.sum()) + figures) > filled:
            check_rows(where, column, commas, f"is not a number; {remedy}")
        return None
    problem, empty = f"is not a finite number; {remedy}", "is empty; fill it or drop the column"
    if trained:
        problem = "is not a finite number, as the model was trained with; correct it"
        empty = "is empty; fill it with a number"
    check_rows(where, column, ~numbers.is_finite().fill_null(False), problem, empty)
    return numbers


def _codes(where: str, column: pl.Series, levels: Sequence[str]) -> pl.Series:
    """The place of every cell in `levels`, -1 if it is empty; or unseen, with a warning."""
    text = column.cast(pl.String)
    if column.dtype.is_float():
        text = column.fill_nan(None).cast(pl.String)
        text = text.zip_with(text.is_in(list(levels)), text.str.strip_suffix(".0"))
    if column.dtype == pl.Boolean:  # "True" in one program's text is "true" in another's
        text = text.replace({level.casefold(): level for level in levels})
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
    return codes.fill_null(-1)


def read_labels(
    where: str, column: pl.Series, unknown: Sequence[str]
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Classes from a column of a node table: the distinct values in their order.

    Args:
        where: The file, for messages.
        column: The labels.
        unknown: What means unknown besides an empty cell and NaN.

    Returns:
        The class of every node, -1 = unknown; and the names of the classes.

    Raises:
        InputError: If treating ``-1`` as unknown leaves fewer than two classes.
    """
    text = column.cast(pl.String)
    words = text.unique().drop_nulls().to_list()
    met, none = set(map(plain_number, words)), set(map(plain_number, unknown))
    missing = text.is_null() | text.is_in([word for word in words if plain_number(word) in none])
    if column.dtype.is_float():
        missing |= column.is_nan().fill_null(True)
    names = class_order(text.filter(~missing).unique().to_list())
    if len(names) < 2 and "-1" in none & met:
        raise InputError(
            f"{where}: column {column.name!r}: -1 means unknown, and without it fewer than two "
            f"classes are left; if -1 is a class, say with `unknown=` that only an empty cell is "
            f"unknown, '' (got classes {names})"
        )
    unmet = [word for word in unknown if plain_number(word) not in met | {"", "-1"}]
    for doubt in _doubts(names, unmet):
        message = f"{where}: column {column.name!r}: {doubt}"
        warnings.warn(message, DoubtfulLabelWarning, stacklevel=4)
    known = text.set(missing, None).cast(pl.Enum(names))
    return known.to_physical().cast(pl.Int64).fill_null(-1).to_numpy(), tuple(names)


def _doubts(classes: Sequence[str], unmet: Sequence[str]) -> Iterator[str]:
    """Which classes look like one or like a missing label; which words for unknown never occur."""
    alike: dict[str, str] = {}
    for word in classes:
        other = alike.setdefault(plain_number(word.strip()), word)
        if other != word:
            yield f"{other!r} and {word!r} are taken for two classes; write them alike if not"
        if word.casefold() in MISSING:
            yield (
                f"{word!r} is taken for a class and looks like a missing label; name it with "
                "`unknown=` if it is one"
            )
    for word in unmet:
        yield f"no cell is {word!r}, which was to mean unknown; check `unknown=`"


def read_split(where: str, column: pl.Series, y: NDArray[np.int64] | None) -> dict[str, Any]:
    """Masks of one split from a column of train / val / test; an empty cell is in no part.

    A test node without a label is left out, as there is nothing to score.

    Raises:
        InputError: At an unknown word, or a training or validation node without a label.
    """
    text = column.cast(pl.String).fill_null("").str.strip_chars().str.to_lowercase()
    codes = text.replace_strict(PARTS | {"": -1}, default=-2, return_dtype=pl.Int64).to_numpy()
    check_rows(where, column, codes == -2, "must be train, val, test or empty")
    if (codes == -1).all():
        return {}
    if y is None:
        raise InputError(
            f"{where}: column {column.name!r} gives a split but there are no labels; name the "
            "label column with `label=` (got none)"
        )
    bare = (codes >= 0) & (codes < 2) & (y < 0)
    check_rows(where, column, bare, "this node has no label; leave its split empty")
    keys = ("train_mask", "val_mask", "test_mask")
    return {key: (codes == part) & (y >= 0) for part, key in enumerate(keys)}
