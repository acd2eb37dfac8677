"""Passes give the same whatever is computed together."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from djgnn.graph import heterophilic_sbm, random_splits
from djgnn.model import DJExperts
from djgnn.training import passes, resolve
from djgnn.training.inputs import build_djgnn
from djgnn.training.targets import Targets

GRAPH = random_splits(heterophilic_sbm(160), num_splits=1)


@pytest.mark.parametrize("name", ["jumps", "joint"])
def test_an_evaluation_in_parts_is_the_whole_one(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = resolve("default", hidden_channels=8, experts=(name,))
    module, inputs = build_djgnn(config, GRAPH)
    assert isinstance(module, DJExperts)
    own: Any = module.experts[name], module.inputs_of(name, inputs)
    targets, found = Targets.of(GRAPH, GRAPH.split(0)), []
    for parts in (1, 3):
        monkeypatch.setattr(passes, "parts_of", lambda *_, parts=parts: parts)
        found.append(passes.choose_passes(*own, targets, config.training).evaluate())
    torch.testing.assert_close(found[1], found[0])
