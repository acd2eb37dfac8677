"""What a person waits for: every command on graphs of every size, phase by phase.

    python benchmarks/endtoend.py [--nodes 1000,10000] [--shapes sparse,dense] [--epochs 5]
                                  [--edges 10] [--commands inspect,fit,predict,explain]
                                  [--preset full] [--limit 1800] [--clock cpu] [--plot FILE]
                                  [--json FILE]

Each command runs in a process of its own: `inspect --no-cost`, `fit` (its phases are those of the
card, report included), `predict` of a tenth as many new nodes, `explain` of the node with the most
edges. Shapes: `sparse` and `dense` are heterophilic block models with `--edges`, and with 100 edges
per node, a tenth of them with the new nodes, and 50 features; `star`, `complete`, `path` and
`components` (of four nodes) have the same features. Half of the nodes have a label. Prints a row
per phase with seconds, the peak of the process in MiB, and that on a GPU; then the growth exponents
of the phases that take a second or more, from 20,000 nodes on; with `--clock cpu` those of the CPU
seconds, which other work on the machine hardly changes. A command that takes longer than the limit
is ended and shown as such.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from djgnn.graph import Graph, write_npz
from large_sbm import degree_corrected_sbm

FEATURES, CLASSES, FITTED_FROM, LEAST_SECONDS = 50, 8, 20_000, 1.0
DENSE_EDGES = 100
Row = dict[str, Any]


def edges_of(shape: str, n: int) -> np.ndarray:
    """Edges of an awkward graph, both ways."""
    if shape == "star":
        one = np.stack([np.zeros(n - 1, dtype=np.int64), np.arange(1, n)])
    elif shape == "complete":
        one = np.stack(np.triu_indices(n, k=1))
    elif shape == "path":
        one = np.stack([np.arange(n - 1), np.arange(1, n)])
    elif shape == "components":
        inner = np.stack(np.triu_indices(4, k=1))
        one = np.concatenate([inner + 4 * k for k in range(n // 4)], axis=1)
    else:
        raise SystemExit(f"unknown shape {shape!r}")
    return np.concatenate([one, one[::-1]], axis=1)


def draw(shape: str, n: int, edges_per_node: float) -> Graph:
    """A graph with names and features, half of its labels hidden."""
    rng = np.random.default_rng(0)
    if shape in ("sparse", "dense"):
        degree = edges_per_node if shape == "sparse" else DENSE_EDGES
        whole = degree_corrected_sbm(n, round(degree * n), num_features=FEATURES)
        edges, x, y = whole.edge_index, whole.x, np.array(whole.y)
    else:
        edges, y = edges_of(shape, n), rng.integers(0, 2, n)
        x = rng.standard_normal((n, FEATURES), dtype=np.float32)
        x[:, 0] += 2 * y
    y[rng.random(n) < 0.5] = -1
    names = tuple(f"n{i}" for i in range(n))
    classes = tuple(f"c{c}" for c in range(y.max() + 1))
    return Graph(edges, n, x, y, node_names=names, class_names=classes, name=f"{shape}_{n}")


def first_nodes(graph: Graph, number: int) -> Graph:
    """The graph of the first nodes."""
    inside = (graph.edge_index < number).all(axis=0)
    return Graph(
        graph.edge_index[:, inside],
        number,
        np.asarray(graph.x)[:number],
        np.asarray(graph.y)[:number],
        node_names=tuple(graph.names()[:number]),
        class_names=tuple(graph.classes()),
        name=graph.name,
    )


def run(
    words: list[str], limit: float, source: Path | None = None
) -> tuple[float, float, float, bool]:
    """Seconds, CPU seconds and peak MiB of a command, and whether it ended within the limit.

    Args:
        words: What comes after `djgnn`.
        limit: Seconds after which it is ended.
        source: Where the package is, if not here.
    """
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "djgnn", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ if source is None else os.environ | {"PYTHONPATH": str(source)},
    )
    ended = True
    try:
        while True:
            done, status, usage = os.wait4(process.pid, os.WNOHANG)
            if done:
                break
            if time.perf_counter() - began > limit and ended:
                ended = False
                process.kill()
            time.sleep(0.02)
    finally:
        process.returncode = 0
    if ended and os.waitstatus_to_exitcode(status):
        assert process.stderr is not None
        raise SystemExit(f"djgnn {' '.join(words)}\n{process.stderr.read()}")
    cpu = usage.ru_utime + usage.ru_stime
    return time.perf_counter() - began, cpu, usage.ru_maxrss / 1024, ended


def measure(shape: str, n: int, options: argparse.Namespace) -> list[Row]:
    """All commands on one graph."""
    more = n // 10 if shape != "components" else 4 * (n // 40)
    later = draw(shape, n + more, options.edges)
    graph, rows = first_nodes(later, n), list[Row]()
    about = {"shape": shape, "nodes": n, "edges": graph.num_edges}

    def add(
        phase: str, seconds: float, cpu: float, mib: float, ended: bool = True, gpu: float = 0.0
    ) -> None:
        row = {**about, "phase": phase, "seconds": seconds, "cpu": cpu, "mib": mib, "gpu_mib": gpu}
        rows.append({**row, "ended": ended})
        end = f"  {gpu:7.0f} MiB on the GPU" if gpu else ""
        end += "" if ended else "  ended by the limit"
        size = f"{shape:10s} {n:9,d} {graph.num_edges:11,d}"
        print(
            f"{size}  {phase:12s} {seconds:8.1f} s {cpu:8.1f} CPU s {mib:7.0f} MiB{end}", flush=True
        )

    with tempfile.TemporaryDirectory() as place:
        known, all_of, folder = (str(Path(place, k)) for k in ("known.npz", "later.npz", "run"))
        write_npz(graph, known)
        write_npz(later, all_of)
        wanted = options.commands.split(",")
        if "inspect" in wanted:
            add("inspect", *run(["inspect", "--graph", known, "--no-cost"], options.limit))
        fit = ["fit", "--graph", known, "--out", folder, "--quiet", "--epochs", str(options.epochs)]
        taken = run([*fit, "--preset", options.preset], options.limit)
        if taken[-1]:
            card = json.loads(Path(folder, "result.json").read_text("utf-8"))
            for phase in card["phases"]:
                took = (phase[key] for key in ("seconds", "cpu_seconds", "peak_mib"))
                add(phase["name"], *took, gpu=phase.get("gpu_peak_mib", 0.0))
        add("fit", *taken)
        if taken[-1] and "predict" in wanted:
            new = ["predict", folder, "--graph", all_of, "--out", str(Path(place, "new.csv"))]
            add("predict", *run(new, options.limit))
        if taken[-1] and "explain" in wanted:
            hub = int(np.bincount(graph.edge_index.reshape(-1), minlength=n).argmax())
            add("explain", *run(["explain", folder, graph.names()[hub]], options.limit))
    return rows


def exponents(rows: list[Row], clock: str = "seconds") -> dict[tuple[str, str], float]:
    """Slopes of log seconds over log nodes, by shape and phase; least squares."""
    points: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for row in rows:
        if row["nodes"] >= FITTED_FROM and row[clock] >= LEAST_SECONDS and row["ended"]:
            pair = (math.log(row["nodes"]), math.log(row[clock]))
            points.setdefault((row["shape"], row["phase"]), []).append(pair)
    found = {}
    for key, pairs in points.items():
        if len(pairs) > 1:
            a, b = (statistics.mean(side) for side in zip(*pairs, strict=True))
            square = sum((s - a) ** 2 for s, _ in pairs)
            found[key] = sum((s - a) * (t - b) for s, t in pairs) / square
    return found


def plot(rows: list[Row], file: str, clock: str = "seconds") -> None:
    """Seconds and MiB of every phase over the number of nodes, a column per shape."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    shapes = list(dict.fromkeys(row["shape"] for row in rows))
    figure, axes = plt.subplots(
        len(shapes), 2, figsize=(11, 4 * len(shapes)), squeeze=False, layout="constrained"
    )
    units = ((clock, {"cpu": "CPU seconds"}.get(clock, clock)), ("mib", "peak MiB"))
    for across, shape in zip(axes, shapes, strict=True):
        own = [row for row in rows if row["shape"] == shape and row["seconds"] > 0]
        sizes = sorted({row["nodes"] for row in own})
        for axis, (unit, label) in zip(across, units, strict=True):
            for phase in dict.fromkeys(row["phase"] for row in own):
                line = [(r["nodes"], r[unit]) for r in own if r["phase"] == phase and r[unit] > 0]
                axis.loglog(*zip(*line, strict=True), marker="o", label=phase)
            axis.set(xlabel="nodes", ylabel=label, title=shape)
            axis.set_xticks(sizes, [f"{n:,d}" for n in sizes])
            axis.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
            axis.grid(alpha=0.3)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside right center")
    figure.savefig(file, dpi=100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", default="1000,10000,100000,1000000")
    parser.add_argument("--shapes", default="sparse,dense")
    parser.add_argument("--edges", type=float, default=10, help="per node of a sparse graph")
    parser.add_argument("--commands", default="inspect,fit,predict,explain")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--preset", default="full")
    parser.add_argument("--limit", type=float, default=1800.0, help="seconds of a command")
    parser.add_argument("--clock", choices=("seconds", "cpu"), default="seconds")
    parser.add_argument("--plot")
    parser.add_argument("--json")
    options = parser.parse_args()
    rows: list[Row] = []
    for shape in options.shapes.split(","):
        for n in (int(part) for part in options.nodes.split(",")):
            rows += measure(shape, n, options)
            if options.json:
                Path(options.json).write_text(json.dumps(rows, indent=1), "utf-8")
    for (shape, phase), slope in exponents(rows, options.clock).items():
        print(f"exponent  {shape:10s} {phase:12s} {slope:.2f}")
    if options.plot:
        plot(rows, options.plot, options.clock)


if __name__ == "__main__":
    main()
