"""The profile expert: its columns by hand, what it may see, new nodes, and processes."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from tests.model.test_new_nodes import split_off

from djgnn.graph import Graph, heterophilic_sbm, random_splits
from djgnn.graph.new_nodes import arrivals
from djgnn.model.node_statistics import Surroundings, degree_profile
from djgnn.model.profile import REACHES, Profile, influence, neighbourhood_numbers
from djgnn.training import resolve, train
from djgnn.training.inputs import build_djgnn

GRAPH = random_splits(heterophilic_sbm(120))
CONFIG = resolve("default", experts=("profile", "features"), hidden_channels=8, epochs=12)


def run(graph: Graph = GRAPH) -> tuple[Profile, tuple[Any, Any], Any]:
    """The trained profile, its inputs, and what training found."""
    module, inputs = build_djgnn(CONFIG, graph)
    fitted, _ = train(module, inputs, graph, 0, CONFIG.training, 0)
    profile: Any = module.experts["profile"]
    return profile, module.inputs_of("profile", inputs), fitted


def test_numbers_of_a_small_graph_by_hand() -> None:
    """0 -> 1 -> 2, 2 -> 1, 0 -> 2; node 3 has no edge."""
    edges = sp.csr_array((np.ones(4), ([0, 1, 2, 0], [1, 2, 1, 2])), shape=(4, 4))
    found = neighbourhood_numbers(Surroundings.of(edges), True)
    assert found.shape == (4, 10 + len(REACHES))
    near, out, back, mutual = np.log1p([[2, 2, 2, 0], [2, 1, 1, 0], [0, 2, 2, 0], [0, 1, 1, 0]])
    np.testing.assert_allclose(found[:, :4].T, [near, out, back, mutual])
    mean_out = [(out[1] + out[2]) / 2, (out[0] + out[2]) / 2, (out[0] + out[1]) / 2, 0]
    np.testing.assert_allclose(found[:, 5], mean_out)
    np.testing.assert_allclose(found[:, 7], 0, atol=1e-7)  # all neighbours have two neighbours
    np.testing.assert_allclose(found[:, 8], [np.log(3)] * 3 + [0])
    undirected = neighbourhood_numbers(Surroundings.of(edges), False)
    np.testing.assert_array_equal(undirected[:, 0], near)
    assert undirected.shape == (4, 5 + len(REACHES))


def test_influence_is_pagerank() -> None:
    edges = sp.csr_array(GRAPH.adjacency)
    n, share = GRAPH.num_nodes, 0.5
    out = np.maximum(np.asarray((edges != 0).sum(axis=1)).reshape(-1), 1)
    moves = (edges != 0).astype(float).toarray().T / out
    wanted = np.linalg.solve(np.eye(n) - share * moves, np.full(n, 1 - share))
    found = influence(Surroundings.of(edges), [share])[0]
    np.testing.assert_allclose(found, np.log(wanted), atol=1e-7)


def test_labels_of_other_nodes_than_the_training_ones_change_nothing() -> None:
    split = GRAPH.split(0)
    y = np.array(GRAPH.y)
    y[split.test] = (y[split.test] + 1) % GRAPH.num_classes
    one, two = (run(graph) for graph in (GRAPH, dataclasses.replace(GRAPH, y=y)))
    for key, value in one[0].state_dict().items():
        assert torch.equal(value, two[0].state_dict()[key]), key
    held = torch.from_numpy(np.flatnonzero(~split.train))
    assert bool((one[0].label[held] == -1).all())


def test_a_node_does_not_see_its_own_label() -> None:
    profile, (x, graph), _ = run()
    near = Surroundings.of(graph.adjacency)
    before = profile.columns(near)
    node = int(np.flatnonzero(GRAPH.split(0).train)[0])
    profile.label[node] = (profile.label[node] + 1) % GRAPH.num_classes
    after = profile.columns(near)
    np.testing.assert_allclose(after[node], before[node], atol=1e-12)
    neighbours = near.both[[node]].indices
    assert (np.abs(after - before)[neighbours].max(axis=1) > 0).all()
    assert x.shape[0] == GRAPH.num_nodes


def test_logits_are_those_of_its_layers() -> None:
    profile, inputs, _ = run()
    profile.eval()
    with torch.no_grad():
        logits = profile(*inputs)[0]
        x, s, y = profile.blocks(inputs[0], profile.columns(Surroundings.of(inputs[1].adjacency)))
        dense = x.to_scipy().toarray() if hasattr(x, "to_scipy") else x.numpy()
        h = [
            np.maximum(block @ w.numpy() + b.numpy(), 0)
            for block, w, b in zip(
                (dense, s.numpy(), y.numpy()), profile.weights, profile.biases, strict=True
            )
        ]
        wanted = np.concatenate(h, axis=1) @ profile.head.numpy() + profile.bias.numpy()
    np.testing.assert_allclose(logits.numpy(), wanted, atol=1e-5)
    columns = torch.cat([s, y], dim=1)
    assert float(columns.mean(dim=0).abs().max()) < 1e-5
    assert float(columns.abs().max()) <= 10


@pytest.mark.parametrize("sparse", [True, False])
def test_some_nodes_have_the_logits_they_have_among_all(sparse: bool) -> None:
    graph = dataclasses.replace(GRAPH, x=sp.csr_array(GRAPH.x)) if sparse else GRAPH
    profile, inputs, _ = run(graph)
    blocks = profile.blocks(inputs[0], profile.columns(Surroundings.of(inputs[1].adjacency)))
    index = torch.tensor([2, 3, 50, 119])
    some, parts = profile.of_nodes(blocks, index)
    profile.train()
    whole = profile.decide(blocks, torch.Generator().manual_seed(1))[index]
    found = profile.decide(some, torch.Generator().manual_seed(1), parts)
    torch.testing.assert_close(found, whole)
    learned = [each for each in profile.parameters() if each.requires_grad]
    slope = torch.randn_like(whole)
    wanted, own = (torch.autograd.grad((each * slope).sum(), learned) for each in (whole, found))
    torch.testing.assert_close(own, wanted)


@pytest.mark.parametrize("directed", [True, False])
def test_new_nodes_are_seen_as_known_ones_would_be(directed: bool) -> None:
    whole = heterophilic_sbm(80)
    if not directed:
        edges = np.concatenate([whole.edge_index, whole.edge_index[::-1]], axis=1)
        whole = dataclasses.replace(whole, edge_index=edges)
    known, later = split_off(whole)
    known = random_splits(known)
    profile, (x, graph), _ = run(known)
    profile.eval()
    new, _ = arrivals(later, known)
    near = Surroundings.of(graph.adjacency, new)
    with torch.no_grad():
        found = profile.arriving(x, graph, new, torch.from_numpy(np.asarray(new.x)).float())
        old = profile(x, graph)[0]
        columns = profile.columns(near)
    assert found.shape == (len(new.x), known.num_classes)
    np.testing.assert_allclose(
        columns[: known.num_nodes], profile.columns(Surroundings.of(graph.adjacency)), atol=1e-12
    )
    with torch.no_grad():
        every = profile.decide(profile.blocks(np.vstack([known.x, new.x]), columns))
    torch.testing.assert_close(every[: known.num_nodes], old, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(every[known.num_nodes :], found, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("directed", [True, False])
def test_numbers_of_some_nodes_are_those_of_all(directed: bool) -> None:
    adjacency = sp.random_array((40, 40), density=0.05, rng=np.random.default_rng(0)).tocsr()
    near, rows = Surroundings.of(adjacency), slice(25, None)
    every = neighbourhood_numbers(near, directed)
    np.testing.assert_array_equal(neighbourhood_numbers(near, directed, rows), every[rows])
    pairs = zip(degree_profile(near, rows), degree_profile(near), strict=True)
    assert all(np.array_equal(some, whole[rows]) for some, whole in pairs)
