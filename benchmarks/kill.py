"""Kill a run at random moments, resume it, compare its end with the uninterrupted run's.

    python benchmarks/kill.py [--data DIR] [--dataset cora] [--times 20] [--epochs 60] [--seed 0]

Each trial starts `djgnn fit`, kills it with SIGKILL after a random part of the whole run's time,
looks whether a run folder that is there is complete, then resumes until it is done. Files are
compared byte by byte.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FILES = ("predictions.csv", "weights.safetensors", "history.csv", "graph.npz", "config.yaml")


def command(out: Path, options: argparse.Namespace, *more: str) -> list[str]:
    given = ["--dataset", options.dataset, "--out", str(out), "--device", "cpu", "--quiet"]
    given += ["--data", options.data] if options.data else []
    given += ["--set", f"epochs={options.epochs}", "--checkpoint-every", "0.5", "--no-report"]
    return [sys.executable, "-m", "djgnn", "fit", *given, *more]


def trial(place: Path, after: float, options: argparse.Namespace) -> tuple[bool, str]:
    """Whether the resumed run ends as the whole one did, and what was there when it was killed."""
    out = place / "killed"
    process = subprocess.Popen(command(out, options))
    try:
        process.wait(timeout=after)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()
    kept = list((place / ".killed.checkpoint").glob("*.safetensors"))
    state = "complete" if out.exists() else f"{len(kept)} checkpoints"
    if out.exists():
        assert all((out / name).is_file() for name in FILES), "a half-written run folder was seen"
    subprocess.run(command(out, options, "--resume"), check=True, stdout=subprocess.DEVNULL)
    whole = place / "whole"
    same = all((out / name).read_bytes() == (whole / name).read_bytes() for name in FILES)
    shutil.rmtree(out)
    return same, state


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data")
    parser.add_argument("--dataset", default="cora")
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng, equal = random.Random(options.seed), 0
    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        subprocess.run(command(Path(folder, "whole"), options), check=True)
        whole = time.perf_counter() - begun
        for number in range(options.times):
            after = rng.uniform(0, whole)
            same, state = trial(Path(folder), after, options)
            equal += same
            verdict = "same bytes" if same else "DIFFERENT"
            print(
                f"{number + 1:3d}  killed after {after:5.1f} s  {state:14s}  {verdict}", flush=True
            )
    print(f"{equal} of {options.times} resumed runs end as the uninterrupted one of {whole:.1f} s")


if __name__ == "__main__":
    main()
