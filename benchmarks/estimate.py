"""`inspect`'s estimate of time and memory against a fit, each in a process of its own.

    python benchmarks/estimate.py [--data DIR] [--datasets A,B] [--epochs 40]

Both for a fixed number of epochs, early stopping off. Wanted: every ratio between 1/1.5 and 1.5.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

SETS = "texas,chameleon,cora,squirrel,pubmed,fb100_cornell5"


def work(kind: str, name: str, data: str | None, epochs: int) -> dict[str, float]:
    """Seconds and MiB, estimated or measured, libraries warm and data loaded."""
    from djgnn.graph import Graph, heterophilic_sbm, random_splits
    from djgnn.training.config import resolve
    from djgnn.training.estimate import estimate
    from djgnn.training.inputs import build_djgnn
    from djgnn.training.provenance import PeakMemory
    from djgnn.training.run import train

    options = {"epochs": epochs, "patience": 10**6}
    small = random_splits(heterophilic_sbm(200))
    estimate(small, resolve("default", None, epochs=3))
    graph = Graph.load(name, data=data)
    config = resolve("default", name, **options)
    if kind == "estimate":
        found = estimate(graph, config)
        return {"seconds": found.seconds, "mib": found.memory_mib}
    memory = PeakMemory()
    module, inputs = build_djgnn(config, graph)
    fitted, _ = train(module, inputs, graph, 0, config.training, 0)
    return {"seconds": fitted.seconds, "mib": memory.mib()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data")
    parser.add_argument("--datasets", default=SETS)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(work(*options.one, options.data, options.epochs)))
        return
    print(f"{'set':16s} {'seconds':>17s} {'ratio':>6s} {'MiB':>15s} {'ratio':>6s}")
    for name in options.datasets.split(","):
        pair = []
        for kind in ("estimate", "measure"):
            command = [sys.executable, __file__, "--one", kind, name, "--epochs"]
            command += [str(options.epochs), *(["--data", options.data] if options.data else [])]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            pair.append(json.loads(done.stdout))
        (a, b), (m, k) = ([p[key] for p in pair] for key in ("seconds", "mib"))
        print(
            f"{name:16s} {a:8.1f} {b:8.1f} {a / b:6.2f} {m:7.0f} {k:7.0f} {m / max(k, 1):6.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
