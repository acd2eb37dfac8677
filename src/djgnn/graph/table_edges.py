"""The edges of a graph from a table: which nodes they name, and which of them are one edge."""

import secrets
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from djgnn.errors import InputError, ReadingWarning
from djgnn.graph.cells import Problems, blank, check_rows
from djgnn.graph.id_columns import ENOUGH, FORMS, PREFIX, common_form
from djgnn.graph.table_columns import read_weights
from djgnn.graph.table_rules import TableOptions
from djgnn.graph.table_text import Table

MOST_LOST = 0.1


def read_ids(where: str, column: pl.Series) -> pl.Series:
    """A column of ids as text; numbers that a program made floats are whole again."""
    if column.dtype.is_float():
        whole = column.fill_nan(None).cast(pl.Int64, strict=False)
        if not bool((whole.cast(column.dtype) == column.fill_nan(None)).all()):
            raise InputError(
                f"{where}: column {column.name!r} holds ids; store whole numbers or text "
                f"(got {column.dtype})"
            )
        column = whole
    return column.cast(pl.String)


class Ends(NamedTuple):
    """The nodes of a table, in which those that only edges name can have a row, and the ends.

    Shapes:
        place ``[2, E]``: the number of the node that every end names, -1 for none.
    """

    nodes: Table
    ids: pl.Series
    others: pl.Series
    place: NDArray[np.int64]


def find_ends(
    edges: Table,
    roles: Mapping[str, str | None],
    nodes: Table,
    ids: pl.Series,
    options: TableOptions,
) -> Ends:
    """Which nodes the edges name; nodes that only edges name are added if the options say so.

    These have no cells but the id. Without a word in the options they are added if edges name at
    least half of the rows; if they name none, the ids differ and nothing is added.

    Args:
        edges: The edge table.
        roles: Its columns.
        nodes: The node table.
        ids: The id of every row.
        options: ``others`` and ``add_nodes`` count.
    """
    given, where = set(ids.to_list()), edges.where
    more = [name for name in options.get("others", ()) if name not in given]
    others, add = pl.Series(more, dtype=pl.String), options.get("add_nodes")
    pair = [read_ids(where, edges.frame[str(roles[role])]) for role in ("source", "target")]
    index = _places(where, pair, pl.concat([ids, others]))
    lost, count = index < 0, len(ids)
    if add is False or not lost.any():
        return Ends(nodes, ids, others, index)
    seen = np.zeros(count + len(others), dtype=np.bool_)
    seen[index[~lost]] = True
    cells = common_form(blank(pl.concat(pair).filter(lost.reshape(-1))))
    names = cells.drop_nulls().unique(maintain_order=True).alias(ids.name)
    names = names.filter(~names.is_in(pl.concat([ids, others]).implode()))
    if len(names) and (seen.any() if add else seen[:count].mean() >= ENOUGH):
        index[index >= count] += len(names)
        found = _look_up([cells], names)[0]
        index[lost] = np.where(found < 0, -1, found + count)
        rows = [nodes.frame.with_columns(ids), pl.DataFrame([names])]
        nodes = replace(nodes, frame=pl.concat(rows, how="diagonal"))
        ids = pl.concat([ids, names])
    return Ends(nodes, ids, others, index)


def edge_fields(
    edges: Table,
    roles: Mapping[str, str | None],
    ids: pl.Series,
    index: NDArray[np.int64],
    options: TableOptions,
) -> tuple[dict[str, Any], str]:
    """The fields of `Graph` that an edge table gives, and what to say about its rows.

    Raises:
        InputError: If more than a tenth of the edges name no node, or a weight is wrong.
    """
    where, table, problems = edges.where, edges.frame, Problems()
    lost = (index < 0).any(axis=0)
    kept = np.flatnonzero(~lost)
    problems.attempt(_check_lost, edges, roles, index, ids)
    weight = None
    if roles["weight"]:
        column, good = table[roles["weight"]], np.asarray(~lost)
        weight = problems.attempt(read_weights, where, column, good, edges.semicolons)
    problems.stop()
    weight = None if weight is None else weight[kept]
    index, weight, again = _merge_duplicates(where, index[:, kept], weight, ids, options)
    note = ""
    if again:
        rule = options.get("duplicates", "first")
        how = f"their {rule} counts" if rule != "first" else "the first counts"
        note = f"; {again:,} rows repeat an edge, {how} (`duplicates=` first, sum, mean, max)"
    return {"edge_index": index, "edge_weight": weight}, note


def _check_lost(
    edges: Table, roles: Mapping[str, str | None], index: NDArray[np.int64], ids: pl.Series
) -> None:
    """Warn of edges that name no node.

    Raises:
        InputError: If they are more than a tenth of all.
    """
    lost = (index < 0).any(axis=0)
    count, total = int(lost.sum()), lost.size
    if not count:
        return
    where, row = edges.where, int(np.argmax(lost))
    end = roles["source" if index[0, row] < 0 else "target"]
    column = edges.frame[str(end)].cast(pl.String)
    cell = str(column[row]).lower()
    case = "; letter case differs" if (ids.str.to_lowercase() == cell).any() else ""
    if count <= MOST_LOST * total:
        warnings.warn(
            f"{where}: {count:,} of {total:,} edges name a node that is not in the node table and "
            f"are left out, the first in row {row + 1}{case}; `add_nodes=` adds such nodes (got "
            f"{column[row]!r}, ids are like {ids[0]!r})",
            ReadingWarning,
            stacklevel=5,
        )
        return
    remedy = "add it there, drop the edge or add all such nodes with `add_nodes=`"
    remedy += f" ({total - count:,} of {total:,} edges match)"
    if count == total:
        remedy = f"write ids alike in both files (none of {total:,} edges match)"
    what = f"no such node in the node table, where ids are like {ids[0]!r}{case}; {remedy}"
    check_rows(where, column, lost, what, "an edge needs two nodes")


def _places(where: str, pair: list[pl.Series], ids: pl.Series) -> NDArray[np.int64]:
    """The number of the node that every end names, -1 for none, ``[2, E]``.

    Those that are not found as they are written are compared in each of ``FORMS``, as long as no
    two nodes become the same; without the letters before numbers only if no end was found and
    either the ends or the ids have such letters.
    """
    index = _look_up(pair, ids)
    places = index.reshape(-1)
    left = np.flatnonzero(places < 0)
    cells = pl.concat(pair)[left] if left.size else pair[0]
    for how, form in FORMS.items() if left.size else ():
        plain, written = form(ids), form(cells)
        if how == PREFIX:
            both = not plain.equals(ids) and not written.equals(cells)
            if both or left.size < places.size:
                continue
        if plain.n_unique() < len(plain):
            continue
        ids, cells = plain, written
        found = _look_up([cells], ids)[0]
        if (found >= 0).any():
            places[left], cells = found, cells.filter(found < 0)
            left = left[found < 0]
            warnings.warn(
                f"{where}: ids are compared {how}, as they are written otherwise than in the node "
                "table",
                ReadingWarning,
                stacklevel=5,
            )
    return index


def _look_up(columns: list[pl.Series], ids: pl.Series) -> NDArray[np.int64]:
    """The place in `ids` of every text, -1 where it is not there, ``[columns, rows]``.

    Compares hashes of 64 bits, several times faster than text: the first bits choose a slot of a
    table that holds one id; what is not there is searched for among all ids. The seed is drawn anew
    for every call, so no file can be made to let two names collide; by chance, ten million unknown
    names meet one of a million ids once in two million files.
    """
    seed = secrets.randbits(62)
    marks = ids.hash(seed).to_numpy()
    order = np.argsort(marks)
    if (np.diff(marks[order]) == 0).any():  # two ids of one hash: another seed
        return _look_up(columns, ids)
    bits = min(28, max(8, len(ids).bit_length() + 4))
    shift = np.uint64(64 - bits)
    slots = np.zeros(2**bits, dtype=np.int64)
    slots[marks >> shift] = np.arange(len(ids))
    index = np.empty((len(columns), len(columns[0])), dtype=np.int64)
    for found, column in zip(index, columns, strict=True):
        asked = column.hash(seed).to_numpy()
        np.take(slots, (asked >> shift).view(np.int64), out=found, mode="clip")
        rest = np.flatnonzero(marks[found] != asked)
        place = np.searchsorted(marks, asked[rest], sorter=order)
        guess = order[np.minimum(place, len(ids) - 1)]
        found[rest] = np.where(marks[guess] == asked[rest], guess, -1)
    return index


def _merge_duplicates(
    where: str,
    ends: NDArray[np.int64],
    weight: NDArray[np.float64] | None,
    ids: pl.Series,
    options: TableOptions,
) -> tuple[NDArray[np.int64], NDArray[np.float64] | None, int]:
    """Apply the rule for edges listed twice, in the order of their first appearance.

    If symmetric, an edge and its reverse are one, and both directions are returned. Returns the
    number of rows that were merged, too.

    Shapes:
        ends ``[2, E]``, weight ``[E]``.
    """
    rule, symmetric = options.get("duplicates", "first"), options.get("symmetric", False)
    low, high = (ends.min(axis=0), ends.max(axis=0)) if symmetric else ends
    key = low * len(ids) + high
    ordered = np.sort(key)
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    if twice.size:  # usually few, so that only these are compared
        places = np.flatnonzero(pl.Series(key).is_in(pl.Series(twice).unique().implode()))
        first = np.ones(key.size, dtype=np.bool_)
        first[places] = pl.Series(key[places]).is_first_distinct().to_numpy()
        if rule == "error":
            row = int(np.argmin(first))
            earlier = int(np.argmax(key == key[row])) + 1
            pair = " -> ".join(str(ids[int(v)]) for v in ends[:, row])
            raise InputError(
                f"{where}: row {row + 1} lists an edge again that is in row {earlier}; drop it or "
                f"choose another rule with `duplicates=` (got {pair})"
            )
        if rule == "sum" and weight is None:
            weight = np.ones(key.size)
        if weight is not None:
            groups = pl.DataFrame({"key": key, "w": weight}).group_by("key", maintain_order=True)
            weight = getattr(groups, rule)()["w"].to_numpy()  # first, sum, mean or max
        ends = np.stack([row[first] for row in ends])
    if symmetric:
        other = ends[0] != ends[1]
        ends = np.concatenate([ends, ends[::-1, other]], axis=1)
        weight = None if weight is None else np.concatenate([weight, weight[other]])
    return ends, weight, int(twice.size)
