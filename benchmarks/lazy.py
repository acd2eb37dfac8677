"""Does lazy refresh change a rank, and what does it save?

    python benchmarks/lazy.py [--data DIR] [--datasets a,b] [--epochs 100] [--preset default]
        [--device cpu]

Each set is trained on split 0. After every step its positions are searched twice, whole and lazily;
no entry may differ, and both are timed, in turn first. On a CPU the lazy lists are those of
`djgnn.jumps.LazyRanks`; on a GPU they start from the former lists (`djgnn.jumps.again`), both
searches are CUDA graphs, and the time of sorting the points anew every now and then counts as lazy.
Prints milliseconds of both, their ratio, the share of the rows (CPU) or pairs of tiles (GPU) that
were not looked at, and the share of the rank lists that are not those of the epoch before, in both
halves of training. An epoch has two passes over the same U, an evaluation and the step after it,
and training searches once for both: the last line also compares an epoch with two whole searches.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import fmean as mean

import torch
from torch import Tensor

from djgnn.graph import Graph
from djgnn.jumps import LazyRanks, SearchMemory, TwinClasses, rank_lists
from djgnn.jumps.again import RENEW_EVERY
from djgnn.training.config import resolve
from djgnn.training.inputs import build_djgnn, initialize, seeded
from djgnn.training.loop import Targets, step
from djgnn.training.passes import two_phase

CPU_SETS = (
    "texas,wisconsin,cornell,chameleon,cora,citeseer,squirrel,chameleon_filtered,"
    "squirrel_filtered,actor"
)
GPU_SETS = (
    "squirrel,squirrel_filtered,cora,citeseer,twitch_engb,actor,twitch_de,minesweeper,tolokers,"
    "pubmed,fb100_cornell5"
)


@dataclass
class Both:
    """Seconds of both searches, entries that differ, shares not looked at, shares of new lists."""

    exact: float = 0.0
    lazy: float = 0.0
    wrong: int = 0
    shares: list[float] = field(default_factory=list)
    changes: list[float] = field(default_factory=list)

    def compare(self, lists: Tensor, before: Tensor | None) -> Tensor:
        """Note how many lists are new; returns them for the next time."""
        if before is not None:
            self.changes.append(float((lists != before).any(dim=1).double().mean()))
        return lists.clone()


class OnCpu:
    """Both searches of one U."""

    def __init__(self, u: Tensor, twins: TwinClasses, ranks: int) -> None:
        self.twins, self.ranks, self.lazy = twins, ranks, LazyRanks()
        self.last: Tensor | None = None

    def __call__(self, u: Tensor, both: Both) -> None:
        """Search and compare."""
        before = (self.lazy.saving.seconds, self.lazy.saving.searched)
        begun = time.perf_counter()
        expected = rank_lists(u, self.twins, self.ranks).ranks
        both.exact += time.perf_counter() - begun
        both.wrong += int((self.lazy(u, self.twins, self.ranks).ranks != expected).sum())
        both.lazy += self.lazy.saving.seconds - before[0]
        self.last = both.compare(expected, self.last)
        both.shares.append(1 - (self.lazy.saving.searched - before[1]) / self.twins.num_classes)


class OnGpu:
    """Both searches of one U, captured as in training."""

    def __init__(self, u: Tensor, twins: TwinClasses, ranks: int) -> None:
        self.u, self.twins, self.memory, self.calls = u.clone(), twins, SearchMemory(), 0
        self.exact = _capture(lambda: rank_lists(self.u, twins, ranks).ranks)
        self.lazy = _capture(lambda: rank_lists(self.u, twins, ranks, memory=self.memory).ranks)
        self.memory.renew(self.u[twins.representative])
        self.last: Tensor | None = None

    def __call__(self, u: Tensor, both: Both) -> None:
        """Search and compare."""
        self.u.copy_(u)
        self.calls += 1
        before = self.memory.saving
        for which in ("exact", "lazy") if self.calls % 2 else ("lazy", "exact"):  # in turn first
            spent = getattr(both, which) + _seconds(getattr(self, which)[0].replay)
            setattr(both, which, spent)
        both.wrong += int((self.exact[1] != self.lazy[1]).sum())
        self.last = both.compare(self.exact[1], self.last)
        after = self.memory.saving
        asked, searched = after.asked - before.asked, after.searched - before.searched
        both.shares.append(1 - searched / asked if asked else 0.0)
        if self.memory.former and self.calls % RENEW_EVERY == 0:
            points = self.u[self.twins.representative]
            both.lazy += _seconds(lambda: self.memory.renew(points))


def _capture(run: Callable[[], Tensor]) -> tuple[torch.cuda.CUDAGraph, Tensor]:
    beside = torch.cuda.Stream()
    beside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(beside):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(beside)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = run()
    return graph, found


def _seconds(run: Callable[[], object]) -> float:
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    run()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / 1000


def compare(graph: Graph, preset: str, epochs: int, device: str) -> list[Both]:
    """Both halves of training."""
    config = resolve(preset, graph.name)
    module, inputs = build_djgnn(config, graph, device)
    initialize(module, 0)
    targets, training = Targets.of(graph, graph.split(0), device), config.training
    groups = module.parameter_groups(training.weight_decay, training.weight_decay)
    optimizer = torch.optim.Adam(groups, lr=training.lr, fused=True)
    passes, generator = two_phase(module, inputs, targets.train), seeded(0, device)
    operators, search, halves = inputs[1], None, []
    for half in (range(epochs // 2), range(epochs // 2, epochs)):
        both = Both()
        for _ in half:
            step(passes, targets, training, optimizer, generator)
            with torch.no_grad():
                u = module.pump(operators.adjacency, operators.degree).u
            if search is None:
                make = OnGpu if u.is_cuda else OnCpu
                search = make(u, operators.twins, module.num_ranks)
            search(u, both)
        halves.append(both)
    return halves


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data")
    parser.add_argument("--datasets")
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--preset", default="default")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    sets = options.datasets or (GPU_SETS if options.device == "cuda" else CPU_SETS)
    print(f"{'':20s}{'first half':>41s}{'second half':>42s}   differing entries")
    print(f"{'set':20s}" + 2 * "  exact ms   lazy ms  ratio unseen changed")
    wrong, total = 0, [0.0, 0.0]
    for name in sets.split(","):
        graph = Graph.load(name, data=options.data)
        halves = compare(graph, options.preset, options.epochs, options.device)
        line, per = f"{name:20s}", 1000 / (options.epochs // 2)
        for both in halves:
            line += f"{per * both.exact:10.3f}{per * both.lazy:10.3f}"
            unseen, new = (100 * mean(part) for part in (both.shares, both.changes or [0.0]))
            line += f"{both.lazy / both.exact:7.2f}{unseen:6.0f}%{new:7.0f}%"
        differing = sum(both.wrong for both in halves)
        print(f"{line} {differing:8d}", flush=True)
        wrong += differing
        total = [total[0] + halves[1].exact, total[1] + halves[1].lazy]
    ratio = total[1] / total[0]
    print(
        f"all sets, second half: lazy / exact {ratio:.2f}; an epoch / two searches {ratio / 2:.2f}"
    )
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
