"""Where a column of a node table becomes features: see :func:`encode_column`."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from djgnn.errors import InputError, UnseenCategoryWarning
from djgnn.graph.convert import compact
from djgnn.graph.table_files import row_error

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from djgnn.graph.graph import Graph
    from djgnn.graph.table_rules import Features

MOST_CATEGORIES = 64
FEW_CATEGORIES = 8
LARGE = 1000.0
TRUTH = {"true": "1", "false": "0"}
COMMA = r"^-?\d+,\d+$"


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
    import polars as pl

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
        if levels is None and finite[place]:
            parts = [numbers[:, place]]
        else:
            parts, levels = encode_column(where, column, levels, known is not None)
        found[column.name] = levels
        encoded += parts
    matrix = pl.DataFrame([c.alias(str(place)) for place, c in enumerate(encoded)]).to_numpy()
    return compact(matrix), found


def encode_column(
    where: str, column: pl.Series, levels: Sequence[str] | None, trained: bool
) -> tuple[list[pl.Series], Sequence[str] | None]:
    """The features of one column: a number as it is, a category as one column per level.

    Args:
        where: The file, for messages.
        column: Numbers, truth values or text.
        levels: The categories of an earlier table.
        trained: Whether the column was in an earlier table; without `levels` it was a number.

    Returns:
        Columns of float32; and the categories, ``None`` for numbers.

    Raises:
        InputError: At a cell that does not fit, or if the column is empty or free text.
    """
    import polars as pl

    if levels is None:
        numbers = _numbers(where, column, trained)
        if numbers is not None:
            return [numbers], None
        levels = _levels(where, column)
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
    import polars as pl

    values = column.str.strip_chars() if column.dtype == pl.String else column
    numbers = values.cast(pl.Float64, strict=False)
    good = numbers.is_finite().fill_null(False) & (numbers >= 0).fill_null(False)
    if not good.all():
        row = int(np.argmin(good.to_numpy()))
        what = "a weight is a number of zero or more" + _comma_hint(column[row])
        raise row_error(where, row, column, what)
    return numbers.to_numpy()


def scale_remark(graph: Graph) -> str | None:
    """A warning about features so large that they drown the others; ``None`` if there are none.

    Features are used as they are given.

    Example:
        >>> from djgnn.graph import Graph
        >>> g = Graph(np.array([[0], [1]]), num_nodes=2, x=np.array([[0.5, 1.6e9], [1.0, 1.7e9]]))
        >>> scale_remark(g).split(":")[0]
        'feature 1 reaches 1.7e+09'
    """
    x: Any = graph.x
    if x is None or not graph.num_features or not graph.num_nodes:
        return None
    largest = abs(x).max(axis=0)
    largest = largest.toarray().ravel() if sp.issparse(largest) else largest
    column = int(largest.argmax())
    if largest[column] <= LARGE:
        return None
    names: Any = graph.card.get("features")
    named = isinstance(names, list) and len(names) == graph.num_features
    return (
        f"feature {repr(str(names[column])) if named else column} reaches {largest[column]:.3g}: "
        "features are used as they are, and such numbers drown the others; subtract the mean of "
        "the column and divide by its standard deviation"
    )


def _comma_hint(cell: object) -> str:
    """What to add to a message about a number written with a decimal comma."""
    decimal = isinstance(cell, str) and re.search(COMMA, cell.strip())
    return "; write a decimal point, not a comma" if decimal else ""


def _numbers(where: str, column: pl.Series, trained: bool) -> pl.Series | None:
    """The column as float32, ``None`` if it is text; a mixture is an error.

    In a column that was a number in training, text is an error too. Numbers with a decimal comma
    are an error and not text.
    """
    import polars as pl

    text, is_text = column, column.dtype == pl.String
    if is_text:
        text = column.str.strip_chars()
        text = text.set(text == "", None)
        text = text.str.to_lowercase().replace(TRUTH) if trained else text
    numbers = text.cast(pl.Float32, strict=False)
    filled, figures = text.count(), numbers.count()
    if not trained and (2 * figures <= filled or filled == 0):
        commas = text.str.contains(COMMA).fill_null(False) if is_text else text.is_null()
        if filled and 2 * (int(commas.sum()) + figures) > filled:
            what = "is a number with a decimal comma; write a point, or leave the column out with"
            raise row_error(where, int(np.argmax(commas.to_numpy())), column, f"{what} `exclude=`")
        return None
    good = numbers.is_finite().fill_null(False)
    if not good.all():
        row = int(np.argmin(good.to_numpy()))
        if text[row] is None:
            what = "is empty; fill it" + (" with a number" if trained else " or drop the column")
        elif trained:
            what = "is not a finite number, as the model was trained with; correct it"
        else:
            what = "is not a finite number; correct it or leave it out with `exclude=`"
        raise row_error(where, row, column, what + _comma_hint(column[row]))
    return numbers


def _levels(where: str, column: pl.Series) -> list[str]:
    """The categories of a column of text."""
    import polars as pl

    text = column.cast(pl.String)
    levels = sorted(text.filter(text != "").unique().to_list())
    if not levels:
        raise InputError(
            f"{where}: column {column.name!r} is empty; drop it or leave it out with `exclude=` "
            f"(got {len(column)} empty cells)"
        )
    if len(levels) > max(FEW_CATEGORIES, min(MOST_CATEGORIES, len(column) // 2)):
        raise InputError(
            f"{where}: column {column.name!r} is free text, {len(levels)} different values in "
            f"{len(column)} rows; encode it as numbers or leave it out with `exclude=` "
            f"(got {levels[0][:40]!r})"
        )
    return levels


def _codes(where: str, column: pl.Series, levels: Sequence[str]) -> pl.Series:
    """The place of every cell in `levels`, -1 if it is empty; or unseen, with a warning."""
    import polars as pl

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
