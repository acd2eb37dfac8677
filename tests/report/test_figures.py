from __future__ import annotations

import io
import json
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from djgnn.cli import main
from djgnn.report.figures import write_run_figures
from djgnn.report.run_data import RunData

pytest.importorskip("matplotlib", reason="the figures extra is not installed")
VIEWS = (
    "learning",
    "branches",
    "classes",
    "environment",
    "graph",
    "homophiliation",
    "agreement",
    "rings",
)


def test_every_view_has_a_pdf_and_a_png(run_data: RunData, tmp_path: Path) -> None:
    files = write_run_figures(run_data, tmp_path)
    assert {f.name for f in files} == {f"{v}.{e}" for v in VIEWS for e in ("pdf", "png")}
    for file in files:
        head = file.read_bytes()[:4]
        assert head == (b"%PDF" if file.suffix == ".pdf" else b"\x89PNG")


def _djgnn(*words: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    status: object = 0
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["djgnn", *words])
        try:
            main()
        except SystemExit as end:
            status = end.code
    return int(status or 0), out.getvalue(), err.getvalue()  # type: ignore[call-overload]


def test_the_command_compares_and_draws(run_folder: Path, tmp_path: Path) -> None:
    splits = [{"split": 0, "validation": 1.0, "test": 2.0, "oracle_test": 3.0}]
    cells = [{"model": m, "dataset": d, "splits": splits} for m in "ab" for d in "xy"]
    (tmp_path / "c.json").write_text(json.dumps(cells), "utf-8")
    page, folder = tmp_path / "c.html", tmp_path / "figures"
    words = ("report", str(tmp_path / "c.json"), str(run_folder), "--out", str(page))
    code, said, _ = _djgnn(*words, "--figures", str(folder))
    assert code == 0
    assert str(page) in said
    assert page.is_file()
    assert {f.stem for f in folder.iterdir()} == {"table", "cost"}


def test_a_missing_run_is_an_error_of_the_input(tmp_path: Path) -> None:
    code, _, said = _djgnn("report", str(tmp_path / "nowhere"))
    assert code == 2
    assert "nowhere" in said
