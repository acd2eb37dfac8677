"""`djgnn fit` that is killed, or finds the disk full, at a chosen moment; each in a forked process.

    python tests/cli/faults.py FOLDER

Modules are imported once and every run is a fork, so that a run takes a second. A moment is a phase
and how many files were opened for writing, renamed or made in it. What happened is printed as JSON.
"""

import importlib
import json
import os
import resource
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import torch

from djgnn.cli import main, phase_costs
from djgnn.graph import heterophilic_sbm, write_npz

PROMISED = ("predictions.csv", "weights.safetensors", "history.csv", "graph.npz", "config.yaml")
PROMISED += ("suspects.csv", "held_out.safetensors")
IMPORTED = ("djgnn.cli.fit", "djgnn.report.page", "djgnn.report.run_data", "sklearn.metrics")
EVENTS = ("open", "os.rename", "os.mkdir", "os.truncate")
MOMENTS = (
    ("reading", 0),
    ("checking", 0),
    ("training", 0),
    ("training", 5),
    ("calibration", 0),
    ("predictions", 0),
    ("predictions", 3),
    ("predictions", 9),
    ("report", 0),
    ("report", 2),
)


def fault(phase: str, after: int, kind: str) -> None:
    """Have it happen in this process."""
    left, begin = -1, phase_costs.Phases.begin

    def strike() -> None:
        if kind == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))

    def watched(self: Any, name: str) -> None:
        nonlocal left
        begin(self, name)
        left = after if name == phase else -1
        if left == 0:
            strike()

    def audit(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        writes = event != "open" or (arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR)
        if left > 0 and event in EVENTS and writes:
            left -= 1
            if left == 0:
                strike()

    phase_costs.Phases.begin = watched  # type: ignore[method-assign]
    sys.addaudithook(audit)


def fit(out: Path, *more: str) -> int:
    """The status of a run in this process."""
    given = ["--graph", str(out.parent / "graph.npz"), "--out", str(out), "--device", "cpu"]
    given += ["--set", "experts=[shares, features, jumps]", "--set", "hidden_channels=4"]
    given += ["--epochs", "3", "--folds", "2", "--checkpoint-every", "0"]
    sys.argv = ["djgnn", "fit", *given, *more]
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def forked(out: Path, *more: str, moment: tuple[str, int, str] | None = None) -> tuple[int, str]:
    """The status of a run and what it says on standard error."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(theirs, 2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if moment is not None:
            fault(*moment)
        os._exit(fit(out, *more))
    os.close(theirs)
    with os.fdopen(ours, "rb") as stream:
        said = stream.read().decode()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said


def trial(place: Path, phase: str, after: int, kind: str) -> dict[str, Any]:
    """One run that meets its fault, and the one that resumes it."""
    out, whole = place / "run", place / "whole"
    status, said = forked(out, moment=(phase, after, kind))
    lost = out.exists() and not (out / "result.json").exists()
    again, complaint = forked(out, "--resume")
    names = sorted(path.name for path in out.iterdir()) if out.is_dir() else []
    other = [n for n in PROMISED if n in names and _bytes(out, n) != _bytes(whole, n)]
    litter = sorted(path.name for path in place.iterdir() if path.name.startswith("."))
    shutil.rmtree(out, ignore_errors=True)
    found = {"moment": [phase, after, kind], "status": status, "said": said, "lost": lost}
    return (
        found
        | {"again": again, "complaint": complaint, "files": names, "other": other}
        | {"litter": litter}
    )


def _bytes(folder: Path, name: str) -> bytes:
    return (folder / name).read_bytes()


if __name__ == "__main__":
    place = Path(sys.argv[1])
    torch.set_num_threads(1)
    for name in IMPORTED:  # once for all; nothing runs here, for a process with threads cannot fork
        importlib.import_module(name)
    write_npz(heterophilic_sbm(60, random_state=1), place / "graph.npz")
    assert forked(place / "whole")[0] == 0
    found = [trial(place, *moment, kind) for moment in MOMENTS for kind in ("killed", "full")]
    names = sorted(path.name for path in (place / "whole").iterdir())
    print(json.dumps({"files": names, "trials": found}))
