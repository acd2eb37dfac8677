"""`djgnn sbm`: runs, draws, judges, and says so."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest


def test_quick_study_from_start_to_verdicts_and_again_for_nothing(djgnn, tmp_path: Path) -> None:
    status, shown, progress = djgnn("sbm", "--out", tmp_path / "study", "--quick")
    assert status == 0, progress
    assert [shown.count(f"Claim {c}") for c in "abc"] == [1, 1, 1]
    assert shown.count("held") + shown.count("did not hold") >= 9
    assert "its verdicts mean nothing" in shown
    assert progress.count("\n") == 16
    for name in ("levels.png", "accuracy.png", "cells.jsonl", "verdicts.json", "study.json"):
        assert (tmp_path / "study" / name).stat().st_size > 100
    status, again, progress = djgnn("sbm", "--out", tmp_path / "study", "--quick", "--json")
    assert (status, progress) == (0, "")
    report = json.loads(again)
    assert report["cells"] == 16
    assert len(report["verdicts"]) == 9
    assert {v["claim"] for v in report["verdicts"]} == set("abc")
    stored = json.loads((tmp_path / "study" / "verdicts.json").read_text())
    assert stored == report["verdicts"]
    refused, _, message = djgnn("sbm", "--out", tmp_path / "study")
    assert refused == 2
    assert "another study" in message


def test_without_matplotlib_nothing_is_run(
    djgnn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    status, _, message = djgnn("sbm", "--out", tmp_path / "study", "--quick")
    assert status == 2
    assert "pip install djgnn[figures]" in message
    assert list(tmp_path.iterdir()) == []
