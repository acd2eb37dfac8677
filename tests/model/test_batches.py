"""Batches against the whole pass, in double precision: the same numbers and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from djgnn.graph import heterophilic_sbm
from djgnn.graph.operator import SparseOperator
from djgnn.model import DJGNN, graph_operators
from djgnn.model.batches import BatchedDJGNN, hop_features
from djgnn.model.experts import EXPERTS

GRAPH = heterophilic_sbm(140, hub_size=2)  # with twins
N = GRAPH.num_nodes
CASES: list[dict[str, Any]] = [
    {},
    {"support": "cumulative", "classifier_layers": 2},
    {"support": "author", "scale": "volume", "structure": False},
    {"support": "paper", "scale": "unit", "hb_layers": 1},
    {"homophilic": False},
    {"source": "identity"},
    {"pump_adjacency": "symmetric", "homophilic_adjacency": "symmetric"},
    {"pump_adjacency": "transposed", "homophilic_adjacency": "transposed"},
    {"num_jumps": "auto"},
    EXPERTS["jumps"],
    {**EXPERTS["jumps"], "num_jumps": "auto", "source": "identity", "classifier_layers": 2},
    {"jump_inputs": "hidden", "pump_adjacency": "transposed", "hops": 0},
    {"hidden_channels": 8, "support": "author"},
    {"hidden_channels": 8, "num_jumps": 1},
]


def setting(options: dict[str, Any], sparse: bool = True) -> tuple[DJGNN, Any, Any]:
    torch.manual_seed(0)
    options = {"num_jumps": 4, **options}
    sizes = (7, options.pop("hidden_channels", 6), 3, N)
    model = DJGNN(*sizes, dropout=0.0, **options).double()
    operators = graph_operators(GRAPH.adjacency, **model.config.treatment(), dtype=torch.float64)
    features = sp.random_array((N, 7), density=0.3, rng=0)
    x = SparseOperator.from_scipy(features, torch.float64)
    return model, x if sparse else x.to_dense(), operators


def gradients(model: DJGNN, value: torch.Tensor) -> dict[str, torch.Tensor]:
    model.zero_grad(set_to_none=True)
    value.backward()
    return {k: p.grad.clone() for k, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("options", CASES, ids=str)
@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("number", [1, 20])
def test_logits_and_gradients_of_some_nodes(
    options: dict[str, Any], sparse: bool, number: int
) -> None:
    model, x, operators = setting(options, sparse)
    nodes = torch.from_numpy(np.random.default_rng(0).permutation(N)[:number])
    weight = torch.linspace(-1, 1, 3 * number, dtype=torch.float64).view(number, 3)
    logits, _ = model(x, operators)
    wanted = gradients(model, (logits[nodes] * weight).sum())
    batched = BatchedDJGNN(model, x, operators)
    found = batched.logits(nodes, batched.tables())
    torch.testing.assert_close(found, logits[nodes], rtol=1e-9, atol=1e-12)
    got = gradients(model, (found * weight).sum())
    for key, value in wanted.items():
        torch.testing.assert_close(
            got.get(key, torch.zeros_like(value)), value, rtol=1e-9, atol=1e-11
        )


@pytest.mark.parametrize("options", CASES, ids=str)
@pytest.mark.parametrize("batch_size", [1, 64, N])
def test_evaluation_by_batches(options: dict[str, Any], batch_size: int) -> None:
    model, x, operators = setting(options)
    batched = BatchedDJGNN(model, x, operators)
    found = batched.evaluate(batched.tables(), batch_size)
    assert not found.requires_grad
    torch.testing.assert_close(found, model.eval()(x, operators)[0], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("options", CASES, ids=str)
@pytest.mark.parametrize("batch_size", [7, N])
def test_what_branches_add_by_batches(options: dict[str, Any], batch_size: int) -> None:
    model, x, operators = setting(options)
    nodes = torch.arange(0, N, 3)
    batched = BatchedDJGNN(model, x, operators)
    found = torch.cat([*batched.added(nodes, batched.tables(), batch_size)])
    assert not found.requires_grad
    wanted = model.eval().added(model.view(x, operators).rows(nodes))
    torch.testing.assert_close(found, wanted.detach(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "options",
    [
        {"hops": 1},
        {"diffusion": 2},
        {"deep": 1},
        {"mix": 1},
        EXPERTS["given"],
        EXPERTS["features"],
    ],
)
def test_what_needs_all_nodes_or_has_no_jumps_has_no_batches(options: dict[str, Any]) -> None:
    model, x, operators = setting(options)
    assert not model.in_batches
    with pytest.raises(ValueError, match="run it whole"):
        BatchedDJGNN(model, x, operators)


def test_the_tables_are_those_of_a_whole_pass() -> None:
    model, x, operators = setting({})
    assert operators.twins.num_classes < N
    encoding = model.encode(model.view(x, operators))
    encoding.pump.u.retain_grad()
    encoding.pump.loss.backward()
    batched = BatchedDJGNN(model, x, operators)
    tables = batched.tables()
    torch.testing.assert_close(tables.pump.u, encoding.pump.u, rtol=0, atol=0)
    torch.testing.assert_close(tables.gradient, encoding.pump.u.grad)
    torch.testing.assert_close(tables.pump.loss, encoding.pump.loss)
    held = batched.encoding(tables)
    assert torch.equal(held.table.index, encoding.table.index)
    torch.testing.assert_close(held.table.weight, encoding.table.weight, rtol=0, atol=0)


@pytest.mark.parametrize("weighted", [True, False])
def test_frozen_filters(weighted: bool) -> None:
    model, x, operators = setting({})
    model.freeze_pump(model.view(x, operators), weighted)
    with torch.no_grad():
        model.pump.weight.mul_(3)  # the filters stay where they were fixed
    batched = BatchedDJGNN(model, x, operators)
    nodes = torch.tensor([5, 90, 17])
    tables = batched.tables()
    wanted = model(x, operators)[0]
    torch.testing.assert_close(batched.logits(nodes, tables), wanted[nodes])
    torch.testing.assert_close(batched.evaluate(tables, 40), wanted)
    assert torch.equal(
        batched.encoding(tables).table.weight, model.encode(model.view(x, operators)).table.weight
    )


def test_the_hop_is_kept_in_the_smaller_form() -> None:
    _, x, operators = setting({})
    hop = hop_features(operators.homophilic, x)
    assert isinstance(hop, torch.Tensor)  # 7 columns fill up
    wanted = operators.homophilic.to_dense() @ x.to_dense()
    torch.testing.assert_close(hop, wanted)
    eye = SparseOperator.from_scipy(sp.eye_array(N, format="csr"), torch.float64)
    own = hop_features(operators.homophilic, eye)
    assert isinstance(own, SparseOperator)
    assert own.transposed == ()
    torch.testing.assert_close(own.to_dense(), operators.homophilic.to_dense())
