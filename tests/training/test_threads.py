"""Small graphs train on one thread, whatever the machine has, and leave its setting alone."""

import dataclasses

import torch

from djgnn.graph import heterophilic_sbm
from djgnn.training import threads
from djgnn.training.threads import suitable_threads

CPU = torch.device("cpu")


def test_small_graphs_have_one_thread(monkeypatch) -> None:
    graph, before = heterophilic_sbm(60), torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with suitable_threads(graph, CPU) as number:
            assert number == torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2
        with suitable_threads(graph, torch.device("cuda")) as number:
            assert number == 2
        monkeypatch.setattr(threads, "LARGE_EDGES", graph.num_edges)
        with suitable_threads(dataclasses.replace(graph), CPU) as number:
            assert number == 2
    finally:
        torch.set_num_threads(before)
