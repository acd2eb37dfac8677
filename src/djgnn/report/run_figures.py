"""Static figures of a run: curves, branches, classes, graph card, Fiedler environment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from djgnn.report.arrays import unpack
from djgnn.report.figure_style import (
    COLOURS,
    DASHES,
    class_name,
    new_figure,
    scatter_classes,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LOSSES = {
    "loss": "total",
    "cross_entropy": "cross-entropy",
    "pump_loss": "pump",
    "trace_ratio": "trace ratio",
    "orthogonality": "orthogonality",
    "validation_loss": "validation cross-entropy",
}


def _values(column: list[float | None]) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.array([np.nan if v is None else v for v in column])


def learning_figure(payload: dict[str, Any]) -> Figure:
    """Losses and scores per epoch; the dashed line is the epoch that was kept."""
    figure, axes = new_figure(7.0, 2.6, 1, 2)
    history, left, right = payload["history"], axes[0, 0], axes[0, 1]
    shown = [(key, name) for key, name in LOSSES.items() if key in history]
    for i, (key, name) in enumerate(shown):
        style = {"color": COLOURS[i], "linestyle": DASHES[i], "label": name}
        left.plot(history["epoch"], _values(history[key]), **style)
    for i, key in enumerate(("train", "validation")):
        style = {"color": COLOURS[i], "linestyle": DASHES[i], "label": key}
        right.plot(history["epoch"], _values(history[key]), **style)
    for one, label in ((left, "loss"), (right, f"{payload['headline']['metric']} (%)")):
        one.axvline(payload["headline"]["result"]["epoch"], color="#515b68", ls="--", lw=0.8)
        one.set(xlabel="epoch", ylabel=label)
        one.legend(fontsize=7)
    return figure


def branches_figure(payload: dict[str, Any]) -> Figure:
    """The mixing weights at the kept epoch, and over training where they were recorded."""
    alpha = payload["alpha"]
    names = [name.replace("jump", "J") for name in alpha["names"]]
    columns = 1 if alpha["epochs"] is None else 2
    figure, axes = new_figure(3.5 * columns, 2.6, 1, columns)
    kinds = [0 if n.startswith("J") else 1 if n == "homophilic" else 2 for n in names]
    bars = axes[0, 0].bar(names, alpha["values"], color=[COLOURS[k] for k in kinds])
    axes[0, 0].bar_label(bars, fmt="%.2f", fontsize=6)
    axes[0, 0].tick_params(axis="x", rotation=45)
    axes[0, 0].set_ylabel("alpha")
    if alpha["epochs"] is not None:
        for k, line in enumerate(unpack(alpha["epochs"]).T):
            style = {"color": COLOURS[k % 8], "linestyle": DASHES[k % len(DASHES)]}
            axes[0, 1].plot(alpha["seen"], line, label=names[k], **style)
        axes[0, 1].set(xlabel="epoch", ylabel="alpha")
        axes[0, 1].legend(fontsize=6, ncols=2)
    return figure


def classes_figure(payload: dict[str, Any]) -> Figure | None:
    """Confusion matrix and reliability diagram of the test nodes."""
    found = payload["evaluation"].get("test")
    if found is None:
        return None
    figure, axes = new_figure(7.0, 3.0, 1, 2)
    _confusion(axes[0, 0], np.array(found["confusion"]), payload["classes"])
    right, bins = axes[0, 1], found["reliability"]["bins"]
    middle = [50 * (b["low"] + b["high"]) for b in bins]
    correct = [100 * b["accuracy"] for b in bins]
    right.bar(middle, correct, width=92 * (bins[0]["high"] - bins[0]["low"]), color=COLOURS[0])
    right.plot([0, 100], [0, 100], color="#515b68", ls="--", lw=0.8)
    right.plot([100 * b["confidence"] for b in bins], correct, "D", color=COLOURS[1], ms=4)
    right.set(xlabel="confidence (%)", ylabel="right (%)", xlim=(0, 100), ylim=(0, 102))
    right.set_title(
        f"calibration error {100 * found['reliability']['error']:.2f} points", fontsize=8
    )
    return figure


def _confusion(axes: Axes, counts: np.ndarray[Any, Any], classes: list[str]) -> None:
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    axes.imshow(share, cmap="Blues", vmin=0, vmax=1)
    axes.grid(False)
    names = [class_name(c, classes, 12) for c in range(len(classes))]
    if len(classes) <= 20:
        axes.set_xticks(range(len(names)), names, rotation=45, ha="right")
        axes.set_yticks(range(len(names)), names)
        for (i, j), count in np.ndenumerate(counts):
            ink = "white" if share[i, j] > 0.6 else "black"
            axes.text(j, i, str(count), ha="center", va="center", fontsize=6, color=ink)
    axes.set(xlabel="predicted", ylabel="true")


def environment_figure(payload: dict[str, Any]) -> Figure | None:
    """Energies of U beside the eigenvalues, cosines, and the best aligned pair."""
    found = payload["environment"]
    if "reason" in found:
        return None
    figure, axes = new_figure(7.0, 2.5, 1, 3)
    energies = _values(found["centred_energies"])
    values, p = np.array(found["eigenvalues"]), len(found["centred_energies"])
    axes[0, 0].bar(range(p), energies, color=COLOURS[0], label="columns of U")
    places = range(p, p + values.size)
    axes[0, 0].bar(places, values, color=COLOURS[1], hatch="//", label="eigenvectors")
    ticks = [f"u{r + 1}" for r in range(p)] + [f"ψ{r + 2}" for r in range(values.size)]
    axes[0, 0].set_xticks(range(len(ticks)), ticks, fontsize=6)
    axes[0, 0].set_ylabel("energy")
    axes[0, 0].legend(fontsize=6)
    cosine = np.array([_values(row) for row in found["cosine"]])
    image = axes[0, 1].imshow(cosine, cmap="cividis", vmin=0, vmax=1)
    axes[0, 1].grid(False)
    axes[0, 1].set_yticks(range(p), ticks[:p], fontsize=6)
    axes[0, 1].set_xticks(range(values.size), ticks[p:], fontsize=6)
    figure.colorbar(image, ax=axes[0, 1], label="|cosine|", shrink=0.8)
    r, e = np.unravel_index(int(np.nanargmax(cosine)), cosine.shape)
    points = np.stack([unpack(found["eigenvectors"])[e], unpack(found["columns"])[r]], axis=1)
    scatter_classes(axes[0, 2], points, np.array(found["labels"]), payload["classes"])
    axes[0, 2].set(xlabel=f"ψ{e + 2}", ylabel=f"u{r + 1}")
    return figure


def card_figure(payload: dict[str, Any]) -> Figure:
    """The graph card as a table."""
    rows = [[" ".join(str(v).split()) for v in row] for row in payload["graph"]["rows"]]
    figure, axes = new_figure(6.0, 0.19 * len(rows) + 0.2)
    axes[0, 0].axis("off")
    made = axes[0, 0].table(rows, loc="center", cellLoc="left", edges="horizontal")
    made.auto_set_font_size(False)
    made.set_fontsize(7)
    made.auto_set_column_width([0, 1])
    return figure


RUN_FIGURES = {
    "learning": learning_figure,
    "branches": branches_figure,
    "classes": classes_figure,
    "environment": environment_figure,
    "graph": card_figure,
}
