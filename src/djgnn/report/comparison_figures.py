"""Static figures of a comparison: the table, average ranks, score against cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from djgnn.report.figure_style import COLOURS, MARKERS, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HEADER = ("model", "data set", "splits", "test (%)", "oracle (%)", "time (s)", "memory (MiB)")


def _plain(text: Any) -> str:
    return " ".join(str(text).split())


def _spread(mean: float | None, deviation: float | None, digits: int = 2) -> str:
    if mean is None:
        return "none"
    return f"{mean:.{digits}f}" + ("" if deviation is None else f" ± {deviation:.{digits}f}")


def table_figure(payload: dict[str, Any]) -> Figure:
    """All cells, both protocols side by side."""
    rows = [
        [
            _plain(c["model"]),
            _plain(c["dataset"]),
            str(c["splits"]),
            _spread(c["test_mean"], c["test_std"]) if c["status"] == "done" else c["status"],
            _spread(c["oracle_mean"], c["oracle_std"]),
            _spread(c["seconds"], None, 1),
            _spread(c["peak_memory_mib"], None, 0),
        ]
        for c in payload["cells"]
    ]
    figure, axes = new_figure(7.0, 0.19 * (len(rows) + 1) + 0.2)
    axes[0, 0].axis("off")
    made = axes[0, 0].table(rows, colLabels=HEADER, loc="center", edges="horizontal")
    made.auto_set_font_size(False)
    made.set_fontsize(7)
    made.auto_set_column_width(list(range(len(HEADER))))
    return figure


def ranks_figure(payload: dict[str, Any]) -> Figure | None:
    """The critical-difference diagram."""
    found = payload["ranking"]["test_mean"]
    if found is None:
        return None
    count, half = len(found["models"]), (len(found["models"]) + 1) // 2
    figure, axes = new_figure(6.0, 0.9 + 0.22 * half + 0.12 * len(found["cliques"]))
    one: Axes = axes[0, 0]
    one.axis("off")
    one.plot([1, count], [0, 0], color="black", lw=1)
    for rank in range(1, count + 1):
        one.plot([rank, rank], [0, 0.15], color="black", lw=1)
        one.text(rank, -0.12, str(rank), ha="center", va="top", fontsize=6, color="#515b68")
    for i, (first, last) in enumerate(found["cliques"]):
        span = (found["ranks"][first], found["ranks"][last])
        one.plot(span, [0.4 + 0.3 * i] * 2, color=COLOURS[0], lw=3)
    for i, (name, rank) in enumerate(zip(found["models"], found["ranks"], strict=True)):
        left = i < half
        y = -0.6 - 0.5 * (i if left else count - 1 - i)
        edge = 1 - 0.04 * count if left else count + 0.04 * count
        one.plot([rank, rank, edge], [0, y, y], color="#7a7f87", lw=0.8)
        side = "right" if left else "left"
        one.text(edge, y, f" {_plain(name)} {rank:.2f} ", ha=side, va="center", fontsize=7)
    top = 0.8 + 0.3 * len(found["cliques"])
    width = found["critical_difference"]
    one.plot([1, 1 + width], [top, top], color=COLOURS[5], lw=2)
    one.text(1, top + 0.12, f"critical difference {width:.2f}", fontsize=7, color=COLOURS[5])
    return figure


def cost_figure(payload: dict[str, Any]) -> Figure | None:
    """Test score against the costs that are known, one row per data set."""
    cells = [c for c in payload["cells"] if c["test_mean"] is not None]
    sets, models = (list(dict.fromkeys(c[key] for c in cells)) for key in ("dataset", "model"))
    if not cells:
        return None
    costs = {"seconds": "seconds per split", "peak_memory_mib": "peak memory (MiB)"}
    known = [(key, label) for key, label in costs.items() if any(c[key] for c in cells)]
    if not known:
        return None
    figure, axes = new_figure(3.25 * len(known), 2.2 * len(sets), len(sets), len(known))
    for row, dataset in enumerate(sets):
        for column, (key, label) in enumerate(known):
            one = axes[row, column]
            for c in cells:
                if c["dataset"] == dataset and c[key]:
                    i = models.index(c["model"])
                    x = c[key] / max(c["splits"], 1) if key == "seconds" else c[key]
                    style = {"color": COLOURS[i % 8], "marker": MARKERS[i % 8], "ls": ""}
                    name = _plain(c["model"])
                    one.errorbar(x, c["test_mean"], yerr=c["test_std"], label=name, **style)
            one.set(xlabel=label, ylabel=f"{_plain(dataset)}: test (%)", xscale="log")
        if axes[row, 0].get_legend_handles_labels()[0]:
            axes[row, 0].legend(fontsize=6)
    return figure


COMPARISON_FIGURES = {"table": table_figure, "ranks": ranks_figure, "cost": cost_figure}
