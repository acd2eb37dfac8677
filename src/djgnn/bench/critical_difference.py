"""The critical-difference diagram: average ranks on a line, bars over models not told apart."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from djgnn.bench.statistics import critical_difference

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROW = 0.22
"""Height of a model's line, in inches."""


def cliques(ranks: Sequence[float], width: float) -> list[tuple[int, int]]:
    """Longest runs of models, in order of rank, whose ranks differ by less than `width`.

    Args:
        ranks: Average ranks in ascending order.
        width: The critical difference.

    Returns:
        First and last index of each run of at least two models; none inside another.

    Example:
        >>> cliques([1.0, 1.5, 2.2, 4.0], width=1.0)
        [(0, 1), (1, 2)]
    """
    found: list[tuple[int, int]] = []
    for first in range(len(ranks)):
        last = first
        while last + 1 < len(ranks) and ranks[last + 1] - ranks[first] < width:
            last += 1
        if last > first and (not found or last > found[-1][1]):
            found.append((first, last))
    return found


def draw_diagram(ranks: dict[str, float], sets: int, alpha: float = 0.05) -> bytes:
    """Draw the diagram as SVG, best model on the left.

    Args:
        ranks: Average rank of every model, at least two.
        sets: Number of data sets behind them.
        alpha: Level of the Nemenyi test.

    Raises:
        InputError: If matplotlib is not installed.
        ValueError: For fewer than two models.
    """
    from djgnn.bench.sbm_figures import need_matplotlib

    if len(ranks) < 2:
        raise ValueError(f"a diagram needs at least two models (got {len(ranks)})")
    need_matplotlib()
    import matplotlib
    from matplotlib.figure import Figure

    order = sorted(ranks, key=lambda name: (ranks[name], name))
    values = [ranks[name] for name in order]
    width = critical_difference(len(order), sets, alpha)
    bars = cliques(values, width)
    half = (len(order) + 1) // 2
    top, bottom = 0.55 + 0.12 * len(bars), ROW * (half + 1)
    with matplotlib.rc_context({"svg.hashsalt": "djgnn", "svg.fonttype": "path"}):
        figure = Figure(figsize=(7.5, top + bottom))
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
        axes.set_axis_off()
        axes.set_ylim(-bottom, top)
        models = len(order)
        margin = 0.45 * (models - 1)
        axes.set_xlim(1 - margin, models + margin)
        _scale(axes, models, width, alpha, top)
        for number, (first, last) in enumerate(bars):
            y = 0.1 + 0.12 * number
            axes.plot([values[first], values[last]], [y, y], color="black", linewidth=3)
        _labels(axes, order, values, half, margin)
        stream = io.BytesIO()
        figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    return stream.getvalue()


def _scale(axes: Axes, models: int, width: float, alpha: float, top: float) -> None:
    """The line of ranks, its ticks, and the critical difference drawn to scale above it."""
    axes.plot([1, models], [0, 0], color="black", linewidth=1)
    for rank in range(1, models + 1):
        axes.plot([rank, rank], [0, 0.05], color="black", linewidth=1)
        axes.text(rank, -0.04, str(rank), ha="center", va="top", fontsize=7, color="#555555")
    y = top - 0.25
    axes.plot([1, min(1 + width, models)], [y, y], color="#D55E00", linewidth=2)
    text = f"critical difference {width:.2f} (Nemenyi, {alpha:g})"
    axes.text(1, y + 0.05, text, ha="left", va="bottom", fontsize=8, color="#D55E00")


def _labels(axes: Axes, order: list[str], values: list[float], half: int, margin: float) -> None:
    """Names with their ranks: the better half down the left side, the rest up the right."""
    left, right = 1 - 0.08 * margin, len(order) + 0.08 * margin
    for i, (name, value) in enumerate(zip(order, values, strict=True)):
        on_left = i < half
        row = i if on_left else len(order) - 1 - i
        y = -ROW * (row + 1)
        edge = left if on_left else right
        axes.plot([value, value, edge], [0, y, y], color="#777777", linewidth=0.8)
        text = f"{name}  {value:.2f}" if on_left else f"{value:.2f}  {name}"
        side = "right" if on_left else "left"
        axes.text(edge, y, f" {text} ", ha=side, va="center", fontsize=8)
