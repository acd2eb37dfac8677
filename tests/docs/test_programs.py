"""The programs of the pages run, and print what the pages say they print."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ["scikit-learn", "pyg", "networkx"]


@pytest.mark.parametrize("page", PAGES)
def test_the_programs_of_the_page_run(
    page: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With few experts and epochs, so other figures; they print as many lines as the page shows."""
    monkeypatch.setattr(sys, "path", [str(DOCS / "_ext"), *sys.path])
    monkeypatch.chdir(tmp_path)
    from programs import programs

    text = (DOCS / "howto" / f"{page}.md").read_text("utf-8")
    experts = ["shares", "features", "rows"]
    quick = {"epochs": 2, "hidden_channels": 4, "options": {"experts": experts}}
    found: dict[str, object] = {"quick": quick}
    assert len(programs(text)) == text.count("```python") >= 3
    for program, shown in programs(text):
        program = program.replace("DJClassifier(", "DJClassifier(**quick, ")
        exec(program.replace("range(100)", "range(2)"), found)
        assert len(capsys.readouterr().out.splitlines()) == len(shown.splitlines()) > 0
