"""What a user may say about tables: which column is what, and what repeated edges mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

from djgnn.errors import InputError
from djgnn.graph.table_memory import Known

DUPLICATES = ("first", "sum", "mean", "max", "error")
GUESSES = {
    "source": ("source", "src", "from", "u", "source_id", "source_node", "head", "node1", "id1"),
    "target": ("target", "dst", "to", "v", "target_id", "target_node", "tail", "node2", "id2"),
    "weight": ("weight", "w", "edge_weight"),
    "node": ("node", "id", "node_id", "nodeid", "name", "node_name"),
    "label": ("label", "class", "y", "target", "labels", "classes"),
    "split": ("split", "partition"),
}
FLAGS = {"node": "--id-column", "label": "--label"} | {
    role: f"--{role}-column" for role in ("source", "target", "weight", "split")
}


class TableOptions(TypedDict, total=False):
    """The keywords of `read_tables`, `from_frames` and `read_graphml`; see `Rules`."""

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
    known: Known | None
    name: str | None


@dataclass(frozen=True)
class Rules:
    """How tables become a graph.

    Args:
        source: Column of the edge table; ``None`` = found by its usual names.
        target: Column of the edge table.
        weight: Column of the edge table, ``""`` = do not use any.
        node: Column of the node table with the ids.
        label: Column with the classes, ``""`` = none. Classes are sorted, by number if all are.
        split: Column with train / val / test or nothing, ``""`` = none.
        features: Feature columns, ``[]`` = none; all that are left by default.
        exclude: Columns that are not features.
        duplicates: What an edge listed twice means: ``first`` counts, ``sum``, ``mean`` or ``max``
            of the weights (1 without weights), or ``error``.
        symmetric: Every edge goes both ways; an edge and its reverse then count as duplicates.
        unknown: Cells of the label column that mean unknown.
        others: Names of nodes that edges may lead to though the node table has no row for them;
            they come after its nodes, without features or labels.
        known: What is known of tables read before, see :mod:`djgnn.graph.table_memory`: the same
            columns are taken, and encoded as they were; labels and splits are left alone.
        name: Name of the graph; the node file's by default.

    Raises:
        InputError: If `duplicates` is no rule.
    """

    source: str | None = None
    target: str | None = None
    weight: str | None = None
    node: str | None = None
    label: str | None = None
    split: str | None = None
    features: Sequence[str] | None = None
    exclude: Sequence[str] = ()
    duplicates: str = "first"
    symmetric: bool = False
    unknown: Sequence[str] = ("", "-1")
    others: Sequence[str] = ()
    known: Known | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        if self.duplicates not in DUPLICATES:
            raise InputError(
                f"duplicates: must be one of {', '.join(DUPLICATES)} (got {self.duplicates!r})"
            )


@dataclass(frozen=True)
class NodeColumns:
    """Which column of a node table is what."""

    node: str
    label: str | None
    split: str | None
    features: list[str]
    unused: list[str]

    @property
    def roles(self) -> list[str]:
        """The columns that are not features."""
        return [column for column in (self.node, self.label, self.split) if column]


@dataclass(frozen=True)
class EdgeColumns:
    """Which column of an edge table is what."""

    source: str
    target: str
    weight: str | None

    @property
    def used(self) -> list[str]:
        """All columns that play a role."""
        return [column for column in (self.source, self.target, self.weight) if column]


def node_columns(where: str, found: Sequence[str], rules: Rules) -> NodeColumns:
    """Find the columns of a node table.

    Raises:
        InputError: If a column that is needed or was named is not there.
    """
    known = rules.known or Known({}, {})
    free = [column for column in found if column not in known.features]
    before = known.roles.get
    node = str(pick_column(where, free, "node", rules.node, True, before("node")))
    left = [column for column in free if column != node]
    label = pick_column(where, left, "label", rules.label, False, before("label"))
    split = pick_column(where, left, "split", rules.split, False, before("split"))
    used = [column for column in (node, label, split) if column]
    features = _feature_columns(where, found, used, rules)
    if rules.known is not None:
        features, label, split = _known_features(where, found, features, rules.known), None, None
    taken = {*used, *features}
    unused = [column for column in found if column not in taken]
    return NodeColumns(node, label, split, features, unused)


def edge_columns(where: str, found: Sequence[str], rules: Rules) -> EdgeColumns:
    """Find the columns of an edge table.

    Raises:
        InputError: If a column that is needed or was named is not there.
    """
    before = (rules.known or Known({}, {})).roles.get
    source = str(pick_column(where, found, "source", rules.source, True, before("source")))
    target = str(pick_column(where, found, "target", rules.target, True, before("target")))
    if source == target:
        raise InputError(
            f"{where}: source and target must be two columns; name them with `source=` and "
            f"`target=` (--source-column, --target-column) (got {source!r} twice)"
        )
    weight = before("weight") if rules.weight is None else rules.weight
    return EdgeColumns(source, target, pick_column(where, found, "weight", weight, False))


def pick_column(
    where: str,
    columns: Sequence[str],
    role: str,
    given: str | None,
    required: bool,
    before: str | None = None,
) -> str | None:
    """The column that plays a role: the one given, else the first usual name that is there.

    Args:
        where: The file, for the message.
        columns: The columns found.
        role: One of the keys of ``GUESSES``.
        given: The user's choice; ``""`` means that there is no such column.
        required: Whether a graph cannot do without.
        before: The column that played it in earlier tables, taken if it is there.

    Raises:
        InputError: If the column is missing, with the columns found.

    Example:
        >>> pick_column("e.csv", ["Src", "dst"], "source", None, True)
        'Src'
    """
    if given == "" and not required:
        return None
    if given is not None and given in columns:
        return given
    if given is None:
        if before in columns:
            return before
        usual = {column.strip().casefold(): column for column in reversed(columns)}
        for guess in GUESSES[role]:
            if guess in usual:
                return usual[guess]
        if not required:
            return None
    wanted = repr(given) if given is not None else " or ".join(GUESSES[role][:4])
    raise InputError(
        f"{where}: no column {wanted} for the {role}; name it with `{role}=` ({FLAGS[role]}) and "
        f"check that the first line is a header (got columns {shorten(columns)})"
    )


def repeated(names: Sequence[str]) -> str | None:
    """The first name that occurred before.

    Example:
        >>> repeated(["a", "b", "a"]), repeated(["a"])
        ('a', None)
    """
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def shorten(columns: Sequence[str], most: int = 20) -> str:
    """Some column names for a message, cut where there are many or long ones."""
    more = f" and {len(columns) - most} more" if len(columns) > most else ""
    return ", ".join(column[:40] for column in columns[:most]) + more


def _feature_columns(
    where: str, found: Sequence[str], used: Sequence[str], rules: Rules
) -> list[str]:
    left = dict.fromkeys(column for column in found if column not in used)
    features, exclude = (
        [value] if isinstance(value, str) else value for value in (rules.features, rules.exclude)
    )
    for column in (*(features or ()), *(exclude or ())):
        if column not in left:
            state = "is not there" if column not in found else "is the id, label or split"
            raise InputError(
                f"{where}: feature column {column!r} {state}; choose among the other columns "
                f"(got columns {shorten(found)})"
            )
    chosen = dict.fromkeys(left if features is None else features)
    return [column for column in chosen if column not in (exclude or ())]


def _known_features(
    where: str, found: Sequence[str], chosen: Sequence[str], known: Known
) -> list[str]:
    """The columns of earlier tables: all must be there, and none besides."""
    there = set(chosen)
    missing = [column for column in known.features if column not in there]
    if missing:
        remedy = "do not leave it out" if missing[0] in found else "add it"
        raise InputError(
            f"{where}: no feature column {missing[0]!r}, which the model was trained with; "
            f"{remedy} (got columns {shorten(found)})"
        )
    expected = {*known.features, *known.unused, *map(known.roles.get, ("label", "split"))}
    strange = [column for column in chosen if column not in expected]
    if strange:
        raise InputError(
            f"{where}: feature column {strange[0]!r} is not one that the model was trained with; "
            f"leave it out with `exclude=` (--exclude) (got columns {shorten(found)})"
        )
    return list(known.features)
