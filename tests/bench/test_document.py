"""One page, three forms: everything escaped, nothing fetched."""

from __future__ import annotations

from pathlib import Path

from djgnn.bench.document import Document, Grid, Section, render, write_document

NASTY = "<script>alert('x')</script> | 50% & a_b \\ {c} `d` *e*"
PAGE = Document(
    "Title <b>",
    ("text " + NASTY,),
    (
        Section(
            "First",
            grid=Grid(("model", "set"), ((NASTY, "1.00 ± 0.10"), ("b", "2")), frozenset({(1, 1)})),
            figure="<svg><g/></svg>",
            figure_name="a.svg",
            remarks=(NASTY,),
        ),
    ),
)


def test_html_is_escaped_and_needs_nothing_else() -> None:
    page = render(PAGE, "html")
    assert "<script" not in page
    assert "&lt;script&gt;alert(&#39;x&#39;)" in page
    assert "<title>Title &lt;b&gt;</title>" in page
    assert "<svg><g/></svg>" in page
    assert not any(word in page for word in ("http:", "https:", "src=", "<link", "@import"))
    assert "<td><b>2</b></td>" in page


def test_markdown_rows_keep_their_number_of_places() -> None:
    lines = render(PAGE, "md").splitlines()
    rows = [line for line in lines if line.startswith("|")]
    assert len(rows) == 4
    assert {row.replace("\\|", "").count("|") for row in rows} == {3}
    assert "**2**" in rows[-1]
    assert "&lt;script&gt;" in rows[2]
    assert "![First](a.svg)" in lines


def test_latex_specials_are_escaped() -> None:
    text = render(PAGE, "tex")
    assert r"50\% \& a\_b \textbackslash{} \{c\}" in text
    assert r"1.00 $\pm$ 0.10" in text
    assert r"\textbf{2}" in text
    assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") == 1


def test_all_forms_and_drawings_are_written(tmp_path: Path) -> None:
    files = write_document(PAGE, tmp_path)
    assert [file.name for file in files] == ["table.md", "table.html", "table.tex", "a.svg"]
    assert all(file.stat().st_size for file in files)
