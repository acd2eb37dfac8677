"""Which column of a table plays which role, and how the tables of a graph were read before."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypedDict

from djgnn.checking import check_file
from djgnn.errors import InputError

if TYPE_CHECKING:
    import polars as pl

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
    unused: list[str] = field(default_factory=list)


def node_columns(where: str, table: pl.DataFrame, options: TableOptions) -> Columns:
    """Find the columns of a node table.

    Raises:
        InputError: If a column that is needed or was named is not there, or holds lists or bytes.
    """
    found = table.columns
    known = options.get("known")
    trained = dict(known["features"]) if known else {}
    free = [column for column in found if column not in trained]
    node = pick_column(where, free, "node", options)
    left = [column for column in free if column != node]
    roles = {role: pick_column(where, left, role, options) for role in ("label", "split")}
    taken = {node, *roles.values()}
    features = _feature_columns(where, found, taken, options)
    if known:
        features = _known_features(where, found, features, known)
        roles = {"label": None, "split": None}
    unused = [column for column in found if column not in {*taken, *features}]
    _check_cells(where, table, [node, *roles.values(), *features])
    return Columns(where, {"node": node, **roles}, features, unused)


def edge_columns(where: str, table: pl.DataFrame, options: TableOptions) -> Columns:
    """Find the columns of an edge table.

    Raises:
        InputError: If a column that is needed or was named is not there, or holds lists or bytes.
    """
    found = table.columns
    roles = {role: pick_column(where, found, role, options) for role in ("source", "target")}
    if roles["source"] == roles["target"]:
        raise InputError(
            f"{where}: source and target must be two columns; name them with `source=` and "
            f"`target=` (got {roles['source']!r} twice)"
        )
    known = options.get("known")
    if known and options.get("weight") is None:  # without the weights it is another graph
        options = {**options, "weight": known["roles"].get("weight")}
    roles["weight"] = pick_column(where, found, "weight", options)
    _check_cells(where, table, roles.values())
    return Columns(where, roles)


def _check_cells(where: str, table: pl.DataFrame, used: Iterable[str | None]) -> None:
    """Refuse columns with lists, structs or bytes."""
    import polars as pl

    for name in filter(None, used):
        dtype = table.schema[name]
        if dtype.is_nested() or dtype == pl.Binary:
            raise InputError(
                f"{where}: column {name!r} holds lists or bytes; store one number or text per cell "
                f"(got {dtype})"
            )


def pick_column(where: str, columns: Sequence[str], role: str, options: TableOptions) -> str | None:
    """The column that plays a role: the one named, that of earlier tables, or a usual name.

    Args:
        where: The file, for the message.
        columns: The columns found.
        role: One of the keys of ``USUAL_NAMES``.
        options: What the user said; ``""`` means that there is no such column.

    Raises:
        InputError: If the column is missing, with the columns found.

    Example:
        >>> pick_column("e.csv", ["Src", "dst"], "source", {})
        'Src'
    """
    given: Any = options.get(role)
    known = options.get("known")
    required = role in ("node", "source", "target")
    if given in columns or (given == "" and not required):
        return given or None
    if given is None:
        usual = {column.strip().casefold(): column for column in reversed(columns)}
        before: Any = known["roles"].get(role) if known else None
        if before in columns:
            return str(before)
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
    where: str, found: Sequence[str], taken: Collection[str | None], options: TableOptions
) -> list[str]:
    """All columns that have no role, or those that the user chose among them."""
    features, exclude = options.get("features"), options.get("exclude") or ()
    features = [features] if isinstance(features, str) else features
    exclude = [exclude] if isinstance(exclude, str) else exclude
    left = dict.fromkeys(column for column in found if column not in taken)
    for column in (*(features or ()), *exclude):
        if column not in left:
            state = "is not there" if column not in found else "is the id, label or split"
            raise InputError(
                f"{where}: feature column {column!r} {state}; choose among the other columns "
                f"(got columns {shorten(found)})"
            )
    return [c for c in dict.fromkeys(left if features is None else features) if c not in exclude]


def _known_features(
    where: str, found: Sequence[str], chosen: Sequence[str], known: Reading
) -> list[str]:
    """The feature columns of earlier tables; a missing one and a new one are errors."""
    trained = list(dict(known["features"]))
    there = set(chosen)
    missing = [column for column in trained if column not in there]
    if missing:
        remedy = "do not leave it out" if missing[0] in found else "add it"
        raise InputError(
            f"{where}: no feature column {missing[0]!r}, which the model was trained with; "
            f"{remedy} (got columns {shorten(found)})"
        )
    seen = {*trained, *known["unused"], *map(known["roles"].get, ("label", "split"))}
    extra = [column for column in chosen if column not in seen]
    if extra:
        raise InputError(
            f"{where}: feature column {extra[0]!r} is not one that the model was trained with; "
            f"leave it out with `exclude=` (got columns {shorten(found)})"
        )
    return trained


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
