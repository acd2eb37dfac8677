"""Killed or out of disk in any phase of `djgnn fit`, `--resume` ends with every file, the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
DRIVER = Path(__file__).with_name("faults.py")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    place = tmp_path_factory.mktemp("faults")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, DRIVER, place], env=environment, capture_output=True, check=True
    )
    return dict(json.loads(done.stdout))


def test_every_phase_was_struck_twenty_times_in_all(found: dict[str, Any]) -> None:
    phases = {trial["moment"][0] for trial in found["trials"]}
    assert phases == {"reading", "checking", "training", "calibration", "predictions", "report"}
    assert len(found["trials"]) == 20
    for trial in found["trials"]:
        killed = trial["moment"][2] == "killed"
        assert trial["status"] == (-9 if killed else 1), trial
        assert killed or "failed during " in trial["said"].splitlines()[-1], trial


def test_a_full_disk_is_named(found: dict[str, Any]) -> None:
    last = [t["said"].splitlines()[-1] for t in found["trials"] if t["moment"][2] == "full"]
    assert "cannot be written" in last[0]
    assert all("no space left" in line and "--resume" in line for line in last[1:]), last
    assert not any("Traceback" in trial["said"] for trial in found["trials"])


def test_a_run_folder_is_never_seen_half_written(found: dict[str, Any]) -> None:
    assert not any(trial["lost"] for trial in found["trials"])


def test_resumed_runs_have_every_file_and_the_same_bytes(found: dict[str, Any]) -> None:
    assert {"report.html", "result.json", "predictions.csv"} < set(found["files"])
    for trial in found["trials"]:
        assert trial["again"] == 0, trial
        assert trial["files"] == found["files"], trial
        assert trial["other"] == [], trial
        assert trial["litter"] == [], trial
