"""Exact neighbour search on a GPU: time, memory, and rank lists against the dense oracle.

    python benchmarks/search.py [--nodes 169343] [--ranks 8] [--dimensions 5,16] [--tune]

Four kinds of positions: uniform, clustered, saturated (tanh near +-1, where float32 leaves a
lattice full of ties) and duplicated. Prints milliseconds for a whole search (sorting included)
and for one that finds the order and the lists of the last one, as in training; memory beside U;
and how many of 2,048 sampled rank lists differ from the oracle's (must be 0). With --tune, the
kernel alone for several tilings.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable

import torch

from djgnn.jumps import SearchMemory, rank_lists
from djgnn.jumps.engines import pairwise_distances
from djgnn.jumps.kd_order import kd_order
from djgnn.jumps.tiles import TiledPoints
from djgnn.jumps.triton_search import Tiling, nearest
from djgnn.jumps.twins import single_classes

BARS = {5: 15, 16: 60}
TILINGS = (
    Tiling(32, 32, 1), Tiling(32, 64, 1), Tiling(64, 32, 1), Tiling(64, 64, 2),
)  # fmt: skip


def positions(kind: str, n: int, p: int, seed: int = 0) -> torch.Tensor:
    g = torch.Generator("cuda").manual_seed(seed)
    normal = torch.randn(n, p, generator=g, device="cuda")
    if kind == "uniform":
        return torch.rand(n, p, generator=g, device="cuda") * 2 - 1
    if kind == "clustered":
        centers = torch.randn(200, p, generator=g, device="cuda")
        own = torch.randint(200, (n,), generator=g, device="cuda")
        return torch.tanh(centers[own] + 0.02 * normal)
    if kind == "saturated":
        return torch.tanh(6 * normal)
    few = torch.randint(n // 8, (n,), generator=g, device="cuda")
    return torch.tanh(normal[few])


def milliseconds(run: Callable[[], object], rounds: int = 7) -> float:
    times = []
    for _ in range(rounds + 2):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        run()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times[2:])


def wrong_lists(u: torch.Tensor, ranks: torch.Tensor, samples: int = 2048) -> int:
    """Sampled lists that differ from all distances sorted by (distance, node)."""
    exact = u.double()
    g = torch.Generator("cuda").manual_seed(1)
    rows = torch.randperm(len(u), generator=g, device="cuda")[:samples]
    wrong = 0
    for part in rows.split(128):
        order = pairwise_distances(exact[part], exact).argsort(dim=1, stable=True)
        wrong += int((order[:, : ranks.shape[1]] != ranks[part]).any(dim=1).sum())
    return wrong


def measure(kind: str, n: int, p: int, ranks: int) -> tuple[float, float, float, int]:
    """Milliseconds without and with a memory of the last search, MiB beside U, wrong lists."""
    u = positions(kind, n, p)
    twins = single_classes(n).to("cuda")
    found = rank_lists(u, twins, ranks, "triton").ranks
    torch.cuda.synchronize()
    base = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    cold = milliseconds(lambda: rank_lists(u, twins, ranks, "triton"))
    memory = (torch.cuda.max_memory_allocated() - base) / 2**20
    kept = SearchMemory()
    warm = milliseconds(lambda: rank_lists(u, twins, ranks, "triton", kept))
    return cold, warm, memory, wrong_lists(u, found)


def tune(kind: str, n: int, p: int, ranks: int) -> None:
    u = positions(kind, n, p)
    places = torch.arange(n, device="cuda")
    cells = [f"order {milliseconds(lambda: kd_order(u, 64)):.1f}"]
    for tiling in TILINGS:
        tiled = TiledPoints.build(u, tiling.tile, kd_order(u, tiling.tile))

        def run(tiled: TiledPoints = tiled, tiling: Tiling = tiling) -> object:
            return nearest(tiled, places, ranks + 2, None, tiling)

        shape = f"{tiling.rows}x{tiling.tile}x{tiling.warps}"
        cells.append(f"{shape} {milliseconds(run, 3):.1f}")
    print(f"  {kind:11s} p={p:2d}  " + "  ".join(cells), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=169343)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--dimensions", default="5,16")
    parser.add_argument("--tune", action="store_true")
    options = parser.parse_args()
    failed = 0
    print(f"{torch.cuda.get_device_name()}, {options.nodes} nodes, {options.ranks} ranks")
    print("positions    p    cold    warm  wanted     MiB  wanted  differing lists")
    for p in (int(part) for part in options.dimensions.split(",")):
        for kind in ("uniform", "clustered", "saturated", "duplicated"):
            if options.tune:
                tune(kind, options.nodes, p, options.ranks)
            cold, warm, memory, wrong = measure(kind, options.nodes, p, options.ranks)
            failed += wrong
            wanted = BARS.get(p, "-")
            print(
                f"{kind:11s} {p:2d} {cold:7.1f} {warm:7.1f} {wanted:>7} {memory:7.0f}     150"
                f" {wrong:6d}",
                flush=True,
            )
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
