"""New nodes: a dense pass over known and new nodes together is the oracle."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from tests.oracles import dense_aggregate

from djgnn.errors import InputError, UnseenCategoryWarning
from djgnn.graph import Graph, arrivals, heterophilic_sbm
from djgnn.model import graph_operators
from djgnn.model.arrivals import ArrivalView, Memory
from djgnn.training.config import resolve
from djgnn.training.inputs import build_djgnn, initialize


def dense(x: np.ndarray) -> torch.Tensor:
    return torch.tensor(x, dtype=torch.float64)


def split_off(graph: Graph, share: float = 0.2, seed: int = 0) -> tuple[Graph, Graph]:
    """A graph without some of its nodes, and the graph itself with the hidden ones at the end."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(graph.num_nodes)
    n = int(graph.num_nodes * (1 - share))
    place = np.empty_like(order)
    place[order] = np.arange(order.size)
    edges = place[graph.edge_index]
    later = Graph(edges, graph.num_nodes, x=graph.x[order], y=graph.y[order])
    inside = (edges < n).all(axis=0)
    known = Graph(edges[:, inside], n, x=graph.x[order[:n]], y=graph.y[order[:n]])
    return known, later


def memory(known: Graph, **options: object) -> Memory:
    config = resolve("default", None, hidden_channels=8, num_jumps=3, **options)
    module, inputs = build_djgnn(config, known)
    initialize(module, 3)
    with torch.no_grad():
        module.pump.weight.mul_(5)
    treatment = module.config.treatment()
    operators = graph_operators(known.adjacency, **treatment, dtype=torch.float64)
    return Memory(module.double(), inputs[0].double(), operators)


def dense_arrivals(m: Memory, known: Graph, later: Graph) -> torch.Tensor:
    """Everything by n x n matrices, the new rows appended one after the other."""
    module, c = m.module, m.module.config
    n, total = known.num_nodes, later.num_nodes

    def extended(treatment: str) -> torch.Tensor:
        a = torch.tensor(later.adjacency.toarray()).double()
        if treatment == "symmetric":
            a = torch.maximum(a, a.t())
        b = a.clone()
        inside = torch.tensor(known.adjacency.toarray()).double()
        b[:n, :n] = torch.maximum(inside, inside.t()) if treatment == "symmetric" else inside
        b[:n, n:] = 0
        return b

    a = extended(c.pump_adjacency)
    x = dense(later.x)
    u = torch.tanh(a[:, :n] @ module.pump.weight.t() + module.pump.bias)
    filters = torch.zeros(len(module.branches), total, total, dtype=torch.float64)
    known_table = m.encoding.table.to_dense()
    filters[:, :n, :n] = known_table
    for i in range(n, total):
        d = (u - u[i]).norm(dim=1)
        candidates = [*range(n), i]
        ranked = sorted(candidates, key=lambda j: (round(float(d[j]), 12), j))
        for k, ranks in enumerate(module.branches):
            for r in ranks:
                filters[k, i, ranked[r - 1]] = torch.exp(
                    -module.scale(m.operators.volume) * d[ranked[r - 1]]
                )
    jumps = torch.relu(dense_aggregate(filters, x @ module.jumps.weight) + module.jumps.bias)
    parts = [jumps]
    hb = module.homophilic
    b = extended(c.homophilic_adjacency)
    b.fill_diagonal_(1)
    root = b.sum(dim=1).clamp(min=1).rsqrt()
    ahat = root[:, None] * b * root
    h = torch.relu(ahat @ x @ hb.weights[0] + hb.biases[0])
    parts.append(torch.relu(ahat @ h @ hb.weights[1] + hb.biases[1]))
    if module.structure is not None:
        parts.append(torch.relu(a[:, :n] @ module.structure.weight + module.structure.bias))
    return module.mixture(parts)


@pytest.mark.parametrize("support", ["shell", "author"])
@pytest.mark.parametrize("treatment", ["given", "symmetric"])
def test_equals_the_dense_formulation(support: str, treatment: str) -> None:
    known, later = split_off(heterophilic_sbm(80))
    m = memory(known, support=support, pump_adjacency=treatment, homophilic_adjacency=treatment)
    new, place = arrivals(later, known)
    assert place.tolist() == [*range(known.num_nodes), *[-1] * new.num_nodes]
    found = m.logits(new, dense(new.x))
    with torch.no_grad():
        wanted = dense_arrivals(m, known, later)
        before = m.module.run(m.x, m.operators).logits
    torch.testing.assert_close(wanted[: known.num_nodes], before, atol=1e-9, rtol=0)
    torch.testing.assert_close(found, wanted[known.num_nodes :], atol=1e-9, rtol=0)


def test_a_twin_of_a_known_node_stands_where_that_stands() -> None:
    known = heterophilic_sbm(80)
    n = known.num_nodes
    row = known.adjacency[[5]].indices
    edges = np.concatenate([known.edge_index, np.stack([np.full(row.size, n), row])], axis=1)
    x = np.vstack([known.x, known.x[[5]]])
    later = Graph(edges, n + 1, x=x, node_names=(*known.names(), "new"))
    m = memory(known)
    new, _ = arrivals(later, known)
    with torch.no_grad():
        encoding = ArrivalView(m, new, dense(new.x)).encode()
    assert torch.equal(encoding.pump.u[n], encoding.pump.u[5])
    assert int(encoding.table.index[n, 0]) <= 5


def test_who_else_arrives_does_not_matter_without_edges_between_them() -> None:
    known, later = split_off(heterophilic_sbm(80))
    n = known.num_nodes
    apart = (later.edge_index >= n).sum(axis=0) < 2
    later = dataclasses.replace(later, edge_index=later.edge_index[:, apart])
    m = memory(known)
    new, _ = arrivals(later, known)
    together = m.logits(new, dense(new.x))
    for i in (0, new.num_nodes - 1):
        keep = np.r_[np.arange(n), n + i]
        inside = np.isin(later.edge_index, keep).all(axis=0)
        place = np.full(later.num_nodes, -1)
        place[keep] = np.arange(n + 1)
        alone = Graph(place[later.edge_index[:, inside]], n + 1, x=np.asarray(later.x)[keep])
        one, _ = arrivals(alone, known)
        single = m.logits(one, dense(one.x))
        torch.testing.assert_close(single[0], together[i], atol=1e-12, rtol=0)


def test_no_arrivals_is_no_work() -> None:
    known = heterophilic_sbm(80)
    m = memory(known)
    new, place = arrivals(known, known)
    assert new.num_nodes == 0
    assert place.tolist() == list(range(known.num_nodes))
    assert m.logits(new, torch.zeros(0, known.num_features, dtype=torch.float64)).shape[0] == 0


def test_f_of_i_cannot_place_a_new_node() -> None:
    known, later = split_off(heterophilic_sbm(80))
    m = memory(known, source="identity")
    new, _ = arrivals(later, known)
    with pytest.raises(ValueError, match="source=adjacency"):
        m.logits(new, torch.zeros(new.num_nodes, known.num_features, dtype=torch.float64))


def named(names: tuple[str, ...], columns: list[str], x: np.ndarray) -> Graph:
    edges = np.array([[0], [1]])
    return Graph(edges, len(names), x=x, node_names=names, card={"features": columns})


def test_features_are_matched_by_name() -> None:
    known = named(("a", "b"), ["size", "hue=red", "hue=sky"], np.array([[1, 1, 0], [2, 0, 1.0]]))
    later = named(("new", "b"), ["hue=sky", "size"], np.array([[1, 7], [0, 0.0]]))
    new, place = arrivals(later, known)
    assert np.asarray(new.x).tolist() == [[7, 0, 1]]
    assert place.tolist() == [-1, 1]
    assert new.outgoing.toarray().tolist() == [[0, 1]]
    strange = named(("new", "b"), ["hue=pink", "size"], np.array([[1, 7], [0, 0.0]]))
    with pytest.warns(UnseenCategoryWarning, match="'hue=pink' was never seen"):
        assert np.asarray(arrivals(strange, known)[0].x).tolist() == [[7, 0, 0]]
    with pytest.raises(InputError, match="no feature column 'size'"):
        arrivals(named(("new", "b"), ["hue=sky"], np.ones((2, 1))), known)
    with pytest.raises(InputError, match="'age' is not one"):
        arrivals(named(("new", "b"), ["size", "age"], np.ones((2, 2))), known)
    with pytest.raises(InputError, match="no feature column 'hue'"):
        arrivals(named(("new", "b"), ["size"], np.ones((2, 1))), known)
    with pytest.raises(InputError, match=r"'hue' holds numbers, the model was .* categories"):
        arrivals(named(("new", "b"), ["size", "hue"], np.ones((2, 2))), known)
    with pytest.raises(InputError, match=r"'size' holds categories, the model was .* numbers"):
        arrivals(named(("new", "b"), ["size=4", "size=abc", "hue=sky"], np.ones((2, 3))), known)
    bare = Graph(np.array([[0], [1]]), 2, x=np.ones((2, 5)), node_names=("new", "b"))
    with pytest.raises(InputError, match="has 5 feature columns"):
        arrivals(bare, known)
    with pytest.raises(InputError, match="has no feature columns"):
        arrivals(Graph(np.array([[0], [1]]), 2, node_names=("new", "b")), known)
