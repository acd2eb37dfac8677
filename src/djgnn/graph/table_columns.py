"""Columns of a node table: what features, labels and splits they make."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from djgnn.errors import InputError
from djgnn.graph.convert import class_order, compact
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


def read_labels(
    where: str, column: pl.Series, unknown: Sequence[str]
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Classes from a column: the distinct values in order, by number if all are numbers.

    Raises:
        InputError: If treating ``-1`` as unknown leaves fewer than two classes.
    """
    import polars as pl

    text = column.cast(pl.String)
    missing = text.is_null() | text.is_in(list(unknown))
    if column.dtype.is_float():
        missing |= column.is_nan().fill_null(True)
    names = class_order(text.filter(~missing).unique().to_list())
    if len(names) < 2 and "-1" in unknown and (text == "-1").any():
        raise InputError(
            f"{where}: column {column.name!r}: -1 means unknown, and without it fewer than two "
            f"classes are left; if -1 is a class, pass `unknown=('',)` (--unknown '') "
            f"(got classes {names})"
        )
    known = text.set(missing, None).cast(pl.Enum(names))
    return known.to_physical().cast(pl.Int64).fill_null(-1).to_numpy(), tuple(names)


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


def read_features(where: str, frame: pl.DataFrame) -> tuple[Any, list[str]]:
    """A matrix from the feature columns: numbers as they are, categories as one-hot columns.

    Returns:
        The matrix, ``None`` without columns; and the names of its columns.

    Raises:
        InputError: At a missing value, a text among numbers, or a column of free text.
    """
    if not frame.width:
        return None, []
    blocks: list[Any] = []
    names: list[str] = []
    pending: list[pl.Series] = []
    finite = _finite(frame)
    for place, column in enumerate(frame.get_columns()):
        numbers = column if place in finite else _as_numbers(where, column)
        if numbers is not None:
            pending.append(numbers)
            names.append(column.name)
            continue
        blocks += _stack(pending)
        pending = []
        codes, levels = _as_categories(where, column)
        rows = np.flatnonzero(codes >= 0)
        ones = np.ones(rows.size, dtype=np.float32)
        shape = (codes.size, len(levels))
        blocks.append(sp.csr_array((ones, (rows, codes[rows])), shape=shape).toarray())
        names += [f"{column.name}={level}" for level in levels]
    blocks += _stack(pending)
    return compact(blocks[0] if len(blocks) == 1 else np.hstack(blocks)), names


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


def _as_numbers(where: str, column: pl.Series) -> pl.Series | None:
    """The column as float32, ``None`` if it is text; a mixture is an error."""
    import polars as pl

    if column.dtype.is_numeric() or column.dtype == pl.Boolean:
        numbers = column.cast(pl.Float32, strict=False)
        empty = column.is_null()
    else:
        text = column.cast(pl.String).str.strip_chars()
        numbers = text.cast(pl.Float32, strict=False)
        empty = text.is_null() | (text == "")
    filled = len(column) - int(empty.sum())
    if 2 * int(numbers.is_not_null().sum()) <= filled or filled == 0:
        return None
    bad = numbers.is_null() | ~numbers.is_finite().fill_null(False)
    if bad.any():
        row = int(np.argmax(bad.to_numpy()))
        what = (
            "is empty; fill it or drop the column"
            if empty[row]
            else "is not a finite number; mend it or leave it out with `exclude=` (--exclude)"
        )
        raise row_error(where, row, column.name, what, column[row])
    return numbers


def _as_categories(where: str, column: pl.Series) -> tuple[NDArray[np.int64], list[str]]:
    import polars as pl

    text = column.cast(pl.String)
    text = text.set(text == "", None)
    levels = sorted(text.drop_nulls().unique().to_list())
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
    codes = text.cast(pl.Enum(levels)).to_physical().cast(pl.Int64).fill_null(-1)
    return codes.to_numpy(), levels
