"""The data of the views that draw nodes: node explorer, player, Fiedler environment.

Arrays inside a page are little-endian bytes in base64, which a browser reads directly.
"""

import base64
import math
import warnings
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from djgnn.errors import DisconnectedWarning, InputError, NotConvergedWarning
from djgnn.jumps import TwinClasses, rank_lists, twin_classes
from djgnn.model.operators import treat
from djgnn.report.run_data import SHARES, RunData
from djgnn.spectral import (
    degrees,
    fiedler_environment,
    homophily,
    largest_component,
    smallest_eigenpairs,
    symmetrize,
)
from djgnn.training.predictions import PARTS
from djgnn.training.recorder import Recording

MOST_NODES, MOST_RANKS = 50_000, 1 << 20
MOST_CLASSES = 5
LISTED = {"flags": "flags", "set": "sets"}
"""Columns of the predictions that the page has as texts, and what it calls them."""
MOST_OF_A_JUMP = 4
"""Ranks of each jump that the page has the nodes of."""
ADJACENCY_BYTES = 5 << 20
SAMPLE_SIZE = 1_000
ROUGH = 1e-2
"""Residual above which U is not compared with eigenvectors."""


def pack(values: ArrayLike, kind: str) -> dict[str, Any]:
    """An array as JSON: its kind, shape and bytes.

    Args:
        values: Any array that fits into the kind.
        kind: ``f4``, ``i2``, ``u1``, ``u2`` or ``u4``.

    Example:
        >>> pack([[1.0, 2.0]], "f4")
        {'kind': 'f4', 'shape': [1, 2], 'base64': 'AACAPwAAAEA='}
    """
    array = np.ascontiguousarray(values, dtype=f"<{kind}")
    text = base64.b64encode(array.tobytes()).decode("ascii")
    return {"kind": kind, "shape": list(array.shape), "base64": text}


def pack_index(values: ArrayLike, below: int) -> dict[str, Any]:
    """Whole numbers from 0 up to, not including, `below`, in the smallest kind that holds them."""
    kind = "u1" if below <= 1 << 8 else "u2" if below <= 1 << 16 else "u4"
    return pack(values, kind)


def pack_fraction(values: ArrayLike) -> dict[str, Any]:
    """Numbers in [-1, 1] in two bytes, rounded to 1/32767: to draw, not to quote."""
    return pack(np.rint(np.clip(values, -1, 1) * 32767), "i2")


def nodes_payload(data: RunData, most: int = MOST_NODES) -> dict[str, Any]:
    """Names, labels, predictions, probabilities, shares, contributions, jumps and edges.

    Of a jump in use the nodes at its first ranks are listed, of the ranks that `columns` names.

    Labels, predictions and edges are those of all nodes. The rest is of the nodes shown: all, or
    `most` of them chosen evenly at random, and fewer where their lists of ranks are long.
    """
    n, classes = data.graph.num_nodes, data.graph.num_classes
    rng, most = np.random.default_rng(0), min(most, MOST_RANKS // max(data.ranks.shape[1], 1))
    chosen = np.arange(n) if n <= most else np.sort(rng.choice(n, most, replace=False))
    top = np.argsort(-data.probabilities[chosen], axis=1, kind="stable")[:, :MOST_CLASSES]
    for i in np.flatnonzero(top[:, 0] != data.predicted[chosen]):
        # rounding put another class beside the predicted one: the predicted class goes first
        first = data.predicted[chosen[i]]
        top[i] = [first, *top[i][top[i] != first]][: top.shape[1]]
    names = data.graph.names()
    told = {key: column.gather(chosen) for key, column in data.predictions.items()}
    said = {key for key, column in data.predictions.items() if (column != "").any()}
    jumps = zip(data.branches, data.alpha.values(), strict=False)  # which come first in alpha
    branches = [ranks[:MOST_OF_A_JUMP] if alpha > 0 else () for ranks, alpha in jumps]
    columns = sorted({rank for ranks in branches for rank in ranks})
    place = [rank - 1 for rank in columns]
    added, bias = data.contributions(chosen)
    return {
        "count": n,
        "shown": None if chosen.size == n else pack_index(chosen, n),
        "names": None if data.graph.node_names is None else [names[i] for i in chosen],
        # one more than the class; 0 = unknown
        "labels": pack_index(data.graph.labels + 1, classes + 1),
        "predicted": pack_index(data.predicted, classes),
        "part": pack_index(data.part, len(PARTS)),
        **{to: told[key].to_list() if key in said else None for key, to in LISTED.items()},
        **{key: pack([float(text) for text in told[key]], "f4") for key in SHARES},
        "top": pack_index(top, classes),
        "probabilities": pack(np.take_along_axis(data.probabilities[chosen], top, axis=1), "f4"),
        # of the predicted class and of the one after it
        "experts": list(data.shares),
        "shares": pack_fraction(
            [np.take_along_axis(s[chosen], top[:, :2], axis=1) for s in data.shares.values()]
        ),
        "contributions": pack(np.take_along_axis(added, top[:, None, :2], axis=2), "f4"),
        "bias": pack(np.take_along_axis(bias, top[:, :2], axis=1), "f4"),
        "columns": columns,
        "ranks": pack_index(data.ranks[chosen][:, place], n),
        "weights": pack_fraction(data.weight[chosen][:, place]),
        "branches": branches,
        "edges": _edges(data),
    }


def _edges(data: RunData) -> dict[str, Any]:
    """Out-neighbours as CSR; where they are too many, at most `kept` of each node."""
    n, a = data.graph.num_nodes, data.graph.adjacency
    budget = ADJACENCY_BYTES // (1 if n <= 1 << 8 else 2 if n <= 1 << 16 else 4)
    degree = np.diff(a.indptr)
    kept = int(degree.max(initial=0))
    while kept > 1 and np.minimum(degree, kept).sum() > budget:
        kept = int(kept * 0.8)
    within = np.arange(a.nnz) - np.repeat(a.indptr[:-1], degree) < kept
    return {
        "complete": bool(within.all()),
        "kept": kept,
        "degree": pack(np.minimum(degree, kept), "u4" if kept > 65535 else "u2"),
        "target": pack_index(a.indices[within], n),
    }


def player_payload(data: RunData) -> dict[str, Any] | None:
    """What the player shows; ``None`` if the run was not recorded."""
    recording = data.recording
    if recording is None:
        return None
    labels = data.graph.labels
    order = np.lexsort((recording.nodes, labels[recording.nodes]))
    nodes = recording.nodes[order]
    ranks = sampled_ranks(data, recording)
    place = np.argsort(order)  # where each sampled node is drawn
    known = (labels[data.graph.edge_index] >= 0).all(axis=0)
    return {
        "nodes": nodes,
        "labels": labels[nodes],
        "whole": nodes.size == data.graph.num_nodes,
        "num_nodes": data.graph.num_nodes,
        "epochs": recording.epochs,
        "selected": data.kept,
        "scale": recording.scale,
        "branches": data.branches,
        "u": pack_fraction(recording.u[:, order]),
        "ranks": pack_index(place[ranks][:, order], nodes.size),
        "points": pack_fraction(planar(recording.logits[:, order])),
        "agreement": agreement(recording.ranks, recording.nodes, labels, data.branches),
        "homophily": homophily(data.graph, method="edge") if known.any() else None,
    }


def sampled_ranks(data: RunData, recording: Recording) -> NDArray[np.int64]:
    """The ranks of the sampled nodes among themselves, as positions in ``recording.nodes``.

    Where the sample is the whole graph these are the recorded ranks. Where it is not, the nodes
    at the recorded ranks are mostly outside, so the lists are computed again from the sampled
    rows of U, by the same rule.

    Shapes:
        result ``[snapshots, m, R]``.
    """
    nodes = recording.nodes
    if nodes.size == data.graph.num_nodes:
        return recording.ranks
    model = data.shown.module.config
    seen = treat(data.graph.adjacency, model.pump_adjacency)
    twins = twin_classes(seen).class_of.numpy()[nodes]
    if model.source == "identity":
        twins = nodes
    classes = TwinClasses.from_labels(np.unique(twins, return_inverse=True)[1])
    keep = min(recording.ranks.shape[2], nodes.size)
    lists = [rank_lists(torch.from_numpy(u), classes, keep).index.numpy() for u in recording.u]
    return np.stack(lists)


def agreement(
    ranks: NDArray[np.int64],
    nodes: NDArray[np.int64],
    labels: NDArray[np.int64],
    branches: tuple[tuple[int, ...], ...],
) -> list[list[dict[str, Any]]]:
    """Share of links that join equal labels, per snapshot and jump.

    Links from a node to itself always agree; they are counted separately.

    Args:
        ranks: Nodes at each rank, anywhere in the graph.
        nodes: The nodes that these are the ranks of.
        labels: Class of every node of the graph, -1 = unknown.
        branches: Ranks of each jump.

    Shapes:
        ranks ``[snapshots, m, R]``.

    Example:
        >>> found = agreement(np.array([[[0, 1], [1, 0]]]), np.arange(2), np.zeros(2, int), ((2,),))
        >>> found[0][0]
        {'share': 1.0, 'links': 2, 'own': 0}
    """
    rows = []
    for shot in ranks:
        row = []
        for kept in branches:
            target = shot[:, [r - 1 for r in kept]]
            source = np.broadcast_to(nodes[:, None], target.shape)
            other = target != source
            known = other & (labels[source] >= 0) & (labels[target] >= 0)
            links = int(known.sum())
            same = int((known & (labels[source] == labels[target])).sum())
            row.append(
                {
                    "share": same / links if links else None,
                    "links": links,
                    "own": int((~other).sum()),
                }
            )
        rows.append(row)
    return rows


def planar(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    """Class scores in two dimensions: one projection for all snapshots, so that points move little.

    The principal axes are those of all snapshots together; every snapshot is centred, and all
    share one scale, in which one coordinate in two hundred is cut off at 1.

    Shapes:
        logits ``[snapshots, m, classes]``, result ``[snapshots, m, 2]``.
    """
    x = logits.astype(np.float64) - logits.mean(axis=1, keepdims=True)
    flat = x.reshape(-1, x.shape[2])
    _, vectors = np.linalg.eigh(flat.T @ flat)
    points = x @ vectors[:, ::-1][:, :2]
    if points.shape[2] < 2:
        points = np.concatenate([points, np.zeros_like(points)], axis=2)
    reach = float(np.quantile(np.abs(points[-1]), 0.995)) if points.size else 0.0
    scaled: NDArray[np.float64] = np.clip(points / (reach or 1.0), -1, 1)
    return scaled


def environment_payload(data: RunData) -> dict[str, Any]:
    """Energies and alignment of U on the largest component of the symmetrised graph.

    Returns:
        The view's data, or ``{"reason": ...}`` where it cannot be drawn.
    """
    if not data.branches:
        return {"reason": "left out: the model has no jumps, and so no U"}
    if data.graph.num_nodes > MOST_NODES:
        return {"reason": f"left out: the graph has more than {MOST_NODES:,} nodes"}
    matrix = symmetrize(data.graph.adjacency)
    inside = largest_component(matrix)
    part, columns = matrix[inside][:, inside], data.u[inside].astype(np.float64)
    count = min(columns.shape[1] + 1, max(inside.size - 1, 1))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DisconnectedWarning)
            warnings.simplefilter("ignore", NotConvergedWarning)
            pairs = smallest_eigenpairs(part, count)
            warnings.simplefilter("error", NotConvergedWarning)
            found = fiedler_environment(matrix, data.u, pairs=pairs if count > 1 else None)
    except (InputError, NotConvergedWarning) as error:
        return {"reason": f"left out: {error}"}
    if pairs.residual > ROUGH:
        return {"reason": f"left out: the eigenvectors have a residual of {pairs.residual:.1g}"}
    degree = degrees(part)
    psi = pairs.vectors[:, 1:] / np.sqrt(degree)[:, None]
    # the columns without their degree-weighted mean, of unit length in the degree-weighted norm;
    # a constant column becomes zero
    centred = columns - (degree @ columns) / degree.sum()
    length = np.sqrt(degree @ centred**2)
    unit = centred / np.where(length > 1e-12, length, 1.0)
    rng = np.random.default_rng(0)
    shown = np.sort(rng.choice(inside.size, min(SAMPLE_SIZE, inside.size), replace=False))
    return {
        "component_share": found.component_share,
        "symmetrised": bool((matrix != data.graph.adjacency).nnz),
        "residual": pairs.residual,
        "eigenvalues": pairs.values[1:],
        "energies": found.energies,
        "centred_energies": found.centred_energies,
        "fiedler_share": found.fiedler_share,
        "orthogonality": found.orthogonality,
        "trace_ratio": found.trace_ratio,
        "commute_rank_correlation": found.commute_rank_correlation,
        "commute_error": found.commute_error,
        "commute_nodes": found.commute_nodes,
        "cosine": np.abs((degree[:, None] * psi).T @ unit).T,
        "shown": inside[shown],
        "labels": data.graph.labels[inside][shown],
        "columns": pack(unit[shown].T * math.sqrt(degree.sum()), "f4"),
        "eigenvectors": pack(psi[shown].T * math.sqrt(degree.sum()), "f4"),
        "num_nodes": int(inside.size),
    }
