"""Exact theory on a large graph: Fiedler pair, R and all homophily measures.

    python benchmarks/theory.py [--nodes 169343] [--edges 1200000] [--homophily 0.1,0.65]

Generated graphs with power-law degrees and 40 classes. Prints seconds of each part and the peak
memory above libraries and graph. Wanted: 60 s and 2 GiB for the whole.
"""

from __future__ import annotations

import argparse
import time
import warnings
from itertools import pairwise
from typing import get_args

from djgnn.spectral import fiedler_pair, homophily, structural_heterophily, symmetrize
from djgnn.spectral.heterophily import HomophilyMethod
from djgnn.training.provenance import PeakMemory
from large_sbm import degree_corrected_sbm


def measure(nodes: int, edges: int, share: float) -> str:
    graph = degree_corrected_sbm(
        nodes, edges, num_classes=40, num_features=0, homophily=share, random_state=0
    )
    memory, marks = PeakMemory(), [time.perf_counter()]
    value, _ = fiedler_pair(symmetrize(graph))
    marks.append(time.perf_counter())
    r = structural_heterophily(graph)
    marks.append(time.perf_counter())
    for method in get_args(HomophilyMethod):
        for adjacency in ("given", "symmetric"):
            homophily(graph, method=method, adjacency=adjacency)
    marks.append(time.perf_counter())
    parts = [b - a for a, b in pairwise(marks)]
    return (
        f"{share:9.2f} {graph.num_edges:9d} {parts[0]:8.1f} {parts[1]:6.1f} {parts[2]:9.1f} "
        f"{sum(parts):6.1f} {memory.mib() / 1024:6.2f}   lambda_2 {value:.4f}, R {r.median:.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=169_343)
    parser.add_argument("--edges", type=int, default=1_200_000)
    parser.add_argument("--homophily", default="0.1,0.65")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # components are left out, which the functions say
    print("homophily     edges  Fiedler      R  measures  total    GiB")
    for share in options.homophily.split(","):
        print(measure(options.nodes, options.edges, float(share)), flush=True)


if __name__ == "__main__":
    main()
