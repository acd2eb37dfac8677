"""Gradients that come back from other processes, in float64."""

from __future__ import annotations

from typing import Any

import jobs
import numpy as np
import pytest
import torch
from processes import run_group

from djgnn.training.distributed import Group


@pytest.mark.parametrize("bounds", [(0, 3, 7), (0, 7, 7), (0, 2, 2, 7)])
def test_exchanges_hand_back_the_gradient_of_the_sum(bounds: tuple[int, ...]) -> None:
    whole = torch.randn(7, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    size = len(bounds) - 1
    x, factor = whole.clone().requires_grad_(), torch.ones((), dtype=torch.float64)
    factor.requires_grad_()
    weights = sum(1 + rank for rank in range(size))
    part = ((x * factor).tanh() * weights).sum()
    for rank in range(size):
        part = part + (x.square()[rank % 2 :: 2].sin() * (2 + rank)).sum()
    loss = part.square() + x.exp().cos().square().sum() + (x * factor).cos().prod()
    loss.backward()
    found = run_group(size, jobs.collectives, whole, bounds)
    own = np.concatenate([process["own"] for process in found])
    np.testing.assert_allclose(own, x.grad.numpy(), rtol=1e-10)
    for process in found:
        assert process["loss"] == pytest.approx(float(loss.detach()), rel=1e-12)
        assert process["factor"] == pytest.approx(float(factor.grad), rel=1e-10)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"hb_layers": 1, "support": "paper", "num_jumps": 4},
        {"jump_inputs": "hidden", "pump_adjacency": "transposed"},
        {"hops": 2, "diffusion": 3, "homophilic_adjacency": "symmetric"},
        {"mix": 2, "homophilic_adjacency": "symmetric"},
        {"deep": 15, "homophilic_adjacency": "symmetric"},
    ],
    ids=str,
)
def test_a_step_of_the_model_has_the_gradients_of_one_process(options: dict[str, Any]) -> None:
    graph = jobs.sbm()
    one = jobs.gradients(Group(), graph, options)
    for process in run_group(3, jobs.gradients, graph, options):
        assert process.keys() == one.keys()
        for key, value in one.items():
            scale = float(np.abs(value).max())
            np.testing.assert_allclose(process[key], value, rtol=0, atol=1e-10 * scale, err_msg=key)
            assert key == "loss" or scale > 0, f"{key} has no gradient: nothing was compared"
