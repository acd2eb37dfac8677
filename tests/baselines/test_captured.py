"""On a GPU a step is one launch and gives what plain steps give."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

from djgnn.baselines import BASELINES
from djgnn.bench.cell import build, train_split
from djgnn.graph import Graph, random_splits
from djgnn.training.loop import Targets
from djgnn.training.passes import PlainPasses, choose_passes

from .conftest import small

EPOCHS = 12


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("name", BASELINES)
def test_captured_steps_are_plain_steps(name: str, graph: Graph) -> None:
    config = small(name, epochs=EPOCHS, patience=None)
    still = {key: 0.0 for key in config.options if "dropout" in key}
    ready = random_splits(graph)
    losses = []
    for capturable in (False, None):
        built = build(config.replace(**still), ready, "cuda")
        if capturable is not None:
            built.module.capturable = capturable
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)  # a capture that was refused
            losses.append([r.loss for r in train_split(built, ready, 0).history])
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-3, atol=1e-5)


def test_on_a_cpu_nothing_is_captured(graph: Graph) -> None:
    ready = random_splits(graph)
    built, targets = build(small("gcn"), ready), Targets.of(ready, ready.split(0))
    assert built.module.capturable
    found = choose_passes(built.module, built.inputs, targets, built.training)
    assert type(found) is PlainPasses
