"""`Document`: a page of tables as Markdown, HTML and LaTeX; the critical-difference diagram."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, PackageLoader

from djgnn.bench.statistics import LEVEL, critical_difference
from djgnn.graph.files import atomic_write

_LATEX = {mark: f"\\{mark}" for mark in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "\n": " ",
}
WIDTH, MARGIN, ROW = 860, 230, 24
"""Pixels: of the diagram, of the names on each side, of a model's line."""
_MARKDOWN = {mark: f"\\{mark}" for mark in "\\`*_[]|"} | {"<": "&lt;", ">": "&gt;", "\n": " "}


@dataclass(frozen=True)
class Grid:
    """A table: plain text in every cell; the first column names the row.

    `strong` lists (row, column) of the cells in bold.
    """

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    strong: frozenset[tuple[int, int]] = frozenset()


@dataclass(frozen=True)
class Section:
    """A heading with text, a table, a drawing (SVG) and remarks below, each optional."""

    title: str
    text: tuple[str, ...] = ()
    grid: Grid | None = None
    figure: str | None = None
    figure_name: str = ""
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Document:
    """A title, what the page is, and its sections."""

    title: str
    text: tuple[str, ...]
    sections: tuple[Section, ...]


def write_document(document: Document, folder: str | Path, stem: str = "table") -> list[Path]:
    """Write the page in its three forms, and its drawings beside it; returns the files."""
    contents = {f"{stem}.{form}": render(document, form) for form in ("md", "html", "tex")}
    contents |= {s.figure_name: s.figure for s in document.sections if s.figure is not None}
    for name, content in contents.items():
        with atomic_write(Path(folder) / name) as stream:
            stream.write(content.encode("utf-8"))
    return [Path(folder) / name for name in contents]


def render(document: Document, form: str) -> str:
    """The page as text.

    Args:
        document: The page.
        form: ``"md"``, drawings linked by their file name; ``"html"``, one file that needs no
            other; ``"tex"``, tables for a document with the package booktabs.
    """
    escapes = {"md": _MARKDOWN, "tex": _LATEX}.get(form)
    return templates(escapes).get_template(f"document.{form}").render(vars(document))


def templates(escapes: dict[str, str] | None = None) -> Environment:
    """The templates of this package, every value escaped: as HTML, or by a table of characters."""
    table = str.maketrans(escapes or {})
    return Environment(
        loader=PackageLoader("djgnn.bench", "templates"),
        autoescape=escapes is None,
        finalize=(lambda value: str(value).translate(table)) if escapes else None,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


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


def draw_diagram(ranks: dict[str, float], sets: int) -> str:
    """Draw the diagram as SVG, best model on the left.

    The better half of the names stands on the left from the top down, the rest on the right from
    the bottom up.

    Args:
        ranks: Average rank of every model, at least two.
        sets: Number of data sets behind them.

    Raises:
        ValueError: For fewer than two models.
    """
    if len(ranks) < 2:
        raise ValueError(f"a diagram needs at least two models (got {len(ranks)})")
    order = sorted(ranks, key=lambda name: (ranks[name], name))
    values = [ranks[name] for name in order]
    width, count = critical_difference(len(order), sets), len(order)
    bars, half = cliques(values, width), (count + 1) // 2
    top = 64 + 14 * len(bars)

    def place(rank: float) -> float:
        return round(MARGIN + (rank - 1) / (count - 1) * (WIDTH - 2 * MARGIN), 2)

    models = [
        {
            "name": name,
            "rank": f"{ranks[name]:.2f}",
            "x": place(ranks[name]),
            "y": top + 40 + ROW * (i if i < half else count - 1 - i),
            "on_left": i < half,
            "edge": MARGIN - 14 if i < half else WIDTH - MARGIN + 14,
        }
        for i, name in enumerate(order)
    ]
    return (
        templates()
        .get_template("critical-difference.svg")
        .render(
            width=WIDTH,
            height=top + 34 + ROW * half,
            left=MARGIN,
            right=WIDTH - MARGIN,
            top=top,
            ticks=[place(rank) for rank in range(1, count + 1)],
            ruler=min(place(1 + width), WIDTH - 10),
            bars=[(place(values[first]), place(values[last])) for first, last in bars],
            models=models,
            difference=f"{width:.2f}",
            sets=sets,
            alpha=LEVEL,
        )
    )
