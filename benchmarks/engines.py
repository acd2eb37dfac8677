"""Do all engines give the same rank lists, on every data set, on this device?

    python benchmarks/engines.py [--data DIR] [--device cpu|cuda] [--ranks 8]

Every data set found, three positions U each: a fresh pump, a steep one, and a saturated one (tanh
at +-1, masses of exact ties). Prints the number of rank lists that differ from the dense oracle
beyond distances equal to rounding (must be 0), and the time of each engine relative to the oracle.
"""

from __future__ import annotations

import argparse
import sys
import time

import torch

from djgnn.graph import Graph
from djgnn.graph.operator import SparseOperator
from djgnn.graph.registry import available
from djgnn.jumps import ENGINES, TwinClasses, rank_lists, twin_classes
from djgnn.jumps.engines import pairwise_distances
from djgnn.pump import pump

STEEPNESS = {"fresh": 1.0, "steep": 10.0, "saturated": 1000.0}


def positions(graph: Graph, steepness: float, device: str, centers: int = 5) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    weight = torch.rand(centers, graph.num_nodes, generator=generator) * 2 - 1
    weight *= steepness / graph.num_nodes**0.5
    bias = torch.rand(centers, generator=generator) - 0.5
    return pump(SparseOperator.from_scipy(graph.adjacency), weight, bias).to(device)


def oracle(u: torch.Tensor, twins: TwinClasses, ranks: int) -> torch.Tensor:
    """All distances, sorted by (distance, node)."""
    points = u.double()[twins.representative]
    order = [
        pairwise_distances(part, points)[:, twins.class_of].argsort(dim=1, stable=True)[:, :ranks]
        for part in points.split(1024)
    ]
    return torch.cat(order)


def differences(
    u: torch.Tensor, ranks: torch.Tensor, oracle: torch.Tensor, own: torch.Tensor
) -> int:
    """Lists that differ in more than the order of distances equal to rounding."""
    rows = (ranks != oracle).any(dim=1).nonzero().squeeze(1)
    if rows.numel() == 0:
        return 0
    points = u.double()
    here = points[own[rows]][:, None]
    a, b = ((points[lists[rows]] - here).norm(dim=2) for lists in (ranks, oracle))
    return int(((a - b).abs() > 1e-12).any(dim=1).sum())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--ranks", type=int, default=8)
    options = parser.parse_args()
    names = sorted(available(options.data))
    print(f"device {options.device}, {options.ranks} ranks, {len(names)} data sets")
    print(
        f"{'set':20s} {'nodes':>7s} {'classes':>7s} {'U':>10s}  differing lists / time over dense"
    )
    failed = False
    for name in names:
        graph = Graph.load(name, data=options.data)
        twins = twin_classes(graph.adjacency).to(options.device)
        for kind, steepness in STEEPNESS.items():
            u = positions(graph, steepness, options.device)
            found, seconds = {}, {}
            for engine in ("dense", *ENGINES):
                begun = time.perf_counter()
                if engine == "dense":
                    found[engine] = oracle(u, twins, options.ranks)
                else:
                    found[engine] = rank_lists(u, twins, options.ranks, engine).ranks
                found[engine].sum().item()
                seconds[engine] = time.perf_counter() - begun
            cells = []
            for engine in found:
                if engine == "dense":
                    continue
                wrong = differences(u, found[engine], found["dense"], twins.representative)
                failed |= wrong > 0
                cells.append(f"{engine} {wrong} / {seconds[engine] / seconds['dense']:.2f}")
            print(
                f"{name:20s} {graph.num_nodes:7d} {twins.num_classes:7d} {kind:>10s}  "
                + ", ".join(cells),
                flush=True,
            )
    print("DIFFERENT" if failed else "all engines agree")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
