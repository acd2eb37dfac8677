from __future__ import annotations

import warnings
from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

from djgnn.errors import InputError, ReadingWarning
from djgnn.graph import Graph
from djgnn.graph.convert import compact, overflow_remark


def pyg() -> tuple[Any, Any, Any]:
    """torch, Data and HeteroData; importing PyG warns about deprecated parts of torch."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import torch
        from torch_geometric.data import Data, HeteroData
    return torch, Data, HeteroData


def test_pyg_labels_masks_and_sparse_features() -> None:
    torch, Data, _ = pyg()
    edges = torch.tensor([[0, 1], [1, 2]])
    data = Data(
        x=torch.eye(3).to_sparse(),
        edge_index=edges,
        y=torch.tensor([[1.0], [float("nan")], [0.0]]),
        edge_weight=torch.tensor([0.5, 2.0], requires_grad=True),
        train_mask=torch.tensor([[True, True], [True, False], [False, False]]),
        val_mask=torch.zeros(3, 2, dtype=torch.bool),
        test_mask=torch.tensor([False, False, True]),
    )
    g = Graph.from_pyg(data, name="d")
    assert g.y.tolist() == [1, -1, 0]
    assert g.train_mask.tolist() == [[True, True], [False, False], [False, False]]
    assert g.test_mask.tolist() == [[False, False], [False, False], [True, True]]
    assert g.edge_weight.tolist() == [0.5, 2.0]
    assert (g.x.toarray() == np.eye(3)).all()
    assert Graph.from_pyg(Data(edge_index=edges, num_nodes=5)).num_nodes == 5
    some = {"edge_index": edges, "y": torch.tensor([1, -1, 0])}
    held = Graph.from_pyg(Data(**some, test_mask=torch.tensor([False, False, True])))
    assert held.train_mask.ravel().tolist() == [True, False, False]
    assert not held.val_mask.any()
    alone = Graph.from_pyg(Data(**some, train_mask=torch.tensor([True, False, False])))
    assert not (alone.val_mask | alone.test_mask).any()


def test_pyg_refuses_what_is_not_one_class_per_node() -> None:
    torch, Data, HeteroData = pyg()
    with pytest.raises(InputError, match="homogeneous"):
        Graph.from_pyg(HeteroData())
    edges = torch.tensor([[0], [1]])
    with pytest.raises(InputError, match="several labels"):
        Graph.from_pyg(Data(edge_index=edges, y=torch.zeros(2, 3)))
    with pytest.raises(InputError, match="whole numbers"):
        Graph.from_pyg(Data(edge_index=edges, y=torch.tensor([0.5, 1.0])))


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array, sp.coo_matrix, sp.csc_array])
def test_scipy_round_trip(kind: type) -> None:
    dense = np.array([[0, 2, 0], [0, 1, 0], [3, 0, 0]], dtype=float)
    g = Graph.from_scipy(kind(dense), y=[0, 1, -1], name="m")
    assert (g.adjacency.toarray() == dense).all()
    assert Graph.from_scipy(kind(dense != 0)).edge_weight is None
    assert g.name == "m"


def test_scipy_refuses_rectangles_and_text() -> None:
    with pytest.raises(InputError, match="square"):
        Graph.from_scipy(np.ones((2, 3)))
    with pytest.raises(InputError, match="matrix"):
        Graph.from_scipy(np.array([["a"]]))
    with pytest.raises(InputError, match="negative"):
        Graph.from_scipy(np.array([[0, -1.0], [0, 0]]))


def test_networkx_keeps_names_classes_and_direction() -> None:
    g = nx.Graph()
    g.add_node("x y", size=1, color="red")
    g.add_node(7, size=2.5, color=None)
    g.add_node("ü", size=3, color="blue")
    g.add_edge("x y", 7, w=2)
    g.add_edge(7, 7)
    out = Graph.from_networkx(g, features=["size"], label="color", weight="w")
    assert out.node_names == ("x y", "7", "ü")
    assert out.class_names == ("blue", "red")
    assert out.y.tolist() == [1, -1, 0]
    assert out.adjacency.toarray().tolist() == [[0, 2, 0], [2, 1, 0], [0, 0, 0]]
    assert out.x[:, 0].tolist() == [1, 2.5, 3]
    assert Graph.from_networkx(nx.DiGraph([(0, 1)])).num_edges == 1
    assert Graph.from_networkx(nx.empty_graph(3)).num_edges == 0


def test_attributes_of_networkx_that_are_not_used_are_warned_of() -> None:
    g = nx.path_graph(3)
    nx.set_node_attributes(g, {0: {"age": 3.0, "kind": "a"}, 1: {"size": 1, "kind": "b"}})
    with pytest.warns(ReadingWarning, match=r"2 node attributes are not used.*\(got age, size\)"):
        assert Graph.from_networkx(g, label="kind").num_features == 0
    assert Graph.from_networkx(g, label="kind", features=()).num_features == 0


def test_networkx_vectors_and_errors() -> None:
    g = nx.path_graph(2)
    g.nodes[0]["v"], g.nodes[1]["v"] = [1, 2], [3, 4]
    assert Graph.from_networkx(g, features="v").x.tolist() == [[1, 2], [3, 4]]
    with pytest.raises(InputError, match="no attribute 'u'"):
        Graph.from_networkx(g, features="u")
    g.nodes[1]["v"] = [3]
    with pytest.raises(InputError, match="as many numbers"):
        Graph.from_networkx(g, features="v")
    with pytest.raises(InputError, match="networkx graph"):
        Graph.from_networkx([(0, 1)])
    with pytest.raises(InputError, match="occurs twice"):
        Graph.from_networkx(nx.Graph([(1, "1")]))
    with pytest.raises(InputError, match="empty"):
        Graph.from_networkx(nx.Graph())


def test_compact_changes_storage_not_values() -> None:
    wide = np.zeros((10, 40))
    wide[0, 3] = 2
    assert sp.issparse(compact(wide))
    assert (compact(wide).toarray() == wide).all()
    assert not sp.issparse(compact(wide + 1))
    assert not sp.issparse(compact(wide[:, :32]))


def test_minus_one_is_unknown_however_it_is_written() -> None:
    g = nx.path_graph(5)
    for node, label in enumerate((0.0, -1.0, np.float32(-1), "-1.0", 2.0)):
        g.nodes[node]["y"] = label
    graph = Graph.from_networkx(g, label="y")
    assert (graph.class_names, graph.y.tolist()) == (("0.0", "2.0"), [0, -1, -1, -1, 1])


@pytest.mark.parametrize(
    ("x", "weight", "says"),
    [
        (3e38, 1.0, "features reach 3e+38: their products overflow"),
        (1e-45, 1.0, "no feature is above 1.4e-45: their products vanish"),
        (1.0, 3e38, "edge weights reach 3e+38: their products overflow"),
        (1.0, 1e-45, "an edge weight is 1.4e-45: its reciprocal overflows"),
        (1.0, 1e-30, None),
        (1e6, 1e6, None),
    ],
)
def test_values_whose_products_overflow_are_named(
    x: float, weight: float, says: str | None
) -> None:
    edges, weights = np.array([[0], [1]]), np.array([weight])
    for features in (np.full((2, 1), x), sp.csr_array(np.full((2, 1), x))):
        found = overflow_remark(Graph(edges, num_nodes=2, x=features, edge_weight=weights))
        assert (found or "").startswith(says or "none") or found is says
