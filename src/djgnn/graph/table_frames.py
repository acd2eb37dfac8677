"""Data frames of other libraries as polars frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from djgnn.errors import InputError
from djgnn.graph.table_rules import repeated, shorten

if TYPE_CHECKING:
    import polars as pl


def polars_frame(frame: Any, what: str) -> pl.DataFrame:
    """A polars or pandas data frame as polars, without pyarrow.

    Columns of mixed types become text; None, NaN and NA among objects become missing.

    Args:
        frame: The data frame.
        what: Its role, for messages.

    Raises:
        InputError: If it is no data frame, or a column occurs twice.

    Example:
        >>> import polars as pl
        >>> polars_frame(pl.DataFrame({"a": [1]}), "nodes").shape
        (1, 1)
        >>> polars_frame([1, 2], "nodes")
        Traceback (most recent call last):
        djgnn.errors.InputError: nodes: must be a polars or pandas data frame (got list)
    """
    import polars as pl

    if isinstance(frame, pl.LazyFrame):
        frame = frame.collect()
    if isinstance(frame, pl.DataFrame):
        return _plain(frame, what)
    if not all(hasattr(frame, part) for part in ("columns", "dtypes", "iloc")):
        raise InputError(
            f"{what}: must be a polars or pandas data frame (got {type(frame).__name__})"
        )
    names = [str(name) for name in frame.columns]
    twice = repeated(names)
    if twice is not None:
        raise InputError(
            f"{what}: column {twice!r} occurs twice; rename one (got {shorten(names)})"
        )
    columns = [_series(name, frame.iloc[:, i]) for i, name in enumerate(names)]
    return _plain(pl.DataFrame(columns), what)


def _series(name: str, column: Any) -> pl.Series:
    import polars as pl

    values = column.to_numpy()
    if values.dtype.kind in "biuf":
        return pl.Series(name, values)
    missing = column.isna().to_numpy(dtype=bool)
    cells = [None if gone else v for v, gone in zip(values.tolist(), missing, strict=True)]
    if len({type(cell) for cell in cells if cell is not None}) > 1:
        cells = [None if cell is None else str(cell) for cell in cells]
    try:
        return pl.Series(name, cells)
    except (TypeError, OverflowError, pl.exceptions.PolarsError):
        return pl.Series(name, [None if cell is None else str(cell) for cell in cells])


def _plain(frame: pl.DataFrame, what: str) -> pl.DataFrame:
    """Columns of Python objects as text; lists and structs are refused where they are used."""
    import polars as pl

    objects = [name for name, dtype in frame.schema.items() if dtype == pl.Object]
    for name in objects:
        cells = [None if cell is None else str(cell) for cell in frame[name].to_list()]
        frame = frame.with_columns(pl.Series(name, cells, dtype=pl.String))
    if not frame.width:
        raise InputError(f"{what}: has no columns; name them (got an empty frame)")
    return frame
