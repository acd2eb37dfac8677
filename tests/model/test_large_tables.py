"""Tables of many nodes: threads, coded trees and fewer examples, each beside the plain way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from djgnn.graph import Graph, arrivals, heterophilic_sbm
from djgnn.model import node_statistics, tree_columns, trees
from djgnn.model.forest import Forest
from djgnn.model.node_statistics import Floats, Surroundings, product
from djgnn.model.operators import WholeGraph
from djgnn.model.table_experts import LabelPropagation
from djgnn.model.tree_columns import leaves
from djgnn.model.trees import BoostedTrees
from djgnn.model.truncated_svd import leading_subspace

GRAPH = heterophilic_sbm(160)
NEAR = Surroundings.of(GRAPH.adjacency)


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Sets the number of threads, for blocks of a few rows."""
    before = torch.get_num_threads()
    monkeypatch.setattr(node_statistics, "BLOCK", 7)
    yield torch.set_num_threads
    torch.set_num_threads(before)


def trained(kind: Any, epochs: int = 2) -> Any:
    made = kind(GRAPH.num_features, GRAPH.num_classes, GRAPH.num_nodes)
    nodes = torch.arange(0, GRAPH.num_nodes, 2)
    made.learn(nodes, torch.from_numpy(np.array(GRAPH.y))[nodes])
    steps = made.steps(GRAPH.x, NEAR, 5)
    return made, [next(steps) for _ in range(min(epochs, made.epochs))]


@pytest.mark.parametrize("width", [(), (1,), (3,)])
def test_threads_multiply_to_the_bit(threads: Any, width: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    rows = sp.random_array((50, 40), density=0.2, rng=rng, format="csr")
    dense = rng.standard_normal((40, *width)).astype(np.float32)
    threads(3)
    found = product(rows, dense)
    np.testing.assert_array_equal(found, rows @ dense)
    assert found.dtype == (rows @ dense).dtype


@pytest.mark.parametrize("kind", [LabelPropagation, BoostedTrees, Forest])
def test_the_number_of_threads_changes_nothing(
    kind: Any, threads: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trees, "MANY_EXAMPLES", 0)
    monkeypatch.setattr(trees, "MANY_ROWS", 0)
    found = []
    for number in (1, 3):
        threads(number)
        found.append(trained(kind))
    for key, value in found[0][0].state_dict().items():
        assert torch.equal(value, found[1][0].state_dict()[key]), key
    np.testing.assert_array_equal(found[0][1], found[1][1])


def test_coded_trees_are_those_that_are_walked_down(monkeypatch: pytest.MonkeyPatch) -> None:
    made, _ = trained(BoostedTrees, 5)
    seen = made.columns(GRAPH.x, NEAR)
    walked = made.of_table(seen)
    monkeypatch.setattr(trees, "MANY_ROWS", 0)
    np.testing.assert_array_equal(made.of_table(seen), walked)
    assert len(np.unique(walked.argmax(axis=1))) > 1


def test_a_coded_tree_may_refer_to_itself_as_a_file_may() -> None:
    child = np.array([[1, 2], [0, 2], [2, 2]], dtype=np.int32)  # of 1 back to 0
    tree = (np.zeros(3, dtype=np.int32), np.array([0.0, 1.0, 0.0]))
    seen = np.array([[-1.0, 0.5, 2.0]], dtype=np.float32)
    feature, threshold, values = trees._coded(*tree, child, np.array([1.0, 2.0, 3.0]))
    assert trees._said(seen, feature, threshold, values).tolist()[1:] == [3.0, 3.0]
    assert leaves(seen, np.arange(3), *tree, child)[1:].tolist() == [2, 2]


def test_trees_learn_from_a_sample_of_many_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    made, _ = trained(BoostedTrees, 1)
    seen = made.columns(GRAPH.x, NEAR)
    every = made.examples(seen)
    monkeypatch.setattr(tree_columns, "MOST_EXAMPLES", 20)
    monkeypatch.setattr(tree_columns, "LEAST_EXAMPLES", 3)
    rows, y, weight = made.examples(seen, 1)
    assert 20 <= len(rows) <= 20 + 2 * GRAPH.num_classes < len(every[0])
    assert all(any((row == each).all() for each in every[0]) for row in rows)
    np.testing.assert_array_equal(made.examples(seen, 1)[0], rows)
    assert not np.array_equal(made.examples(seen, 2)[0], rows)
    assert weight is None  # scikit-learn's bins take far longer with any
    np.testing.assert_allclose(np.bincount(y) / len(y), made.prior.numpy(), atol=0.05)


def test_a_rare_class_is_in_the_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_columns, "MOST_EXAMPLES", 50)
    monkeypatch.setattr(tree_columns, "LEAST_EXAMPLES", 4)
    y = np.repeat([0, 1, 2], [900, 97, 3])
    drawn = tree_columns._drawn(y, 0)
    assert np.bincount(y[drawn]).tolist() == [45, 5, 3]
    assert (np.diff(drawn) > 0).all()


def test_a_subspace_is_near_the_singular_values_and_orthonormal() -> None:
    sizes = np.concatenate([[1.0, 0.9, 0.8], np.linspace(0.5, 0.0, 147)])
    rng = np.random.default_rng(0)
    left, right = (np.linalg.qr(rng.standard_normal((m, 150)))[0] for m in (200, 160))
    found = leading_subspace(sp.csr_array((left * sizes) @ right.T), 6)
    np.testing.assert_allclose(found.T @ found, np.eye(6), atol=1e-10)
    reached = np.linalg.norm((left * sizes) @ (right.T @ found), axis=0)
    np.testing.assert_allclose(reached, sizes[:6], rtol=0.01)
    np.testing.assert_allclose(np.abs((right.T @ found)[:3, :3]), np.eye(3), atol=0.05)


def test_a_subspace_may_be_larger_than_the_rank() -> None:
    star = np.zeros((30, 30))
    star[0, 1:] = star[1:, 0] = 1
    found = leading_subspace(sp.csr_array(star), 4)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(
        np.linalg.norm(star @ found, axis=0), [29**0.5] * 2 + [0, 0], atol=1e-6
    )
    assert np.isfinite(leading_subspace(sp.csr_array((30, 30)), 4)).all()


@pytest.mark.parametrize("directed", [True, False])
def test_places_of_many_nodes_are_as_large_as_those_of_few(
    directed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ways = NEAR.ways(directed)

    def sizes() -> Floats:
        every = node_statistics.places(NEAR, directed, node_statistics.singular_places(ways, 3))
        return np.linalg.norm(np.column_stack([*every]), axis=0)

    few = sizes()
    monkeypatch.setattr(node_statistics, "MANY_NODES", 0)
    np.testing.assert_allclose(sizes(), few, rtol=0.01)


def test_boosting_and_forest_share_the_table_of_their_training(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tables: list[int] = []
    parts = tree_columns.TreeTable._parts
    monkeypatch.setattr(
        tree_columns.TreeTable, "_parts", lambda *given: tables.append(0) or parts(*given)
    )
    near, nodes = Surroundings.of(GRAPH.adjacency), torch.arange(0, GRAPH.num_nodes, 2)
    for kind in (BoostedTrees, Forest, Forest):
        expert = kind(GRAPH.num_features, GRAPH.num_classes, GRAPH.num_nodes)
        expert.learn(nodes, torch.from_numpy(np.array(GRAPH.y))[nodes])
        next(expert.steps(GRAPH.x, near, 5))
    assert len(tables) == 2  # the first forest has given it up
    assert "table" not in near.made


@pytest.mark.parametrize("rows", [slice(90, None), np.array([7, 3, 150])])
def test_the_table_of_some_nodes_is_that_part_of_the_whole(rows: node_statistics.Rows) -> None:
    expert, _ = trained(BoostedTrees)
    whole = expert.columns(GRAPH.x, NEAR)
    np.testing.assert_array_equal(expert.columns(GRAPH.x, NEAR, rows), whole[rows])


def test_trees_on_a_device_say_the_same_bits() -> None:
    made, _ = trained(BoostedTrees)
    held = made.held(made.columns(GRAPH.x, NEAR))
    begun = [made.begin(GRAPH.num_nodes) for _ in range(2)]
    here = made.added(held, begun[0], 0, int(made.rounds))
    there = made.added(torch.from_numpy(held), begun[1], 0, int(made.rounds))
    np.testing.assert_array_equal(there, here)
    np.testing.assert_allclose(made.answer(there), made.answer(here), rtol=1e-12)
    leaf = trees._said_on_device(torch.from_numpy(held), np.zeros(0, int), np.zeros(0), np.ones(1))
    assert leaf.tolist() == [1.0] * GRAPH.num_nodes


def test_experts_of_the_same_labels_share_the_table_of_later_nodes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inside = (GRAPH.edge_index < 150).all(axis=0)
    known = Graph(GRAPH.edge_index[:, inside], 150, GRAPH.x[:150], GRAPH.y[:150])
    new, _ = arrivals(GRAPH, known)
    made, graph = [], WholeGraph(known.adjacency)
    for kind, first in ((BoostedTrees, 0), (Forest, 0), (Forest, 1)):
        expert = kind(known.num_features, GRAPH.num_classes, 150)
        nodes = torch.arange(first, 150, 2)
        expert.learn(nodes, torch.from_numpy(np.array(known.y))[nodes])
        next(expert.steps(known.x, Surroundings.of(known.adjacency), 5))
        made.append(expert)
    tables: list[int] = []
    parts = tree_columns.TreeTable._parts
    monkeypatch.setattr(
        tree_columns.TreeTable, "_parts", lambda *given: tables.append(0) or parts(*given)
    )
    found = [each.arriving(known.x, graph, new, new.x) for each in made]
    assert len(tables) == 2
    for each, answer in zip(made, found, strict=True):
        alone = each.arriving(known.x, WholeGraph(known.adjacency), new, new.x)
        assert torch.equal(answer, alone)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_tables_on_a_gpu_are_those_of_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_statistics, "MANY_ENTRIES", 0)
    there = Surroundings.of(GRAPH.adjacency, device=torch.device("cuda"))
    boosted, _ = trained(BoostedTrees)
    here = boosted.columns(GRAPH.x, NEAR)
    np.testing.assert_allclose(boosted.columns(GRAPH.x, there), here, rtol=1e-5, atol=1e-6)
    spread, _ = trained(LabelPropagation)
    found = spread.probabilities(None, there).cpu()
    np.testing.assert_allclose(found, spread.probabilities(None, NEAR), rtol=1e-9)
