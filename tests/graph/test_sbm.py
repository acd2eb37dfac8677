from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from djgnn.errors import InputError
from djgnn.graph import Graph, heterophilic_sbm, stochastic_block_model
from djgnn.graph.sbm import _distinct, _triangle


def blocks(g: Graph) -> np.ndarray:
    return np.array([name.split("/")[0] for name in g.node_names])


@pytest.mark.parametrize("directed", [True, False])
def test_edge_shares_are_the_probabilities(directed: bool) -> None:
    sizes, p = [200, 300], np.array([[0.1, 0.02], [0.02, 0.6]])
    if directed:
        p[1, 0] = 0.3
    g = stochastic_block_model(sizes, p, directed=directed, num_features=0, random_state=1)
    a = g.adjacency.toarray()
    assert a.max() == 1
    assert a.trace() == 0
    assert (a == a.T).all() != directed
    assert np.isclose(a[:200, :200].sum() / (200 * 199), p[0, 0], rtol=0.08)
    assert np.isclose(a[200:, 200:].sum() / (300 * 299), p[1, 1], rtol=0.02)
    assert np.isclose(a[:200, 200:].mean(), p[0, 1], rtol=0.12)
    assert np.isclose(a[200:, :200].mean(), p[1, 0], rtol=0.12)


@pytest.mark.parametrize("directed", [True, False])
def test_probability_one_is_complete_and_zero_is_empty(directed: bool) -> None:
    g = stochastic_block_model([3, 4], [[1, 0], [0, 1]], directed=directed)
    whole = np.kron(np.eye(2), np.ones((4, 4)))[1:, 1:] - np.eye(7)
    assert (g.adjacency.toarray() == whole).all()


@settings(max_examples=60, deadline=None)
@given(population=st.integers(1, 200), share=st.floats(0, 1), seed=st.integers(0, 99))
def test_distinct_numbers(population: int, share: float, seed: int) -> None:
    count = int(population * share)
    found = _distinct(population, count, np.random.default_rng(seed))
    assert len(set(found.tolist())) == len(found) == count
    assert not count or (found.min() >= 0 and found.max() < population)


def test_distinct_is_uniform() -> None:
    rng = np.random.default_rng(0)
    hits = sum(np.bincount(_distinct(10, 7, rng), minlength=10) for _ in range(3000))
    assert np.allclose(hits / 3000, 0.7, atol=0.04)


def test_pairs_are_numbered_one_to_one_also_when_huge() -> None:
    i, j = _triangle(np.arange(45))
    assert set(zip(i.tolist(), j.tolist(), strict=True)) == {
        (a, b) for a in range(10) for b in range(a)
    }
    top = np.array([3_000_000_000])
    for index in (top * (top - 1) // 2, top * (top + 1) // 2 - 1):
        i, j = _triangle(index)
        assert (i, j) == (top, index - top * (top - 1) // 2)


def test_large_graph_needs_no_square_matrix() -> None:
    g = stochastic_block_model([500_000, 500_000], [[0, 2e-8], [2e-8, 0]], num_features=0)
    assert 9_000 < g.num_edges < 11_000


def test_signal_moves_the_class_means() -> None:
    weak, strong = (
        stochastic_block_model([400, 400], np.zeros((2, 2)), signal=s, random_state=2)
        for s in (0.0, 5.0)
    )
    gap = [np.linalg.norm(g.x[g.y == 0].mean(0) - g.x[g.y == 1].mean(0)) for g in (weak, strong)]
    assert gap[0] < 0.6
    assert gap[1] > 3


def test_labels_per_block_and_per_node() -> None:
    p = np.zeros((3, 3))
    per_block = stochastic_block_model([1, 2, 1], p, labels=[0, 1, 0])
    per_node = stochastic_block_model([1, 2, 1], p, labels=[1, 0, 1, 0])
    assert per_block.y.tolist() == [0, 1, 1, 0]
    assert per_node.y.tolist() == [1, 0, 1, 0]
    assert per_block.card["blocks"] == ["0", "1", "2"]


def test_shuffling_renames_nodes_only() -> None:
    p = [[0.5, 0.1], [0.1, 0.5]]
    plain = stochastic_block_model([20, 20], p, random_state=3)
    mixed = stochastic_block_model([20, 20], p, shuffle=True, random_state=3)
    order = [mixed.node_names.index(name) for name in plain.node_names]
    assert order != sorted(order)
    assert (mixed.y[order] == plain.y).all()
    assert (mixed.x[order] == plain.x).all()
    assert (mixed.adjacency.toarray()[np.ix_(order, order)] == plain.adjacency.toarray()).all()


def test_seed_decides() -> None:
    hashes = {heterophilic_sbm(120, random_state=s).content_hash for s in (0, 0, 1)}
    assert len(hashes) == 2


def test_members_of_a_community_point_at_the_same_hubs() -> None:
    g = heterophilic_sbm()
    where = blocks(g)
    names, code = np.unique(where, return_inverse=True)
    source, target = g.edge_index
    counts = np.zeros((len(names), len(names)))
    np.add.at(counts, (code[source], code[target]), 1)
    for c, name in enumerate(names):
        if name.startswith("hub"):
            continue
        size = (code == c).sum()
        linked = counts[c] > 0.8 * size * 2  # two hubs in a group
        assert linked.sum() == 3
        assert all(names[h].startswith("hub") for h in np.flatnonzero(linked))


def test_the_class_of_a_neighbour_tells_nothing() -> None:
    shares = []
    for seed in range(5):
        g = heterophilic_sbm(random_state=seed)
        source, target = g.edge_index
        shares.append((g.y[source] == g.y[target]).mean())
    assert abs(np.mean(shares) - 1 / 4) < 0.06  # four classes


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], [[]]), "sizes"),
        (([1, 0], np.zeros((2, 2))), "sizes"),
        (([1.5], [[0]]), "sizes"),
        (([1, 1], [[0]]), r"\[2, 2\]"),
        (([1], [[1.5]]), "between 0 and 1"),
        (([1], [[np.nan]]), "between 0 and 1"),
        (([1, 1], [[0, 1], [0, 0]]), "symmetric"),
    ],
)
def test_bad_models_are_refused(arguments: tuple, message: str) -> None:
    with pytest.raises(InputError, match=message):
        stochastic_block_model(*arguments)


def test_bad_options_are_refused() -> None:
    with pytest.raises(InputError, match="labels"):
        stochastic_block_model([2], [[0]], labels=[0, 1, 2])
    with pytest.raises(InputError, match="block_names"):
        stochastic_block_model([2], [[0]], block_names=["a", "b"])
    with pytest.raises(InputError, match="signal"):
        stochastic_block_model([2], [[0]], signal=np.inf)
    with pytest.raises(InputError, match="one node per community"):
        heterophilic_sbm(5)
    with pytest.raises(InputError, match="num_hubs"):
        heterophilic_sbm(hubs_per_community=8)
