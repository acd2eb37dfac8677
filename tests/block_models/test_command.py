"""`python benchmarks/block_models`: runs, draws, judges, and says so."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import pytest

STUDY = str(Path(__file__).resolve().parents[2] / "benchmarks" / "block_models")


def test_quick_study_from_start_to_verdicts_and_again_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*flags: str) -> tuple[str, str]:
        monkeypatch.setattr(sys, "argv", [STUDY, "--out", str(tmp_path / "study"), *flags])
        runpy.run_path(STUDY, run_name="__main__")
        return capsys.readouterr()

    shown, progress = run("--quick")
    assert [shown.count(f"Claim {c}") for c in "abc"] == [1, 1, 1]
    assert shown.count("held") + shown.count("did not hold") >= 9
    assert "its verdicts mean nothing" in shown
    assert progress.count("\n") == 16
    for name in ("levels.png", "accuracy.png", "cells.jsonl", "verdicts.json", "study.json"):
        assert (tmp_path / "study" / name).stat().st_size > 100
    again, progress = run("--quick", "--json")
    assert progress == ""
    report = json.loads(again)
    assert report["cells"] == 16
    assert len(report["verdicts"]) == 9
    assert {v["claim"] for v in report["verdicts"]} == set("abc")
    stored = json.loads((tmp_path / "study" / "verdicts.json").read_text())
    assert stored == report["verdicts"]
    with pytest.raises(SystemExit) as refused:
        run()
    assert refused.value.code == 2
    assert "another study" in capsys.readouterr().err
