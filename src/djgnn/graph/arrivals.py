"""Nodes that come later: their features, their edges to known nodes, and those among themselves."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from djgnn.errors import InputError, UnseenCategoryWarning
from djgnn.graph.graph import Graph
from djgnn.graph.table_rules import shorten

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Arrivals:
    """New nodes, as seen from a graph of n known ones.

    Shapes:
        node ``[m]`` (their place in the later graph), x ``[m, F]``; outgoing and incoming
        ``[m, n]`` (row i: weights of the edges from, and to, new node i); among ``[m, m]``.
    """

    node: NDArray[np.int64]
    names: tuple[str, ...]
    x: NDArray[np.float32] | sp.csr_array | None
    outgoing: sp.csr_array
    incoming: sp.csr_array
    among: sp.csr_array

    @property
    def num_nodes(self) -> int:
        """Number of new nodes m."""
        return len(self.names)

    def __repr__(self) -> str:
        known = self.outgoing.shape[1]
        return f"Arrivals(num_nodes={self.num_nodes}, num_known={known})"


def arrivals(later: Graph, known: Graph) -> tuple[Arrivals, NDArray[np.int64]]:
    """What is new in a later graph.

    Nodes are recognised by name (by number where neither graph has names). Edges between known
    nodes are left alone: they were learned from as they were.

    Args:
        later: Has the new nodes, and those known ones that they are linked with.
        known: The graph that was learned from.

    Returns:
        The new nodes; and for every node of `later` its number in `known`, -1 if it is new.

    Raises:
        InputError: If the features are not those of the known graph.

    Example:
        >>> known = Graph(np.array([[0], [1]]), num_nodes=2)
        >>> later = Graph(np.array([[2, 0, 2], [0, 3, 3]]), num_nodes=4)
        >>> new, place = arrivals(later, known)
        >>> new.outgoing.toarray().tolist(), new.incoming.toarray().tolist(), place.tolist()
        ([[1.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [1.0, 0.0]], [0, 1, -1, -1])
    """
    number = {name: i for i, name in enumerate(known.names())}
    names = later.names()
    place = np.array([number.get(name, -1) for name in names], dtype=np.int64)
    node = np.flatnonzero(place < 0)
    new = np.full(later.num_nodes, -1, dtype=np.int64)
    new[node] = np.arange(node.size)
    edges = sp.coo_array(later.adjacency)
    source, target = edges.coords

    def matrix(rows: Any, columns: Any, shape: tuple[int, int]) -> sp.csr_array:
        chosen = (rows >= 0) & (columns >= 0)
        parts = (edges.data[chosen], (rows[chosen], columns[chosen]))
        return sp.csr_array(sp.coo_array(parts, shape=shape))

    m, n = node.size, known.num_nodes
    found = Arrivals(
        node=node,
        names=tuple(names[i] for i in node.tolist()),
        x=_features(later, known, node),
        outgoing=matrix(new[source], place[target], (m, n)),
        incoming=matrix(new[target], place[source], (m, n)),
        among=matrix(new[source], new[target], (m, m)),
    )
    return found, place


def _features(later: Graph, known: Graph, node: NDArray[np.int64]) -> Any:
    """Rows of the new nodes, columns in the order of the known graph."""
    if known.x is None or node.size == 0:
        return None if known.x is None else known.x[:0]
    if later.x is None:
        raise InputError(
            f"{later.name}: has no features; the model was trained with {known.num_features} "
            "(give the new nodes the same columns)"
        )
    theirs, ours = later.card.get("features"), known.card.get("features")
    x = later.x[node]
    if theirs and ours and list(theirs) != list(ours):
        return _aligned(later.name, x, list(theirs), list(ours))
    if later.num_features != known.num_features:
        raise InputError(
            f"{later.name}: has {later.num_features} feature columns; the model was trained with "
            f"{known.num_features} (give the new nodes the same columns)"
        )
    return x


def _aligned(name: str, x: Any, theirs: Sequence[str], ours: Sequence[str]) -> Any:
    """Columns by name; an absent category is zero, an absent column is an error."""
    _check_columns(name, theirs, ours)
    place = {column: i for i, column in enumerate(theirs)}
    known = set(ours)
    unseen = [column for column in theirs if column not in known]
    if unseen:
        warnings.warn(
            f"{name}: {unseen[0]!r} was never seen in training and counts as no category",
            UnseenCategoryWarning,
            stacklevel=4,
        )
    rows = sp.csr_array(x)
    width = sp.csr_array((rows.shape[0], 1), dtype=np.float32)
    padded = sp.csr_array(sp.hstack([rows, width]))
    taken = padded[:, [place.get(column, len(theirs)) for column in ours]]
    return taken if sp.issparse(x) else taken.toarray()


def _check_columns(name: str, theirs: Sequence[str], ours: Sequence[str]) -> None:
    """Refuse columns that are missing, unknown, or of the other kind."""
    found, wanted = _kinds(theirs), _kinds(ours)
    columns = f"(got columns {shorten(theirs)})"
    for column, kind in found.items():
        if column not in wanted:
            raise InputError(
                f"{name}: feature column {column!r} is not one that the model was trained with; "
                f"leave it out {columns}"
            )
        if kind != wanted[column]:
            raise InputError(
                f"{name}: feature column {column!r} holds {kind}, the model was trained with "
                f"{wanted[column]}; mend it, or read the tables with the options that "
                f"`djgnn.graph.reading_of` gives {columns}"
            )
    for column in wanted:
        if column not in found:
            raise InputError(
                f"{name}: no feature column {column!r}, which the model was trained with; add it "
                f"{columns}"
            )


def _kinds(columns: Sequence[str]) -> dict[str, str]:
    """The columns of the table behind the columns of a matrix, and what they hold."""
    return {c.partition("=")[0]: "categories" if "=" in c else "numbers" for c in columns}


def check_related(later: Graph, known: Graph) -> None:
    """Refuse a graph in which names mean something else than in the one that was fitted.

    Raises:
        InputError: If no name is known; if without names the first nodes are not the known graph;
            or if of the edges between known names less than half are known.
    """
    remedy = f"call fit with it first, or give a later version of it (got {later!r})"
    names = set(known.names())
    familiar = sum(name in names for name in later.names())
    if familiar == 0:
        raise InputError(f"graph: has no node of the one this classifier was fitted on; {remedy}")
    if later.node_names is None and known.node_names is None:
        n = known.num_nodes
        inside = later.adjacency[:n, :n] if later.num_nodes > n else None
        if inside is None or (inside != known.adjacency).nnz:
            raise InputError(
                "graph: is not the one this classifier was fitted on, nor that with new nodes "
                f"after the known ones; {remedy}"
            )
        return
    there, shared = _shared_edges(later, known)
    if 2 * shared < there:
        raise InputError(
            f"graph: is not the one this classifier was fitted on: of its {there} edges between "
            f"nodes of those names only {shared} were there; {remedy}"
        )


def _shared_edges(later: Graph, known: Graph) -> tuple[int, int]:
    """Edges of a graph between known nodes, and how many of them are known."""
    number = {name: i for i, name in enumerate(known.names())}
    place = np.array([number.get(name, -1) for name in later.names()])
    source, target = place[later.edge_index]
    both = (source >= 0) & (target >= 0)
    n = known.num_nodes
    before = known.edge_index[0] * n + known.edge_index[1]
    return int(both.sum()), int(np.isin(source[both] * n + target[both], before).sum())
