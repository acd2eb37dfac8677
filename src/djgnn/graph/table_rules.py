"""Which column of a table plays which role, and how the tables of a graph were read before."""

from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any, NotRequired, TypedDict

import msgspec
import numpy as np
from numpy.typing import NDArray

from djgnn.checking import check_file
from djgnn.errors import InputError, TableError
from djgnn.graph.graph import Graph

DUPLICATES = ("first", "sum", "mean", "max", "error")
USUAL_NAMES = {
    "source": (
        *("source", "src", "from", "u", "source_id", "source_node", "head", "node1", "id1", "id_1"),
        *("node_1", "from_id", "src_id", "from_node", "fromnodeid", "start", "sender", "citing"),
    ),
    "target": (
        *("target", "dst", "to", "v", "target_id", "target_node", "tail", "node2", "id2", "id_2"),
        *("node_2", "to_id", "dst_id", "to_node", "tonodeid", "end", "receiver", "cited"),
    ),
    "weight": ("weight", "w", "edge_weight"),
    "node": ("node", "id", "node_id", "nodeid", "name", "node_name"),
    "label": ("label", "class", "y", "target", "labels", "classes"),
    "split": ("split", "partition"),
}
UNKNOWN = ("", "-1")
HEADERS = ("both", "edges", "nodes", "none")
MOST_SHOWN = 20


class Reading(TypedDict):
    """How the tables of a graph were read: what ``graph.card["tables"]`` holds.

    Roles name their column, ``""`` = none. Columns are what the encoders learned, see
    :mod:`djgnn.graph.encoders`; version 0.1 wrote `features` instead, each with its categories,
    ``None`` for numbers. Unused are the other columns of the node table. Notes say in words how the
    files were read, warnings what was doubtful, where a command read them.
    """

    roles: dict[str, str]
    columns: NotRequired[list[dict[str, Any]]]
    features: NotRequired[list[tuple[str, list[str] | None]]]
    unused: list[str]
    symmetric: bool
    duplicates: str
    unknown: list[str]
    notes: NotRequired[list[str]]
    warnings: NotRequired[list[str]]


class TableOptions(TypedDict, total=False):
    """The keywords of `read_tables`, `from_frames` and `read_graphml`.

    Args:
        source: Column of the edge table; ``None`` = found by its usual names and by which columns
            name nodes.
        target: Column of the edge table.
        weight: Column of the edge table, ``""`` = do not use any.
        node: Column of the node table with the ids; ``None`` = the one that the edges refer to.
        label: Column with the classes, ``""`` = none. Classes are sorted, by number if all are.
        split: Column with train / val / test or nothing, ``""`` = none.
        features: Feature columns, ``[]`` = none; all other columns by default.
        exclude: Columns that are not features.
        duplicates: What an edge listed twice means: ``first`` counts (the default), ``sum``,
            ``mean`` or ``max`` of the weights (1 without weights), or ``error``.
        symmetric: Add the reverse of every edge; an edge and its reverse are then duplicates.
        unknown: Cells of the label column that mean unknown; by default empty ones, ``-1``, ``NA``,
            ``null`` and the like.
        columns: What columns are, by name or pattern: ``{"zip": "category", "f*": "raw"}``; one of
            number, category, text, date, truth, raw (a number as it is, text as a category) and
            drop; ``number:,`` has a decimal comma, ``date:%m/%d/%Y`` this form.
        header: Which tables have a header line: ``both``, ``edges``, ``nodes`` or ``none``;
            detected by default.
        separator: Between cells of both tables: comma, semicolon, tab, bar, space or the character;
            detected by default.
        add_nodes: Add the nodes that only edges name, after those of the node table, without label
            and with missing features; ``None`` = if the table has no features.
        others: Names of nodes that edges may lead to though the node table has no row for them;
            they come after its nodes, without features or labels.
        known: How earlier tables were read, see :func:`reading_of`: the same columns are used, and
            encoded as they were; labels and splits are not read.
        name: Name of the graph; the node file's by default.
    """

    source: str | None
    target: str | None
    weight: str | None
    node: str | None
    label: str | None
    split: str | None
    features: Sequence[str] | None
    exclude: Sequence[str]
    duplicates: str
    symmetric: bool
    unknown: Sequence[str] | None
    columns: Mapping[str, str]
    header: str | None
    separator: str | None
    add_nodes: bool | None
    others: Sequence[str]
    known: Reading | None
    name: str | None


def find_columns(
    where: str, found: Sequence[str], roles: Sequence[str], options: TableOptions
) -> dict[str, str | None]:
    """Find the column of each role: the one named, that of earlier tables, or a usual name.

    Args:
        where: The file, for messages.
        found: The columns that are there.
        roles: Some of the keys of ``USUAL_NAMES``.
        options: What the user said.

    Raises:
        InputError: If a column that is needed or was named is not there.

    Example:
        >>> find_columns("n.csv", ["size", "ID", "y"], ("node", "label", "split"), {})
        {'node': 'ID', 'label': 'y', 'split': None}
    """
    known = options.get("known")
    before = known["roles"] if known else {}
    trained = trained_columns(known) if known and "node" in roles else []
    left = [column for column in found if column not in trained]
    picked: dict[str, str | None] = {}
    for role in roles:
        given: Any = options.get(role)
        if role == "weight" and given is None:
            given = before.get(role)  # without the weights it would be another graph
        usual = {column.strip().casefold(): column for column in reversed(left)}
        guesses = [before.get(role), *map(usual.get, USUAL_NAMES[role])]
        column = next((c for c in (guesses if given is None else [given]) if c in left), None)
        if column is None and len(found) < 2 and role in ("source", "target"):
            raise InputError(
                f"{where}: has one column and needs two, for the ends of an edge; if they are "
                f"separated otherwise, say how with `separator=` (got column {shorten(found)})"
            )
        if column is None and (given or role in ("node", "source", "target")):
            wanted = repr(given) if given is not None else " or ".join(USUAL_NAMES[role][:4])
            check = "it has no header line, so columns are named by their place"
            if "column_1" not in found:
                check = "check that the first line is a header"
            near = get_close_matches(given or "", left, n=1)
            if near:
                check = f"did you mean {near[0]!r}?"
            raise InputError(
                f"{where}: no column {wanted} for the {role}; name it with `{role}=`; {check} "
                f"(got columns {shorten(left)})"
            )
        picked[role] = column
        left = [other for other in left if other != column]
    return picked


def feature_columns(
    where: str, found: Sequence[str], taken: Collection[str | None], options: TableOptions
) -> list[str]:
    """All columns without a role, or those the user chose; after training, the same as there.

    Args:
        where: The file, for messages.
        found: The columns that are there.
        taken: Those with a role.
        options: What the user said.

    Raises:
        InputError: If a column is not there, has a role, or is not one of those in training; or if
            a kind was said of none.
    """
    features, exclude = (
        [names] if isinstance(names, str) else names
        for names in (options.get("features"), options.get("exclude") or ())
    )
    left = dict.fromkeys(column for column in found if column not in taken)
    problems = [
        f"feature column {name!r} is {'the id, label or split' if name in found else 'not there'}; "
        "choose among the other columns"
        for name in (*(features or ()), *(exclude or ()))
        if name not in left
    ]
    chosen = dict.fromkeys(left if features is None else features)
    chosen = {name: None for name in chosen if name not in (exclude or ())}
    known = options.get("known")
    if known:
        trained = trained_columns(known)
        seen = {*trained, *known["unused"], *map(known["roles"].get, ("label", "split"))}
        problems += [
            f"no feature column {name!r}, which the model was trained with; "
            f"{'do not leave it out' if name in found else 'add it'}"
            for name in trained
            if name not in chosen
        ]
        problems += [
            f"feature column {name!r} is not one that the model was trained with; leave it out "
            "with `exclude=`"
            for name in chosen
            if name not in seen
        ]
        chosen = dict.fromkeys(trained)
    elif left:  # `f*=raw` is fine for a table without features
        problems += [
            f"`columns=` says {name}={kind}, and no column is {name!r}; {_near(name, found)}"
            for name, kind in (options.get("columns") or {}).items()
            if name not in left
            and not any(name == column or fnmatchcase(column, name) for column in found)
        ]
    if len(problems) == 1:
        raise InputError(f"{where}: {problems[0]} (got columns {shorten(found)})")
    if problems:
        raise TableError([f"{where}: {problem}" for problem in problems])
    return list(chosen)


def _near(name: str, found: Sequence[str]) -> str:
    """Which column a misspelt name may mean, in any case of letters, as advice."""
    folded = {column.casefold(): column for column in reversed(found)}
    near = get_close_matches(name.casefold(), folded, n=1)
    return f"did you mean {folded[near[0]]!r}?" if near else "check its name"


def shorten(columns: Sequence[str]) -> str:
    """Some column names for a message, cut where there are many or long ones."""
    more = f" and {len(columns) - MOST_SHOWN} more" if len(columns) > MOST_SHOWN else ""
    return ", ".join(column[:40] for column in columns[:MOST_SHOWN]) + more


def reading_of(graph: Graph) -> TableOptions:
    """Options of `read_tables` that read later tables as those of a graph were read.

    Args:
        graph: The graph; if it does not come from tables, there are no options.

    Raises:
        InputError: If its card is damaged.

    Example:
        >>> import polars as pl
        >>> from djgnn.graph import from_frames
        >>> e = pl.DataFrame({"a": ["x"], "b": ["y"], "fee": [2]})
        >>> n = pl.DataFrame({"id": ["x", "y"], "zip": ["A1", "75001"]})
        >>> g = from_frames(e, n, source="a", target="b", weight="fee")
        >>> later = from_frames(e, n[1:], **reading_of(g), others=g.names())
        >>> later.card["features"], later.edge_weight.tolist()
        (['zip=75001', 'zip=A1'], [2.0])
    """
    card = graph.card.get("tables")
    if card is None:
        return {}
    from djgnn.graph.encoders import stored_encoders

    place = f"{graph.name}: card['tables']"
    check_file(card, Reading, place, "fit again")
    try:
        stored_encoders(card)
    except msgspec.ValidationError as error:
        raise InputError(f"{place}: damaged, columns: {error}; fit again") from error
    return {"symmetric": card["symmetric"], "duplicates": card["duplicates"], "known": card}


def trained_columns(reading: Reading) -> list[str]:
    """The feature columns of tables that were read before."""
    if "columns" in reading:
        return [column["name"] for column in reading["columns"] if column["kind"] != "drop"]
    return [name for name, _ in reading.get("features", ())]


def reading_words(graph: Graph) -> dict[str, list[str]]:
    """How the tables of a graph were read: `notes` on files, on `columns`, and `warnings`."""
    from djgnn.graph.encoders import lines_of, stored_encoders

    known = reading_of(graph).get("known")
    if known is None:
        return {"notes": [], "columns": [], "warnings": []}
    notes, warned = known.get("notes", ()), known.get("warnings", ())
    columns = lines_of(stored_encoders(known))
    return {"notes": [*notes], "columns": columns, "warnings": [*warned]}


def column_groups(graph: Graph) -> dict[str, NDArray[np.int64]]:
    """Which features each column of a graph's node table became; none for other graphs."""
    from djgnn.graph.encoders import stored_encoders

    known = reading_of(graph).get("known")
    widths = {} if known is None else {e.name: len(e.names()) for e in stored_encoders(known)}
    ends = np.cumsum([0, *widths.values()])
    if ends[-1] != graph.num_features:
        return {}
    pairs = zip(widths, ends[:-1], ends[1:], strict=True)
    return {name: np.arange(start, end) for name, start, end in pairs if end > start}
