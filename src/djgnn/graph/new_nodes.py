"""Nodes that come later: their features, their edges to known nodes, and those among themselves."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from djgnn.errors import InputError, UnseenCategoryWarning
from djgnn.graph.graph import Graph
from djgnn.graph.table_rules import shorten

MANY_EDGES, SAMPLE, SURE = 1_000_000, 10_000, 0.6
"""Number of edges above which only a sample is checked, its size, and the share of known edges in
it above which at least half of all are surely known."""


@dataclass(frozen=True, eq=False)
class Arrivals:
    """New nodes, as seen from a graph of n known ones.

    Shapes:
        node ``[m]`` (their place in the later graph), x ``[m, F]``; outgoing and incoming
        ``[m, n]`` (row i: weights of the edges from, and to, new node i); among ``[m, m]``.

    Example:
        >>> known = Graph([[0, 1], [1, 0]], 2, node_names=("a", "b"))
        >>> later = Graph([[0, 2], [1, 0]], 3, node_names=("a", "b", "c"))
        >>> new, _ = arrivals(later, known)
        >>> new.names, new.outgoing.toarray().tolist()
        (('c',), [[1.0, 0.0]])
    """

    node: NDArray[np.int64]
    names: tuple[str, ...]
    x: NDArray[np.float32] | sp.csr_array | None
    outgoing: sp.csr_array
    incoming: sp.csr_array
    among: sp.csr_array
    made: dict[Any, Any] = field(default_factory=dict, repr=False)
    """What several experts need of them; the first one makes it."""

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
    place = places(later, known)
    node = np.flatnonzero(place < 0)
    new = np.full(later.num_nodes, -1, dtype=np.int64)
    new[node] = np.arange(node.size)
    edges = sp.coo_array(later.adjacency)
    theirs = np.flatnonzero((place[edges.row] < 0) | (place[edges.col] < 0))
    source, target, weight = edges.row[theirs], edges.col[theirs], edges.data[theirs]

    def matrix(rows: Any, columns: Any, width: int) -> sp.csr_array:
        chosen = (rows >= 0) & (columns >= 0)
        parts = (weight[chosen], (rows[chosen], columns[chosen]))
        return sp.csr_array(sp.coo_array(parts, shape=(node.size, width)))

    names = later.names()
    found = Arrivals(
        node=node,
        names=tuple(names[i] for i in node.tolist()),
        x=_features(later, known, node),
        outgoing=matrix(new[source], place[target], known.num_nodes),
        incoming=matrix(new[target], place[source], known.num_nodes),
        among=matrix(new[source], new[target], node.size),
    )
    return found, place


def places(later: Graph, known: Graph) -> NDArray[np.int64]:
    """For every node of `later` its number in `known`, -1 if it is new."""
    ours, theirs = known.names(), later.names()
    if theirs[: len(ours)] == ours:  # new nodes come after the known ones
        place = np.arange(later.num_nodes)
        place[len(ours) :] = -1
        return place
    number = {name: i for i, name in enumerate(ours)}
    return np.array([number.get(name, -1) for name in theirs], dtype=np.int64)


def _features(later: Graph, known: Graph, node: NDArray[np.int64]) -> Any:
    """Rows of the new nodes, columns by name in the order of the known graph.

    The column of a category that is absent in `later` is zero.
    """
    if known.x is None or node.size == 0:
        return None if known.x is None else known.x[:0]
    theirs, ours = (list(graph.card.get("features") or ()) for graph in (later, known))
    if later.x is None or (later.num_features != known.num_features and not (theirs and ours)):
        raise InputError(
            f"{later.name}: has {later.num_features or 'no'} feature columns; the model was "
            f"trained with {known.num_features} (give the new nodes the same columns)"
        )
    x = later.x[node]
    if not theirs or not ours or theirs == ours:
        return x
    _check_columns(later.name, theirs, ours)
    unseen = sorted(set(theirs) - set(ours), key=theirs.index)
    if unseen:
        warnings.warn(
            f"{later.name}: {unseen[0]!r} was never seen in training and counts as no category",
            UnseenCategoryWarning,
            stacklevel=3,
        )
    place = {column: i for i, column in enumerate(theirs)}
    absent = sp.csr_array((node.size, 1), dtype=np.float32)
    padded = sp.csr_array(sp.hstack([sp.csr_array(x), absent]))
    taken = padded[:, [place.get(column, len(theirs)) for column in ours]]
    return taken if sp.issparse(x) else taken.toarray()


def _check_columns(name: str, theirs: Sequence[str], ours: Sequence[str]) -> None:
    """Refuse columns of the table that are missing, unknown, or of the other kind."""
    found, wanted = (
        {c.partition("=")[0]: "categories" if "=" in c else "numbers" for c in columns}
        for columns in (theirs, ours)
    )
    for column in [*found, *wanted]:
        if column not in wanted:
            problem = f"feature column {column!r} is not one of those in training; leave it out"
        elif column not in found:
            problem = f"no feature column {column!r}, which the model was trained with; add it"
        elif found[column] != wanted[column]:
            problem = (
                f"feature column {column!r} holds {found[column]}, the model was trained with "
                f"{wanted[column]}; change it, or read the tables with the options that "
                "`djgnn.graph.reading_of` gives"
            )
        else:
            continue
        raise InputError(f"{name}: {problem} (got columns {shorten(theirs)})")


def _counted(source: NDArray[np.int64], target: NDArray[np.int64], n: int) -> sp.csr_array:
    """How often each edge is listed."""
    found = sp.csr_array((np.ones(source.size), (source, target)), shape=(n, n))
    found.sum_duplicates()
    return found


def _mostly_there(later: Graph, place: NDArray[np.int64], known: Graph) -> bool:
    """Whether of many edges between known nodes nearly all are known, judged by some of them."""
    if later.num_edges < MANY_EDGES:
        return False
    some = np.linspace(0, later.num_edges - 1, SAMPLE).astype(np.int64)
    ends = place[later.edge_index[:, some]]
    source, target = ends[:, (ends >= 0).all(axis=0)]
    if source.size <= SAMPLE // 10:
        return False
    found = np.asarray(known.adjacency[source, target]) != 0
    return bool(found.mean() > SURE)


def check_related(later: Graph, known: Graph) -> None:
    """Refuse a graph in which names mean something else than in the one that was fitted.

    Raises:
        InputError: If no name is known; if without names the first nodes are not the known graph;
            or if of the edges between known names less than half are known.

    Example:
        >>> known = Graph([[0, 1], [1, 0]], 2, node_names=("a", "b"))
        >>> check_related(Graph([[0], [1]], 2, node_names=("x", "y")), known)
        Traceback (most recent call last):
        djgnn.errors.InputError: graph: ...
    """
    place, n = places(later, known), known.num_nodes
    problem = ""
    if (place < 0).all():
        problem = "has no node of the one this classifier was fitted on"
    elif later.node_names is None and known.node_names is None:
        inside = later.adjacency[:n, :n] if later.num_nodes > n else None
        if inside is None or (inside != known.adjacency).nnz:
            problem = (
                "is not the one this classifier was fitted on, nor that with new nodes after the "
                "known ones"
            )
    else:
        if _mostly_there(later, place, known):
            return
        ends = place[later.edge_index]
        source, target = ends[:, (ends >= 0).all(axis=0)]
        there = _counted(known.edge_index[0], known.edge_index[1], n)
        there.data[:] = 1
        shared = int(_counted(source, target, n).multiply(there).sum())
        if 2 * shared < source.size:
            problem = (
                f"is not the one this classifier was fitted on: of its {source.size} edges between "
                f"nodes of those names only {shared} were there"
            )
    if problem:
        raise InputError(
            f"graph: {problem}; call fit with it first, or give a later version of it "
            f"(got {later!r})"
        )
