"""Dropout and initial weights: the right numbers, from the generator alone."""

from __future__ import annotations

import pytest
import scipy.sparse as sp
import torch

from djgnn.baselines.base import Linear, uninitialized
from djgnn.graph.operator import SparseOperator
from djgnn.model.dropout import drop, keep_mask


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def test_dropout_keeps_the_mean() -> None:
    out = drop(torch.full((400, 400), -2.0), 0.3, True, seeded())
    assert out.mean().item() == pytest.approx(-2, abs=0.02)
    assert (out == 0).float().mean().item() == pytest.approx(0.3, abs=0.01)


def test_sparse_dropout_is_dropout_of_the_entries_there_are() -> None:
    matrix = sp.random_array((30, 12), density=0.3, rng=0, dtype="float32")
    x = SparseOperator.from_scipy(sp.csr_array(matrix))
    layer = Linear(12, 5, bias=False)
    layer.init_weights(seeded())
    weight, out = layer.weight, layer(x, 0.5, seeded())
    values = x.matrix.values()
    kept = x.to_scipy()
    kept.data = (values * keep_mask(values, 0.5, seeded()) * 2).numpy()
    expected = torch.from_numpy(kept.toarray()) @ weight
    torch.testing.assert_close(out, expected)
    made = torch.autograd.grad(out.square().sum(), weight)
    torch.testing.assert_close(made, torch.autograd.grad(expected.square().sum(), weight))


def test_blocks_are_initialised_as_if_alone() -> None:
    one, three = Linear(100, 50), Linear(100, 150, blocks=3)
    for layer in (one, three):
        layer.init_weights(seeded())
    assert three.weight.abs().max().item() == pytest.approx(one.weight.abs().max().item(), rel=0.01)


def test_layers_are_made_without_touching_the_global_state() -> None:
    state = torch.get_rng_state()
    layer = uninitialized(torch.nn.Linear, 3, 2)
    assert torch.equal(torch.get_rng_state(), state)
    assert layer.weight.device.type == "cpu"
