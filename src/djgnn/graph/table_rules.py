"""Which column of a table plays which role, and how the tables of a graph were read before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypedDict

from djgnn.checking import check_file
from djgnn.errors import InputError

if TYPE_CHECKING:
    from djgnn.graph.graph import Graph

DUPLICATES = ("first", "sum", "mean", "max", "error")
USUAL_NAMES = {
    "source": ("source", "src", "from", "u", "source_id", "source_node", "head", "node1", "id1"),
    "target": ("target", "dst", "to", "v", "target_id", "target_node", "tail", "node2", "id2"),
    "weight": ("weight", "w", "edge_weight"),
    "node": ("node", "id", "node_id", "nodeid", "name", "node_name"),
    "label": ("label", "class", "y", "target", "labels", "classes"),
    "split": ("split", "partition"),
}
UNKNOWN = ("", "-1")
Features = Mapping[str, Sequence[str] | None]


class Reading(TypedDict):
    """How the tables of a graph were read: what ``graph.card["tables"]`` holds.

    Roles name their column, ``""`` = none. Feature columns are in their order, each with its
    categories, ``None`` for numbers; unused are the other columns of the node table.
    """

    roles: dict[str, str]
    features: list[tuple[str, list[str] | None]]
    unused: list[str]
    symmetric: bool
    duplicates: str
    unknown: list[str]


class TableOptions(TypedDict, total=False):
    """The keywords of `read_tables`, `from_frames` and `read_graphml`.

    Args:
        source: Column of the edge table; ``None`` = found by its usual names.
        target: Column of the edge table.
        weight: Column of the edge table, ``""`` = do not use any.
        node: Column of the node table with the ids.
        label: Column with the classes, ``""`` = none. Classes are sorted, by number if all are.
        split: Column with train / val / test or nothing, ``""`` = none.
        features: Feature columns, ``[]`` = none; all other columns by default.
        exclude: Columns that are not features.
        duplicates: What an edge listed twice means: ``first`` counts (the default), ``sum``,
            ``mean`` or ``max`` of the weights (1 without weights), or ``error``.
        symmetric: Add the reverse of every edge; an edge and its reverse are then duplicates.
        unknown: Cells of the label column that mean unknown, empty ones and ``-1`` by default.
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
    unknown: Sequence[str]
    others: Sequence[str]
    known: Reading | None
    name: str | None


@dataclass(frozen=True)
class Columns:
    """Which column of a table is what: one per role, ``None`` = none; `where` is its file."""

    where: str
    roles: Mapping[str, str | None]
    features: list[str] = field(default_factory=list)
    unused: list[str] = field(default_factory=list, repr=False)


def find_columns(
    where: str, found: Sequence[str], roles: Sequence[str], options: TableOptions
) -> Columns:
    """Find the columns of a table: one for each role, and the features of a node table.

    Args:
        where: The file, for messages.
        found: The columns that are there.
        roles: Some of the keys of ``USUAL_NAMES``.
        options: What the user said.

    Raises:
        InputError: If a column that is needed or was named is not there.

    Example:
        >>> find_columns("n.csv", ["size", "ID", "y"], ("node", "label", "split"), {})
        Columns(where='n.csv', roles={'node': 'ID', 'label': 'y', 'split': None}, features=['size'])
    """
    known = options.get("known") if "node" in roles else None
    trained = dict(known["features"]) if known else {}
    left = [column for column in found if column not in trained]
    picked: dict[str, str | None] = {}
    for role in roles:
        picked[role] = _pick_column(where, left, role, options)
        left = [column for column in left if column != picked[role]]
    if "node" not in roles:
        return Columns(where, picked)
    features = _feature_columns(where, found, set(picked.values()), options)
    unused = [column for column in found if column not in {*picked.values(), *features}]
    if known:
        picked |= {"label": None, "split": None}
    return Columns(where, picked, features, unused)


def _pick_column(
    where: str, columns: Sequence[str], role: str, options: TableOptions
) -> str | None:
    """The column that plays a role: the one named, that of earlier tables, or a usual name."""
    given: Any = options.get(role)
    known = options.get("known")
    before = known["roles"].get(role) if known else None
    if role == "weight" and given is None:
        given = before  # without the weights it would be another graph
    required = role in ("node", "source", "target")
    if given in columns or (given == "" and not required):
        return given or None
    if given is None:
        if before in columns:
            return before
        usual = {column.strip().casefold(): column for column in reversed(columns)}
        for name in USUAL_NAMES[role]:
            if name in usual:
                return usual[name]
        if not required:
            return None
    wanted = repr(given) if given is not None else " or ".join(USUAL_NAMES[role][:4])
    raise InputError(
        f"{where}: no column {wanted} for the {role}; name it with `{role}=` and check that the "
        f"first line is a header (got columns {shorten(columns)})"
    )


def _feature_columns(
    where: str, found: Sequence[str], taken: set[str | None], options: TableOptions
) -> list[str]:
    """All columns without a role, or those the user chose; after training, the same as there."""
    features, exclude = options.get("features"), options.get("exclude") or ()
    features = [features] if isinstance(features, str) else features
    exclude = [exclude] if isinstance(exclude, str) else exclude
    left = dict.fromkeys(column for column in found if column not in taken)
    columns = f"(got columns {shorten(found)})"
    for name in (*(features or ()), *exclude):
        if name not in left:
            state = "is not there" if name not in found else "is the id, label or split"
            raise InputError(
                f"{where}: feature column {name!r} {state}; choose among the other columns "
                f"{columns}"
            )
    chosen = dict.fromkeys(left if features is None else features)
    chosen = {name: None for name in chosen if name not in exclude}
    known = options.get("known")
    if not known:
        return list(chosen)
    trained = dict(known["features"])
    for name in trained:
        if name not in chosen:
            remedy = "do not leave it out" if name in found else "add it"
            raise InputError(
                f"{where}: no feature column {name!r}, which the model was trained with; {remedy} "
                f"{columns}"
            )
    seen = {*trained, *known["unused"], *map(known["roles"].get, ("label", "split"))}
    for name in chosen:
        if name not in seen:
            raise InputError(
                f"{where}: feature column {name!r} is not one that the model was trained with; "
                f"leave it out with `exclude=` {columns}"
            )
    return list(trained)


def shorten(columns: Sequence[str], most: int = 20) -> str:
    """Some column names for a message, cut where there are many or long ones."""
    more = f" and {len(columns) - most} more" if len(columns) > most else ""
    return ", ".join(column[:40] for column in columns[:most]) + more


def check_options(options: TableOptions) -> None:
    """Refuse unknown keywords and rules.

    Raises:
        InputError: With those that there are.
    """
    for name in options.keys() - TableOptions.__annotations__.keys():
        known = ", ".join(TableOptions.__annotations__)
        raise InputError(f"{name}: no such option of tables; there are {known}")
    rule = options.get("duplicates", "first")
    if rule not in DUPLICATES:
        raise InputError(f"duplicates: must be one of {', '.join(DUPLICATES)} (got {rule!r})")


def reading_card(
    nodes: Columns, edges: Columns, features: Features, options: TableOptions
) -> dict[str, Any]:
    """How two tables were read, as a :class:`Reading` of plain values."""
    return {
        "roles": {role: column or "" for role, column in {**nodes.roles, **edges.roles}.items()},
        "features": [[name, levels and list(levels)] for name, levels in features.items()],
        "unused": nodes.unused,
        "symmetric": options.get("symmetric", False),
        "duplicates": options.get("duplicates", "first"),
        "unknown": list(options.get("unknown", UNKNOWN)),
    }


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
    check_file(card, Reading, f"{graph.name}: card['tables']", "fit again")
    return {"symmetric": card["symmetric"], "duplicates": card["duplicates"], "known": card}
