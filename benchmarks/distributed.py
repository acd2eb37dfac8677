"""Training over several processes: time, memory and bytes exchanged, beside one process.

    python benchmarks/distributed.py [--nodes 20000] [--processes 1,2,3] [--epochs 5]

Starts itself under `torchrun` with each number of processes, one thread each, on a heterophilic
block model with power-law degrees (128 features, 6.9 edges per node, 60% of the nodes for training;
one network, hidden 64, K = 3). An epoch is a step and an evaluation, as in `fit`. Prints one row
per number of processes: median time of an epoch, the most memory that one process adds to what the
imports hold, bytes that one process sends, and how far the losses are from those of one process.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from djgnn.graph import random_splits
from djgnn.training import resolve
from djgnn.training.distributed import Group, exchange, join
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=20_000)
    parser.add_argument("--processes", default="1,2,3")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--out", help="used by the processes")
    arguments = parser.parse_args()
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
