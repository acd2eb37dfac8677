"""Which column of a node table holds the ids, and which two of an edge table refer to them."""

import re
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from djgnn.errors import ReadingWarning
from djgnn.graph.table_rules import USUAL_NAMES, TableOptions

MOST_EDGES = 5000
MOST_COLUMNS = 64
ENOUGH = 0.5
NEARLY = 0.9
ROWS = {"row number": 0, "row number from 1": 1}


def refer(
    where: Sequence[str], nodes: pl.DataFrame, edges: pl.DataFrame, options: TableOptions
) -> dict[str, str]:
    """The columns of ids and ends by what is in them, as far as they were not named.

    Every choice of an id column and two edge columns is valued by the share of ends that are ids,
    times the share of ids that are distinct; usual names, the first columns and the number of
    distinct ends decide between choices that are about as good. Of the id columns for these ends,
    one without a gap or repetition comes first, whatever its name. If no column fits as it is
    written, letter case, leading zeros and letters before numbers are left out.

    Args:
        where: The files of the nodes and of the edges, for warnings.
        nodes: The node table.
        edges: The edge table.
        options: What the user said.

    Returns:
        The columns of ``node``, ``source`` and ``target``, nothing where no two columns of the
        edges refer to a column of the nodes. ``node`` is one of ``ROWS`` if the ends are numbers of
        rows.

    Example:
        >>> n = pl.DataFrame({"id": [70, 80, 90], "new": [0, 1, 2]})
        >>> e = pl.DataFrame({"when": [80, 90], "a": [0, 2], "b": [1, 0]})
        >>> refer(("n.csv", "e.csv"), n, e, {})
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
    choices = _choices(ids, ends, said)
    if not choices:
        named, named_by = (
            {name: loose_form(column) for name, column in columns.items()}
            for columns in (ids, ends)
        )
        choices = [choice for choice in _choices(named, named_by, said) if choice.whole]
    if choices:
        best = max(choices, key=lambda choice: choice.value)
        rivals = [c for c in choices if (c.source, c.target) == (best.source, best.target)]
        if best.share < 1:
            whole = [choice for choice in rivals if choice.share == 1]
            best = max(whole, key=lambda choice: choice.value, default=best)
        _warn_of_rivals(where, best, rivals, ids)
        return {role: getattr(best, role) for role in roles}
    if any(_usual("node", name) for name in nodes.columns):
        return {}
    pair = _pair(ends, said)
    if said["node"] or len(pair) < 2 or not ids:
        return {}
    name = _row_numbers(where[0], ids, [ends[end] for end in pair])
    if name is None:
        name = _named_by_edges(ids, pl.concat([common_form(edges[end]) for end in pair]))
    return {} if name is None else {"node": name, "source": pair[0], "target": pair[1]}


class _Choice(NamedTuple):
    """An id column and two edge columns, how good they are, and which columns fit as well."""

    node: str
    source: str
    target: str
    value: float
    share: float
    whole: bool
    others: tuple[str, ...]


def _choices(
    ids: Mapping[str, pl.Series], ends: Mapping[str, pl.Series], said: Mapping[str, Any]
) -> list[_Choice]:
    """Every choice of columns in which at least half of the ends are ids."""
    found: list[_Choice] = []
    for place, (name, column) in enumerate(ids.items()):
        distinct = column.n_unique() / len(column)
        values = column.unique().implode()
        covered = {
            end: cells.n_unique() / min(len(cells), len(column)) for end, cells in ends.items()
        }
        shares = {end: float(cells.is_in(values).mean() or 0) for end, cells in ends.items()}  # type: ignore[arg-type]
        for (first, source), (second, target) in permutations(enumerate(shares), 2):
            least, some = min(shares[source], shares[target]), min(covered[source], covered[target])
            share = least * distinct
            if (said["source"] or source, said["target"] or target) != (source, target):
                continue
            value = share + 0.1 * _usual("node", name) + 0.02 * (place == 0)
            value += 0.1 * (_usual("source", source) + _usual("target", target))
            value += 0.05 * (first == 0) + 0.05 * (second == 1) - 0.1 * (first > second)
            value += 0.2 * some
            if share >= ENOUGH:
                others = tuple(
                    end
                    for end in shares
                    if end not in (source, target) and shares[end] >= least
                    if 2 * covered[end] >= some and not _usual("weight", end)
                )
                found.append(_Choice(name, source, target, value, share, distinct == 1, others))
    return found


def _warn_of_rivals(
    where: Sequence[str], best: _Choice, rivals: Sequence[_Choice], ids: Mapping[str, pl.Series]
) -> None:
    """Name the columns that could be meant as well: of ids, and of ends."""
    for rival in rivals:
        usual = _usual("node", rival.node) >= _usual("node", best.node)
        if rival.share >= NEARLY and usual and not ids[rival.node].equals(ids[best.node]):
            warnings.warn(
                f"{where[0]}: {best.share:.1%} of the ends of edges are in column {best.node!r}, "
                f"taken for the ids, and {rival.share:.1%} in {rival.node!r}; say which with "
                "`node=`",
                ReadingWarning,
                stacklevel=5,
            )
    named = _usual("source", best.source) and _usual("target", best.target)
    if best.others and not named:
        warnings.warn(
            f"{where[1]}: column {best.others[0]!r} names nodes too, as {best.source!r} and "
            f"{best.target!r} do, which are taken for the ends; say which with `source=` and "
            "`target=`",
            ReadingWarning,
            stacklevel=5,
        )


def _pair(ends: Mapping[str, pl.Series], said: Mapping[str, str | None]) -> list[str]:
    """The columns of the ends by their names, or else the first two."""
    pair = [name for name in (said["source"], said["target"]) if name]
    if len(pair) < 2:
        usual = {role: [n for n in ends if _usual(role, n)] for role in ("source", "target")}
        both = usual["source"] and usual["target"]
        pair = [usual["source"][0], usual["target"][0]] if both else list(ends)[:2]
    return pair


def _row_numbers(where: str, ids: Mapping[str, pl.Series], pair: Sequence[pl.Series]) -> str | None:
    """One of ``ROWS`` if the ends are numbers of rows of a node table that has no such column."""
    rows = len(next(iter(ids.values())))
    numbers = pl.concat([cells.cast(pl.Int64, strict=False) for cells in pair])
    low, high = numbers.min(), numbers.max()
    if numbers.null_count() or not isinstance(low, int) or not isinstance(high, int):
        return None
    for name, first in ROWS.items():
        if first <= low and high < first + rows:
            for column in ids.values():
                if bool(column.str.contains(r"^\S*[^\W\d]\S*$").all()) and column.is_unique().all():
                    warnings.warn(
                        f"{where}: the ends of edges are taken for row numbers, though column "
                        f"{column.name!r} looks like an id; write its cells into the edge table if "
                        f"they are not (got {column[0]!r})",
                        ReadingWarning,
                        stacklevel=5,
                    )
            return name
    return None


def _named_by_edges(ids: Mapping[str, pl.Series], ends: pl.Series) -> str | None:
    """The id column of a table with few of the nodes: nearly all of its cells are ends."""
    values = ends.unique().implode()
    for name, column in ids.items():
        known = int(column.is_in(values).sum())
        if known >= NEARLY * len(column) and column.n_unique() == len(column):
            return name
    return None


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


def without_prefix(column: pl.Series) -> pl.Series:
    """Numbers without the letters before them, if these are the same in every cell.

    Example:
        >>> without_prefix(pl.Series(["C17", "C8", None])).to_list()
        ['17', '8', None]
        >>> without_prefix(pl.Series(["C17", "D8"])).to_list()
        ['C17', 'D8']
    """
    cells = column.drop_nulls()
    found = re.match(r"[^\W\d_]+[-_ ]?(?=\d)", cells[0]) if len(cells) else None
    if found is None or not bool(cells.str.contains(rf"^{re.escape(found[0])}\d+$").all()):
        return column
    return column.str.strip_prefix(found[0])


PREFIX = "without the letters before them"
FORMS: dict[str, Callable[[pl.Series], pl.Series]] = {
    "without spaces around them or a fraction of zero": common_form,
    "without regard to capital letters": lambda column: column.str.to_lowercase(),
    PREFIX: without_prefix,
    "without leading zeros": lambda column: column.str.replace(r"^0+(\d)", "${1}"),
}
"""How ids are compared if they are not found as they are written, one after the other."""


def loose_form(column: pl.Series) -> pl.Series:
    """Ids as all of ``FORMS`` leave them.

    Example:
        >>> loose_form(pl.Series(["C0017", " c12"])).to_list()
        ['17', '12']
    """
    for form in FORMS.values():
        column = form(column)
    return column
