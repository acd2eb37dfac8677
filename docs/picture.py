"""Draw the picture of the README: `python docs/picture.py`, about a minute.

The graph and the settings are those of `djgnn demo`; the jumps are those of a fit to half of the
labels.
"""

from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import torch
from numpy.typing import NDArray

from djgnn import DJClassifier
from djgnn.baselines import baseline_config
from djgnn.bench import run_cell
from djgnn.graph import Graph, heterophilic_sbm, random_splits
from djgnn.jumps import rank_lists, twin_classes
from djgnn.spectral import symmetrize
from djgnn.training import resolve

COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7")
SPLITS = range(5)


def circle(ax: mpl.axes.Axes, graph: Graph, links: NDArray[np.int64], title: str) -> None:
    """Nodes around a circle by class; links inside a class have its colour."""
    order = np.argsort(graph.y, kind="stable")
    angle = np.empty(graph.num_nodes)
    angle[order] = 2 * np.pi * np.arange(graph.num_nodes) / graph.num_nodes
    x, y = np.cos(angle), np.sin(angle)
    same = graph.y[links[0]] == graph.y[links[1]]
    for i, j in links[:, ~same].T:
        ax.plot(x[[i, j]], y[[i, j]], color="#888888", alpha=0.12, linewidth=0.5)
    for i, j in links[:, same].T:
        ax.plot(x[[i, j]], y[[i, j]], color=COLOURS[graph.y[i]], alpha=0.5, linewidth=0.6)
    ax.scatter(x, y, s=5, c=[COLOURS[c] for c in graph.y], zorder=3)
    ax.set_title(f"{title}\n{same.mean():.0%} join equal classes", fontsize=11)
    ax.set_aspect("equal")
    ax.axis("off")


def jumps(graph: Graph) -> NDArray[np.int64]:
    """Links to the two nearest other nodes in U."""
    known = np.where(np.arange(graph.num_nodes) % 2 == 0, graph.y, -1)
    classifier = DJClassifier(
        "default", hidden_channels=32, options={"pump_adjacency": "symmetric"}, random_state=0
    ).fit(graph, known)
    twins = twin_classes(symmetrize(graph.adjacency))
    lists = rank_lists(torch.from_numpy(classifier.embedding_), twins, 3).index.numpy()
    pairs = [(i, j) for i, row in enumerate(lists) for j in [k for k in row if k != i][:2]]
    return np.array(pairs).T


def scores(graph: Graph) -> dict[str, list[float]]:
    """Test accuracy of three models on every split, epochs chosen on validation nodes."""
    ours = resolve("default", pump_adjacency="symmetric", hidden_channels=32, epochs=100)
    plain = {"hidden_channels": 32, "epochs": 400, "patience": 100}
    configs = {
        "features alone\n(MLP)": ("mlp", baseline_config("mlp", **plain)),
        "neighbours\n(GCN)": ("gcn", baseline_config("gcn", **plain)),
        "djgnn": ("djgnn", ours),
    }
    cells = {name: run_cell(model, graph, c, SPLITS) for name, (model, c) in configs.items()}
    return {name: [split.test for split in cell.splits] for name, cell in cells.items()}


def main() -> None:
    """Write the picture beside this file."""
    graph = random_splits(heterophilic_sbm(), num_splits=len(SPLITS), train=0.48, val=0.32)
    fig, axes = plt.subplots(1, 3, figsize=(11, 4), width_ratios=(1, 1, 0.9), layout="constrained")
    circle(axes[0], graph, np.asarray(graph.edge_index), "The edges of a graph:")
    circle(axes[1], graph, jumps(graph), "The jumps learned on it:")
    found = scores(graph)
    means = [np.mean(values) for values in found.values()]
    errors = [np.std(values, ddof=1) for values in found.values()]
    bars = axes[2].bar(list(found), means, yerr=errors, color=["#777777", "#777777", "#0072b2"])
    axes[2].bar_label(
        bars, fmt="%.0f", label_type="center", fontsize=12, color="white", weight="bold"
    )
    axes[2].set(ylim=(0, 100), title="Test accuracy, %\nmean and deviation of five splits")
    axes[2].spines[["top", "right"]].set_visible(False)
    fig.savefig(Path(__file__).with_name("picture.png"), dpi=110, facecolor="white")
    print({name: f"{np.mean(v):.1f} ± {np.std(v, ddof=1):.1f}" for name, v in found.items()})


if __name__ == "__main__":
    main()
