"""One training step against the dense O(n^2) formulation, in one run.

    python benchmarks/step.py [--data DIR] [--datasets texas,chameleon,squirrel,actor] [--device D]

Both sides take the same weights and the paper's configuration (preset `author`): forward, loss,
backward and Adam, with dropout, ranks recomputed at every step. Our steps and dense ones take
turns, so that a busy machine slows both. Prints the median of each and their ratio.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F

from dense import dense_forward
from djgnn.graph import Graph
from djgnn.training.config import resolve
from djgnn.training.inputs import build_djgnn, initialize, seeded
from djgnn.training.loop import Targets
from djgnn.training.passes import choose_passes
from djgnn.training.provenance import PeakMemory

BARS = {"texas": 3, "chameleon": 25, "squirrel": 100, "actor": 100}


def our_step(graph: Graph, device: str) -> Callable[[], None]:
    config = resolve("author", graph.name)
    module, inputs = build_djgnn(config, graph, device)
    initialize(module, 0)
    targets = Targets.of(graph, graph.split(0), device)
    training, generator = config.training, seeded(0, device)
    optimizer = torch.optim.Adam(
        module.parameters(), lr=training.lr, weight_decay=training.weight_decay, fused=True
    )
    passes = choose_passes(module, inputs, targets, training)
    return lambda: passes.update(optimizer, generator)  # type: ignore[return-value]


def dense_step(graph: Graph, device: str) -> Callable[[], None]:
    config = resolve("author", graph.name)
    module, (x, _) = build_djgnn(config, graph, device)
    initialize(module, 0)
    module.train()
    targets = Targets.of(graph, graph.split(0), device)
    features = x if isinstance(x, torch.Tensor) else x.to_dense()
    adjacency = torch.from_numpy(graph.adjacency.toarray()).to(device)
    optimizer = torch.optim.Adam(
        module.parameters(), lr=config.training.lr, weight_decay=config.training.weight_decay
    )

    def run() -> None:
        optimizer.zero_grad()
        logits, pump_loss = dense_forward(module, features, adjacency)
        loss = F.cross_entropy(logits[targets.train], targets.train_y) + pump_loss
        loss.backward()
        optimizer.step()

    return run


def timed(run: Callable[[], None]) -> float:
    begun = time.perf_counter()
    run()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - begun


def compare(graph: Graph, rounds: int, device: str) -> tuple[float, float, float, float]:
    """Median seconds of our step and of the dense one, and the peak memory of each in MiB."""
    ours, dense = our_step(graph, device), dense_step(graph, device)
    peaks = []
    for run in (ours, dense):
        memory = PeakMemory()
        for _ in range(1 if device == "cpu" else 5):  # a CUDA graph is captured in the fourth
            run()
        peaks.append(memory.mib())
    fast, slow = [], []
    for _ in range(rounds):
        fast += [timed(ours) for _ in range(8)]
        slow.append(timed(dense))
    return statistics.median(fast), statistics.median(slow), *peaks  # type: ignore[return-value]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data")
    parser.add_argument("--datasets", default=",".join(BARS))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    print("set            ours ms   dense ms   ratio  wanted  peak MiB ours / dense")
    for name in options.datasets.split(","):
        graph = Graph.load(name, data=options.data)
        rounds = options.rounds if graph.num_nodes > 1000 else 20 * options.rounds
        fast, slow, ours, dense = compare(graph, rounds, options.device)
        wanted = BARS.get(name, "")
        print(
            f"{name:12s} {1e3 * fast:9.1f} {1e3 * slow:10.1f} {slow / fast:7.1f} {wanted:>7}"
            f"  {ours:.0f} / {dense:.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
