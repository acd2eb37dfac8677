"""The page for people who come from scikit-learn: its programs run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "scikit-learn.md"


def test_the_programs_of_the_page_run(capsys: pytest.CaptureFixture[str]) -> None:
    """With few experts and epochs, so other figures; it prints as many lines as the page shows."""
    text = PAGE.read_text("utf-8")
    experts = ["shares", "features", "rows"]
    quick = {"epochs": 2, "hidden_channels": 4, "options": {"experts": experts}}
    found: dict[str, object] = {"quick": quick}
    programs = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", text, re.DOTALL)
    assert len(programs) == text.count("```python") == 5
    for program, shown in programs:
        exec(program.replace("DJClassifier(", "DJClassifier(**quick, "), found)
        assert len(capsys.readouterr().out.splitlines()) == len(shown.splitlines())
