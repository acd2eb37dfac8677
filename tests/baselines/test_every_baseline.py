"""What holds for every system of the tables, whichever it is."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.baselines.conftest import dense, small

from djgnn.baselines import BASELINES, build_baseline, message_edges
from djgnn.bench import run_cell
from djgnn.graph import Graph, random_splits

# Its latent space is a plane fitted to the graph, whose axes may turn when nodes are renumbered;
# given the relations it is equivariant, see test_geom_gcn.py.
NOT_EQUIVARIANT = {"geom_gcn"}
WITHOUT_DROPOUT = {"asgc", "dir_gnn", "boosting"}
# Trees follow no gradient: the module holds their answers, see test_boosting.py.
WITH_GRADIENT = [name for name in BASELINES if name != "boosting"]


@pytest.mark.parametrize("name", [n for n in BASELINES if n not in NOT_EQUIVARIANT])
def test_renumbering_the_nodes_renumbers_the_logits(name: str, graph: Graph, built) -> None:
    order = np.random.default_rng(0).permutation(graph.num_nodes)
    place = np.argsort(order)
    moved = Graph(place[graph.edge_index], graph.num_nodes, x=graph.x[order], y=graph.y[order])
    module, inputs = built(name, graph)
    other, moved_inputs = built(name, moved)
    state = module.state_dict()
    for key in module.node_parameters:
        if key in state:
            state[key] = state[key][order]
    other.load_state_dict(state)
    torch.testing.assert_close(other(*moved_inputs), module(*inputs)[order], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", WITH_GRADIENT)
def test_every_parameter_learns(name: str, graph: Graph, built) -> None:
    module, inputs = built(name, graph)
    module.train()
    out = module(*inputs, generator=torch.Generator().manual_seed(0))
    (out * torch.randn(out.shape, generator=torch.Generator().manual_seed(1))).sum().backward()
    for key, value in module.named_parameters():
        assert value.grad is not None, key
        assert value.grad.abs().sum() > 0, key


@pytest.mark.parametrize("name", WITH_GRADIENT)
def test_a_seed_determines_everything_and_the_global_state_is_left_alone(
    name: str, graph: Graph
) -> None:
    state = torch.get_rng_state()

    def run(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
        module, inputs = build_baseline(small(name), graph)
        module.reset_parameters(torch.Generator().manual_seed(seed))
        evaluated = module.eval()(*inputs)
        module.train()
        out = module(*inputs, generator=torch.Generator().manual_seed(seed))
        out.square().sum().backward()
        return out.detach(), evaluated.detach()

    first, again, other = run(0), run(0), run(1)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.allclose(first[1], other[1])
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("name", [n for n in BASELINES if n not in WITHOUT_DROPOUT])
def test_dropout_draws_from_the_generator(name: str, graph: Graph, built) -> None:
    module, inputs = built(name, graph)
    module.train()
    draws = [module(*inputs, generator=torch.Generator().manual_seed(s)) for s in (0, 0, 1)]
    assert torch.equal(draws[0], draws[1])
    assert not torch.allclose(draws[0], draws[2])


@pytest.mark.parametrize("name", BASELINES)
def test_sparse_and_dense_features_give_the_same_logits(name: str, graph: Graph, built) -> None:
    module, (x, edges) = built(name, graph)
    torch.testing.assert_close(module(dense(x), edges), module(x, edges), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", BASELINES)
def test_a_cell_can_be_repeated(name: str, graph: Graph) -> None:
    split = random_splits(graph, num_splits=1)
    config = small(name, epochs=3)
    cells = [run_cell(name, split, config, [0]) for _ in range(2)]
    assert cells[0].splits[0].test == cells[1].splits[0].test
    assert cells[0].config["options"] == dict(config.options)


@pytest.mark.parametrize("name", BASELINES)
def test_a_graph_without_features_or_edges_is_no_obstacle(name: str, graph: Graph, built) -> None:
    bare = Graph(np.zeros((2, 0), dtype=int), graph.num_nodes, y=graph.y)
    module, inputs = built(name, bare)
    assert module(*inputs).isfinite().all()


def test_messages_flow_as_the_adjacency_option_says() -> None:
    graph = Graph(np.array([[0], [1]]), 2, y=np.array([0, 1]))
    assert message_edges(graph, "given").tolist() == [[1], [0]]
    assert message_edges(graph, "transposed").tolist() == [[0], [1]]
    assert sorted(message_edges(graph, "symmetric").T.tolist()) == [[0, 1], [1, 0]]


def test_row_features_sum_to_one(graph: Graph) -> None:
    _, (x, _) = build_baseline(small("mlp", features="row"), graph)
    total = dense(x).abs().sum(dim=1)
    torch.testing.assert_close(total, (total > 0).float())
    _, (x, _) = build_baseline(small("mlp", features="identity"), graph)
    assert torch.equal(dense(x), torch.eye(graph.num_nodes))
