"""The progress bar of `djgnn fit`: what it says about the time left, and where it is silent."""

from __future__ import annotations

import io
import os
import pty
import re
import select
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console
from rich.progress import Progress

from djgnn.cli.progress_bar import AFTER, AHEAD, BEHIND, COST, LEAST_AFTER, TREES, Estimate, Stages
from djgnn.training.progress import EpochRecord

KINDS = ("shares", "features", "hops", "rows")


def members(folds: int) -> list[str]:
    return [f"{kind}-{fold + 1}" for fold in range(folds) for kind in KINDS]


def test_members_of_a_kind_take_the_same_time_in_every_fold() -> None:
    seconds = dict(zip(KINDS, (1.0, 2.0, 6.0, 3.0), strict=True))
    estimate, now = Estimate(members(3), 3), 0.0
    planned = [name for name in members(3) if not name.startswith("rows")]
    for name in [*members(3)[:4], *planned[3:]]:
        if name == "shares-2":
            estimate.plan(planned)
        kind, first = name.split("-")[0], now + seconds[name.split("-")[0]] / 10
        estimate.saw(name, 0, 10, first)
        left = estimate.left(first)
        assert (left is None) == (name in ("shares-1", "features-1", "hops-1"))
        if name == "features-2":  # everything is known: the rest of itself, hops, another fold
            assert left == pytest.approx(1.8 + 6.0 + 9.0)
        now += seconds[kind]
        estimate.saw(name, 9, 10, now)
    assert estimate.left(now) < 1


def test_a_plan_before_the_training_says_nothing_of_other_folds() -> None:
    estimates = [
        Estimate(names, 2) for names in (members(2), [n for n in members(2) if "rows" not in n])
    ]
    estimates[0].plan(estimates[1].names)
    for estimate in estimates:
        for name, now in (("shares-1", 1.0), ("features-1", 2.0), ("hops-1", 5.0)):
            estimate.saw(name, 9, 10, now)
        estimate.saw("shares-2", 0, 1, 6.0)
    assert estimates[0].left(6.0) == estimates[1].left(6.0)


def test_networks_to_come_are_dear_or_cheap_and_those_of_other_folds_unlikely() -> None:
    kinds = ("shares", "given", "rows", "deep", "jumps")
    names = [f"{kind}-{fold}" for fold in (1, 2) for kind in kinds]

    def left(loss: float) -> float:
        estimate = Estimate(names, 2)
        estimate.saw("shares-1", 0, 1, 1.0, 0.9)
        estimate.saw("given-1", 9, 10, 3.0, loss)
        estimate.saw("rows-1", 9, 10, 5.0, 2.0)
        estimate.saw("deep-1", 0, 1000, 6.0, 2.0)
        return estimate.left(6.0)

    dear = 2 * (COST["deep"] + COST["jumps"])  # a network of the usual kind takes 2 seconds
    sure = dear - 1 + 1  # one second of them is over, and shares come again
    assert left(2.0) == pytest.approx(sure + BEHIND * (2 + 2 + dear))
    assert left(0.5) == pytest.approx(sure + AHEAD * 2 + BEHIND * (2 + dear))


def test_trees_that_the_verdict_needs_take_their_time_after_the_training() -> None:
    estimate = Estimate([f"{kind}-{fold}" for fold in (1, 2) for kind in ("boosting", "given")], 2)
    assert estimate.after(10.0) == LEAST_AFTER
    estimate.saw("boosting-1", 19, 20, 50.0)
    estimate.saw("given-1", 0, 10, 51.0)
    assert estimate.after(100.0) == pytest.approx(100 * AFTER + 2 * 50 * TREES)


def test_one_network_is_expected_to_use_all_its_epochs() -> None:
    estimate = Estimate([""])
    estimate.saw("", 9, 100, 2.0)
    assert estimate.left(2.0) == pytest.approx(18.0)


def test_the_bar_never_goes_back() -> None:
    clock = [0.0]
    bar = Progress(console=Console(file=io.StringIO()), disable=True)
    shown = Stages(bar, clock=lambda: clock[0])
    shown.stage("reading")
    seen: list[int] = []
    report, _ = shown.training("g", members(2), 2, seen.append)
    shares = []
    for k, name in enumerate(members(2)):
        for epoch in range(5):
            clock[0] += 0.1 * (1 + 7 * (k == 3))  # the fourth takes much longer than the others
            report(5, EpochRecord(epoch, 0.0, 0.0, 50.0, 1.0, 50.0, name))
            shares.append(shown.share)
    assert shares == sorted(shares)
    assert seen == [0, 1, 2, 3, 4] * 8
    assert 0.3 < shares[-1] < 1
    shown.stage("predictions")
    before = shown.left()
    clock[0] += 1
    assert shown.left() == pytest.approx(before - 1)


@pytest.mark.parametrize("terminal", [True, False])
def test_a_terminal_sees_the_stages_and_a_pipe_does_not(tmp_path: Path, terminal: bool) -> None:
    rows = [f"{i},{(i + 1) % 60}\n" for i in range(60)]
    (tmp_path / "edges.csv").write_text("source,target\n" + "".join(rows))
    labels = [f"{i},{'ab'[i % 2]}\n" for i in range(60)]
    (tmp_path / "nodes.csv").write_text("node,label\n" + "".join(labels))
    command = [sys.executable, "-m", "djgnn", "fit", "--edges", "edges.csv", "--nodes", "nodes.csv"]
    command += ["--label", "label", "--out", "run", "--epochs", "3", "--folds", "2"]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "150"}
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=theirs if terminal else subprocess.STDOUT,
    ) as run:
        os.close(theirs)
        seen = b""
        while terminal and (run.poll() is None or select.select([ours], [], [], 0)[0]):
            if select.select([ours], [], [], 0.1)[0]:
                try:
                    seen += os.read(ours, 65536)
                except OSError:  # the other end is closed
                    break
        out = run.stdout.read().decode()
    os.close(ours)
    assert run.returncode == 0
    assert "predictions: " in out  # a pipe gets what is printed even where a bar is shown
    assert "\x1b" not in out
    assert "training" not in out
    if terminal:
        shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode())
        assert "nodes, training" in shown or "edges, training" in shown
        assert "report" in shown
        assert re.search(r"0:00:\d\d", shown)
