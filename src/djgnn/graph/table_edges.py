"""Edges of a table: names to numbers, and the rules for edges listed twice."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from djgnn.errors import InputError
from djgnn.graph.table_files import row_error

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

RULES = ("first", "sum", "max", "error")
LONGEST_DIGITS = 17


def number_nodes(file: Path, ends: pl.DataFrame, ids: pl.Series) -> NDArray[np.int64]:
    """The row in `ids` of every source and target.

    Args:
        file: For the message.
        ends: Two columns, source and target.
        ids: Distinct node ids, as text.

    Shapes:
        The result is ``[2, E]``.

    Raises:
        InputError: At the first edge that names no node or one that is not in `ids`.
    """
    import polars as pl

    floats = [name for name, dtype in ends.schema.items() if dtype.is_float()]
    if floats:
        raise InputError(
            f"{file}: column {floats[0]!r} holds ids; store whole numbers or text "
            f"(got {ends.schema[floats[0]]})"
        )
    texts = ends.select(pl.all().cast(pl.String))
    index = _by_digits(texts, ids)
    if index is None:
        names = pl.Enum(ids)
        codes = texts.select(pl.all().cast(names, strict=False).to_physical().cast(pl.Int64))
        index = codes.fill_null(-1).to_numpy().T
    missing = index < 0
    if missing.any():
        row = int(np.argmax(missing.any(axis=0)))
        column = ends.columns[int(np.argmax(missing[:, row]))]
        got = texts[column][row]
        hint = "an edge needs two nodes"
        if got:
            hint = "no such node in the node table; add it there or drop the edge"
            if got.strip() != got and got.strip() in ids:
                hint += f", or take the spaces away ({got.strip()!r} is there)"
            hint += f" ({int(missing.any(axis=0).sum())} such edges)"
        raise row_error(file, row, column, hint, got)
    return np.ascontiguousarray(index)


def merge_duplicates(
    file: Path,
    ends: NDArray[np.int64],
    weight: NDArray[np.float64] | None,
    ids: pl.Series,
    rule: str,
    symmetric: bool,
) -> tuple[NDArray[np.int64], NDArray[np.float64] | None]:
    """Apply the rule for edges listed twice, in the order of their first appearance.

    Args:
        file: For the message.
        ends: Sources and targets.
        weight: One per edge.
        ids: Names, for the message.
        rule: ``first``, ``sum``, ``max`` or ``error``.
        symmetric: Take an edge and its reverse as one, and return both directions.

    Shapes:
        ends ``[2, E]``, weight ``[E]``.

    Raises:
        InputError: If the rule is unknown, or is ``error`` and an edge is listed twice.
    """
    import polars as pl

    if rule not in RULES:
        raise InputError(f"duplicates: must be one of {', '.join(RULES)} (got {rule!r})")
    low, high = (ends.min(axis=0), ends.max(axis=0)) if symmetric else (ends[0], ends[1])
    numbers = low * len(ids) + high
    first = _first_of_each(numbers)
    if not first.all():
        key = pl.Series(numbers)
        if rule == "error":
            row = int(np.argmin(first))
            earlier = int(np.argmax((key == key[row]).to_numpy())) + 1
            pair = " -> ".join(str(ids[int(v)]) for v in ends[:, row])
            raise InputError(
                f"{file}: row {row + 1} lists an edge again that is in row {earlier}; drop it or "
                f"choose another rule with `duplicates=` (got {pair})"
            )
        if rule != "first" and (weight is not None or rule == "sum"):
            values = np.ones(len(key)) if weight is None else weight
            groups = pl.DataFrame({"key": key, "w": values}).group_by("key", maintain_order=True)
            weight = groups.agg(pl.col("w").sum() if rule == "sum" else pl.col("w").max())[
                "w"
            ].to_numpy()
        elif weight is not None:
            weight = weight[first]
        ends = ends[:, first]
    if symmetric:
        other = ends[0] != ends[1]
        ends = np.concatenate([ends, ends[::-1, other]], axis=1)
        weight = None if weight is None else np.concatenate([weight, weight[other]])
    return ends, weight


def _first_of_each(key: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Where a number occurs for the first time. Sorting finds the few that repeat, fast."""
    import polars as pl

    first = np.ones(key.size, dtype=np.bool_)
    order = np.sort(key)
    repeated = order[1:][order[1:] == order[:-1]]
    if repeated.size:
        column = pl.Series(key)
        places = np.flatnonzero(column.is_in(pl.Series(repeated).implode()).to_numpy())
        first[places] = column.gather(places).is_first_distinct().to_numpy()
    return first


def _by_digits(texts: pl.DataFrame, ids: pl.Series) -> NDArray[np.int64] | None:
    """A lookup table for ids that are all digits, several times faster than hashing text.

    The key of a text of d digits is its number plus 10^d, so that ``7``, ``07`` and ``007`` stay
    apart. ``None`` where the ids are not of that kind or too far apart for a table.
    """
    import polars as pl

    power = pl.lit(10, dtype=pl.UInt64).pow(pl.all().str.len_bytes().clip(0, LONGEST_DIGITS + 1))
    key = pl.all().cast(pl.UInt64, strict=False) + power
    if not ids.str.contains(rf"^[0-9]{{1,{LONGEST_DIGITS}}}$").all():
        return None
    keys = ids.to_frame().select(key).to_series().to_numpy().view(np.int64)
    low, high = int(keys.min()), int(keys.max())
    if high - low > 64 * len(keys) + 1_000_000:
        return None
    if any(texts.select(pl.all().str.starts_with("+").any()).row(0)):  # "+7" is a number too
        return None
    table = np.full(high - low + 3, -1, dtype=np.int64)
    table[keys - low + 1] = np.arange(len(keys))
    index = np.empty((2, texts.height), dtype=np.int64)
    for row, column in zip(index, texts.select(key.fill_null(0)).get_columns(), strict=True):
        place = column.to_numpy().view(np.int64) - low + 1
        np.take(table, np.clip(place, 0, table.size - 1), out=row)
    return index
