"""Static figures of the homophiliation (the paper's Figure 2) and of hops and jumps (Figure 1)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from djgnn.report.arrays import unpack
from djgnn.report.figure_style import (
    COLOURS,
    DASHES,
    MARKERS,
    class_colour,
    class_marker,
    new_figure,
    scatter_classes,
)
from djgnn.report.rings import Ring, example_node, hop_rings, jump_rings

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

COLUMNS = 4
FRACTION = 32767


def homophiliation_figure(payload: dict[str, Any]) -> Figure | None:
    """Weights, support, graph and scores at four epochs, one column each."""
    player = payload["player"]
    if player is None:
        return None
    count = min(COLUMNS, len(player["epochs"]))
    last = player["epochs"].index(player["selected"])
    steps = sorted({round(last * i / max(count - 1, 1)) for i in range(count)})
    figure, axes = new_figure(7.0, 7.2, 4, len(steps))
    branch = min(2, len(player["branches"]) - 1)
    labels = np.array(player["labels"])
    for column, step in enumerate(steps):
        _weights(axes[0, column], player, step)
        links = _links(player, step, branch)
        _support(axes[1, column], links, labels)
        _circle(axes[2, column], links, labels)
        points = unpack(player["points"])[step] / FRACTION
        scatter_classes(axes[3, column], points, labels, payload["classes"])
        axes[3, column].set(xlim=(-1.05, 1.05), ylim=(-1.05, 1.05), aspect="equal")
        axes[0, column].set_title(f"epoch {player['epochs'][step]}", fontsize=8)
        for one in axes[:, column]:
            one.set(xticks=[], yticks=[])
            one.grid(False)
    for row, name in enumerate(
        ("weights exp(-s d)", f"support of J{branch}", "its graph", "scores")
    ):
        axes[row, 0].set_ylabel(name)
    return figure


def _weights(axes: Axes, player: dict[str, Any], step: int) -> None:
    from scipy.spatial.distance import cdist

    u = unpack(player["u"])[step] / FRACTION
    weight = np.exp(-player["scale"][step] * cdist(u, u))
    low = min(0.99, float(np.quantile(weight, 0.1)))
    axes.imshow(weight, cmap="cividis", vmin=low, vmax=1, interpolation="nearest")
    axes.set_xlabel(f"{low:.2f} (dark) to 1", fontsize=6)


def _links(player: dict[str, Any], step: int, branch: int) -> NDArray[np.int64]:
    """Source and target of the links of a filter among the nodes drawn, none to itself."""
    ranks = unpack(player["ranks"])[step].astype(np.int64)
    kept = [r - 1 for r in player["branches"][branch] if r <= ranks.shape[1]]
    target = ranks[:, kept].reshape(-1)
    source = np.repeat(np.arange(ranks.shape[0]), len(kept))
    pairs = np.stack([source, target], axis=1)
    chosen: NDArray[np.int64] = pairs[source != target]
    return chosen


def _link_colours(links: NDArray[np.int64], labels: NDArray[np.int64]) -> list[str]:
    same = labels[links[:, 0]] == labels[links[:, 1]]
    return [
        class_colour(int(labels[i])) if s and labels[i] >= 0 else "#c3c9d1"
        for i, s in zip(links[:, 0], same, strict=True)
    ]


def _support(axes: Axes, links: NDArray[np.int64], labels: NDArray[np.int64]) -> None:
    axes.scatter(links[:, 1], links[:, 0], s=1.5, c=_link_colours(links, labels), linewidths=0)
    axes.set(xlim=(-1, labels.size), ylim=(labels.size, -1), aspect="equal")


def _circle(axes: Axes, links: NDArray[np.int64], labels: NDArray[np.int64]) -> None:
    from matplotlib.collections import LineCollection

    angle = 2 * math.pi * np.arange(labels.size) / max(labels.size, 1)
    place = np.stack([np.sin(angle), np.cos(angle)], axis=1)
    colours = _link_colours(links, labels)
    axes.add_collection(
        LineCollection(list(place[links]), colors=colours, linewidths=0.4, alpha=0.7)
    )
    axes.scatter(
        place[:, 0], place[:, 1], s=3, c=[class_colour(int(c)) for c in labels], linewidths=0
    )
    axes.set(xlim=(-1.08, 1.08), ylim=(-1.08, 1.08), aspect="equal")


def agreement_figure(payload: dict[str, Any]) -> Figure | None:
    """Share of same-label links of every filter over training."""
    player = payload["player"]
    if player is None:
        return None
    figure, axes = new_figure(5.0, 2.6)
    for k in range(len(player["branches"])):
        shares = [row[k]["share"] for row in player["agreement"]]
        if any(s is not None for s in shares):
            values = [math.nan if s is None else 100 * s for s in shares]
            style = {"color": COLOURS[k % 8], "ls": DASHES[k % len(DASHES)], "label": f"J{k}"}
            axes[0, 0].plot(player["epochs"], values, marker=MARKERS[k % 8], ms=3, **style)
    if player["homophily"] is not None:
        label = "edges of the graph"
        axes[0, 0].axhline(100 * player["homophily"], color="#515b68", ls="--", lw=1, label=label)
    axes[0, 0].set(xlabel="epoch", ylabel="same-label links (%)", ylim=(0, None))
    axes[0, 0].legend(fontsize=6, ncols=2)
    return figure


def rings_figure(payload: dict[str, Any]) -> Figure:
    """Hop rings and jump rings of one node whose neighbours disagree with it."""
    figure, axes = new_figure(7.0, 3.6, 1, 2)
    nodes = payload["nodes"]
    labels = unpack(nodes["labels"]).astype(np.int64) - 1
    node = example_node(nodes)
    for one, title, rings in (
        (axes[0, 0], "hops", hop_rings(nodes, node)),
        (axes[0, 1], "jumps", jump_rings(nodes, node)),
    ):
        _rings(one, rings, labels, node)
        one.set_title(title, fontsize=8)
    return figure


def _rings(axes: Axes, rings: list[Ring], labels: NDArray[np.int64], node: int) -> None:
    for h, ring in enumerate(rings, start=1):
        angle = np.linspace(0, 2 * math.pi, 200)
        axes.plot(h * np.sin(angle), h * np.cos(angle), color="#d9dde3", lw=0.7, zorder=0)
        axes.annotate(ring.name, (0, h), fontsize=6, color="#515b68", ha="center")
        drawn = ring.drawn(labels)
        turn = 2.1 * h if len(rings) > 3 else 0.0
        for i, j in enumerate(drawn):
            a = turn + 0.3 + (2 * math.pi - 0.6) * (i + 0.5) / len(drawn)
            c = int(labels[j])
            spot = (h * math.sin(a), h * math.cos(a))
            axes.plot(*spot, marker=class_marker(c), color=class_colour(c), ms=4)
    c = int(labels[node])
    axes.plot(0, 0, marker=class_marker(c), color=class_colour(c), ms=8, mec="black")
    axes.set(aspect="equal", xticks=[], yticks=[])
    axes.axis("off")


PLAYER_FIGURES = {
    "homophiliation": homophiliation_figure,
    "agreement": agreement_figure,
    "rings": rings_figure,
}
