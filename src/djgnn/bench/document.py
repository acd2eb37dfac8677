"""`Document`: a page of tables, rendered as Markdown, HTML and LaTeX from one template each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, PackageLoader

from djgnn.graph.files import atomic_write

_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "\n": " ",
}
_MARKDOWN = {mark: f"\\{mark}" for mark in "\\`*_[]|"} | {"<": "&lt;", ">": "&gt;", "\n": " "}


@dataclass(frozen=True)
class Grid:
    """A table: plain text in every cell; the first column names the row.

    `strong` lists (row, column) of the cells in bold.
    """

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    strong: frozenset[tuple[int, int]] = frozenset()

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.header):
                raise ValueError(
                    f"a row must have {len(self.header)} places like the header (got {len(row)})"
                )


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
    forms = {".md": to_markdown, ".html": to_html, ".tex": to_latex}
    contents = {f"{stem}{end}": form(document) for end, form in forms.items()}
    for section in document.sections:
        if section.figure is not None:
            contents[section.figure_name] = section.figure
    files = []
    for name, content in contents.items():
        files.append(Path(folder) / name)
        with atomic_write(files[-1]) as stream:
            stream.write(content.encode("utf-8"))
    return files


def to_markdown(document: Document) -> str:
    """The page as Markdown; drawings are linked by their file name."""
    return templates(_MARKDOWN).get_template("document.md").render(vars(document))


def to_html(document: Document) -> str:
    """The page as one HTML file that needs no other: style and drawings are inside."""
    return templates().get_template("document.html").render(vars(document))


def to_latex(document: Document) -> str:
    r"""The tables as LaTeX to be put in a document with ``\usepackage{booktabs}``."""
    return templates(_LATEX).get_template("document.tex").render(vars(document))


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
