"""Two processes share one study through a real PostgreSQL server."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from djgnn.bench.tune import finished_trials

pytest.importorskip("optuna")
pytest.importorskip("psycopg2")

TRIALS = 5


def program(name: str) -> str | None:
    """A program of the server: on the path, or where distributions put it."""
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return shutil.which(name) or shutil.which(name, path=os.pathsep.join(map(str, places)))


def server_user() -> str | None:
    """Whom to run the server as: it refuses to run as root. ``None`` means as we are."""
    if os.geteuid() != 0:
        return None
    import pwd

    names = [user.pw_name for user in pwd.getpwall()]
    for name in ("postgres", "nobody"):
        if name in names:
            return name
    pytest.skip("PostgreSQL refuses to run as root, and there is no other user")


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of a database on a server of our own."""
    initdb, postgres = program("initdb"), program("postgres")
    if initdb is None or postgres is None:
        pytest.skip("no PostgreSQL server here: initdb and postgres were not found")
    user = server_user()
    folder = Path(tempfile.mkdtemp(prefix="djgnn-pg-"))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    if user is not None:
        shutil.chown(folder, user)
    data, options = folder / "data", {"user": user, "cwd": folder}
    made = subprocess.run(
        [initdb, "-D", data, "-U", "djgnn", "-A", "trust", "-N", "-E", "UTF8"],
        capture_output=True, check=False, **options,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr.decode()
    process = subprocess.Popen(
        [postgres, "-D", data, "-p", str(port), "-k", folder, "-h", "127.0.0.1", "-F"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options,
    )  # fmt: skip
    try:
        yield _database(port)
    finally:
        process.send_signal(signal.SIGINT)  # without waiting for clients
        process.wait(60)
        shutil.rmtree(folder)


def _database(port: int) -> str:
    import psycopg2

    address = f"postgresql://djgnn@127.0.0.1:{port}/postgres"
    for _ in range(300):
        try:
            psycopg2.connect(address).close()
            return address
        except psycopg2.OperationalError:
            time.sleep(0.1)
    raise AssertionError("the server did not start")


def test_two_processes_together_run_exactly_the_trials_asked_for(
    server: str, folder: Path, tmp_path: Path
) -> None:
    def start(name: str) -> subprocess.Popen[bytes]:
        command = [
            sys.executable, "-m", "djgnn", "bench", "tune", "--model", "mlp", "--dataset", "own",
            "--data", folder, "--trials", TRIALS, "--splits", "0", "--epochs", "2",
            "--storage", server, "--workers", "0", "--device", "cpu", "--json",
            "--out", tmp_path / name,
        ]  # fmt: skip
        return subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE)

    processes = [start("a"), start("b")]
    printed = [process.communicate(timeout=240)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    cards = [json.loads(out)["searches"][0] for out in printed]
    assert cards[0]["study"] == cards[1]["study"]
    assert [card["trials"] for card in cards] == [TRIALS, TRIALS]  # each waits for the other

    import optuna

    storage = optuna.storages.RDBStorage(server.replace("postgresql:", "postgresql+psycopg2:"))
    study = optuna.load_study(study_name=cards[0]["study"], storage=storage)
    finished = finished_trials(study, TRIALS)
    assert len(finished) == TRIALS
    assert all(t.state.is_finished() for t in study.trials)
    assert all("surplus" in t.user_attrs for t in study.trials if t not in finished)
    ran = {int(t.user_attrs["process"].rpartition(":")[2]) for t in finished}
    assert ran <= {process.pid for process in processes}
    kept = [len(list((tmp_path / name / "splits").glob("*.json"))) for name in "ab"]
    assert sum(kept) == TRIALS  # every trial was trained in one process, and once
    print(f"trials per process: {kept}")
