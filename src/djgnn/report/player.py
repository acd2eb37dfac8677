"""The homophiliation player's data: the snapshots of a recording, ready to be drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from djgnn.jumps import TwinClasses, rank_lists, twin_classes
from djgnn.model.operators import treat
from djgnn.report.arrays import pack_fraction, pack_index
from djgnn.report.run_data import RunData
from djgnn.spectral import homophily
from djgnn.training.recorder import Recording

if TYPE_CHECKING:
    from numpy.typing import NDArray


def player_payload(data: RunData) -> dict[str, Any] | None:
    """What the player shows; ``None`` if the run was not recorded."""
    recording = data.recording
    if recording is None:
        return None
    labels = data.labels
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
        "selected": int(data.card["result"]["epoch"]),
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
    model = data.config.model
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
