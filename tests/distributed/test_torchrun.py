"""The command under `torchrun`: a lost process, one message for an error."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import jobs
import pytest
from processes import run_group

from djgnn.cli.fit import checkpoint_folder
from djgnn.graph import write_npz

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
LIMIT, EPOCHS = 120, 3


@pytest.fixture
def graph_file(tmp_path: Path) -> Path:
    write_npz(jobs.sbm(), tmp_path / "graph.npz")
    return tmp_path / "graph.npz"


def command(graph: Path, out: Path, *options: str) -> list[str]:
    fit = ["fit", "--graph", str(graph), "--out", str(out), "--no-report", "--device", "cpu"]
    sets = [f"epochs={EPOCHS}", "patience=null", "hidden_channels=8"]
    return ["-m", "djgnn", *fit, *(part for s in sets for part in ("--set", s)), *options]


def start(*arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [*TORCHRUN, *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(running: subprocess.Popen[str]) -> tuple[str, str]:
    try:
        return running.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        running.terminate()  # torchrun ends its processes
        raise


def worker(launcher: int, rank: int) -> int:
    """The process of that number, among the children of `torchrun`."""
    for child in Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split():
        variables = Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
        if f"RANK={rank}".encode() in variables:
            return int(child)
    raise AssertionError(f"no process {rank} below {launcher}")


def wait_for(file: Path, running: subprocess.Popen[str]) -> None:
    end = time.monotonic() + LIMIT
    while not file.exists() and running.poll() is None and time.monotonic() < end:
        time.sleep(0.02)
    if not file.exists():
        running.terminate()
        raise AssertionError(f"{file} did not appear: {running.communicate()[1]}")


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
def test_a_killed_process_is_started_again_and_nothing_is_different(
    graph_file: Path, tmp_path: Path
) -> None:
    undisturbed, killed = tmp_path / "undisturbed", tmp_path / "killed"
    cards = run_group(2, jobs.fit_folder, graph_file, undisturbed, EPOCHS)
    for card in cards:  # the first process adds what the last phase took
        del card["phases"], card["files"]
    assert cards[0] == cards[1]
    running = start("--max-restarts", "1", *command(graph_file, killed, "--checkpoint-every", "0"))
    wait_for(checkpoint_folder(killed) / "given.safetensors", running)
    os.kill(worker(running.pid, 1), signal.SIGKILL)
    assert not killed.exists()
    out, err = finish(running)
    assert running.returncode == 0, err
    assert out.count("predictions:") == 1, "only the first process speaks"
    for name in ("predictions.csv", "weights.safetensors", "history.csv", "config.yaml"):
        assert (killed / name).read_bytes() == (undisturbed / name).read_bytes(), name
    assert not checkpoint_folder(killed).exists()


def test_an_error_is_said_once(tmp_path: Path) -> None:
    running = start(*command(tmp_path / "missing.npz", tmp_path / "run"))
    _, err = finish(running)
    assert running.returncode != 0
    assert err.count("error: ") == 1
    assert "missing.npz" in err
