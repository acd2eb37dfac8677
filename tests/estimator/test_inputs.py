"""What comes in: labels of every type, graphs of PyG and networkx; what cannot, with advice."""

from __future__ import annotations

import dataclasses

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.data import Data, HeteroData

from djgnn import DJClassifier, Graph, InputError
from djgnn.graph import heterophilic_sbm, random_splits
from djgnn.graph.labels import in_order

FAST = {
    "epochs": 10,
    "hidden_channels": 8,
    "options": {"experts": ["features", "rows"]},
    "device": "cpu",
}


@pytest.fixture(scope="module")
def graph() -> Graph:
    return heterophilic_sbm(120)


LABELS = {
    "gaps": np.array([-7, 3, 10, 700]),
    "narrow": np.array([0, 1, 2, 3], dtype=np.int8),
    "unsigned": np.array([0, 1, 2, 200], dtype=np.uint8),
    "float32": np.array([0.5, 1.5, 2.5, 7], dtype=np.float32),
    "text": np.array(["ant", "bee", "cat", "doggy"]),
    "objects": np.array(["ant", "bee", "cat", "doggy"], dtype=object),
    "truth": np.array([True, False, True, False]),
}


@pytest.mark.parametrize("kind", LABELS)
def test_labels_come_back_in_the_type_they_came_in(kind: str, graph: Graph, tmp_path) -> None:
    labels = LABELS[kind]
    y, nodes = labels[graph.y], np.arange(graph.num_nodes)
    codes = np.unique(labels, return_inverse=True)[1][graph.y]
    want = DJClassifier(graph=graph, **FAST).fit(nodes, codes)
    for clf in (
        DJClassifier(graph=graph, **FAST).fit(nodes, y),
        DJClassifier(**FAST).fit(graph, y),
    ):
        assert clf.classes_.dtype == clf.predict(nodes).dtype == clf.transduction_.dtype == y.dtype
        assert type(clf.predict(nodes).tolist()[0]) is type(labels.tolist()[0])
        assert clf.classes_.tolist() == sorted(set(labels.tolist()))
        assert clf.score(nodes, y) == (clf.predict(nodes) == y).mean()
        np.testing.assert_array_equal(clf.probabilities_, want.probabilities_)
    clf.save(tmp_path / "model")
    again = DJClassifier.load(tmp_path / "model")
    assert again.predict(nodes).dtype == y.dtype
    assert (again.predict(nodes) == clf.predict(nodes)).all()


def test_lists_give_plain_types(graph: Graph) -> None:
    nodes = np.arange(graph.num_nodes)
    for labels in (["a", "b", "c", "d"], [5, 7, 9, 11], [True, False, True, False]):
        clf = DJClassifier(graph=graph, **FAST).fit(nodes, [labels[c] for c in graph.y])
        assert type(clf.predict(nodes).tolist()[0]) is type(labels[0])
        some = DJClassifier(**FAST).fit(
            graph, [labels[c] if i % 2 else None for i, c in enumerate(graph.y)]
        )
        assert set(some.predict(nodes).tolist()) <= set(labels)


def test_a_graph_without_names_of_classes_has_numbers(graph: Graph) -> None:
    clf = DJClassifier(**FAST).fit(graph)
    assert clf.predict(graph).dtype == np.int64
    assert (clf.predict(graph) == graph.y).mean() > 0.3
    named = dataclasses.replace(graph, class_names=("ant", "bee", "cat", "dog"))
    assert set(DJClassifier(**FAST).fit(named).predict(named)) <= set(named.class_names)


def pyg(graph: Graph, **more: torch.Tensor) -> Data:
    return Data(edge_index=torch.tensor(graph.edge_index), x=torch.tensor(graph.x), **more)


def test_a_pyg_graph_is_enough(graph: Graph) -> None:
    y = torch.tensor(np.array([3, 10, 700, 8])[graph.y])
    data = pyg(graph, y=y)
    clf = DJClassifier(**FAST).fit(data)
    assert clf.classes_.tolist() == [3, 8, 10, 700]
    same = DJClassifier(**FAST).fit(graph, y)
    np.testing.assert_array_equal(clf.predict(data), same.predict(graph))
    assert clf.score(data) == clf.score() == pytest.approx(clf.validation_score_ / 100)
    nodes = np.arange(60)
    held = DJClassifier(graph=data, **FAST).fit(nodes, y[:60])
    assert held.predict(nodes).dtype == np.int64
    assert clf.score(data, data.y) == clf.score(graph, y)
    several = pyg(graph, y=torch.zeros(graph.num_nodes, 3))  # which are not looked at
    np.testing.assert_array_equal(
        DJClassifier(graph=several, **FAST).fit(nodes, y[:60]).predict(several), held.predict(data)
    )
    other = DJClassifier(**FAST).fit(data, graph.y)  # labels that are given win
    assert other.classes_.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "form", ["one", "columns", "no validation", "training alone", "test alone"]
)
def test_masks_of_a_pyg_graph_are_honoured(form: str, graph: Graph) -> None:
    """No label outside the training and validation nodes is learned from."""
    split = random_splits(graph, num_splits=2)
    names = ("train_mask", "val_mask", "test_mask")
    masks = {name: torch.tensor(getattr(split, name)) for name in names}
    masks = masks if form == "columns" else {name: mask[:, 0] for name, mask in masks.items()}
    left_out = {"no validation": names[1:2], "training alone": names[1:], "test alone": names[:2]}
    for name in left_out.get(form, ()):
        masks.pop(name)
    used = split.split(0).train | (split.split(0).val if "val_mask" in masks else False)
    used = ~split.split(0).test if form == "test alone" else used
    poisoned = np.where(used, graph.y, (graph.y + 1) % 4)
    fits = [
        DJClassifier(**FAST).fit(pyg(graph, y=torch.tensor(y), **masks))
        for y in (graph.y, poisoned)
    ]
    np.testing.assert_array_equal(fits[0].probabilities_, fits[1].probabilities_)
    parts = fits[0].stored_.graph.split(0)
    assert not (parts.train | parts.val)[~used].any()
    assert parts.val.any()
    data = pyg(graph, y=torch.tensor(graph.y), **masks)
    test = split.split(0).test
    right = fits[0].predict(data)[test] == graph.y[test]
    measured = right.mean() if "test_mask" in masks else fits[0].validation_score_ / 100
    assert fits[0].score(data) == pytest.approx(measured)
    assert fits[0].verdict_["source"] == ("validation" if "val_mask" in masks else "folds")
    same = DJClassifier(**FAST).fit(Graph.from_pyg(data))
    np.testing.assert_array_equal(same.probabilities_, fits[0].probabilities_)


@pytest.mark.parametrize("left_out", [(), ("val_mask",), ("test_mask",), ("val_mask", "test_mask")])
def test_nodes_in_no_mask_are_neither_learned_from_nor_scored(
    left_out: tuple[str, ...], graph: Graph
) -> None:
    split = random_splits(graph, train=0.5, val=0.2).split(0)
    nowhere = np.arange(graph.num_nodes) % 6 == 0
    masks = {"train_mask": split.train, "val_mask": split.val, "test_mask": split.test}
    masks = {key: mask & ~nowhere for key, mask in masks.items() if key not in left_out}
    wrong = np.where(nowhere, (graph.y + 1) % 4, graph.y)
    for make in (pyg, networkx):
        name = "y" if make is pyg else "label"
        fits = []
        for y in (graph.y, wrong):
            given = (torch.tensor if make is pyg else np.ndarray.tolist)(y)
            columns = {k: torch.tensor(m) if make is pyg else m.tolist() for k, m in masks.items()}
            data = make(graph, **{name: given}, **columns)
            clf = DJClassifier(**FAST).fit(data)
            fits.append((clf.probabilities_, clf.score(data), clf.score()))
        np.testing.assert_array_equal(fits[0][0], fits[1][0])
        assert fits[0][1:] == fits[1][1:]
        if "test_mask" in masks:
            test = masks["test_mask"]
            assert fits[0][1] == pytest.approx((clf.predict(data)[test] == graph.y[test]).mean())
        else:
            assert fits[0][1] == pytest.approx(clf.validation_score_ / 100)


def networkx(graph: Graph, names: dict[int, object] | None = None, **columns: object) -> nx.DiGraph:
    g = nx.DiGraph()
    for node in range(graph.num_nodes):
        own = {f"f{i}": float(value) for i, value in enumerate(graph.x[node])}
        g.add_node(f"n{node}", **own, **{k: v[node] for k, v in columns.items()})
    g.add_edges_from((f"n{a}", f"n{b}") for a, b in graph.edge_index.T.tolist())
    return g


def test_a_networkx_graph_is_enough(graph: Graph) -> None:
    g = networkx(graph, label=np.array([3, 10, 700, 8])[graph.y].tolist())
    clf = DJClassifier(**FAST).fit(g)
    assert clf.classes_.tolist() == [3, 8, 10, 700]
    assert clf.predict(g).dtype == np.int64
    assert clf.stored_.graph.num_features == 6
    assert clf.stored_.graph.card["features"] == [f"f{i}" for i in range(6)]
    assert clf.predict(["n3", "n7"]).tolist() == clf.predict(g)[[3, 7]].tolist()
    assert clf.score(g) == clf.score() == pytest.approx(clf.validation_score_ / 100)
    held = DJClassifier(graph=g, **FAST).fit(["n0", "n1", "n2", "n3"], ["a", "b", "a", "b"])
    assert held.predict(g).shape == (graph.num_nodes,)
    assert not [name for name in held.stored_.graph.card["features"] if "label" in name]


def test_labels_and_splits_of_a_networkx_graph(graph: Graph) -> None:
    split = random_splits(graph).split(0)
    masks = {"train_mask": split.train, "val_mask": split.val, "test_mask": split.test}
    words = np.select(list(masks.values()), ["train", "val", "test"], "")
    found = []
    held = {k: v.tolist() for k, v in masks.items() if k != "train_mask"}
    for columns in ({"split": words.tolist()}, {k: v.tolist() for k, v in masks.items()}, held):
        for y in (graph.y, np.where(split.test, 0, graph.y)):
            g = networkx(graph, y=[f"class {c}" for c in y], **columns)
            found.append(DJClassifier(**FAST).fit(g))
            assert found[-1].stored_.graph.num_features == 6
    for other in found[1:]:
        np.testing.assert_array_equal(found[0].probabilities_, other.probabilities_)


def test_labels_by_node_and_the_attribute_that_says_the_same_is_no_feature(graph: Graph) -> None:
    kinds = [f"kind {c}" for c in graph.y]
    g = networkx(graph, club=kinds)
    with pytest.raises(InputError, match=r"networkx\.get_node_attributes"):
        DJClassifier(**FAST).fit(g)
    known = {
        node: kind
        for i, (node, kind) in enumerate(nx.get_node_attributes(g, "club").items())
        if i % 2
    }
    clf = DJClassifier(**FAST).fit(g, known)
    assert clf.stored_.graph.card["features"] == [f"f{i}" for i in range(6)]
    bare = DJClassifier(**FAST).fit(
        networkx(graph), [k if i % 2 else None for i, k in enumerate(kinds)]
    )
    np.testing.assert_array_equal(clf.predict_proba(g), bare.predict_proba(networkx(graph)))
    some = nx.get_node_attributes(g, "club")
    held = DJClassifier(graph=g, **FAST).fit(list(some)[1::2], list(some.values())[1::2])
    np.testing.assert_array_equal(held.predict_proba(g), clf.predict_proba(g))
    with pytest.raises(InputError, match="'nobody' is not a node of the graph"):
        DJClassifier(**FAST).fit(g, {"nobody": "kind 1"})


def test_a_series_goes_by_the_names_in_its_index(graph: Graph) -> None:
    ids = [f"n{i}" for i in range(graph.num_nodes)]
    named = dataclasses.replace(graph, node_names=tuple(ids))
    y = pd.Series(graph.y, index=ids)
    mixed = y.sample(frac=1, random_state=0)
    for source in (named, networkx(named)):
        first, other = (DJClassifier(**FAST).fit(source, labels) for labels in (y, mixed))
        np.testing.assert_array_equal(first.probabilities_, other.probabilities_)
        assert first.score(source, y) == other.score(source, mixed) == first.score(source, graph.y)
    counted = mixed.rename(lambda name: int(name[1:]))  # of a graph without names the numbers
    assert in_order(counted, [name[1:] for name in ids]).tolist() == graph.y.tolist()
    for other in (y.set_axis(range(len(ids))), y.set_axis([f"row {i}" for i in ids])):
        assert in_order(other, ids).tolist() == graph.y.tolist()  # by position


@pytest.mark.parametrize(
    ("index", "said"),
    [
        (["a", "b", "d"], "has 2 of 3 nodes"),
        (["a", "b", "b"], "has a node twice"),
        (["b", "c"], "has 2 of 3 nodes"),
    ],
)
def test_an_index_that_has_some_of_the_names_is_refused(index: list[str], said: str) -> None:
    with pytest.raises(InputError, match=rf"y: its index {said}; give y\.to_dict\(\)"):
        in_order(pd.Series(range(len(index)), index=index), ("a", "b", "c"))


def test_an_index_that_may_count_rows_is_refused() -> None:
    with pytest.raises(InputError, match="may as well count rows"):
        in_order(pd.Series([1, 2, 3], index=[1, 2, 0]), ("2", "1", "0"))


def test_vectors_weights_and_directions_of_networkx(graph: Graph) -> None:
    g = nx.Graph()
    for node in range(graph.num_nodes):
        g.add_node(node, x=graph.x[node], label=int(graph.y[node]))
    g.add_weighted_edges_from((a, b, 2.0) for a, b in graph.edge_index.T.tolist())
    clf = DJClassifier(**FAST).fit(g)
    stored = clf.stored_.graph
    np.testing.assert_array_equal(stored.x, graph.x)
    assert (stored.adjacency != stored.adjacency.T).nnz == 0
    assert set(stored.edge_weight.tolist()) == {2.0}
    g.nodes[0]["x"] = [1.0]
    with pytest.raises(InputError, match="node 0: attribute 'x' has not as many numbers"):
        DJClassifier(**FAST).fit(g)


def test_later_nodes_of_networkx_and_pyg(graph: Graph) -> None:
    """The new nodes alone come back; known ones may be there without their attributes."""
    g = networkx(graph, label=graph.y.tolist())
    for place, attributes in enumerate(g.nodes.values()):
        attributes["f"] = np.array([attributes.pop(f"f{i}") for i in range(6)])
        assert attributes["f"] == pytest.approx(graph.x[place])
    clf = DJClassifier(**FAST).fit(g)
    links = [("new 1", "n3"), ("new 1", "n4"), ("new 2", "new 1")]
    own = {"f": [0.5] * 6}
    whole, alone = g.copy(), nx.DiGraph()
    for later in (whole, alone):
        later.add_nodes_from([("new 1", own), ("new 2", own)])
        later.add_edges_from(links)
    shares = clf.predict_proba(whole)
    assert shares.shape == (2, 4)
    np.testing.assert_allclose(clf.predict_proba(alone), shares, atol=1e-6)
    nx.set_node_attributes(whole, {"new 1": 1, "new 2": 2}, "label")
    assert clf.score(whole) == (clf.predict(whole) == [1, 2]).mean()
    data = pyg(graph, y=torch.tensor(graph.y))
    numbers = DJClassifier(**FAST).fit(data)
    n = graph.num_nodes
    edges = torch.cat([data.edge_index, torch.tensor([[n, n, n + 1], [3, 4, n]])], dim=1)
    later = Data(edge_index=edges, x=torch.cat([data.x, torch.full((2, 6), 0.5)]))
    np.testing.assert_allclose(numbers.predict_proba(later), shares, atol=1e-5)


def test_advice_names_the_function_that_helps(graph: Graph) -> None:
    pd = pytest.importorskip("pandas")
    y = graph.y
    for given, said in {
        "name": ("cora", r"Graph\.load\(name\)"),
        "frame": (pd.DataFrame({"a": y}), r"Graph\.from_frames\(edges, nodes\)"),
        "sparse": (graph.adjacency, r"Graph\.from_scipy\(adjacency"),
        "square": (np.eye(3), r"Graph\.from_scipy\(adjacency"),
        "nodes": (np.arange(5), r"DJClassifier\(graph=graph\)\.fit\(nodes, y\)"),
        "matrix": (graph.x, r"DJClassifier\(graph=graph\)"),
        "nothing": (None, r"DJClassifier\(graph=graph\)"),
        "old sparse": (sp.csr_matrix(graph.adjacency), r"Graph\.from_scipy"),
        "data set": ([pyg(graph)], "take the first, X\\[0\\]"),
    }.values():
        with pytest.raises(InputError, match=said):
            DJClassifier(**FAST).fit(given, y)
    with pytest.raises(InputError, match="to_homogeneous"):
        DJClassifier(**FAST).fit(HeteroData(), y)
    with pytest.raises(InputError, match="several labels per node"):
        DJClassifier(**FAST).fit(graph, np.zeros((graph.num_nodes, 3)))
    free = networkx(graph, label=y.tolist(), note=[*range(graph.num_nodes - 1), "?!"])
    with pytest.raises(InputError, match=r"Graph\.from_networkx\(g, features="):
        DJClassifier(**FAST).fit(free)
