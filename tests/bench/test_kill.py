"""A table run that is killed, and goes on: nothing is repeated, no number changes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from djgnn.bench.pool import run_plan, run_units
from djgnn.bench.spec import DataFacts, make_spec
from djgnn.bench.store import Store
from djgnn.graph import Graph

MODELS = ("mlp", "gcn", "djgnn")
EPOCHS = 12


def specs() -> list:
    return [make_spec(model, "own", (0, 1, 2), epochs=EPOCHS) for model in MODELS]


def numbers(store: Store, graph: Graph) -> dict[str, list[tuple[float, ...]]]:
    """Every figure of the finished cells that is not a time."""
    return {
        spec.label: [
            (f.split, f.epoch, f.validation, f.test, f.oracle_test)
            for f in store.cell(spec, graph.content_hash).result().splits
        ]
        for spec in specs()
    }


def until(true: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.005)


def children(pid: int) -> list[int]:
    """The processes that any thread of a process started."""
    found = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for file in found for child in file.read_text().split()]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at /proc")
def test_kill_nine_at_any_point_repeats_and_changes_nothing(
    tiny: Graph, folder: Path, tmp_path: Path
) -> None:
    torch.set_num_threads(1)
    facts = {"own": DataFacts.of(tiny)}
    whole = Store(tmp_path / "whole")
    run_plan(specs(), facts, whole, workers=0, device="cpu", data=folder)

    out = tmp_path / "killed"
    command = [
        sys.executable, "-m", "djgnn", "bench", "table1", "--models", ",".join(MODELS),
        "--datasets", "own", "--data", folder, "--out", out, "--epochs", EPOCHS,
        "--device", "cpu", "--workers", 1, "--quiet",
    ]  # fmt: skip
    process = subprocess.Popen(list(map(str, command)))
    kept = out / "splits"
    until(lambda: kept.is_dir() and len(list(kept.glob("[!.]*.json"))) >= 2)
    workers = children(process.pid)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert workers
    until(lambda: not any(_runs(pid) for pid in workers))  # none outlives its parent
    done = {f: (f.stat().st_ino, f.read_bytes()) for f in kept.glob("[!.]*.json")}
    assert 2 <= len(done) < 9

    store = Store(out)
    ran = []
    run_plan(
        specs(), facts, store, workers=0, device="cpu", data=folder,
        follow=lambda number, total, record: ran.append(record.key),
    )  # fmt: skip
    assert len(ran) == 9 - len(done)
    assert all((f.stat().st_ino, f.read_bytes()) == held for f, held in done.items())
    assert numbers(store, tiny) == numbers(whole, tiny)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at /proc")
def test_a_killed_process_costs_its_split_alone(tiny: Graph, folder: Path, tmp_path: Path) -> None:
    facts = {"own": DataFacts.of(tiny)}
    long = make_spec("mlp", "own", (0,), changes={"epochs": 10**6, "patience": None})
    wrong = make_spec("djgnn", "own", (0,), changes={"num_jumps": 1000})  # fails at once
    mine = set(children(os.getpid()))
    run = run_units([(long, 0), (wrong, 0)], facts, workers=1, device="cpu", data=folder)

    def kill() -> None:
        until(lambda: bool(_workers(mine)))
        os.kill(_workers(mine)[0], signal.SIGKILL)

    import threading

    threading.Thread(target=kill, daemon=True).start()
    first, second = list(run)
    assert first.outcome == "out of memory: killed by signal 9, most likely for its memory"
    assert (first.label, first.result) == ("mlp", None)
    assert second.outcome.startswith("failed: InputError: own: ")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at /proc")
def test_a_process_killed_between_two_splits_costs_none(tiny: Graph, folder: Path) -> None:
    spec = make_spec("mlp", "own", (0, 1), epochs=2)
    mine = set(children(os.getpid()))
    facts = {"own": DataFacts.of(tiny)}
    run = run_units([(spec, 0), (spec, 1)], facts, workers=1, device="cpu", data=folder)
    first = next(run)
    (worker,) = _workers(mine)
    os.kill(worker, signal.SIGKILL)
    until(lambda: not _runs(worker))
    (second,) = run
    assert [(r.split, r.outcome) for r in (first, second)] == [(0, "done"), (1, "done")]


def _workers(known: set[int]) -> list[int]:
    """Processes of the pool, not the tracker that multiprocessing starts beside them."""
    found = set(children(os.getpid())) - known
    commands = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in found if _runs(pid)}
    return [pid for pid, command in commands.items() if b"spawn_main" in command]


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
