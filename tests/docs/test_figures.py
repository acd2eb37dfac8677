"""No page shows a figure without the command that made it.

The command stands in the section of the figure, in the beginning of a section around it, or in one
section of the page that says how all of it was made.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
MADE = {"_build", "generated", "gallery"}
PAGES = [page for page in sorted(DOCS.rglob("*.md")) if not MADE & set(page.parts)]
PAGES.append(DOCS.parent / "README.md")
COMMAND = re.compile(r"(`|^\s*)(python|djgnn|make|torchrun|pytest) [\w.-]", re.MULTILINE)
NUMBER = re.compile(r"\**[-+]?\d[\d,]*\.\d+( ± [\d.]+)?( \[[\d.]+\])?%?\**")
DRAWN = ("architecture.svg", "method.svg")
WHOLE = re.compile(r"^#+ .*(How it was made|Provenance|provenance)$", re.MULTILINE)


def sections(text: str) -> list[str]:
    """Every section, with the beginnings of those that it is in before it."""
    text = re.sub(r"^```.*?^```", lambda found: found[0].replace("#", " "), text, flags=re.M | re.S)
    parts = re.split(r"^(#+) ", text, flags=re.MULTILINE)
    open_: list[tuple[int, str]] = [(0, parts[0])]
    found = [parts[0]]
    for mark, body in zip(parts[1::2], parts[2::2], strict=True):
        open_ = [(depth, said) for depth, said in open_ if depth < len(mark)]
        found.append("\n".join([*(said for _, said in open_), body]))
        open_.append((len(mark), body))
    return found


def figures(section: str) -> list[str]:
    """Pictures, and rows of tables with several measured numbers."""
    rows = [line for line in section.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    numbers = [sum(bool(NUMBER.fullmatch(cell)) for cell in row) for row in cells]
    measured = [row for row, count in zip(rows, numbers, strict=True) if count > 1]
    pictures = [line for line in section.splitlines() if "![" in line]
    return measured + [line for line in pictures if not any(name in line for name in DRAWN)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS.parent)))
def test_every_figure_stands_with_its_command(page: Path) -> None:
    text = page.read_text("utf-8")
    if not WHOLE.search(text):
        for section in sections(text):
            assert COMMAND.search(section) or not figures(section), figures(section)[0]


def test_a_table_without_a_command_is_found() -> None:
    table = "# A\n`djgnn fit x`\n## B\n| a | 1.5 | 2.5 |\n# C\n| b | 1.5 | 2.5 |\n"
    alone = [bool(figures(s)) and not COMMAND.search(s) for s in sections(table)]
    assert alone == [False, False, False, True]
