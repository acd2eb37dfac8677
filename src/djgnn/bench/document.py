"""`Document`: a page of tables, written once, rendered as Markdown, HTML and LaTeX."""

from __future__ import annotations

import html
from dataclasses import dataclass
from pathlib import Path

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
}


@dataclass(frozen=True)
class Grid:
    """A table: plain text in every place; the first column names the row.

    `strong` lists (row, column) of the places that stand out.
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
    figure: bytes | None = None
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
    contents = {f"{stem}{end}": form(document).encode("utf-8") for end, form in forms.items()}
    for section in document.sections:
        if section.figure is not None:
            contents[section.figure_name] = section.figure
    files = []
    for name, content in contents.items():
        files.append(Path(folder) / name)
        with atomic_write(files[-1]) as stream:
            stream.write(content)
    return files


def to_markdown(document: Document) -> str:
    """The page as Markdown; drawings are linked by their file name."""
    parts = [f"# {_md(document.title)}", *(_md(text) for text in document.text)]
    for section in document.sections:
        parts.append(f"## {_md(section.title)}")
        parts += [_md(text) for text in section.text]
        if section.grid is not None:
            parts.append(_md_grid(section.grid))
        if section.figure is not None:
            parts.append(f"![{_md(section.title)}]({section.figure_name})")
        if section.remarks:
            parts.append("\n".join(f"- {_md(remark)}" for remark in section.remarks))
    return "\n\n".join(parts) + "\n"


def to_html(document: Document) -> str:
    """The page as one HTML file that needs no other: style and drawings are inside."""
    parts = [f"<h1>{_html(document.title)}</h1>"]
    parts += [f"<p>{_html(text)}</p>" for text in document.text]
    for section in document.sections:
        parts.append(f"<h2>{_html(section.title)}</h2>")
        parts += [f"<p>{_html(text)}</p>" for text in section.text]
        if section.grid is not None:
            parts.append(_html_grid(section.grid))
        if section.figure is not None:
            parts.append(f"<figure>{_inline(section.figure)}</figure>")
        if section.remarks:
            items = "".join(f"<li>{_html(remark)}</li>" for remark in section.remarks)
            parts.append(f"<ul>{items}</ul>")
    body = "\n".join(parts)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_html(document.title)}</title><style>{_STYLE}</style></head>\n"
        f"<body>\n{body}\n</body></html>\n"
    )


def to_latex(document: Document) -> str:
    r"""The tables as LaTeX to be put in a document with ``\usepackage{booktabs}``."""
    parts = [f"% {' '.join(document.title.split())}", r"% needs \usepackage{booktabs}"]
    parts += [_tex(text) + r"\par" for text in document.text]
    for section in document.sections:
        parts.append(rf"\paragraph{{{_tex(section.title)}}}")
        parts += [_tex(text) + r"\par" for text in section.text]
        if section.grid is not None:
            parts.append(_tex_grid(section.grid))
        if section.remarks:
            items = "\n".join(rf"\item {_tex(remark)}" for remark in section.remarks)
            parts += [r"\begin{itemize}", items, r"\end{itemize}"]
    return "\n".join(parts) + "\n"


def _md_grid(grid: Grid) -> str:
    rows = [
        [f"**{_md(text)}**" if (i, j) in grid.strong else _md(text) for j, text in enumerate(row)]
        for i, row in enumerate(grid.rows)
    ]
    rule = [" --- "] + [" ---: "] * (len(grid.header) - 1)
    lines = ["| " + " | ".join(_md(text) for text in grid.header) + " |", f"|{'|'.join(rule)}|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def _md(text: str) -> str:
    """Escaped so that no character of the text is read as Markdown or HTML."""
    for mark in "\\`*_[]|":
        text = text.replace(mark, f"\\{mark}")
    return text.replace("<", "&lt;").replace(">", "&gt;").replace("\n", " ")


def _html_grid(grid: Grid) -> str:
    head = "".join(f'<th scope="col">{_html(text)}</th>' for text in grid.header)
    rows = []
    for i, row in enumerate(grid.rows):
        places = [f'<th scope="row">{_html(row[0])}</th>']
        for j, text in enumerate(row[1:], start=1):
            inner = _html(text)
            places.append(f"<td>{f'<b>{inner}</b>' if (i, j) in grid.strong else inner}</td>")
        rows.append(f"<tr>{''.join(places)}</tr>")
    body = "\n".join(rows)
    return (
        f'<div class="wide"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>\n{body}\n</tbody></table></div>"
    )


def _html(text: str) -> str:
    return html.escape(text, quote=True)


def _inline(svg: bytes) -> str:
    """The drawing without the prologue of a file of its own, which HTML does not allow."""
    text = svg.decode("utf-8")
    return text[text.index("<svg") :]


def _tex_grid(grid: Grid) -> str:
    def line(row: tuple[str, ...], number: int = -1) -> str:
        places = (
            rf"\textbf{{{_tex(text)}}}" if (number, j) in grid.strong else _tex(text)
            for j, text in enumerate(row)
        )
        return " & ".join(places) + r" \\"

    columns = "l" + "r" * (len(grid.header) - 1)
    return "\n".join(
        [
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            line(grid.header),
            r"\midrule",
            *(line(row, number) for number, row in enumerate(grid.rows)),
            r"\bottomrule",
            r"\end{tabular}\par",
        ]
    )


def _tex(text: str) -> str:
    return "".join(_LATEX.get(mark, mark) for mark in text.replace("\n", " "))


_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:75rem;margin:2rem auto;padding:0 1rem;"
    "color:#1b1b1b;background:#fff}"
    ".wide{overflow-x:auto}table{border-collapse:collapse;font-size:.85rem;"
    "font-variant-numeric:tabular-nums}"
    "th,td{padding:.25rem .6rem;border-bottom:1px solid #ddd;text-align:right;white-space:nowrap}"
    "th:first-child{text-align:left}thead th{border-bottom:2px solid #888;vertical-align:bottom}"
    "figure{margin:1rem 0}figure svg{max-width:100%;height:auto}"
    "@media(prefers-color-scheme:dark){body{color:#e6e6e6;background:#161616}"
    "th,td{border-color:#3a3a3a}figure{background:#fff}}"
)
