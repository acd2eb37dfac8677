"""Edges of a table: names to numbers, and the rules for edges listed twice."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import numpy as np

from djgnn.errors import InputError
from djgnn.graph.table_files import row_error

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

ROUNDS = 2


def number_nodes(where: str, ends: pl.DataFrame, ids: pl.Series) -> NDArray[np.int64]:
    """The row in `ids` of every source and target.

    Args:
        where: The file, for the message.
        ends: Two columns, source and target.
        ids: Distinct node ids, as text.

    Shapes:
        The result is ``[2, E]``.

    Raises:
        InputError: At the first edge that names no node or one that is not in `ids`.
    """
    import polars as pl

    odd = [
        name
        for name, kind in ends.schema.items()
        if kind.is_float() or kind.is_nested() or kind == pl.Binary
    ]
    if odd:
        raise InputError(
            f"{where}: column {odd[0]!r} holds ids; store whole numbers or text "
            f"(got {ends.schema[odd[0]]})"
        )
    texts = pl.DataFrame([ends[:, k].cast(pl.String).alias(str(k)) for k in range(2)])
    index = look_up(texts, ids)
    if index.min(initial=0) < 0:
        missing = index < 0
        row = int(np.argmax(missing.any(axis=0)))
        place = int(np.argmax(missing[:, row]))
        column, got = ends.columns[place], texts[row, place]
        hint = "an edge needs two nodes"
        if got:
            hint = "no such node in the node table; add it there or drop the edge"
            if got.strip() != got and got.strip() in ids:
                hint += f", or take the spaces away ({got.strip()!r} is there)"
            hint += f" ({int(missing.any(axis=0).sum())} such edges)"
        raise row_error(where, row, column, hint, got)
    return index


def look_up(texts: pl.DataFrame, ids: pl.Series, rounds: int = ROUNDS) -> NDArray[np.int64]:
    """The place in `ids` of every text, -1 where it is not there.

    The first bits of a hash choose a slot of a table, which names one id; all its 64 bits must then
    agree with that id's. What shared a slot goes into another round, and what is still left is
    compared letter by letter. Several times faster than the latter alone. The seed is drawn anew
    for every call, so no file can be made to let two names collide; by chance, ten million unknown
    names meet one of a million ids once in two million files.

    Shapes:
        The result is ``[columns, rows]``.

    Example:
        >>> import polars as pl
        >>> look_up(pl.DataFrame({"a": ["x", "07", None]}), pl.Series(["7", "07", "x"])).tolist()
        [[2, 1, -1]]
    """
    index = np.empty((texts.width, texts.height), dtype=np.int64)
    found, lost = _by_hash(texts, ids) if rounds else (_by_letter(texts, ids), None)
    for row, column in zip(index, found.get_columns(), strict=True):
        row[:] = column.to_numpy()
    if lost is not None and lost.size:
        names = ids.gather(lost)
        for row, name in zip(index, texts.columns, strict=True):
            open_rows = np.flatnonzero(row < 0)
            if open_rows.size:
                rest = look_up(texts[name].gather(open_rows).to_frame(), names, rounds - 1)[0]
                row[open_rows] = np.where(rest < 0, -1, lost[rest])
    return index


def _by_hash(texts: pl.DataFrame, ids: pl.Series) -> tuple[pl.DataFrame, NDArray[np.int64]]:
    """One round of :func:`look_up`: places, -1 = open, and the ids that lost their slot."""
    import polars as pl

    bits = min(28, max(8, len(ids).bit_length() + 4))
    seed, names = secrets.randbits(62), texts.columns
    slot = (pl.all() // 2 ** (64 - bits)).cast(pl.UInt32)
    marks = ids.hash(seed)
    slots = marks.to_frame().select(slot).to_series().to_numpy()
    order = np.arange(len(ids), dtype=np.uint32)
    table = np.zeros(2**bits, dtype=np.uint32)
    table[slots] = order
    hashes = texts.select(pl.all().hash(seed))
    first, whole = pl.lit(pl.Series(table)), pl.lit(marks.append(marks[:1]))
    guess = hashes.select(slot).select(first.gather(pl.col(name)).alias(name) for name in names)
    found = guess.select(
        pl.when(whole.gather(pl.col(name)) == pl.lit(hashes[name]))
        .then(pl.col(name).cast(pl.Int32))
        .otherwise(-1)
        .alias(name)
        for name in names
    )
    return found, np.flatnonzero(table[slots] != order)


def _by_letter(texts: pl.DataFrame, ids: pl.Series) -> pl.DataFrame:
    """The plain version of :func:`_by_hash`, exact and slow."""
    import polars as pl

    places = pl.all().cast(pl.Enum(ids), strict=False).to_physical().cast(pl.Int32)
    return texts.select(places.fill_null(-1))


def merge_duplicates(
    where: str,
    ends: NDArray[np.int64],
    weight: NDArray[np.float64] | None,
    ids: pl.Series,
    rule: str,
    symmetric: bool,
) -> tuple[NDArray[np.int64], NDArray[np.float64] | None]:
    """Apply the rule for edges listed twice, in the order of their first appearance.

    Args:
        where: The file, for the message.
        ends: Sources and targets.
        weight: One per edge.
        ids: Names, for the message.
        rule: ``first``, ``sum``, ``mean``, ``max`` or ``error``.
        symmetric: Take an edge and its reverse as one, and return both directions.

    Shapes:
        ends ``[2, E]``, weight ``[E]``.

    Raises:
        InputError: If the rule is ``error`` and an edge is listed twice.
    """
    key = _pair_keys(ends, len(ids), symmetric)
    key.sort()
    repeated = key[1:][key[1:] == key[:-1]]
    if repeated.size:
        key = _pair_keys(ends, len(ids), symmetric)
        again = _repeats(key, repeated)
        if rule == "error":
            row = int(again[0])
            earlier = int(np.argmax(key == key[row])) + 1
            pair = " -> ".join(str(ids[int(v)]) for v in ends[:, row])
            raise InputError(
                f"{where}: row {row + 1} lists an edge again that is in row {earlier}; drop it or "
                f"choose another rule with `duplicates=` (--duplicates) (got {pair})"
            )
        if rule == "sum" and weight is None:
            weight = np.ones(key.size)
        if weight is not None:
            weight = _merged(key, weight, again, rule)
        first = np.ones(key.size, dtype=np.bool_)
        first[again] = False
        kept = np.empty((2, key.size - again.size), dtype=np.int64)
        for row, out in zip(ends, kept, strict=True):
            np.compress(first, row, out=out)  # straight into place: fresh memory is dear
        ends = kept
    if symmetric:
        other = ends[0] != ends[1]
        ends = np.concatenate([ends, ends[::-1, other]], axis=1)
        weight = None if weight is None else np.concatenate([weight, weight[other]])
    return ends, weight


def _pair_keys(ends: NDArray[np.int64], n: int, symmetric: bool) -> NDArray[np.int64]:
    """One number for each pair of nodes; the same for both directions if symmetric."""
    key: NDArray[np.int64] = (ends.min(axis=0) if symmetric else ends[0]) * n
    key += ends.max(axis=0) if symmetric else ends[1]
    return key


def _repeats(key: NDArray[np.int64], repeated: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where one of the repeated numbers occurs that occurred before."""
    import polars as pl

    column = pl.Series(key)
    places = np.flatnonzero(column.is_in(pl.Series(repeated).unique().implode()).to_numpy())
    again = ~column.gather(places).is_first_distinct().to_numpy()
    repeats: NDArray[np.int64] = places[again]
    return repeats


def _merged(
    key: NDArray[np.int64], weight: NDArray[np.float64], again: NDArray[np.int64], rule: str
) -> NDArray[np.float64]:
    """The weights of the edges that stay, each with those of its repetitions."""
    import polars as pl

    if rule == "first":
        return np.delete(weight, again)
    w = pl.col("w")
    value = {"sum": w.sum(), "mean": w.mean(), "max": w.max()}[rule]
    groups = pl.DataFrame({"key": key, "w": weight}).group_by("key", maintain_order=True)
    merged: NDArray[np.float64] = groups.agg(value)["w"].to_numpy()
    return merged
