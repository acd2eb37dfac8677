"""Small graphs train on one thread, whatever the machine has, and leave its setting alone."""

import dataclasses
from pathlib import Path

import pytest
import torch

from djgnn.graph import heterophilic_sbm
from djgnn.training import threads
from djgnn.training.threads import available, suitable_threads

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def two(monkeypatch: pytest.MonkeyPatch):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    monkeypatch.setattr(threads, "available", lambda: 2)
    yield
    torch.set_num_threads(before)


def test_small_graphs_have_one_thread() -> None:
    graph = heterophilic_sbm(60)
    with suitable_threads(graph, CPU) as number:
        assert number == torch.get_num_threads() == 1
        with suitable_threads(graph, CPU, known=2) as inner:
            assert inner == torch.get_num_threads() == 1  # the outer one has decided
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2
    with suitable_threads(graph, torch.device("cuda")) as number:
        assert number == 2


@pytest.mark.parametrize("useful", [1, 2])
def test_large_graphs_have_as_many_as_help(monkeypatch: pytest.MonkeyPatch, useful: int) -> None:
    graph = heterophilic_sbm(60)
    monkeypatch.setattr(threads, "LARGE_EDGES", graph.num_edges)
    monkeypatch.setattr(threads, "_useful", lambda most: min(most, useful))
    with suitable_threads(dataclasses.replace(graph), CPU) as number:
        assert number == torch.get_num_threads() == useful
    with suitable_threads(graph, CPU, known=2) as number:
        assert number == 2  # as in the run that is resumed
    monkeypatch.setattr(threads, "available", lambda: 1)
    with suitable_threads(graph, CPU) as number:
        assert number == 1


def test_both_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "MEASURED_ROWS", 100)
    assert threads._useful(1) == 1
    assert threads._useful(2) in (1, 2)
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize(
    ("text", "most"), [("max 100000", None), ("150000 100000", 2), ("x", None)]
)
def test_a_container_has_no_more_cores_than_its_quota(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, most: int | None
) -> None:
    monkeypatch.setattr(threads.os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    (tmp_path / "cpu.max").write_text(text)
    assert available(tmp_path / "cpu.max") == (most or 8)
    assert available(tmp_path / "nothing") == 8


def test_plain_experts_have_the_other_cores_beside_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, gpu = heterophilic_sbm(60), torch.device("cuda")
    with suitable_threads(graph, gpu):
        assert threads.beside() == 0  # CUDA graphs are captured
    monkeypatch.setattr(threads, "MOST_NODES", graph.num_nodes - 1)
    with suitable_threads(graph, gpu) as number, suitable_threads(graph, gpu):
        assert (number, threads.beside(), threads.lanes()) == (2, 1, 1)
    with suitable_threads(graph, CPU):
        assert threads.beside() == 0
    assert threads.beside() == 0
