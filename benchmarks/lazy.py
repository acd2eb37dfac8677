"""Does lazy refresh change a rank, and what does it save?

    python benchmarks/lazy.py [--data DIR] [--datasets a,b] [--epochs 100] [--preset author]

Each set is trained on split 0 with exact ranks. After every step the lazy lists of the same
positions are compared with them (no entry may differ), and both are timed, one after the other.
Prints the time of lazy over that of exact search, and the share of rows that needed no search, in
the first and in the second half of training.
"""

from __future__ import annotations

import argparse
import sys
import time

import torch

from djgnn.graph import Graph
from djgnn.jumps import LazyRanks, rank_lists
from djgnn.jumps.lazy import Saving
from djgnn.training.config import resolve
from djgnn.training.inputs import build_djgnn, initialize, seeded
from djgnn.training.loop import Targets, step
from djgnn.training.passes import two_phase

SETS = (
    "texas,wisconsin,cornell,chameleon,cora,citeseer,squirrel,chameleon_filtered,"
    "squirrel_filtered,actor"
)


def compare(graph: Graph, preset: str, epochs: int) -> tuple[int, list[str]]:
    """Differing entries, and the figures of both halves."""
    config = resolve(preset, graph.name)
    module, inputs = build_djgnn(config, graph)
    initialize(module, 0)
    targets, training = Targets.of(graph, graph.split(0)), config.training
    groups = module.parameter_groups(training.weight_decay, training.weight_decay)
    optimizer = torch.optim.Adam(groups, lr=training.lr, fused=True)
    passes, generator = two_phase(module, inputs, targets.train), seeded(0)
    operators = inputs[1]
    lazy, wrong, cells = LazyRanks(), 0, []
    for half in (range(epochs // 2), range(epochs // 2, epochs)):
        lazy.saving, exact = Saving(), 0.0
        for _ in half:
            step(passes, targets, training, optimizer, generator)
            with torch.no_grad():
                u = module.pump(operators.adjacency, operators.degree).u
            begun = time.perf_counter()
            expected = rank_lists(u, operators.twins, module.num_ranks).ranks
            exact += time.perf_counter() - begun
            wrong += int((lazy(u, operators.twins, module.num_ranks).ranks != expected).sum())
        cells.append(f"{lazy.saving.seconds / exact:6.2f} {100 * lazy.saving.share:4.0f}%")
    return wrong, cells


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data")
    parser.add_argument("--datasets", default=SETS)
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--preset", default="author")
    options = parser.parse_args()
    print("set                 time / rows saved: first half   second half   differing entries")
    failed = 0
    for name in options.datasets.split(","):
        graph = Graph.load(name, data=options.data)
        wrong, cells = compare(graph, options.preset, options.epochs)
        failed += wrong
        print(f"{name:20s} {cells[0]:>28s} {cells[1]:>13s} {wrong:10d}", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
