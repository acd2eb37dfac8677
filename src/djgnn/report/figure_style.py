"""How static figures look: fonts, the colours of the page, markers per class."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from djgnn.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

# Okabe and Ito's colours, as in assets/core.js; yellow is darkened to be seen on white.
COLOURS = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#CC79A7",
    "#56B4E9",
    "#D55E00",
    "#8A7D00",
    "#7A7F87",
)
UNKNOWN = "#9aa1ab"
MARKERS = ("o", "s", "^", "D", "X", "v", "P", "p")
DASHES = ("-", "--", ":", "-.", (0, (6, 2)), (0, (4, 1, 1, 1, 1, 1)))
_STYLE: dict[Any, Any] = {
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e3e6ea",
    "axes.axisbelow": True,
    "legend.frameon": False,
    "savefig.dpi": 200,
    "pdf.fonttype": 42,
    "text.parse_math": False,
}


@contextmanager
def drawing() -> Iterator[None]:
    """Matplotlib with our style, and without a window.

    Raises:
        InputError: If it is not installed.
    """
    try:
        import matplotlib
    except ImportError as error:
        raise InputError("figures need matplotlib: pip install djgnn[figures]") from error
    with matplotlib.rc_context(_STYLE):
        yield


def new_figure(width: float, height: float, rows: int = 1, columns: int = 1) -> tuple[Figure, Any]:
    """A figure in inches, and its axes as an array ``[rows, columns]``."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def class_colour(c: int) -> str:
    """The colour of a class; grey for an unknown one."""
    return UNKNOWN if c < 0 else COLOURS[c % len(COLOURS)]


def class_marker(c: int) -> str:
    """The marker of a class; beyond eight, colours repeat with other markers."""
    return "o" if c < 0 else MARKERS[(c + c // len(COLOURS)) % len(MARKERS)]


def class_name(c: int, classes: Sequence[str], most: int = 24) -> str:
    """The name of a class on one line, shortened where it is long."""
    name = "unknown" if c < 0 else " ".join(str(classes[c]).split())
    return name if len(name) <= most else name[: most - 1] + "…"


def scatter_classes(
    axes: Axes, points: NDArray[Any], labels: NDArray[np.int64], classes: Sequence[str]
) -> None:
    """Nodes as marks of their class."""
    for c in np.unique(labels):
        inside = points[labels == c]
        axes.scatter(
            inside[:, 0],
            inside[:, 1],
            s=9,
            marker=class_marker(int(c)),
            color=class_colour(int(c)),
            linewidths=0,
            alpha=0.85,
            label=class_name(int(c), classes),
        )
