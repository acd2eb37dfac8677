"""Baselines: limits where they must equal something known."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from djgnn.baselines import BASELINES, baseline_config, build_baseline
from djgnn.graph import Graph, heterophilic_sbm


def built(name: str, graph: Graph, **options):
    module, inputs = build_baseline(baseline_config(name, hidden_channels=8, **options), graph)
    module.reset_parameters(torch.Generator().manual_seed(0))
    return module.eval(), inputs


@pytest.fixture(scope="module")
def graph() -> Graph:
    return heterophilic_sbm(60, hub_size=1)


def test_gcn_on_a_graph_without_edges_is_the_mlp(graph: Graph) -> None:
    bare = Graph(np.zeros((2, 0)), graph.num_nodes, x=graph.x, y=graph.y)
    gcn, gcn_inputs = built("gcn", bare)
    mlp, mlp_inputs = built("mlp", bare)
    with torch.no_grad():
        for layer, other in zip(gcn.layers, mlp.layers, strict=True):
            other.weight.copy_(layer.lin.weight.t())
    torch.testing.assert_close(gcn(*gcn_inputs), mlp(*mlp_inputs))


def test_mlp_does_not_see_the_graph(graph: Graph) -> None:
    module, (x, edges) = built("mlp", graph)
    torch.testing.assert_close(module(x, edges), module(x, edges[:, :3]))


@pytest.mark.parametrize("name", BASELINES)
def test_renumbering_the_nodes_renumbers_the_logits(name: str, graph: Graph) -> None:
    order = np.random.default_rng(0).permutation(graph.num_nodes)
    place = np.argsort(order)
    moved = Graph(place[graph.edge_index], graph.num_nodes, x=graph.x[order], y=graph.y[order])
    module, inputs = built(name, graph)
    other, moved_inputs = built(name, moved)
    other.load_state_dict(module.state_dict())
    torch.testing.assert_close(other(*moved_inputs), module(*inputs)[order], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", BASELINES)
def test_every_parameter_learns(name: str, graph: Graph) -> None:
    module, inputs = built(name, graph)
    module(*inputs).square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in module.parameters())


def test_unknown_baselines_are_refused() -> None:
    with pytest.raises(ValueError, match=r"model must be one of .* \(got 'gin'\)"):
        baseline_config("gin")
