"""Training over several processes: time, memory and bytes exchanged, beside one process.

    python benchmarks/distributed.py [--nodes 20000] [--processes 1,2,3] [--epochs 5]
    python benchmarks/distributed.py --fit [--nodes 200000] [--processes 1,4] [--epochs 3]

Starts itself under `torchrun` with each number of processes, one thread each, on a heterophilic
block model with power-law degrees (128 features, 6.9 edges per node, 60% of the nodes for training;
one network, hidden 64, K = 3). An epoch is a step and an evaluation, as in `fit`. Prints one row
per number of processes: median time of an epoch, the most memory that one process adds to what the
imports hold, bytes that one process sends, and how far the losses are from those of one process.

With `--fit` it runs the whole `djgnn fit`, report included, on such a graph (10 edges per node, 64
features), and prints the most memory that every process ever had, over that of one process; the
bar is 0.4 for four. A loss is said to be apart by 1 where it differs by 1e-5 of it plus 1e-6.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch

from djgnn.graph import random_splits, write_npz
from djgnn.training import resolve
from djgnn.training.distributed import Group, exchange, join
from djgnn.training.folder import read_history
from djgnn.training.inputs import build_djgnn, initialize, seeded
from djgnn.training.loop import Targets
from djgnn.training.passes import choose_passes
from djgnn.training.provenance import PeakMemory
from large_sbm import degree_corrected_sbm

WARM_UP, DEGREE = 2, 6.9


def measure(group: Group, nodes: int, epochs: int) -> dict[str, Any]:
    """A few epochs on this process's rows."""
    torch.set_num_threads(1)
    graph = random_splits(degree_corrected_sbm(nodes, int(DEGREE * nodes)), train=0.6, val=0.2)
    config = resolve("default", None, num_jumps=3, experts=())
    memory = PeakMemory()
    before = memory.before
    module, inputs = build_djgnn(config, graph, group=group)
    initialize(module, 0)
    targets, generator = Targets.of(graph, graph.split(0)), seeded(0)
    passes = choose_passes(module, inputs, targets, config.training)
    optimizer = torch.optim.Adam(module.parameters(), lr=0.01, fused=True)
    memory = PeakMemory()  # the peak of preparing is another matter
    sent, swap = [0], exchange.swap

    def counted(rows: torch.Tensor, give: list[int], take: list[int]) -> torch.Tensor:
        others = rows.shape[0] - give[group.rank]
        sent[0] += others * rows[:1].numel() * rows.element_size()
        return swap(rows, give, take)

    exchange.swap = counted
    times, losses = [], []
    for epoch in range(WARM_UP + epochs):
        if epoch == WARM_UP:
            sent[0] = 0
        begun = time.perf_counter()
        loss, _ = passes.update(optimizer, generator)
        passes.evaluate()
        times.append(time.perf_counter() - begun)
        losses.append(float(loss))
    return {
        "seconds": statistics.median(times[WARM_UP:]),
        "mib": memory.mib() + memory.before - before,
        "sent": sent[0] / epochs / 1e6,
        "losses": losses,
    }


def run_process(arguments: argparse.Namespace) -> None:
    """What each process does under `torchrun`."""
    with join("cpu") as group:
        found = group.gathered(measure(group, arguments.nodes, arguments.epochs))
    if group.first:
        Path(arguments.out).write_text(json.dumps(found))


def launch(processes: int, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Start this file under `torchrun`; what its processes found."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "found.json"
        options = ["--nodes", str(arguments.nodes), "--epochs", str(arguments.epochs)]
        runner = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
        command = [sys.executable, *runner, str(processes), __file__, *options, "--out", str(out)]
        subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
        found: list[dict[str, Any]] = json.loads(out.read_text())
    return found


def peaks(command: list[str]) -> dict[int, float]:
    """Run a command; the most MiB that each of its processes had, by rank (-1 for `torchrun`)."""
    found: dict[int, float] = {}
    running = subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"})
    while running.poll() is None:
        for pid in (str(running.pid), *children(running.pid)):
            with suppress(OSError, AttributeError):  # it has just ended
                mark = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
                rank = re.search(rb"\0RANK=(\d+)", Path(f"/proc/{pid}/environ").read_bytes())
                found[int(rank[1]) if rank else -1] = int(mark[1]) / 1024
        time.sleep(0.05)
    if running.returncode:
        raise SystemExit(f"{' '.join(command)} ended with status {running.returncode}")
    return found


def children(pid: int) -> list[str]:
    """The processes that a process has started."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return []


def losses(run: Path) -> np.ndarray[Any, Any]:
    """Cross-entropy, pump loss and validation loss of every epoch of every expert."""
    history = read_history(run)
    found = [(r.loss - r.pump_loss, r.pump_loss, r.validation_loss) for r in history]
    return np.array(found)


def whole_fit(arguments: argparse.Namespace) -> None:
    """The memory of `djgnn fit` over several processes, beside one."""
    with tempfile.TemporaryDirectory() as folder:
        file, base = Path(folder, "graph.npz"), [sys.executable, "-m"]
        sizes = (arguments.nodes, 10 * arguments.nodes)
        graph = degree_corrected_sbm(*sizes, num_features=64)
        write_npz(random_splits(graph, num_splits=1, train=0.6, val=0.2), file)
        imports = peaks([sys.executable, "-c", "import djgnn.cli.fit, djgnn.report.page"])
        print(f"{graph}; imports alone take {max(imports.values()):.0f} MiB")
        print("| processes | seconds | MiB of each process | over one process | loss apart |")
        print("| --- | --- | --- | --- | --- |")
        one, reference = 0.0, np.zeros(0)
        for count in map(int, arguments.processes.split(",")):
            out = Path(folder, f"run{count}")
            options = ["--graph", str(file), "--epochs", str(arguments.epochs), "--device", "cpu"]
            fit = ["djgnn", "fit", *options, "--quiet", "--out", str(out)]
            torchrun = ["torch.distributed.run", "--standalone", "--nproc-per-node", str(count)]
            begun = time.perf_counter()
            found = peaks([*base, *([*torchrun, "-m"] if count > 1 else []), *fit])
            seconds = time.perf_counter() - begun
            own = [mib for rank, mib in sorted(found.items()) if rank >= 0 or count == 1]
            one, reference = one or own[0], reference if reference.size else losses(out)
            apart = np.abs(losses(out) - reference) / (1e-5 * np.abs(reference) + 1e-6)
            ratios = ", ".join(f"{mib / one:.3f}" for mib in own)
            each = ", ".join(f"{mib:.0f}" for mib in own)
            print(
                f"| {count} | {seconds:.0f} | {each} | {ratios} | {apart.max():.2f} |", flush=True
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fit", action="store_true", help="measure the whole `djgnn fit`")
    parser.add_argument("--nodes", type=int)
    parser.add_argument("--processes")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--out", help="used by the processes")
    arguments = parser.parse_args()
    usual = (200_000, "1,4", 3) if arguments.fit else (20_000, "1,2,3", 5)
    for name, value in zip(("nodes", "processes", "epochs"), usual, strict=True):
        setattr(arguments, name, getattr(arguments, name) or value)
    if arguments.fit:
        whole_fit(arguments)
        return
    if arguments.out:
        run_process(arguments)
        return
    print(f"{arguments.nodes} nodes; MB are 10^6 bytes of rows that one process sends in an epoch")
    print("| processes | s per epoch | MiB | MB | loss apart |")
    print("| --- | --- | --- | --- | --- |")
    reference: list[float] = []
    for processes in map(int, arguments.processes.split(",")):
        found = launch(processes, arguments)
        seconds, mib, sent = (
            max(each[key] for each in found) for key in ("seconds", "mib", "sent")
        )
        losses = np.array(found[0]["losses"])
        reference = reference or found[0]["losses"]
        apart = float(np.abs(losses - reference).max())
        figures = f"{seconds:.2f} | {mib:.0f} | {sent:.1f} | {apart:.1e}"
        print(f"| {processes} | {figures} |", flush=True)


if __name__ == "__main__":
    main()
