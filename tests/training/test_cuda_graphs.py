"""CUDA graphs change no loss; without a GPU the passes run with graphs that only look like them."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from typing import Any

import pytest
import scipy.sparse as sp
import torch

from djgnn.graph import Graph, heterophilic_sbm, random_splits
from djgnn.jumps import rank_lists
from djgnn.jumps.triton_search import triton_available
from djgnn.model import DJGNN, ModelConfig
from djgnn.model.experts import expert_configs
from djgnn.model.rank_memory import RankMemory
from djgnn.training import cuda_graphs, passes, train
from djgnn.training.config import RunConfig, resolve
from djgnn.training.inputs import build_djgnn, initialize, seeded
from djgnn.training.loop import Targets, fit
from djgnn.training.passes import ViewPasses, choose_passes

NETWORKS = expert_configs(ModelConfig(), directed=True)
"""The network of every expert; `joint` is the one that a test takes if one with jumps is enough."""


def built(name: str, graph: Graph, device: str = "cpu") -> tuple[DJGNN, Any, RunConfig]:
    config = RunConfig(model=NETWORKS[name])
    module, inputs = build_djgnn(config, graph, device)
    initialize(module, 0)
    return module, inputs, config


def history(
    device: str, nodes: int = 300, epochs: int = 8, name: str = "joint", sparse: bool = False
) -> list[float]:
    graph = random_splits(heterophilic_sbm(nodes))
    if sparse:
        graph = dataclasses.replace(graph, x=sp.csr_array(graph.x * (graph.x > 0)))
    module, inputs, config = built(name, graph, device)
    config = config.replace(epochs=epochs)
    targets = Targets.of(graph, graph.split(0), device)
    fitted = fit(module, inputs, targets, config.training, seeded(0, device))
    return [value for record in fitted.history for value in (record.loss, record.validation_loss)]


class Replay:
    """Runs a function again and again into the tensors of its first run, as a CUDA graph does."""

    def __init__(self, captured: cuda_graphs.Captured, run: cuda_graphs.Run) -> None:
        self.captured, self.run = captured, run

    def replay(self) -> None:
        new = self.run()
        self.captured._result = self.captured._result or new
        for held, result in zip(self.captured._result, new, strict=True):
            held.copy_(result)


@pytest.fixture
def imitated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passes as on a GPU, with graphs that a CPU can run."""

    def capture(self: cuda_graphs.Captured, run: cuda_graphs.Run) -> bool:
        self._graph = Replay(self, run)
        return True

    monkeypatch.setattr(cuda_graphs.Captured, "_on_side_stream", lambda _, run: run())
    monkeypatch.setattr(cuda_graphs.Captured, "_capture", capture)
    monkeypatch.setattr(passes, "can_be_captured", lambda *_: True)
    monkeypatch.setattr(passes, "search_can_be_captured", lambda module, _: bool(module.pump))


@pytest.fixture
def captures(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each capture of a CUDA graph succeeded."""
    found: list[bool] = []
    capture = cuda_graphs.Captured._capture

    def counted(self: cuda_graphs.Captured, run: cuda_graphs.Run) -> bool:
        found.append(capture(self, run))
        return found[-1]

    monkeypatch.setattr(cuda_graphs.Captured, "_capture", counted)
    return found


@pytest.mark.skipif(not triton_available(), reason="no GPU with Triton")
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_captured_run_has_the_losses_of_a_plain_one(
    name: str, sparse: bool, captures: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    captured = history("cuda", name=name, sparse=sparse)
    assert captures
    assert all(captures)
    assert len(captures) == 2 + bool(NETWORKS[name].jumps)  # updates, evaluations, searches
    monkeypatch.setattr(passes, "can_be_captured", lambda *_: False)
    assert captured == pytest.approx(history("cuda", name=name, sparse=sparse), rel=1e-4)


@pytest.mark.skipif(not triton_available(), reason="no GPU with Triton")
def test_a_captured_mixture_is_a_plain_one(
    captures: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every expert after the other, each with graphs of its own; idle jumps and weights too."""
    graph = random_splits(heterophilic_sbm(300))
    config = resolve("default", None, epochs=8)
    found = []
    for allowed in (True, False):
        if not allowed:
            monkeypatch.setattr(passes, "can_be_captured", lambda *_: False)
        module, inputs = build_djgnn(config, graph, "cuda")
        fitted, _ = train(module, inputs, graph, 0, config.training, 0)
        with torch.no_grad():
            logits, _ = fitted.module.eval()(*inputs)
        torch.testing.assert_close(logits, fitted.logits, rtol=1e-3, atol=1e-4)
        found.append(fitted)
    assert all(captures)
    assert len(captures) >= 2 * len(NETWORKS)
    assert [r.name for r in found[0].experts] == [r.name for r in found[1].experts]
    # A difference of rounding may drop another jump.
    assert found[0].validation_loss == pytest.approx(found[1].validation_loss, rel=0.01)
    torch.testing.assert_close(found[0].module.weights, found[1].module.weights, rtol=0, atol=0.02)


@pytest.mark.skipif(not triton_available(), reason="no GPU with Triton")
def test_many_nodes_are_not_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = random_splits(heterophilic_sbm(300))
    module, inputs, _ = built("given", graph, "cuda")
    assert cuda_graphs.can_be_captured(module, inputs[1])
    monkeypatch.setattr(cuda_graphs, "capturable", lambda nodes, ranks: nodes < 300)
    assert not cuda_graphs.can_be_captured(module, inputs[1])


@pytest.mark.skipif(not triton_available(), reason="no GPU with Triton")
@pytest.mark.parametrize("nodes", [9000, 40000])  # searched within a CUDA graph, and before one
def test_captured_steps_take_the_lists_of_a_whole_search(
    nodes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Losses of so many nodes differ by themselves: sums on a GPU have no fixed order."""
    differing, searched = [], []
    evaluate, check = passes.CapturedPasses.evaluate, passes.check_finite
    monkeypatch.setattr(passes, "check_finite", lambda u: searched.append(u) or check(u))

    def checked(self: passes.CapturedPasses) -> torch.Tensor:
        logits, twins = evaluate(self), self.view.operators.twins
        expected = rank_lists(searched[-1], twins, self.module.num_ranks, engine="blockwise").ranks
        differing.append(int((self._ranks != expected).sum()))
        return logits

    monkeypatch.setattr(passes.CapturedPasses, "evaluate", checked)
    history("cuda", nodes, 20)
    assert differing == 20 * [0]


def test_a_step_takes_the_lists_of_the_evaluation_before_it(
    imitated: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched: list[int] = []
    search = RankMemory.search
    monkeypatch.setattr(RankMemory, "__call__", lambda self, *args: self.search(*args))
    monkeypatch.setattr(RankMemory, "search", lambda *args: searched.append(1) or search(*args))
    captured = history("cpu", 160)
    assert len(searched) == 1 + 8  # before the first step, and once per epoch
    monkeypatch.undo()
    assert captured == history("cpu", 160)


@pytest.mark.parametrize("name", NETWORKS)
def test_passes_of_every_expert_are_the_plain_ones(name: str, imitated: None) -> None:
    captured = history("cpu", 160, name=name)
    with pytest.MonkeyPatch.context() as plain:
        plain.setattr(passes, "can_be_captured", lambda *_: False)
        assert captured == history("cpu", 160, name=name)
    assert len(set(captured)) == 16


@pytest.mark.parametrize("name", ["joint", "jumps", "deep"])
def test_steps_without_an_evaluation_between_them_search_themselves(
    name: str, imitated: None
) -> None:
    graph = random_splits(heterophilic_sbm(160))
    targets = Targets.of(graph, graph.split(0))
    losses: list[list[float]] = [[], []]
    for captured, found in zip((True, False), losses, strict=True):
        module, inputs, _ = built(name, graph)
        each, generator = made(module, inputs, targets, captured), seeded(0, "cpu")
        optimizer = torch.optim.Adam(module.parameters(), lr=0.1)
        for _ in range(6):
            found += map(float, each.update(optimizer, generator))
    assert losses[0] == losses[1]


def made(module: DJGNN, inputs: Any, targets: Targets, captured: bool) -> ViewPasses:
    config = resolve("default").training
    if not captured:
        return ViewPasses(module, module.view(*inputs), targets, config)
    found = choose_passes(module, inputs, targets, config)
    assert isinstance(found, passes.CapturedPasses)
    return found


def test_weights_that_someone_set_are_ranked_anew(imitated: None) -> None:
    graph = random_splits(heterophilic_sbm(160))
    module, inputs, _ = built("joint", graph)
    targets, rows = Targets.of(graph, graph.split(0)), torch.arange(10)
    targets = replace(targets, train=rows, train_y=targets.train_y[:10])
    both = [made(module, inputs, targets, captured) for captured in (True, False)]
    optimizer = torch.optim.SGD(module.parameters(), lr=0.0)
    generators = seeded(0, "cpu"), seeded(0, "cpu")
    for seed in range(6):
        losses = []
        for each, generator in zip(both, generators, strict=True):
            each.evaluate()
            initialize(module, seed)
            each._encoding = None
            losses += each.update(optimizer, generator)
        assert losses[0] == losses[2]
        assert losses[1] == losses[3]


def test_on_a_cpu_nothing_is_captured() -> None:
    graph = random_splits(heterophilic_sbm(160))
    targets = Targets.of(graph, graph.split(0))
    for name in NETWORKS:
        module, inputs, config = built(name, graph)
        assert type(choose_passes(module, inputs, targets, config.training)) is ViewPasses
