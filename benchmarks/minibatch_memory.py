"""Memory of mini-batch training as graphs grow, at a fixed batch size.

    python benchmarks/minibatch_memory.py [--device cpu|cuda] [--nodes 20000,40000,80000]
        [--batch-size 1024] [--experts]

Graphs are heterophilic block models with power-law degrees, 7 edges and 128 features per node; the
model is one network with hidden 64 and K = 3, with jumps, homophilic and structure branch. Every
size in a process of its own. *held* is what training keeps from step to step: the graph, X and one
hop of it, the weights with Adam's moments, the tables. The other columns are peaks above that:
*tables* while they are computed, *step* of one batch, forward and backward, *evaluate* of all nodes
with its own tables. The gradients of the weights that have a row per node are a table too: *rest*
is the step without them. The last two columns are a step on all nodes and its evaluation. Figures
of a process vary by a few MiB from run to run.

With --experts: peaks of a step on all nodes, of every expert of the preset `default` that is
trained whole, in MiB and in tables of n x hidden numbers; without the gradients of weights that
have a row per node.
"""

from __future__ import annotations

import argparse
import gc
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import torch

from djgnn.cli.memory import c_library
from djgnn.graph import random_splits
from djgnn.training.config import resolve
from djgnn.training.inputs import build_djgnn, choose_device, initialize, seeded
from djgnn.training.loop import Targets
from djgnn.training.minibatch import BatchPasses
from djgnn.training.passes import ViewPasses
from djgnn.training.provenance import PeakMemory
from large_sbm import degree_corrected_sbm

DEGREE, FEATURES, HIDDEN, JUMPS = 7, 128, 64, 3
COLUMNS = ("nodes", "held", "tables", "step", "rest", "evaluate", "full step", "full evaluate")


def in_use(device: torch.device) -> float:
    """MiB of the GPU, or of this process, once free memory is returned."""
    gc.collect()
    if device.type == "cuda":
        return torch.cuda.memory_allocated() / 2**20
    library = c_library()
    if library is not None:
        library.malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def above(device: torch.device, run: Callable[[], object]) -> float:
    """Peak MiB of a call above what is in use before it; the call is made once before."""
    run()
    before = in_use(device)
    memory = PeakMemory(device.type)
    run()
    # Of a process the peak is counted from what was in use, of a GPU from nothing.
    return memory.mib() - (before if device.type == "cuda" else 0.0)


def measure(n: int, batch_size: int, where: str) -> None:
    device = choose_device(where)
    graph = random_splits(degree_corrected_sbm(n, DEGREE * n, num_features=FEATURES))
    options = {"hidden_channels": HIDDEN, "num_jumps": JUMPS, "batch_size": batch_size}
    config = resolve("default", None, experts=(), **options)
    before = in_use(device)
    module, inputs = build_djgnn(config, graph, device)
    initialize(module, 0)
    targets = Targets.of(graph, graph.split(0), device)
    optimizer = torch.optim.Adam(module.parameters(), lr=0.01, fused=True)
    generator, training = seeded(0, device), config.training
    passes = BatchPasses(module, inputs, targets, training)
    batch = passes.batches(generator)[0]

    def one() -> None:
        passes.losses(batch, generator)[0].backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    one()
    held = in_use(device) - before
    rows = [p for p in module.parameters() if n in p.shape]
    gradients = sum(p.numel() * p.element_size() for p in rows) / 2**20
    remade, stepped = above(device, passes.batched.tables), above(device, one)
    evaluated = above(device, passes.evaluate)
    whole = ViewPasses(module, module.view(*inputs), targets, training)
    full = above(device, lambda: whole.update(optimizer, generator))
    seen = above(device, whole.evaluate)
    figures = (held, remade, stepped, stepped - gradients, evaluated, full, seen)
    print(f"{n:9d} " + " ".join(f"{value:13.0f}" for value in figures), flush=True)


def measure_experts(n: int, where: str) -> None:
    """Steps of the experts without jumps."""
    device = choose_device(where)
    graph = random_splits(degree_corrected_sbm(n, DEGREE * n, num_features=FEATURES))
    config = resolve("default", None, hidden_channels=HIDDEN)
    mixed, inputs = build_djgnn(config, graph, device)
    targets = Targets.of(graph, graph.split(0), device)
    table = n * HIDDEN * 4 / 2**20
    for name, expert in mixed.experts.items():
        if expert.in_batches:
            continue
        initialize(expert, 0)
        view = expert.view(*mixed.inputs_of(name, inputs))
        passes = ViewPasses(expert, view, targets, config.training)
        optimizer, generator = torch.optim.Adam(expert.parameters(), fused=True), seeded(0, device)
        peak = above(device, lambda: passes.update(optimizer, generator))  # noqa: B023
        rows = sum(p.numel() for p in expert.parameters() if n in p.shape) * 4 / 2**20
        peak -= rows  # the gradient of weights that have a row per node
        print(f"{n:9d} {name:>12s} {peak:10.0f} {peak / table:10.1f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--nodes", default="20000,40000,80000")
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--experts", action="store_true")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one and given.experts:
        measure_experts(given.one, given.device)
    elif given.one:
        measure(given.one, given.batch_size, given.device)
    if given.one:
        return
    if given.experts:
        print(f"{'nodes':>9s} {'expert':>12s} {'MiB':>10s} {'n x hidden':>10s}", flush=True)
    else:
        print(f"MiB, batches of {given.batch_size} nodes, {given.device}")
        print(f"{COLUMNS[0]:>9s} " + " ".join(f"{name:>13s}" for name in COLUMNS[1:]), flush=True)
    for n in given.nodes.split(","):
        options = ["--one", n, "--batch-size", str(given.batch_size), "--device", given.device]
        options += ["--experts"] * given.experts
        subprocess.run([sys.executable, __file__, *options], check=True)


if __name__ == "__main__":
    main()
