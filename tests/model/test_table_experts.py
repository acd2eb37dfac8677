"""Plain experts: dense solves, scikit-learn's own trees, nobody sees its own label, later nodes."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier

from djgnn.graph import Graph, arrivals, heterophilic_sbm
from djgnn.model import forest, node_statistics, tree_columns, trees
from djgnn.model.forest import FOREST, Forest
from djgnn.model.node_statistics import (
    ROUNDING,
    Surroundings,
    degree_profile,
    label_shares,
    places,
    reduction,
    singular_places,
)
from djgnn.model.operators import WholeGraph
from djgnn.model.table_experts import ABSENT, ClassShares, LabelPropagation, PlainExpert
from djgnn.model.trees import ROUNDS, BoostedTrees

KINDS = (ClassShares, LabelPropagation, BoostedTrees, Forest)


def undirected(graph: Graph) -> Graph:
    edges = np.concatenate([graph.edge_index, graph.edge_index[::-1]], axis=1)
    return replace(graph, edge_index=edges)


GRAPHS = {"directed": heterophilic_sbm(120), "undirected": undirected(heterophilic_sbm(120))}


def features(graph: Graph) -> Any:
    return sp.eye_array(graph.num_nodes, format="csr") if graph.x is None else graph.x


def learned(
    kind: type[PlainExpert], graph: Graph, train: Any, epochs: int = 2, weight: Any = None
) -> PlainExpert:
    """An expert after some epochs."""
    nodes = torch.from_numpy(np.flatnonzero(train))
    directed = bool((graph.adjacency != graph.adjacency.T).nnz)
    made = kind(features(graph).shape[1], graph.num_classes, graph.num_nodes, directed)
    made.learn(nodes, torch.from_numpy(np.array(graph.y))[nodes], weight)
    steps = made.steps(features(graph), Surroundings.of(graph.adjacency), 3)
    for _ in range(min(epochs, made.epochs)):
        next(steps, None)
    return made


def half(graph: Graph, seed: int = 0) -> Any:
    return np.random.default_rng(seed).random(graph.num_nodes) < 0.5


def test_class_shares_are_those_of_the_training_nodes() -> None:
    graph = GRAPHS["directed"]
    train = half(graph) & (graph.y != 1)
    made = learned(ClassShares, graph, train)
    found, loss = made(graph.x, WholeGraph(graph.adjacency))
    counts = np.bincount(graph.y[train], minlength=graph.num_classes)
    wanted = np.where(counts, counts / counts.sum(), ABSENT)
    np.testing.assert_allclose(found.exp().numpy(), np.tile(wanted, (graph.num_nodes, 1)), 1e-5)
    assert float(loss) == 0
    heavy = learned(ClassShares, graph, train, weight=torch.tensor([3.0, 1.0, 1.0, 1.0]))
    weighted = counts * [3, 1, 1, 1]
    np.testing.assert_allclose(heavy.prior.numpy(), weighted / weighted.sum(), rtol=1e-6)


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 14), st.floats(0, 0.6), st.integers(0, 10_000))
def test_label_propagation_is_a_dense_solve(n: int, density: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a = rng.random((n, n)) * (rng.random((n, n)) < density)
    y, train = rng.integers(0, 3, n), rng.random(n) < 0.4
    train[0] = True
    graph = Graph(
        np.array(a.nonzero()), n, y=y, edge_weight=a[a.nonzero()], class_names=tuple("abc")
    )
    made = learned(LabelPropagation, graph, train, epochs=2)
    reach = float(made.reach)
    assert reach == LabelPropagation.reaches[1]
    w = np.maximum(graph.adjacency.toarray(), graph.adjacency.toarray().T)
    np.fill_diagonal(w, 0)
    m = w / np.maximum(w.sum(axis=1, keepdims=True), 1e-30)
    known, prior = np.eye(3)[y] * train[:, None], np.bincount(y[train], minlength=3) / train.sum()
    rest = np.outer(1 - reach * m.sum(axis=1), prior)
    u = ~train
    f = known.copy()
    inside = np.eye(u.sum()) - reach * m[np.ix_(u, u)]
    f[u] = np.linalg.solve(inside, (reach * m @ known + rest)[u])
    found = made.probabilities(None, Surroundings.of(graph.adjacency))
    np.testing.assert_allclose(found, reach * m @ f + rest, atol=2e-3)
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-6)


def test_a_node_without_neighbours_has_the_class_shares() -> None:
    graph = Graph(np.array([[0, 3], [1, 3]]), 4, y=np.array([0, 1, 0, 1]))
    made = learned(LabelPropagation, graph, np.array([True, True, True, False]))
    found = made.probabilities(None, Surroundings.of(graph.adjacency))
    np.testing.assert_allclose(found[2:], np.tile([2 / 3, 1 / 3], (2, 1)), rtol=1e-6)
    assert found[0].argmax() == 1  # the neighbour's label, not its own
    assert made.labelled_neighbours(WholeGraph(graph.adjacency), 1) == [(0, float(made.reach))]


@pytest.mark.parametrize("name", GRAPHS)
def test_label_shares_are_those_of_paths_that_do_not_lead_back(name: str) -> None:
    graph = GRAPHS[name]
    a, c = graph.adjacency.toarray().astype(np.float64), graph.num_classes
    np.fill_diagonal(a, 0)
    both = np.maximum(a, a.T)
    train, prior = half(graph), np.full(c, 1 / c)
    known = np.eye(c)[graph.y] * train[:, None]
    directed = name == "directed"
    found = label_shares(Surroundings.of(graph.adjacency), known, prior, directed)
    two = both @ (both / np.maximum(both.sum(axis=1, keepdims=True), 1))
    np.fill_diagonal(two, 0)
    for step, way in enumerate([a, a.T, two] if directed else [both, two]):
        count = way @ known
        total = count.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(found[2 * step], (count + prior) / (total + 1), atol=1e-9)
        np.testing.assert_allclose(found[2 * step + 1], np.log1p(total), atol=1e-9)
    other = known.copy()
    other[7] = np.roll(other[7], 1) if train[7] else np.eye(c)[0]
    again = label_shares(Surroundings.of(graph.adjacency), other, prior, directed)
    for one, two in zip(found, again, strict=True):
        np.testing.assert_allclose(one[7], two[7], atol=1e-9)
    assert any((abs(one - two) > 1e-3).any() for one, two in zip(found, again, strict=True))


@pytest.mark.parametrize("directed", [True, False])
def test_places_are_those_of_a_dense_decomposition(directed: bool) -> None:
    a = np.random.default_rng(2).random((40, 40)) < np.linspace(0.05, 0.5, 40)
    a = sp.csr_array((a if directed else a | a.T).astype(np.float64))
    near, width = Surroundings.of(a), 3
    ways = near.ways(directed)
    a = ways[0].toarray()
    roots = [np.maximum(a.sum(axis=k, keepdims=True), 1) ** -0.25 for k in (1, 0)]
    left, size, right = np.linalg.svd(roots[0] * a * roots[1])
    found = np.column_stack([*places(near, directed, singular_places(ways, width))])
    wanted = [left[:, :width] * size[:width], right[:width].T * size[:width]]
    for k in range(len(ways)):
        ours = found[:, k * width : (k + 1) * width]
        np.testing.assert_allclose(ours @ ours.T, wanted[k] @ wanted[k].T, atol=1e-3)


@pytest.mark.parametrize("classes", [2, 4])
def test_trees_are_scikit_learns(classes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = GRAPHS["directed"]
    graph = replace(graph, y=graph.y % classes, class_names=None)
    train, held, real = half(graph), [], BoostedTrees.keep

    def spy(self: BoostedTrees, grown: Any, first: int, last: int) -> None:
        held.append(grown)
        real(self, grown, first, last)

    monkeypatch.setattr(BoostedTrees, "keep", spy)
    monkeypatch.setattr(trees, "AT_ONCE", ROUNDS)  # so that scikit-learn has no more of them
    made = learned(BoostedTrees, graph, train, epochs=3)
    assert int(made.rounds) == 3 * ROUNDS
    table = made.columns(graph.x, Surroundings.of(graph.adjacency))
    raw = held[-1].decision_function(table)
    scores = made.added(made.held(table), made.begin(len(table)), 0, 3 * ROUNDS)
    np.testing.assert_allclose(scores[1] if classes == 2 else scores.T, raw, rtol=1e-12, atol=1e-12)
    found = made.probabilities(graph.x, Surroundings.of(graph.adjacency))
    np.testing.assert_allclose(found, held[-1].predict_proba(table), rtol=1e-9, atol=1e-12)
    nodes = np.flatnonzero(train)
    once = HistGradientBoostingClassifier(**{**held[-1].get_params(), "warm_start": False})
    once.fit(table[nodes], graph.y[nodes])
    np.testing.assert_array_equal(once.decision_function(table), raw)
    assert table.shape[1] == 1 + made.ranges()["feature"][1]
    monkeypatch.undo()
    for key, value in learned(BoostedTrees, graph, train, epochs=3).state_dict().items():
        assert torch.equal(value, made.state_dict()[key]), key


def test_a_forest_is_scikit_learns(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, train, grown = GRAPHS["directed"], half(GRAPHS["directed"]), []

    class Spy(ExtraTreesClassifier):
        def fit(self, *given: Any) -> Any:
            grown.append(self)
            return super().fit(*given)

    monkeypatch.setattr("sklearn.ensemble.ExtraTreesClassifier", Spy)
    train &= graph.y != 2
    made = learned(Forest, graph, train)
    table = made.columns(graph.x, Surroundings.of(graph.adjacency))
    found, prior = made.of_table(table), made.prior.double().numpy()
    wanted = np.zeros_like(found)
    wanted[:, grown[0].classes_] = grown[0].predict_proba(table)
    np.testing.assert_allclose(found, (FOREST * wanted + prior) / (FOREST + 1), atol=1e-6)
    assert (found.argmax(axis=1) == graph.y)[train].mean() > 0.9


@pytest.mark.parametrize("rows", [7, 1 << 17])
def test_a_forest_on_a_device_says_the_same_bits(
    rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forest, "DEVICE_ROWS", rows)
    monkeypatch.setattr(forest, "DEVICE_TREES", 30)
    graph = GRAPHS["directed"]
    made: Any = learned(Forest, graph, np.arange(graph.num_nodes) % 2 == 0)
    table = made.columns(features(graph), Surroundings.of(graph.adjacency))
    np.testing.assert_array_equal(made.sums_on_device(table), made.sums(table))


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_what_returns_after_two_steps_is_on_the_diagonal_of_their_product(graph: Graph) -> None:
    near = Surroundings.of(graph.adjacency)
    wanted = (near.both @ near.mean).diagonal()
    np.testing.assert_allclose(near.returns, wanted, rtol=1e-12)
    np.testing.assert_array_equal(near.returns, replace(near, mutual=False).returns)


def test_degree_profiles_are_those_of_a_star_with_a_tail() -> None:
    edges = np.array([[0, 0, 0, 3], [1, 2, 3, 4]])  # 0 has three neighbours, the last of them two
    near = Surroundings.of(Graph(np.concatenate([edges, edges[::-1]], axis=1), 6).adjacency)
    mean, spread, again, total, shares = degree_profile(near)
    ones = np.log([2.0, 2.0, 3.0])
    np.testing.assert_allclose(mean[[0, 1, 5]], [ones.mean(), np.log(4), 0])
    np.testing.assert_allclose(spread[[0, 1]], [ones.std(), ROUNDING**0.5])
    np.testing.assert_allclose(again[4], (np.log(4) + np.log(2)) / 2)
    np.testing.assert_allclose(total, np.log1p([4, 3, 3, 4, 2, 0]))
    np.testing.assert_allclose(shares[[0, 3, 5]], np.log1p([2.5, 1 / 3 + 1, 0]))


def test_trees_do_not_see_labels_of_other_nodes_and_learn_the_training_ones() -> None:
    graph = GRAPHS["directed"]
    train = half(graph)
    poisoned = replace(graph, y=np.where(train, graph.y, (graph.y + 1) % 4))
    for kind in KINDS:
        one, two = (learned(kind, g, train).state_dict() for g in (graph, poisoned))
        for key, value in one.items():
            assert torch.equal(value, two[key]), key
    trained = learned(BoostedTrees, graph, train, epochs=5)
    found = trained.probabilities(graph.x, Surroundings.of(graph.adjacency)).argmax(axis=1)
    assert (found == graph.y)[train].mean() > 0.95
    assert (found == graph.y)[~train].mean() > 0.6


def test_class_weights_reach_the_trees() -> None:
    graph = GRAPHS["directed"]
    near, few = Surroundings.of(graph.adjacency), torch.tensor([20.0, 1.0, 1.0, 1.0])
    plain, heavy = (
        learned(BoostedTrees, graph, half(graph), weight=w).probabilities(graph.x, near)
        for w in (None, few)
    )
    assert heavy[:, 0].mean() > plain[:, 0].mean() + 0.05


def twins(graph: Graph, nodes: list[int]) -> Graph:
    """The graph with later nodes that have the edges and features of known ones."""
    n, found = graph.num_nodes, [graph.edge_index]
    for k, node in enumerate(nodes):
        for side in (0, 1):
            own = graph.edge_index[:, graph.edge_index[side] == node].copy()
            own[side] = n + k
            found.append(own)
    x = None if graph.x is None else np.vstack([graph.x, np.asarray(graph.x)[nodes]])
    names = (*graph.names(), *(f"twin {node}" for node in nodes))
    return Graph(np.concatenate(found, axis=1), n + len(nodes), x=x, node_names=names)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("bare", [False, True])
def test_a_later_twin_gets_the_answer_of_the_known_node(
    kind: type[PlainExpert], name: str, bare: bool
) -> None:
    graph = replace(GRAPHS[name], x=None) if bare else GRAPHS[name]
    train = half(graph)
    made = learned(kind, graph, train)
    nodes = np.flatnonzero(~train)[[1, 4, 9]].tolist()
    later = twins(graph, nodes)
    new, _ = arrivals(later, replace(graph, y=None))
    whole = WholeGraph(graph.adjacency)
    own = np.zeros((3, graph.num_nodes), dtype=np.float32) if bare else new.x
    found = made.arriving(features(graph), whole, new, torch.from_numpy(own))
    wanted = made(features(graph), whole)[0][nodes]
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=2e-4)


def test_later_nodes_hear_each_other() -> None:
    graph = Graph(np.array([[0, 1], [1, 0]]), 2, y=np.array([0, 1]))
    made = learned(LabelPropagation, graph, np.array([True, True]))
    later = Graph(np.array([[0, 1, 2, 3], [1, 0, 0, 2]]), 4)  # 3 -> 2 -> 0
    new, _ = arrivals(later, replace(graph, y=None))
    found = made.arriving(np.zeros((2, 1)), WholeGraph(graph.adjacency), new, np.zeros((2, 1)))
    assert found.argmax(dim=1).tolist() == [0, 0]
    assert found[0, 0] > found[1, 0] > np.log(0.5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "case", ["no edges", "no features", "one column", "absent class", "one class", "wide", "blank"]
)
def test_any_graph_will_do(kind: type[PlainExpert], case: str) -> None:
    graph = GRAPHS["directed"]
    n, train = graph.num_nodes, half(GRAPHS["directed"])
    if case == "no edges":
        graph = replace(graph, edge_index=np.zeros((2, 0), dtype=np.int64))
    if case in ("no features", "one column", "blank"):
        x = {"no features": None, "one column": np.arange(n)[:, None], "blank": np.zeros((n, 60))}
        graph = replace(graph, x=x[case])
    if case == "absent class":
        train &= graph.y != 2
    if case == "one class":
        train &= graph.y == 2
    if case == "wide":
        rng = np.random.default_rng(0)
        graph = replace(graph, x=sp.random_array((n, 300), density=0.05, rng=rng, format="csr"))
    made = learned(kind, graph, train)
    found = made(features(graph), WholeGraph(graph.adjacency))[0]
    assert found.isfinite().all()
    np.testing.assert_allclose(found.exp().sum(dim=1).numpy(), 1, atol=1e-4)
    if case == "absent class":
        assert float(found[:, 2].exp().max()) == pytest.approx(ABSENT, rel=1e-3)


@pytest.mark.parametrize(
    ("kind", "key", "value"),
    [
        (ClassShares, "label", 4),
        (LabelPropagation, "reach", 1.5),
        (BoostedTrees, "child", 2 * trees.LEAVES),
        (BoostedTrees, "feature", -1),
        (BoostedTrees, "rounds", 10_000),
        (Forest, "child", -1),
        (Forest, "share", 2.0),
        (Forest, "power", -1.0),
    ],
)
def test_tensors_that_refer_to_nothing_are_refused(
    kind: type[PlainExpert], key: str, value: float
) -> None:
    made = learned(kind, GRAPHS["directed"], half(GRAPHS["directed"]))
    state = copy.deepcopy(made.state_dict())
    made.load_state_dict(state)
    state[key].view(-1)[0] = value
    with pytest.raises(RuntimeError, match=f"{key}: must lie between"):
        made.load_state_dict(state)


def test_what_version_1_0_stored_divides_by_square_roots(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = GRAPHS["directed"]
    now = learned(Forest, graph, half(graph)).vectors.clone()
    monkeypatch.setattr(node_statistics, "POWER", 0.5)
    monkeypatch.setattr(tree_columns, "POWER", 0.5)
    made = learned(Forest, graph, half(graph))
    assert not torch.allclose(made.vectors, now)
    monkeypatch.undo()
    state = {name: value for name, value in made.state_dict().items() if name != "power"}
    again = learned(Forest, graph, half(graph), epochs=0)
    again.load_state_dict(state)
    inputs = (features(graph), WholeGraph(graph.adjacency))
    assert torch.equal(again(*inputs)[0], made(*inputs)[0])


def test_wide_features_keep_their_commonest_columns() -> None:
    rng = np.random.default_rng(0)
    x = (rng.random((300, 200)) < 0.02).astype(np.float64)
    x[:, 150] = rng.normal(size=300)  # the one that everybody has
    found = reduction(x, 80, 40)
    assert found.shape == (200, 80)
    seen = x @ found
    assert np.allclose(seen[:, 0], x[:, 150])
    kept = np.flatnonzero(found[:, :40].any(axis=1))
    assert kept.size == 40
    assert abs(found[kept, 40:]).max() < 1e-9
    counts = (x != 0).sum(axis=0)
    assert counts[kept].min() >= np.delete(counts, kept).max()
