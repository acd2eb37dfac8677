"""Exact neighbour search: time, memory, and rank lists against the dense oracle.

    python benchmarks/search.py [--device cuda|cpu] [--nodes 169343] [--ranks 8] [--dimensions 5,16]

Four kinds of positions: uniform, clustered, saturated (tanh near +-1, where float32 leaves a
lattice full of ties) and duplicated. Prints milliseconds for a whole search (sorting included)
and, on a GPU, for one that starts from the order of the last one, as in training; memory beside U;
and how many of 2,048 sampled rank lists differ from the oracle's (must be 0).
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable

import torch

from djgnn.jumps import SearchMemory, rank_lists, single_classes
from djgnn.jumps.engines import pairwise_distances


def positions(kind: str, n: int, p: int, device: str, seed: int = 0) -> torch.Tensor:
    g = torch.Generator(device).manual_seed(seed)
    normal = torch.randn(n, p, generator=g, device=device)
    if kind == "uniform":
        return torch.rand(n, p, generator=g, device=device) * 2 - 1
    if kind == "clustered":
        centers = torch.randn(200, p, generator=g, device=device)
        own = torch.randint(200, (n,), generator=g, device=device)
        return torch.tanh(centers[own] + 0.02 * normal)
    if kind == "saturated":
        return torch.tanh(6 * normal)
    chosen = torch.randint(n // 8, (n,), generator=g, device=device)
    return torch.tanh(normal[chosen])


def milliseconds(run: Callable[[], object], device: str) -> float:
    times = []
    for _ in range(9 if device == "cuda" else 3):
        begun = time.perf_counter()
        if device == "cuda":
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
        run()
        times.append(1e3 * (time.perf_counter() - begun))
        if device == "cuda":
            end.record()
            torch.cuda.synchronize()
            times[-1] = begin.elapsed_time(end)
    return statistics.median(times[2:] if device == "cuda" else times)


def wrong_lists(u: torch.Tensor, ranks: torch.Tensor, samples: int = 2048) -> int:
    """Sampled lists that differ from all distances sorted by (distance, node)."""
    exact = u.double()
    rows = torch.randperm(len(u), generator=torch.Generator().manual_seed(1))[:samples]
    wrong = 0
    for part in rows.to(u.device).split(128):
        order = pairwise_distances(exact[part], exact).argsort(dim=1, stable=True)
        wrong += int((order[:, : ranks.shape[1]] != ranks[part]).any(dim=1).sum())
    return wrong


def measure(kind: str, p: int, options: argparse.Namespace) -> tuple[float, float, float, int]:
    """Milliseconds without and with the order of the last search, MiB beside U, wrong lists."""
    u, device = positions(kind, options.nodes, p, options.device), options.device
    twins, ranks = single_classes(options.nodes).to(device), options.ranks
    found = rank_lists(u, twins, ranks).ranks
    warm = memory = float("nan")
    if device == "cuda":
        torch.cuda.synchronize()
        base = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
    cold = milliseconds(lambda: rank_lists(u, twins, ranks), device)
    if device == "cuda":
        memory = (torch.cuda.max_memory_allocated() - base) / 2**20
        kept = SearchMemory()
        warm = milliseconds(lambda: rank_lists(u, twins, ranks, memory=kept), device)
    return cold, warm, memory, wrong_lists(u, found, 2048 if device == "cuda" else 128)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--nodes", type=int, default=169343)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--dimensions", default="5,16")
    options = parser.parse_args()
    failed = 0
    print(f"{options.device}, {options.nodes} nodes, {options.ranks} ranks")
    print("positions    p     cold     warm     MiB  differing lists")
    for p in (int(part) for part in options.dimensions.split(",")):
        for kind in ("uniform", "clustered", "saturated", "duplicated"):
            cold, warm, memory, wrong = measure(kind, p, options)
            failed += wrong
            print(f"{kind:11s} {p:2d} {cold:8.1f} {warm:8.1f} {memory:7.0f} {wrong:6d}", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
