"""New nodes: a dense pass over known and new nodes together is the oracle."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from tests.oracles import dense_logits, dense_spreading, dense_treat

from djgnn.errors import InputError, UnseenCategoryWarning
from djgnn.graph import Graph, arrivals, heterophilic_sbm
from djgnn.model import DJGNN, DJExperts
from djgnn.model.experts import EXPERTS
from djgnn.model.new_nodes import ArrivalView, Memory, remember
from djgnn.model.operators import Parts
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
    """One network with trained-like weights, in float64."""
    given = {"hidden_channels": 8, "num_jumps": 3, "experts": (), **options}
    module, inputs = build_djgnn(resolve("default", None, **given), known)
    initialize(module, 3)
    wide_apart(module)
    operators = module.double().operators(Parts(known.adjacency, torch.float64))
    return Memory(module, inputs[0].double(), operators)


def wide_apart(module: DJGNN) -> None:
    """Positions that differ, and norms that are not the identity."""
    with torch.no_grad():
        if module.pump is not None:
            module.pump.weight.mul_(5)
        for branch in (module.deep, module.mix):
            if branch is not None:
                shift = torch.linspace(-0.3, 0.3, branch.norms.numel())
                branch.norms.add_(shift.view_as(branch.norms))


def dense_arrivals(m: Memory, known: Graph, later: Graph) -> torch.Tensor:
    """Everything by n x n matrices, the new rows appended one after the other."""
    module, c = m.module, m.module.config
    n, total = known.num_nodes, later.num_nodes

    def extended(treatment: str) -> torch.Tensor:
        """Known nodes as they were, without a row's entry for a new one."""
        b = dense_treat(torch.tensor(later.adjacency.toarray()).double(), treatment).clone()
        b[:n, :n] = dense_treat(torch.tensor(known.adjacency.toarray()).double(), treatment)
        b[:n, n:] = 0
        return b

    rows = extended(c.pump_adjacency)[:, :n]
    filters = torch.zeros(len(module.branches), total, total, dtype=torch.float64)
    if module.pump is not None:
        u = torch.tanh(rows @ module.pump.weight.t() + module.pump.bias)
        filters[:, :n, :n] = m.encoding.table.to_dense()
        for i in range(n, total):
            d = (u - u[i]).norm(dim=1)
            ranked = sorted([*range(n), i], key=lambda j: (round(float(d[j]), 12), j))
            for k, ranks in enumerate(module.branches):
                for r in ranks:
                    near = ranked[r - 1]
                    filters[k, i, near] = torch.exp(-module.scale(m.operators.volume) * d[near])
    spreading = dense_spreading(module, extended(c.homophilic_adjacency))
    return dense_logits(module, dense(later.x), list(filters), rows, spreading)


KINDS = [
    {"support": "shell"},
    {"support": "author", "scale": "volume"},
    {"num_jumps": "auto"},
    {"jump_inputs": "hidden"},
    {"hops": 2, "diffusion": 3, "deep": 2, "mix": 2},
    {"mix": 3},
    {**EXPERTS["features"]},
]


@pytest.mark.parametrize("options", KINDS, ids=str)
@pytest.mark.parametrize("treatment", ["given", "transposed", "symmetric"])
def test_equals_the_dense_formulation(options: dict[str, object], treatment: str) -> None:
    known, later = split_off(heterophilic_sbm(80))
    m = memory(known, pump_adjacency=treatment, homophilic_adjacency=treatment, **options)
    new, place = arrivals(later, known)
    assert place.tolist() == [*range(known.num_nodes), *[-1] * new.num_nodes]
    found = m.logits(new, dense(new.x))
    with torch.no_grad():
        wanted = dense_arrivals(m, known, later)
        before = m.module.run(m.x, m.operators).logits
    torch.testing.assert_close(wanted[: known.num_nodes], before, atol=1e-9, rtol=0)
    torch.testing.assert_close(found, wanted[known.num_nodes :], atol=1e-9, rtol=0)


@pytest.mark.parametrize("directed", [True, False])
def test_a_mixture_places_new_nodes_by_all_of_its_experts(directed: bool) -> None:
    whole = heterophilic_sbm(80)
    if not directed:
        edges = np.concatenate([whole.edge_index, whole.edge_index[::-1]], axis=1)
        whole = dataclasses.replace(whole, edge_index=edges)
    known, later = split_off(whole)
    names = tuple(EXPERTS)  # the profile is tested by itself
    module, inputs = build_djgnn(resolve("default", None, hidden_channels=8, experts=names), known)
    assert isinstance(module, DJExperts)
    assert ("columns" in module.names) == directed
    initialize(module, 3)
    for expert in module.experts.values():
        wide_apart(expert)
    module.weights.copy_(torch.linspace(1, 2, len(module.names)) / 1.5 / len(module.names))
    operators = module.double().operators(Parts(known.adjacency, torch.float64))
    whole = (inputs[0].double(), operators)
    known_by = [Memory(e, *module.inputs_of(n, whole)) for n, e in module.experts.items()]
    new, _ = arrivals(later, known)
    found = remember(module, *whole).logits(new, dense(new.x))
    with torch.no_grad():
        shares = [
            w * dense_arrivals(each, known, later).softmax(dim=1)[known.num_nodes :]
            for w, each in zip(module.weights, known_by, strict=True)
        ]
    torch.testing.assert_close(found, sum(shares).log(), atol=1e-9, rtol=0)
    assert not found.requires_grad


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
