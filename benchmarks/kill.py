"""Kill a run at random moments, resume it, compare its end with the uninterrupted run's.

    python benchmarks/kill.py [--data DIR] [--dataset cora] [--times 20] [--epochs 60] [--seed 0]

Each trial starts `djgnn fit`, kills it with SIGKILL after a random part of the whole run's time,
then resumes until it is done. Files are compared byte by byte, those with times by their names.
A run that finished before it was killed does not count.
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
    given += ["--set", f"epochs={options.epochs}", "--checkpoint-every", "0.5"]
    return [sys.executable, "-m", "djgnn", "fit", *given, *more]


def trial(place: Path, after: float, options: argparse.Namespace) -> tuple[bool, str] | None:
    """Whether the resumed run ends as the whole one did, and what was there when it was killed.

    ``None`` if the run was done before.
    """
    out = place / "killed"
    process = subprocess.Popen(command(out, options))
    try:
        process.wait(timeout=after)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()
    kept = list((place / ".killed.checkpoint").glob("*.safetensors"))
    if out.exists():
        whole = all((out / name).is_file() for name in FILES)
        assert whole, "a half-written run folder was seen"
    subprocess.run(command(out, options, "--resume"), check=True, stdout=subprocess.DEVNULL)
    same = all((out / n).read_bytes() == (place / "whole" / n).read_bytes() for n in FILES)
    names = [{file.name for file in run.iterdir()} for run in (out, place / "whole")]
    same = same and names[0] == names[1]
    shutil.rmtree(out)
    return None if process.returncode == 0 else (same, f"{len(kept)} checkpoints")


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
        number = 0
        while number < options.times:
            after = rng.uniform(0, whole)
            found = trial(Path(folder), after, options)
            if found is None:
                whole = min(whole, after)
                continue
            number, equal = number + 1, equal + found[0]
            verdict = "same bytes" if found[0] else "DIFFERENT"
            print(f"{number:3d}  killed after {after:5.1f} s  {found[1]}  {verdict}", flush=True)
    print(f"{equal} of {options.times} resumed runs end as the uninterrupted one")


if __name__ == "__main__":
    main()
