"""How the tables of a graph were read: kept in its card, so that later tables are read alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from djgnn.errors import InputError

if TYPE_CHECKING:
    from djgnn.graph.graph import Graph
    from djgnn.graph.table_rules import EdgeColumns, NodeColumns, Rules

KEY = "tables"
ROLES = ("node", "label", "split", "source", "target", "weight")


@dataclass(frozen=True)
class Known:
    """What is known of tables that were read before.

    Args:
        roles: The column of every role, ``""`` = there was none.
        features: Feature columns in their order: ``None`` for numbers, else the categories.
        unused: Columns of the node table that were left alone.
    """

    roles: Mapping[str, str]
    features: Mapping[str, tuple[str, ...] | None]
    unused: tuple[str, ...] = ()


def remember(
    nodes: NodeColumns,
    edges: EdgeColumns,
    rules: Rules,
    features: Mapping[str, tuple[str, ...] | None],
) -> dict[str, Any]:
    """What was found out and decided about two tables, as plain values for a card."""
    roles = {role: getattr(edges if hasattr(edges, role) else nodes, role) or "" for role in ROLES}
    return {
        "roles": roles,
        "features": [[name, levels and list(levels)] for name, levels in features.items()],
        "unused": list(nodes.unused),
        "symmetric": rules.symmetric,
        "duplicates": rules.duplicates,
        "unknown": list(rules.unknown),
    }


def reading_of(graph: Graph) -> dict[str, Any]:
    """Options of `read_tables` that read later tables as those of a graph were read.

    Args:
        graph: The graph. Of one that only names its features it is known which are categories, of
            any other nothing.

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
    said = graph.card.get(KEY)
    if said is None:
        names = graph.card.get("features")
        if not isinstance(names, list) or len(names) != graph.num_features:
            return {}
        return {"known": Known({}, _inferred(graph.x, list(map(str, names))))}
    try:
        known = Known(
            roles={role: str(said["roles"][role]) for role in ROLES},
            features={
                str(name): None if levels is None else tuple(map(str, levels))
                for name, levels in said["features"]
            },
            unused=tuple(map(str, said["unused"])),
        )
        if any(levels and len(set(levels)) < len(levels) for levels in known.features.values()):
            raise ValueError("a category occurs twice")
        symmetric, duplicates = bool(said["symmetric"]), str(said["duplicates"])
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{graph.name}: card[{KEY!r}] is damaged; fit again (got {type(error).__name__}: "
            f"{error})"
        ) from error
    return {"symmetric": symmetric, "duplicates": duplicates, "known": known}


def _inferred(x: Any, names: Sequence[str]) -> dict[str, tuple[str, ...] | None]:
    """Columns from the names of features: ``city=Rome`` is a category if it looks like one."""
    groups: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        groups.setdefault(name.partition("=")[0], []).append(place)
    columns: dict[str, tuple[str, ...] | None] = {}
    for stem, places in groups.items():
        if all("=" in names[place] for place in places) and _one_hot(x[:, places]):
            columns[stem] = tuple(names[place].partition("=")[2] for place in places)
        else:
            columns |= dict.fromkeys((names[place] for place in places), None)
    return columns


def _one_hot(block: Any) -> bool:
    """Whether every row has a single one, or nothing."""
    rows = sp.csr_array(block)
    return bool((rows.data == 1).all() and (np.diff(rows.indptr) <= 1).all())
