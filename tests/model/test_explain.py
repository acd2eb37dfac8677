"""Explanations: contributions sum to the logits, weights are those of the filters."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from tests.oracles import dense_normalize

from djgnn.graph import Graph, heterophilic_sbm, random_splits
from djgnn.model import DJGNN, graph_operators
from djgnn.model.explain import contributions, explain
from djgnn.training.config import resolve
from djgnn.training.inputs import build_djgnn, initialize

SETS = ("texas", "cora", "chameleon", "citeseer", "actor")


def built(graph: Graph, **options: object) -> tuple[DJGNN, tuple]:
    options = {"hidden_channels": 8, "experts": (), **options}
    module, inputs = build_djgnn(resolve("default", None, **options), graph)
    initialize(module, 1)
    with torch.no_grad():
        module.mixture.alpha_logits.copy_(torch.linspace(-1, 1, len(module.branch_names)))
    return module.eval(), inputs


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_contributions_and_bias_are_the_logits(layers: int) -> None:
    graph = heterophilic_sbm(120)
    module, inputs = built(graph, classifier_layers=layers)
    output = module.run(*inputs)
    added, bias = contributions(module.mixture, module.mixture.added(output.embeddings))
    assert added.shape == (graph.num_nodes, len(module.branch_names), graph.num_classes)
    torch.testing.assert_close(added.sum(dim=1) + bias, output.logits, atol=1e-5, rtol=1e-5)
    if layers == 1:
        quiet = [torch.zeros_like(part) for part in output.embeddings]
        torch.testing.assert_close(
            contributions(module.mixture, module.mixture.added(quiet))[0].abs().sum(),
            torch.zeros(()),
        )


@pytest.mark.parametrize("name", SETS)
def test_they_are_on_real_graphs_too(name: str, data_dir) -> None:
    graph = Graph.load(name, data=data_dir)
    module, inputs = built(graph)
    output = module.run(*inputs)
    added, bias = contributions(module.mixture, module.mixture.added(output.embeddings))
    gap = (added.sum(dim=1) + bias - output.logits).abs().max()
    assert float(gap.detach()) < 1e-5


def test_neighbours_are_the_rows_of_the_filters() -> None:
    graph = random_splits(heterophilic_sbm(60))
    module, inputs = built(graph, support="cumulative", num_jumps=3)
    output = module.run(*inputs)
    dense = dense_normalize(output.table.to_dense().detach())
    for node in (0, 17, 59):
        found = explain(module, inputs, graph, node)
        assert found.name == graph.names()[node]
        total = {
            c: found.bias[c] + sum(b.contributions[c] for b in found.branches) for c in found.bias
        }
        assert total == pytest.approx(found.logits, abs=1e-5)
        assert found.prediction == max(found.logits, key=found.logits.__getitem__)
        for k in range(len(module.branches)):
            row = dense[k, node]
            listed = {n.node: n.weight for n in found.branches[k].neighbours}
            assert listed == pytest.approx({int(j): float(row[j]) for j in row.nonzero()}, abs=1e-6)
        homophilic = next(b for b in found.branches if b.branch == "homophilic")
        assert sum(n.weight for n in homophilic.neighbours) == pytest.approx(
            float(inputs[1].homophilic.to_dense()[node].sum()), abs=1e-5
        )
        assert found.to_dict()["branches"][0]["by_twins"] in (True, False)


def test_what_an_expert_says_is_its_own_where_the_product_adds_to_its_share() -> None:
    graph = random_splits(heterophilic_sbm(60))
    module, inputs = build_djgnn(resolve("default", None, hidden_channels=8), graph)
    initialize(module, 1)
    count = len(module.names)
    module.weights.fill_(0.4 / count)
    module.product.fill_(0.6)
    module.powers.copy_(torch.linspace(1, 2, count))
    answer = module.eval()(*inputs)[0].detach().exp()[17]
    found = explain(module, inputs, graph, 17)
    for c, name in enumerate(graph.classes()):
        total = sum(part.shares[name] for part in found.experts)
        assert total == pytest.approx(float(answer[c]), abs=1e-6)
    for part in found.experts:
        own = torch.tensor(list(part.logits.values())).softmax(dim=0).tolist()
        assert list(part.probabilities.values()) == pytest.approx(own, abs=1e-6)
        assert part.alone == pytest.approx(
            {c: 0.4 / count * p for c, p in part.probabilities.items()}, abs=1e-6
        )
        assert sum(part.shares.values()) == pytest.approx(part.weight)
        assert part.weight > sum(part.alone.values())


@pytest.mark.parametrize("symmetric", [False, True])
def test_shares_of_the_experts_sum_to_the_probabilities(symmetric: bool) -> None:
    graph = random_splits(heterophilic_sbm(60))
    if symmetric:
        both = np.concatenate([graph.edge_index, graph.edge_index[::-1]], axis=1)
        graph = dataclasses.replace(graph, edge_index=both)
    module, inputs = build_djgnn(resolve("default", None, hidden_channels=8), graph)
    initialize(module, 1)
    count = len(module.names)
    module.weights.copy_(torch.linspace(0, 1, count) / (count / 2))  # the first has none
    shares = module.eval()(*inputs)[0].detach().exp()
    found = explain(module, inputs, graph, 17)
    assert [part.expert for part in found.experts] == list(module.names[:0:-1])
    for c, name in enumerate(graph.classes()):
        total = sum(part.shares[name] for part in found.experts)
        assert total == pytest.approx(float(shares[17, c]), abs=1e-6)
        assert np.exp(found.logits[name]) == pytest.approx(total, abs=1e-9)
    assert found.prediction == graph.classes()[int(shares[17].argmax())]
    for part in found.experts:
        assert sum(part.probabilities.values()) == pytest.approx(1)
        assert part.shares == pytest.approx(
            {c: part.weight * p for c, p in part.probabilities.items()}
        )
        expert = module.experts[part.expert]
        own = expert(*module.inputs_of(part.expert, inputs))[0][17]
        assert list(part.logits.values()) == pytest.approx(own.tolist(), abs=1e-5)
        for c, logit in part.logits.items():
            total = part.bias[c] + sum(b.contributions[c] for b in part.branches)
            assert total == pytest.approx(logit, abs=1e-5)
        names = () if part.expert == "profile" else expert.branch_names
        assert tuple(b.branch for b in part.branches) == names
        assert part.alone == pytest.approx(part.shares)
    plain = found.to_dict()["experts"][0]["branches"][0]
    assert plain["by_twins"] in (True, False)


@pytest.mark.parametrize("branch", ["hops", "mix"])
def test_hops_see_the_powers_of_the_graph(branch: str) -> None:
    graph = heterophilic_sbm(60)
    alone = {"jumps": False, "homophilic": False, "structure": False}
    module, inputs = built(graph, **{branch: 3}, **alone)
    dense = inputs[1].homophilic.to_dense()
    for hops, part in enumerate(explain(module, inputs, graph, 9).branches):
        row = torch.linalg.matrix_power(dense, hops)[9]
        listed = [near.weight for near in part.neighbours]
        assert listed == pytest.approx(row.sort(descending=True).values[: len(listed)].tolist())
        assert len(listed) + part.neighbours_left_out == int((row > 0).sum())
        assert all(near.weight == pytest.approx(float(row[near.node])) for near in part.neighbours)


def test_twins_are_named_as_such() -> None:
    """Nodes 0, 1 and 2 have the same row; 0 and 1 decide each other's first jump."""
    edges = np.array([[0, 1, 2, 3, 4, 5], [3, 3, 3, 4, 5, 0]])
    graph = Graph(edges, num_nodes=6, x=np.eye(6, dtype=np.float32), y=np.array([0, 0, 1, 1, 0, 1]))
    module = DJGNN(6, 4, 2, num_nodes=6, num_jumps=2)
    inputs = (torch.eye(6), graph_operators(graph.adjacency))
    found = explain(module, inputs, graph, 2)
    first = found.branches[1].neighbours[1]
    assert (first.node, first.rank, first.distance, first.twin, first.ties) == (0, 1, 0.0, True, 2)
    assert found.branches[1].by_twins
    assert not found.branches[0].by_twins
    assert first.label == "0"
    assert first.part == ""


def test_parts_are_those_of_the_split_that_was_trained_on() -> None:
    graph = random_splits(heterophilic_sbm(120), num_splits=3)
    module, inputs = built(graph)
    seen = {}
    for split in range(3):
        parts = graph.split(split)
        for branch in explain(module, inputs, graph, 5, parts).branches:
            for near in branch.neighbours:
                masks = {"train": parts.train, "validation": parts.val, "test": parts.test}
                assert masks[near.part][near.node]
                seen.setdefault(near.node, set()).add(near.part)
    assert any(len(parts) > 1 for parts in seen.values())


def test_a_node_that_is_not_there() -> None:
    graph = heterophilic_sbm(60)
    module, inputs = built(graph)
    n = graph.num_nodes
    with pytest.raises(IndexError, match=rf"between 0 and {n - 1} \(got {n}\)"):
        explain(module, inputs, graph, n)
