"""Mini-batches beside training on all nodes at once: accuracy, time and memory.

    python benchmarks/minibatch.py --out FILE [--datasets pubmed,fb100_cornell5] [--splits 0-4]
        [--batch-size 2048] [--epochs E] [--device D] [--workers W] [--data DIR]

Every run is a process of its own, with the preset `default` and the same seed on both sides; its
result is one line of FILE, and a run that FILE already has is not repeated. Selection is by
validation on both sides. Prints, per data set, the means over the splits, the mean of the paired
differences with its standard error, seconds and peak memory.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

SIDES = ("full", "batches")
BAR = 0.5


def measure(task: dict[str, Any]) -> dict[str, Any]:
    """Train and score one split."""
    from djgnn.graph import Graph
    from djgnn.training.config import resolve
    from djgnn.training.inputs import build_djgnn, choose_device
    from djgnn.training.provenance import PeakMemory, versions
    from djgnn.training.run import train

    graph = Graph.load(task["dataset"], data=task["data"])
    device = choose_device(task["device"])
    config = resolve("default", graph.name, **task["options"])
    memory = PeakMemory(device.type)
    module, inputs = build_djgnn(config, graph, device)
    fitted, result = train(module, inputs, graph, task["split"], config.training, task["seed"])
    return {
        "key": key(task),
        **{name: task[name] for name in ("dataset", "side", "split", "seed", "options")},
        "device": device.type,
        **result.to_dict(),
        "epochs": len(fitted.history),
        "mib": memory.mib(),
        "versions": versions(),
    }


def key(task: dict[str, Any]) -> str:
    """What makes two runs the same run."""
    parts = ("dataset", "side", "split", "seed", "device", "options")
    return json.dumps([task[name] for name in parts], sort_keys=True)


def tasks(given: argparse.Namespace) -> list[dict[str, Any]]:
    """All runs, the sides of a split one after the other."""
    first, _, last = given.splits.partition("-")
    splits = range(int(first), int(last or first) + 1)
    found = []
    for dataset in given.datasets.split(","):
        for split in splits:
            for side in SIDES:
                options = {"batch_size": given.batch_size} if side == "batches" else {}
                if given.epochs is not None:
                    options["epochs"] = given.epochs
                found.append(
                    {
                        "dataset": dataset,
                        "side": side,
                        "split": split,
                        "seed": given.seed,
                        "device": given.device,
                        "options": options,
                        "data": given.data,
                    }
                )
    return found


def run_missing(wanted: list[dict[str, Any]], out: Path, workers: int) -> dict[str, Any]:
    """Run what the file does not have yet; all results by key."""
    lines = out.read_text("utf-8").splitlines() if out.exists() else []
    done = {row["key"]: row for row in map(json.loads, lines)}
    missing = [task for task in wanted if key(task) not in done]

    def one(task: dict[str, Any]) -> str:
        command = [sys.executable, __file__, "--task", json.dumps(task)]
        ended = subprocess.run(command, capture_output=True, text=True)
        if ended.returncode:
            print(f"{key(task)}: failed\n{ended.stderr}", file=sys.stderr, flush=True)
            return ""
        return ended.stdout.splitlines()[-1]

    with ThreadPoolExecutor(workers) as pool, out.open("a", encoding="utf-8") as file:
        for ended in as_completed([pool.submit(one, task) for task in missing]):
            line = ended.result()
            if line:
                print(line, file=file, flush=True)
                row = json.loads(line)
                done[row["key"]] = row
                print(
                    f"{row['dataset']} split {row['split']} {row['side']}: validation "
                    f"{row['validation']:.2f} test {row['test']:.2f} "
                    f"(epoch {row['epoch']} of {row['epochs']}, {row['seconds']:.0f} s)",
                    flush=True,
                )
    return done


def print_table(wanted: list[dict[str, Any]], done: dict[str, Any]) -> None:
    print(
        f"\n{'':16s} {'splits':>6s} {'full':>7s} {'batches':>8s} {'difference':>16s} "
        f"{'seconds':>15s} {'peak MiB':>15s}   wanted: |difference| <= {BAR}"
    )
    for dataset in dict.fromkeys(task["dataset"] for task in wanted):
        sides = {
            side: {
                task["split"]: done[key(task)]
                for task in wanted
                if task["dataset"] == dataset and task["side"] == side and key(task) in done
            }
            for side in SIDES
        }
        both = sorted(sides["full"].keys() & sides["batches"].keys())
        if not both:
            continue

        def mean(side: str, name: str, both: list[int] = both, sides: Any = sides) -> float:
            return statistics.fmean(sides[side][split][name] for split in both)

        gaps = [sides["batches"][s]["test"] - sides["full"][s]["test"] for s in both]
        error = statistics.stdev(gaps) / math.sqrt(len(gaps)) if len(gaps) > 1 else math.nan
        print(
            f"{dataset:16s} {len(both):6d} {mean('full', 'test'):7.2f} "
            f"{mean('batches', 'test'):8.2f} {statistics.fmean(gaps):+8.2f} +- {error:4.2f} "
            f"{mean('full', 'seconds'):7.0f} {mean('batches', 'seconds'):7.0f} "
            f"{mean('full', 'mib'):7.0f} {mean('batches', 'mib'):7.0f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("minibatch.jsonl"))
    parser.add_argument("--datasets", default="pubmed,fb100_cornell5")
    parser.add_argument("--splits", default="0-4")
    parser.add_argument("--batch-size", type=int, default=2048)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--data", default=os.environ.get("DJGNN_DATA"))
    parser.add_argument("--task", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.task:
        print(json.dumps(measure(json.loads(given.task))))
        return
    wanted = tasks(given)
    print_table(wanted, run_missing(wanted, given.out, given.workers))


if __name__ == "__main__":
    main()
