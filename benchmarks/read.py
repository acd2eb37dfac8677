"""Reading an edge list against polars' own time for the same file, and the memory it takes.

    python benchmarks/read.py [--edges 5000000] [--nodes 200000] [--repeats 5]

Two kinds of ids, words and digits; edges in random order, a few listed twice. Both are timed in
one process, alternating; the best of the repeats counts: `polars.read_csv(edges)` alone against
`read_tables(edges, nodes)` up to the finished `Graph`. Memory is the peak of a fresh process that
does nothing but read the graph.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

BAR_TIME, BAR_MEMORY = 5.0, 2048


def make(folder: Path, kind: str, num_edges: int, num_nodes: int) -> tuple[Path, Path]:
    """Write an edge table and a node table; returns their paths."""
    import numpy as np
    import polars as pl

    rng = np.random.default_rng(0)
    edges, nodes = folder / f"{kind}-edges.csv", folder / f"{kind}-nodes.csv"
    names = pl.Series([f"user_{i}" if kind == "words" else str(i) for i in range(num_nodes)])
    source, target = rng.integers(0, num_nodes, (2, num_edges))
    pl.DataFrame({"source": names.gather(source), "target": names.gather(target)}).write_csv(edges)
    label, size = rng.integers(0, 5, num_nodes), rng.normal(size=num_nodes).astype(np.float32)
    pl.DataFrame({"id": names, "label": label, "size": size}).write_csv(nodes)
    return edges, nodes


def seconds(action: Callable[[], object]) -> float:
    begun = time.perf_counter()
    action()
    return time.perf_counter() - begun


def compare(edges: Path, nodes: Path, repeats: int) -> tuple[float, float]:
    """Best times of polars and of the whole reader, measured turn about."""
    import polars as pl

    from djgnn.graph import read_tables

    polars, ours = [], []
    for _ in range(repeats):
        polars.append(seconds(lambda: pl.read_csv(edges)))
        ours.append(seconds(lambda: read_tables(edges, nodes)))
    return min(polars), min(ours)


def peak(edges: Path, nodes: Path) -> float:
    """Peak resident memory in MiB of a fresh process that reads the graph."""
    command = [sys.executable, __file__, "--one", str(edges), str(nodes)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edges", type=int, default=5_000_000)
    parser.add_argument("--nodes", type=int, default=200_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        from djgnn.graph import read_tables

        read_tables(*options.one)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        return 0
    good = True
    print("| ids | polars s | Graph s | ratio | peak MiB |")
    print("| --- | ---: | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("words", "digits"):
            edges, nodes = make(Path(folder), kind, options.edges, options.nodes)
            polars, ours = compare(edges, nodes, options.repeats)
            memory = peak(edges, nodes)
            print(f"| {kind} | {polars:.2f} | {ours:.2f} | {ours / polars:.2f} | {memory:.0f} |")
            good &= ours <= BAR_TIME * polars and memory <= BAR_MEMORY
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
