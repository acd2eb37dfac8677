"""Peak resident memory of `fit` above the loaded libraries and data.

    python benchmarks/memory.py [--data DIR] [--datasets squirrel,pubmed] [--epochs 20]

Each data set in a process of its own: libraries are imported and warmed up on a small graph, the
data are read, the high-water mark is reset; then `fit` with the preset `default`, run folder
included. Longer runs may read a little higher: the C library keeps some freed memory in fragments.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

BARS = {"squirrel": 300, "pubmed": 700}


def measure(name: str, data: str | None, epochs: int) -> None:
    from djgnn.cli.fit import run_fit
    from djgnn.cli.options import FitOptions
    from djgnn.graph import Graph, heterophilic_sbm, random_splits
    from djgnn.training.config import resolve
    from djgnn.training.provenance import PeakMemory

    def fit(graph: Graph, folder: str, number: int) -> None:
        config = resolve("default", graph.name, epochs=number)
        run_fit(graph, config, FitOptions(Path(folder, graph.name), device="cpu", quiet=True))

    with tempfile.TemporaryDirectory() as folder:
        fit(random_splits(heterophilic_sbm(200)), folder, 2)
        graph = Graph.load(name, data=data)
        memory = PeakMemory()
        fit(graph, folder, epochs)
        print(f"{name:12s} {memory.mib():8.0f} MiB   wanted at most {BARS.get(name, '-')}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data")
    parser.add_argument("--datasets", default=",".join(BARS))
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        measure(options.one, options.data, options.epochs)
        return
    for name in options.datasets.split(","):
        command = [sys.executable, __file__, "--one", name, "--epochs", str(options.epochs)]
        subprocess.run(command + (["--data", options.data] if options.data else []), check=True)


if __name__ == "__main__":
    main()
