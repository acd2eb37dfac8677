"""`inspect`'s estimate of a whole `fit` against that fit, each in a process of its own.

    python benchmarks/estimate.py run --datasets texas,squirrel,fb100_cornell5 --out FILE
                                      [--preset default] [--epochs 0] [--device cpu]
    python benchmarks/estimate.py table FILE

Estimated and measured are seconds from the command to the end of the report, and the peak of the
process. Wanted: every ratio between 1/1.5 and 1.5, on a machine that does nothing else. The table
also has the CPU seconds, what came after training, and the epochs of every expert, from which
`EPOCHS` of `djgnn.training.trial_trainings` is taken. With `--epochs` a fit has at most so many.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import rows
from djgnn.model.experts import kind_of
from djgnn.training.config import MANY_NODES
from endtoend import run

LIMIT = 3600.0
BEFORE = ("reading", "checking", "training")


def wanted(options: argparse.Namespace) -> Iterable[tuple[Any, ...]]:
    """The first split of every set."""
    return [(name, 0, options.preset, options.epochs) for name in options.datasets]


def measure(name: str, split: int, preset: str, epochs: int, device: str) -> dict[str, Any]:
    """What `inspect` expects of a fit, and what it takes."""
    words = ["--dataset", name, "--device", device, "--preset", preset]
    words += ["--epochs", str(epochs)] if epochs else []
    command = [sys.executable, "-m", "djgnn", "inspect", *words, "--json"]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place, "run")
        more = ["--split", str(split), "--out", str(folder), "--quiet"]
        seconds, cpu, mib, ended = run(["fit", *words, *more], LIMIT)
        if not ended:
            raise SystemExit(f"{name}: the fit did not end within {LIMIT:.0f} s")
        card = json.loads((folder / "result.json").read_text("utf-8"))
        with (folder / "predictions.csv").open(encoding="utf-8", newline="") as file:
            learned = sum(line["part"] == "train" for line in csv.DictReader(file))
    return {
        "dataset": name,
        "split": split,
        "size": json.loads(shown)["size"],
        "expected": json.loads(shown)["cost"],
        "seconds": seconds,
        "cpu": cpu,
        "mib": mib,
        "train": learned,
        "phases": card["phases"],
        "experts": [{k: e[k] for k in ("name", "epochs", "seconds")} for e in card["experts"]],
    }


def table(found: rows.Rows) -> None:
    """Estimates beside truths, then what they are made of."""
    print(f"{'set':18s} {'expected':>8s} {'s':>7s} {'ratio':>6s} {'CPU s':>7s}", end="")
    print(f" {'expected':>9s} {'MiB':>6s} {'ratio':>6s} {'training':>9s} {'after':>7s}")
    within = 0
    for row in found:
        cost, phases = row["expected"], {p["name"]: p["seconds"] for p in row["phases"]}
        after = sum(value for key, value in phases.items() if key not in BEFORE)
        a, b = cost["expected_seconds"] / row["seconds"], cost["peak_mib"] / row["mib"]
        within += all(1 / 1.5 <= ratio <= 1.5 for ratio in (a, b))
        print(
            f"{row['dataset']:18s} {cost['expected_seconds']:8.1f} {row['seconds']:7.1f} {a:6.2f} "
            f"{row['cpu']:7.1f} {cost['peak_mib']:9.0f} {row['mib']:6.0f} {b:6.2f} "
            f"{phases['training']:9.1f} {after:7.1f}"
        )
    print(f"within 1.5: {within} of {len(found)}")
    for many in (False, True):
        epochs: dict[str, list[int]] = {}
        for row in found:
            for expert in row["experts"] if (row["train"] >= MANY_NODES) == many else ():
                epochs.setdefault(kind_of(expert["name"]), []).append(expert["epochs"])
        usual = {kind: round(geometric_mean(each)) for kind, each in epochs.items()}
        print(f"epochs on {'many' if many else 'few'} training nodes, geometric means: {usual}")


if __name__ == "__main__":
    sys.exit(rows.main(__doc__ or "", "split", wanted, measure, table, preset="default", epochs=0))
