"""The card of a graph: size, labels, twins, leaks, heterophily; what `djgnn inspect` prints."""

import warnings
from collections.abc import Iterable
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from djgnn.checking import json_values
from djgnn.errors import NotConvergedWarning
from djgnn.graph import Graph
from djgnn.jumps import twin_classes
from djgnn.spectral import (
    components,
    is_undirected,
    largest_component,
    structural_heterophily,
)
from djgnn.spectral.heterophily import HomophilyMethod, homophilies
from djgnn.spectral.systems import WORK

Twins = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]


LEAK_SHARE, LEAK_ENTRIES = 0.1, 2
EMPTY_ROWS = 0.1
SPREAD = ("median", "low", "high")
ROUGH = 0.05
"""Residual above which eigenvectors are not clustered."""


def measure_graph(graph: Graph, seed: int = 0, structural: bool = True) -> dict[str, Any]:
    """Everything measured of a graph, as plain values; infinite ones are ``None``.

    Args:
        graph: The graph.
        seed: Seed of the clusterings behind R.
        structural: Measure R too, which needs eigenvectors; left out where they take too long.
    """
    known, twins = int((graph.labels >= 0).sum()), _twins(graph)
    found: dict[str, Any] = {
        "name": graph.name,
        "size": measure_size(graph),
        "labels": {"known": known, "classes": _class_counts(graph)},
        "twins": measure_twins(graph, twins),
        "leak": measure_leak(graph, twins),
        "heterophily": measure_heterophily(graph, seed, structural),
    }
    found["advice"] = advise(found["size"])
    plain: dict[str, Any] = json_values(found)
    return plain


def measure_size(graph: Graph) -> dict[str, Any]:
    """Counts of nodes, edges and components, and whether every edge has its reverse.

    Example:
        >>> g = Graph(np.array([[0, 1], [1, 1]]), num_nodes=3)
        >>> size = measure_size(g)
        >>> size["components"], size["isolated"], size["self_loops"], size["empty_rows"]
        (2, 1, 1, 1)
    """
    a = graph.adjacency
    piece = np.bincount(components(a))
    touched = np.zeros(graph.num_nodes, dtype=np.bool_)
    touched[graph.edge_index.reshape(-1)] = True
    out_degree = np.bincount(graph.edge_index[0], minlength=graph.num_nodes)
    return {
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "features": graph.num_features,
        "splits": graph.num_splits,
        "direction": "symmetric" if is_undirected(a) else "directed",
        "mean_degree": graph.num_edges / graph.num_nodes,
        "components": int(piece.size),
        "largest_component": int(piece.max()),
        "isolated": int((~touched).sum()),
        "empty_rows": int((out_degree == 0).sum()),
        "self_loops": int((graph.edge_index[0] == graph.edge_index[1]).sum()),
    }


def measure_twins(graph: Graph, twins: Twins | None = None) -> dict[str, Any]:
    """Nodes with the same row of A, which no weights of the pump can tell apart.

    `agreement` is the share of equal labels among pairs of labelled twins; nodes without outgoing
    edges are twins of one another and are left out of it. ``None`` where there is no such pair.

    Example:
        >>> g = Graph(np.array([[0, 1], [2, 2]]), num_nodes=3, y=np.array([1, 1, 0]))
        >>> measure_twins(g)
        {'share': 0.6666666666666666, 'share_empty': 0.0, 'agreement': 1.0}
    """
    twin, entries, several = twins or _twins(graph)
    counts = _label_counts(graph, twin, entries > 0)
    size = counts.sum(axis=1)
    pairs = float((size * (size - 1)).sum())
    return {
        "share": float(several.mean()),
        "share_empty": float((several & (entries == 0)).mean()),
        "agreement": float((counts * (counts - 1)).sum()) / pairs if pairs else None,
    }


def measure_leak(graph: Graph, twins: Twins | None = None) -> dict[str, Any] | None:
    """Whether duplicated nodes carry labels from train to test; ``None`` without splits.

    Counted are test nodes of split 0 with a training twin of the same label, both with rows of at
    least two entries: nodes that merely share their only neighbour are not duplicates. From a tenth
    of the test nodes on it is called a leak.
    """
    if graph.y is None or not graph.num_splits:
        return None
    split = graph.split(0)
    twin, entries, _ = twins or _twins(graph)
    full = entries >= LEAK_ENTRIES
    train = _label_counts(graph, twin, full & split.train)
    test = np.flatnonzero(full & split.test & (graph.y >= 0))
    leaking = int((train[twin[test], graph.y[test]] > 0).sum())
    share = leaking / max(int(split.test.sum()), 1)
    return {"test_nodes": leaking, "share": share, "warning": share >= LEAK_SHARE}


def measure_heterophily(
    graph: Graph, seed: int = 0, structural: bool = True
) -> dict[str, Any] | None:
    """All measures as given and symmetrised, and R with its spread; ``None`` without two classes.

    R is ``None`` if it is not asked for, is not defined or takes too long; `R_note` says which.
    """
    if len(_class_counts(graph)) < 2 or graph.y is None:
        return None
    source, target = graph.edge_index
    both = (graph.y[source] >= 0) & (graph.y[target] >= 0)
    if np.unique(graph.y[np.concatenate([source[both], target[both]])]).size < 2:
        return None
    r, note = None, "not measured: it was not asked for"
    if structural:
        r, note = _structural(graph, seed)
    return {
        "given": homophilies(graph),
        "symmetric": homophilies(graph, adjacency="symmetric"),
        "R": r,
        "R_note": note,
    }


def _structural(graph: Graph, seed: int) -> tuple[dict[str, Any] | None, str]:
    """R with its spread, or why there is none."""
    inside = np.asarray(graph.y)[largest_component(graph)]
    classes = np.unique(inside[inside >= 0]).size
    if classes < 2:
        return None, "not defined: one class only in the largest component"
    if inside.size * classes**2 > WORK:
        return None, f"not measured: {classes:,} eigenvectors of {inside.size:,} nodes are too many"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)
        r = structural_heterophily(graph, random_state=seed)
    if r.residual > ROUGH:
        return (
            None,
            f"not measured: the eigenvectors are known to a residual of {r.residual:.1g} only",
        )
    note = f"eigenvectors to a residual of {r.residual:.1g}" if r.residual else ""
    return {key: getattr(r, key) for key in (*SPREAD, "component_share")}, note


def advise(size: dict[str, Any]) -> dict[str, str]:
    """Which adjacency to start with, by a rule on the structure alone.

    1. Every edge has its reverse: ``given``; there is nothing to choose.
    2. Directed, and a tenth of the nodes or more have no outgoing edge: ``symmetric``. Their rows
       are empty, so the pump puts them all at one point, and with p such nodes the trace ratio
       with out-degrees has no minimum.
    3. Any other directed graph: ``given``; rows of A tell the nodes apart. On chameleon and
       squirrel adding the reverses costs ten points and more.

    This is a starting point: compare both on validation (option `pump_adjacency`). On the WebKB
    graphs, case 2, the two differ by less than the spread over splits.

    Example:
        >>> advise({"direction": "directed", "nodes": 10, "empty_rows": 4})["adjacency"]
        'symmetric'
    """
    empty = size["empty_rows"] / size["nodes"]
    if size["direction"] == "symmetric":
        return {"adjacency": "given", "why": "every edge has its reverse: nothing to choose"}
    if empty >= EMPTY_ROWS:
        why = f"{empty:.0%} of the nodes have no outgoing edge; the pump sees empty rows for them"
        return {"adjacency": "symmetric", "why": why}
    why = f"directed, and only {empty:.0%} of the rows are empty: rows tell the nodes apart"
    return {"adjacency": "given", "why": why}


def _twins(graph: Graph) -> Twins:
    """Twin class of each node, entries of its row, and whether it has a twin."""
    twins = twin_classes(graph.adjacency)
    twin = twins.class_of.numpy()
    return twin, np.diff(graph.adjacency.indptr), twins.count.numpy()[twin] > 1


def _label_counts(
    graph: Graph, twin: NDArray[np.int64], among: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """How many of the nodes `among` have each label, per twin class."""
    counts = np.zeros((int(twin.max()) + 1, max(graph.num_classes, 1)), dtype=np.int64)
    chosen = among & (graph.labels >= 0)
    np.add.at(counts, (twin[chosen], graph.labels[chosen]), 1)
    return counts


def _class_counts(graph: Graph) -> dict[str, int]:
    """Labelled nodes per class, classes without any left out."""
    counts = np.bincount(graph.labels[graph.labels >= 0], minlength=graph.num_classes)
    return {name: int(n) for name, n in zip(graph.classes(), counts, strict=True) if n}


def card_rows(found: dict[str, Any]) -> Iterable[tuple[str, str]]:
    """The card as lines of name and value, for people."""
    size, twins, labels = found["size"], found["twins"], found["labels"]
    yield "nodes, edges", f"{size['nodes']:,}, {size['edges']:,} ({size['direction']})"
    yield "features, splits", f"{size['features']:,}, {size['splits']}"
    yield "mean degree", f"{size['mean_degree']:.2f}"
    share = size["largest_component"] / size["nodes"]
    yield "components", f"{size['components']:,}, the largest has {share:.1%} of the nodes"
    yield "isolated nodes", f"{size['isolated']:,}"
    yield "no outgoing edge", f"{size['empty_rows']:,}"
    yield "self loops", f"{size['self_loops']:,}"
    agree = "" if twins["agreement"] is None else f"; pairs agree in label {twins['agreement']:.1%}"
    yield (
        "nodes with twins",
        f"{twins['share']:.1%} ({twins['share_empty']:.1%} by empty rows){agree}",
    )
    if found["leak"] is not None:
        yield "twin leak, split 0", f"{found['leak']['share']:.1%} of the test nodes"
    yield "labelled nodes", f"{labels['known']:,} of {size['nodes']:,}"
    for name, count in labels["classes"].items():
        yield f"  class {name}", f"{count:,} ({count / labels['known']:.1%})"
    if found["heterophily"] is not None:
        yield from _heterophily_rows(found["heterophily"])
    yield "adjacency advised", f"{found['advice']['adjacency']}: {found['advice']['why']}"


def _heterophily_rows(found: dict[str, Any]) -> Iterable[tuple[str, str]]:
    for method in get_args(HomophilyMethod):
        one, two = (
            "none" if found[how][method] is None else f"{found[how][method]:.3f}"
            for how in ("given", "symmetric")
        )
        suffix = "" if method == "label_informativeness" else " homophily"
        yield method.replace("_", " ") + suffix, f"{one} as given, {two} symmetrised"
    r = found["R"]
    if r is None:
        yield "structural heterophily R", found["R_note"]
        return
    median, low, high = ("infinite" if r[k] is None else f"{r[k]:.2f}" for k in SPREAD)
    spread = f"{low} to {high} over ten k-means seeds"
    more = f"; {found['R_note']}" if found["R_note"] else ""
    covered = f"{r['component_share']:.1%} of nodes"
    yield "structural heterophily R", f"{median} ({spread}, {covered}{more})"
