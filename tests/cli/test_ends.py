"""How commands end: what each phase took, who may write, what a terminal and a spreadsheet get."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import os
import pty
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from djgnn.cli import fit
from djgnn.cli.error_messages import describe
from djgnn.cli.phase_costs import Phases
from djgnn.errors import OutputError
from djgnn.graph import heterophilic_sbm, random_splits, write_npz
from djgnn.training.card import read_card
from djgnn.training.output_lock import claimed

NAMES = (
    "=1+1",
    "+1",
    "-1",
    "@sum",
    "\tx",
    "\nx",
    "\uff1d1",
    "\x1b[31mred",
    "\x9b2J",
    "two\nlines",
    "plain",
)
PHASES = ["reading", "checking", "training", "calibration", "predictions", "report"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, djgnn: Callable[..., Any]) -> Path:
    folder = tmp_path_factory.mktemp("ends")
    graph = random_splits(heterophilic_sbm(60))
    names = (*NAMES, *graph.names()[len(NAMES) :])
    write_npz(dataclasses.replace(graph, node_names=names), folder / "graph.npz")
    assert djgnn(*command(folder, folder / "run")).returncode == 0
    return folder


def command(folder: Path, out: Path, *more: str) -> tuple[object, ...]:
    given = ("fit", "--graph", folder / "graph.npz", "--out", out, "--epochs", "2", "--device")
    return (*given, "cpu", "--set", "experts=[features]", "--set", "hidden_channels=4", *more)


def test_the_card_has_seconds_and_peak_memory_of_every_phase(place: Path) -> None:
    card = read_card(place / "run")
    phases = card["phases"]
    assert card["threads"] == 1
    assert [phase["name"] for phase in phases] == PHASES
    assert all(phase["seconds"] >= 0 and phase["peak_mib"] > 50 for phase in phases)
    assert sum(phase["seconds"] for phase in phases) > 0


def test_a_page_that_is_missing_is_made(place: Path, djgnn: Any, tmp_path: Path) -> None:
    run = Path(shutil.copytree(place / "run", tmp_path / "run"))
    (run / "report.html").unlink()
    before = read_card(run)
    done = djgnn(*command(place, run, "--resume", "--no-report"))
    assert "complete already" in done.stdout
    assert not (run / "report.html").exists()
    done = djgnn(*command(place, run, "--resume"))
    assert (done.returncode, "report: " in done.stdout) == (0, True)
    assert (run / "report.html").is_file()
    after = read_card(run)
    assert after["phases"][:-1] == before["phases"][:-1]
    assert after["phases"][-1]["name"] == "report"
    assert after["result"] == before["result"]
    assert "complete already" in djgnn(*command(place, run, "--resume")).stdout


@pytest.mark.parametrize("phase", ["checking", "predictions", "report"])
def test_ctrl_c_leaves_what_is_done(
    place: Path, djgnn: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, phase: str
) -> None:
    begin = Phases.begin

    def stop(self: Phases, name: str) -> None:
        begin(self, name)
        if name == phase:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Phases, "begin", stop)
        done = djgnn(*command(place, tmp_path / "run"))
    assert done.returncode == 130
    assert done.stderr.splitlines()[-1].startswith(f"stopped during {phase}; repeat the command")
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == {"checking": [], "predictions": [".run.checkpoint"], "report": ["run"]}[phase]
    assert djgnn(*command(place, tmp_path / "run", "--resume")).returncode == 0
    assert (tmp_path / "run" / "report.html").is_file()
    same = [
        (folder / "weights.safetensors").read_bytes()
        for folder in (place / "run", tmp_path / "run")
    ]
    assert same[0] == same[1]


def test_a_run_that_was_to_replace_another_is_resumed(
    place: Path, djgnn: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Path(shutil.copytree(place / "run", tmp_path / "run"))
    begin, other = Phases.begin, ("--seed", "1")

    def stop(self: Phases, name: str) -> None:
        begin(self, name)
        if name == "predictions":
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Phases, "begin", stop)
        assert djgnn(*command(place, run, *other, "--overwrite")).returncode == 130
    assert read_card(run)["seed"] == 0
    assert djgnn(*command(place, run, "--seed", "2", "--resume")).returncode == 2
    assert djgnn(*command(place, run, *other, "--resume")).returncode == 0
    assert read_card(run)["seed"] == 1


def test_resuming_never_replaces_a_finished_run_of_other_options(
    place: Path, djgnn: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Path(shutil.copytree(place / "run", tmp_path / "run"))
    (tmp_path / ".run.checkpoint").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    for out in (run, Path("~/run")):
        done = djgnn(*command(place, out, "--seed", "2", "--resume"))
        assert done.returncode == 2
        assert "holds a finished run of other data, options or seed" in done.stderr
    assert read_card(run)["seed"] == 0


@pytest.mark.parametrize("word", ["predict", "report"])
def test_a_pipe_is_not_replaced(place: Path, djgnn: Any, tmp_path: Path, word: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    done = djgnn(word, place / "run", "--out", tmp_path / "pipe")
    assert (done.returncode, "so it is not replaced" in done.stderr) == (2, True)
    assert (tmp_path / "pipe").is_fifo()


def test_a_second_fit_is_refused_and_the_first_loses_nothing(
    place: Path, djgnn: Any, tmp_path: Path
) -> None:
    kept = tmp_path / ".run.checkpoint" / "features.safetensors"
    kept.parent.mkdir()
    kept.write_text("of the first")
    with claimed(tmp_path / "run"):
        for more in ((), ("--overwrite",), ("--resume",)):
            done = djgnn(*command(place, tmp_path / "run", *more))
            assert done.returncode == 2
            assert "another `djgnn fit` is writing there" in done.stderr
    assert kept.read_text() == "of the first"


def test_a_folder_that_cannot_be_written_is_status_1(place: Path, djgnn: Any) -> None:
    done = djgnn(*command(place, Path("/proc/nothing/run")))
    assert done.returncode == 1
    assert done.stderr.startswith("failed during reading: /proc/nothing/run: cannot be written")


def test_failures_are_named() -> None:
    def during(error: BaseException) -> str:
        error.add_note("training")
        return describe(error)

    allocator = "[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: you"
    memory = (MemoryError("Unable to allocate 8 GiB"), RuntimeError(allocator))
    system = OSError(12, "Cannot allocate memory")
    for error in (*memory, system, torch.OutOfMemoryError("CUDA out of memory.")):
        text = during(error)
        assert text.startswith("failed during training: out of memory; ")
        assert "--batch-size" in text
    assert "no space left for a.csv" in during(OSError(28, "No space left on device", "a.csv"))
    assert "a.csv may not be written" in during(OSError(30, "Read-only file system", "a.csv"))
    assert during(OutputError("a: full")) == "failed during training: a: full"
    assert during(KeyboardInterrupt()).startswith("stopped during training; repeat")
    assert describe(KeyboardInterrupt()) == "stopped"
    assert describe(RuntimeError("odd")) == "failed: RuntimeError: odd"


def test_a_phase_has_its_own_peak() -> None:
    clock = [0.0]
    phases = Phases(lambda: clock[0])
    assert phases.records() == []
    phases.begin("small")
    clock[0] = 2.0
    phases.begin("large")
    block = bytearray(300 << 20)
    block[::4096] = b"x" * len(block[::4096])
    phases.look()
    del block
    clock[0] = 3.0
    phases.begin("after")
    small, large, after = phases.records()
    assert (small["seconds"], large["seconds"], after["seconds"]) == (2.0, 1.0, 0.0)
    assert large["peak_mib"] - small["peak_mib"] > 200
    assert large["peak_mib"] - after["peak_mib"] > 200


def test_a_spreadsheet_gets_no_formula(place: Path, djgnn: Any, tmp_path: Path) -> None:
    plain = djgnn("predict", place / "run").stdout
    with (place / "run" / "predictions.csv").open(newline="", encoding="utf-8") as file:
        assert plain == file.read()
    safe = djgnn("predict", place / "run", "--spreadsheet-safe").stdout
    rows = [row[0] for row in csv.reader(io.StringIO(safe, newline=""))][1:]
    assert rows[:7] == [f"'{name}" for name in NAMES[:7]]
    assert rows[7:11] == list(NAMES[7:])
    out = tmp_path / "safe.json"
    assert djgnn("predict", place / "run", "--spreadsheet-safe", "--json", "--out", out)[0] == 0
    assert json.loads(out.read_text("utf-8"))[0]["node"] == "'=1+1"


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_a_terminal_gets_no_control_characters(place: Path, more: tuple[str, ...]) -> None:
    ours, theirs = pty.openpty()
    run = subprocess.Popen(
        [sys.executable, "-m", "djgnn", "predict", place / "run", *more], stdout=theirs
    )
    os.close(theirs)
    seen = b""
    while True:
        try:
            seen += os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
    os.close(ours)
    assert run.wait() == 0
    shown = seen.decode("utf-8")
    assert "red" in shown
    assert not {c for c in shown if ord(c) < 32 or 127 <= ord(c) < 160} - {"\r", "\n"}


def test_a_closed_output_does_no_harm(place: Path) -> None:
    words = (sys.executable, "-m", "djgnn", "predict", str(place / "run"))
    done = subprocess.run(["sh", "-c", '"$@" >&-', "sh", *words], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_rank_alone_hides_no_error(djgnn: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    assert "error: " in djgnn("predict", "nope").stderr


def test_a_graph_whose_file_name_is_not_text_is_fitted(
    place: Path, djgnn: Any, tmp_path: Path
) -> None:
    name = os.fsdecode(b"g\xff.npz")
    try:
        shutil.copy(place / "graph.npz", tmp_path / name)
    except (OSError, UnicodeEncodeError):
        pytest.skip("file names are text here")
    given = command(place, tmp_path / "run", "--no-report", "--graph", str(tmp_path / name))
    assert djgnn(*given).returncode == 0
    assert read_card(tmp_path / "run")["data"]["name"] == "g?"


def test_a_score_that_is_not_defined_is_said_to_be_none(
    place: Path, djgnn: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = read_card(place / "run")
    card["result"]["validation"] = None
    monkeypatch.setattr(fit, "_train_and_write", lambda *_: (card, []))
    monkeypatch.setattr(fit, "_page", lambda card, *_: card)
    assert "not defined" in djgnn(*command(place, tmp_path / "run")).stdout
