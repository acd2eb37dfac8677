"""How many threads a run uses: threads that wait for each other burn the cores they wait for."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from djgnn.graph import Graph

LARGE_NODES, LARGE_EDGES = 50_000, 1_000_000


@contextmanager
def suitable_threads(graph: Graph, device: torch.device) -> Iterator[int]:
    """One thread for a small graph on the CPU, as many as there are otherwise; gives the number.

    A step on a small graph is hundreds of short operations. Two threads gain little on an idle
    machine, and on a busy one they are several times slower than one.
    """
    before = torch.get_num_threads()
    small = graph.num_nodes < LARGE_NODES and graph.num_edges < LARGE_EDGES
    if small and device.type == "cpu":
        torch.set_num_threads(1)
    try:
        yield torch.get_num_threads()
    finally:
        torch.set_num_threads(before)
