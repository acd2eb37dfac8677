"""CUDA graphs change no loss; skipped without a GPU."""

from __future__ import annotations

import pytest
import torch

from djgnn.graph import heterophilic_sbm, random_splits
from djgnn.jumps.triton_search import triton_available
from djgnn.training import passes
from djgnn.training.config import resolve
from djgnn.training.inputs import build_djgnn, initialize, seeded
from djgnn.training.loop import Targets, fit
from djgnn.training.passes import two_phase


def history(epochs: int = 8) -> list[float]:
    graph = random_splits(heterophilic_sbm(300))
    config = resolve("default", epochs=epochs)
    module, inputs = build_djgnn(config, graph, "cuda")
    initialize(module, 0)
    targets = Targets.of(graph, graph.split(0), "cuda")
    fitted = fit(module, inputs, targets, config.training, seeded(0, "cuda"))
    return [value for record in fitted.history for value in (record.loss, record.validation_loss)]


@pytest.mark.skipif(not triton_available(), reason="no GPU with Triton")
def test_a_captured_run_has_the_losses_of_a_plain_one(monkeypatch: pytest.MonkeyPatch) -> None:
    captured = history()
    monkeypatch.setattr(passes, "can_be_captured", lambda *_: False)
    assert captured == pytest.approx(history(), rel=1e-4)


def test_on_a_cpu_nothing_is_captured() -> None:
    graph = random_splits(heterophilic_sbm(160))
    module, inputs = build_djgnn(resolve("default"), graph)
    assert not hasattr(two_phase(module, inputs, torch.arange(10)), "repeat")
