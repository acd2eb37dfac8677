"""Which column of a node table holds the ids, and which two of an edge table refer to them."""

from collections.abc import Collection, Mapping
from itertools import permutations
from typing import Any

import numpy as np
import polars as pl

from djgnn.graph.table_rules import USUAL_NAMES, TableOptions

MOST_EDGES = 5000
MOST_COLUMNS = 64
ENOUGH = 0.5
ROWS = {"row number": 0, "row number from 1": 1}


def refer(nodes: pl.DataFrame, edges: pl.DataFrame, options: TableOptions) -> dict[str, str]:
    """The columns of ids and ends by what is in them, as far as they were not named.

    Every choice of an id column and two edge columns is valued by the share of ends that are ids,
    times the share of ids that are distinct; usual names, the first columns and the number of
    distinct ends decide between choices that are about as good.

    Args:
        nodes: The node table.
        edges: The edge table.
        options: What the user said.

    Returns:
        The columns of ``node``, ``source`` and ``target``, nothing where no two columns of the
        edges refer to a column of the nodes. ``node`` is one of ``ROWS`` if the ends are numbers of
        rows.

    Example:
        >>> n = pl.DataFrame({"id": [70, 80, 90], "new": [0, 1, 2]})
        >>> refer(n, pl.DataFrame({"when": [80, 90], "a": [0, 2], "b": [1, 0]}), {})
        {'node': 'new', 'source': 'a', 'target': 'b'}
    """
    roles = ("node", "source", "target")
    said: dict[str, Any] = {role: options.get(role) for role in roles}
    if all(said.values()) or not edges.height or not nodes.height:
        return {}
    step = max(1, edges.height // MOST_EDGES)
    ends = _candidates(edges[::step])
    taken = {options.get("label"), options.get("split")}
    ids = _candidates(nodes[[said["node"]]] if said["node"] in nodes.columns else nodes, taken)
    best: tuple[float, dict[str, str]] = (0.0, {})
    for place, (name, column) in enumerate(ids.items()):
        distinct = column.n_unique() / len(column)
        values = column.unique().implode()
        covered = {
            end: cells.n_unique() / min(len(cells), len(column)) for end, cells in ends.items()
        }
        shares = {end: float(cells.is_in(values).mean() or 0) for end, cells in ends.items()}  # type: ignore[arg-type]
        for (first, source), (second, target) in permutations(enumerate(shares), 2):
            share = min(shares[source], shares[target]) * distinct
            if (said["source"] or source, said["target"] or target) != (source, target):
                continue
            value = share + 0.1 * _usual("node", name) + 0.02 * (place == 0)
            value += 0.1 * (_usual("source", source) + _usual("target", target))
            value += 0.05 * (first == 0) + 0.05 * (second == 1) - 0.1 * (first > second)
            value += 0.2 * min(covered[source], covered[target])
            if share >= ENOUGH and value > best[0]:
                best = (value, {"node": name, "source": source, "target": target})
    if best[1] or any(_usual("node", name) for name in nodes.columns):
        return best[1]
    return _row_numbers(nodes.height, ends, said)


def _row_numbers(
    rows: int, ends: dict[str, pl.Series], said: Mapping[str, str | None]
) -> dict[str, str]:
    """Whether the ends of edges are numbers of rows of a node table that has no such column."""
    if said["node"]:
        return {}
    pair = [name for name in (said["source"], said["target"]) if name]
    if len(pair) < 2:
        usual = {role: [n for n in ends if _usual(role, n)] for role in ("source", "target")}
        both = usual["source"] and usual["target"]
        pair = [usual["source"][0], usual["target"][0]] if both else list(ends)[:2]
    if len(pair) < 2:
        return {}
    numbers = pl.concat([ends[name].cast(pl.Int64, strict=False) for name in pair])
    low, high = numbers.min(), numbers.max()
    if numbers.null_count() or not isinstance(low, int) or not isinstance(high, int):
        return {}
    for name, first in ROWS.items():
        if first <= low and high < first + rows:
            return {"node": name, "source": pair[0], "target": pair[1]}
    return {}


def _usual(role: str, name: str) -> bool:
    return name.strip().casefold() in USUAL_NAMES[role]


def _candidates(frame: pl.DataFrame, others: Collection[str | None] = ()) -> dict[str, pl.Series]:
    """Columns that can hold ids, as text in a common form, those of the most distinct cells."""
    found: dict[str, pl.Series] = {}
    for column in frame.get_columns():
        kind = column.dtype
        text = kind in (pl.String, pl.Categorical, pl.Object) or isinstance(kind, pl.Enum)
        if column.name in others or not (text or kind.is_numeric()):
            continue
        if kind.is_float():
            values = column.drop_nulls().drop_nans().to_numpy()
            if bool((values != np.rint(values)).any()):
                continue
        found[column.name] = column
    if len(found) > MOST_COLUMNS:
        most = sorted(found, key=lambda name: -found[name].head(100).n_unique())[:MOST_COLUMNS]
        found = {name: column for name, column in found.items() if name in most}
    return {name: common_form(column) for name, column in found.items()}


def common_form(column: pl.Series) -> pl.Series:
    """Ids as text without spaces around them, whole numbers without a fraction.

    Example:
        >>> common_form(pl.Series([" 7", "7.0", "a.0"])).to_list()
        ['7', '7', 'a.0']
    """
    text = column.cast(pl.String).str.strip_chars()
    return text.str.replace(r"^([+-]?\d+)\.0+$", "${1}")
