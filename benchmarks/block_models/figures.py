"""The two figures of Appendix B, drawn from the values of the study."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from claims import feature_ceiling
from levels import NUM_LEVELS
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, ScalarFormatter
from numpy.typing import NDArray
from PIL import Image
from scipy.spatial.distance import cdist
from study import Cell, CellValues, SbmStudy, read_views

from djgnn.graph.files import atomic_write

FIGURES = ("levels.png", "accuracy.png")
# Okabe and Ito's palette: told apart by colour-blind readers too.
CLASS_COLOURS = ("#0072B2", "#E69F00")
COLUMN_COLOURS = ("#000000", "#009E73", "#CC79A7")
GAP_STYLES = (("#0072B2", "o"), ("#009E73", "s"), ("#E69F00", "^"), ("#D55E00", "D"))
EDGES_DRAWN = 500


def draw_figures(study: SbmStudy, cells: Sequence[CellValues], out: str | Path) -> list[Path]:
    """Draw both figures into the study's folder.

    Args:
        study: The study.
        cells: Its records.
        out: Its folder, with the arrays that :func:`study.run_study` left.

    Returns:
        The two PNG files.
    """
    views = list(read_views(study, out))
    figures = (_levels_figure(views, cells), _accuracy_figure(cells))
    files = [Path(out) / name for name in FIGURES]
    for file, figure in zip(files, figures, strict=True):
        drawn = io.BytesIO()
        figure.savefig(drawn, format="png", dpi=100)
        with Image.open(drawn) as image, atomic_write(file) as stream:
            # 256 colours are a third of the bytes. Median cut, the usual way, would move the rare
            # colours at the ends of the scale.
            reduced = image.convert("RGB").quantize(256, method=Image.Quantize.MAXCOVERAGE)
            reduced.save(stream, format="png", optimize=True)
    return files


def _levels_figure(
    views: Sequence[tuple[Cell, dict[str, Any]]], cells: Sequence[CellValues]
) -> Figure:
    """Per level of R: the graph, the columns of U, distances in U, the embedding."""
    figure = Figure(figsize=(2.35 * max(len(views), 3) + 0.6, 9.4), layout="constrained")
    axes: Any = figure.subplots(4, len(views), squeeze=False)
    farthest = max(float(np.linalg.norm(np.ptp(view["u"], axis=0))) for _, view in views)
    image: Any = None
    for column, (cell, view) in enumerate(views):
        values = next(c for c in cells if all(c[k] == v for k, v in vars(cell).items()))
        order = np.lexsort((view["y"], view["community"]))
        _draw_graph(axes[0, column], view)
        _draw_columns(axes[1, column], view, order)
        points = view["u"][order].astype(np.float64)
        image = axes[2, column].imshow(cdist(points, points), vmin=0, vmax=farthest)
        axes[2, column].set(xticks=[0, order.size // 2], yticks=[0, order.size // 2])
        _draw_embedding(axes[3, column], view)
        axes[0, column].set_title(
            f"level {cell.level}:  R = {values['R']:.2f}\ntest accuracy {values['test']:.0f} %",
            fontsize=10,
        )
    below = ("", "node, by community", "node, by community", "first component")
    left = ("graph", "learned column of U", "node, by community", "second component")
    for row, column in np.ndindex(axes.shape):
        axes[row, column].tick_params(labelsize=8)
        axes[row, column].set_xlabel(below[row], fontsize=9)
        if column == 0:
            axes[row, column].set_ylabel(left[row])
        elif row:
            axes[row, column].set_yticklabels([])
    beside = axes[2, -1].inset_axes((1.06, 0.0, 0.07, 1.0))
    figure.colorbar(image, cax=beside, label="distance in U")
    axes[1, -1].legend(
        title="column", fontsize=8, title_fontsize=8, markerscale=4, handletextpad=0.2,
        loc="center left", bbox_to_anchor=(1.01, 0.5),
    )  # fmt: skip
    axes[3, -1].legend(fontsize=8, handletextpad=0.2, loc="center left", bbox_to_anchor=(1.01, 0.5))
    gap = views[0][0].gap
    figure.suptitle(
        f"Two communities, (p-q)/(p+q) = {gap:g}: classes leave the communities from left to right"
    )
    return figure


def _draw_graph(ax: Axes, view: dict[str, Any]) -> None:
    """Each community a disc, nodes coloured by class; a sample of the edges."""
    rng = np.random.default_rng(0)
    community, y = view["community"], view["y"]
    angle, radius = rng.uniform(0, 2 * np.pi, y.size), np.sqrt(rng.uniform(0, 1, y.size))
    place = np.stack([radius * np.cos(angle) + 2.6 * community, radius * np.sin(angle)], axis=1)
    edges = view["edge_index"][:, view["edge_index"][0] < view["edge_index"][1]]
    drawn = rng.permutation(edges.shape[1])[:EDGES_DRAWN]
    lines = place[edges[:, drawn].T]
    ax.add_collection(LineCollection(list(lines), colors="0.6", linewidths=0.3, alpha=0.6))
    for label, colour in enumerate(CLASS_COLOURS):
        own = y == label
        ax.scatter(place[own, 0], place[own, 1], s=5, color=colour, linewidths=0, zorder=2)
    ax.set_xticks([0, 2.6], ["comm. 0", "comm. 1"])
    ax.set(aspect="equal", yticks=[], ylim=(-1.15, 1.15))
    ax.spines[:].set_visible(False)


def _draw_columns(ax: Axes, view: dict[str, Any], order: NDArray[np.int64]) -> None:
    """The columns of U over the nodes, sorted by community, then class."""
    n = order.size
    for column, values in enumerate(view["u"][order].T):
        colour = COLUMN_COLOURS[column % len(COLUMN_COLOURS)]
        ax.scatter(np.arange(n), values, s=2, color=colour, linewidths=0, label=f"{column + 1}")
    community, y = view["community"][order], view["y"][order]
    for place in np.flatnonzero(np.diff(community * 2 + y)) + 1:
        # Solid where the community changes, dotted where the class does inside it.
        solid = community[place] != community[place - 1]
        ax.axvline(float(place), color="0.35", linewidth=0.9, linestyle="-" if solid else ":")
    ax.set(xlim=(0, n), xticks=[0, n // 2], ylim=(-1.08, 1.08))


def _draw_embedding(ax: Axes, view: dict[str, Any]) -> None:
    """The principal plane of the hidden embedding, on a scale of its own."""
    z = view["embedding"] / max(float(np.abs(view["embedding"]).max()), 1e-12)
    for label, colour in enumerate(CLASS_COLOURS):
        for community, marker in enumerate("ox"):
            own = (view["y"] == label) & (view["community"] == community)
            ax.scatter(
                z[own, 0], z[own, 1], s=9, color=colour, marker=marker, linewidths=0.7, alpha=0.8,
                label=f"class {label}, comm. {community}",
            )  # fmt: skip
    ax.set(xlim=(-1.1, 1.1), ylim=(-1.1, 1.1), aspect="equal")
    share = 100 * float(np.sum(view["explained"]))
    ax.text(0.03, 0.97, f"{share:.0f} % of variance", transform=ax.transAxes, va="top", fontsize=7)


def _accuracy_figure(cells: Sequence[CellValues]) -> Figure:
    """Accuracy against R and against node homophily, one line per gap."""
    figure = Figure(figsize=(10.5, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for ax, series, key in ((left, "structural", "R"), (right, "node", "node_homophily")):
        own = [cell for cell in cells if cell["series"] == series]
        for (colour, marker), gap in zip(GAP_STYLES, sorted({c["gap"] for c in own}), strict=False):
            x, y, dx, dy = _curve([cell for cell in own if cell["gap"] == gap], key)
            ax.errorbar(
                x, y, xerr=dx, yerr=dy, color=colour, marker=marker, markersize=5, capsize=2,
                linewidth=1.4, elinewidth=0.8, label=f"{gap:g}",
            )  # fmt: skip
        ax.axhline(feature_ceiling(), color="0.4", linestyle=":", linewidth=1.2)
        ax.grid(alpha=0.25)
    left.set_xscale("log")
    left.set_xticks([1, 2, 5, 10, 20, 50])
    left.xaxis.set_major_formatter(ScalarFormatter())
    left.xaxis.set_minor_formatter(NullFormatter())
    left.set(title="classes leave the communities", ylabel="test accuracy (%)")
    left.set_xlabel("structural heterophily R (measured, log scale)")
    left.legend(title="(p-q)/(p+q)", fontsize=9, title_fontsize=9, loc="upper right")
    right.set(title="edges choose classes, communities are independent", xlim=(0, 1))
    right.set_xlabel("node homophily (measured)")
    right.annotate(
        "features alone", (0.985, feature_ceiling()), xytext=(0, -3), ha="right", va="top",
        textcoords="offset points", fontsize=8, color="0.3",
    )  # fmt: skip
    seeds = len({cell["seed"] for cell in cells})
    figure.suptitle(f"DJ-GNN on block models; mean and standard deviation over {seeds} seeds")
    return figure


def _curve(cells: Sequence[CellValues], key: str) -> tuple[NDArray[np.float64], ...]:
    """Means and standard deviations over the seeds, level by level."""
    rows = []
    for level in range(NUM_LEVELS):
        own = [cell for cell in cells if cell["level"] == level]
        if own:
            pairs = np.array([[cell[key], cell["test"]] for cell in own], dtype=np.float64)
            spread = pairs.std(axis=0, ddof=1) if len(own) > 1 else np.zeros(2)
            rows.append([*pairs.mean(axis=0), *spread])
    return tuple(np.array(rows).T)
