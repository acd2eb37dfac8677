"""Rank lists: every engine, every kind of tie."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles import dense_rank_lists

from djgnn.filters.table import rank_weights
from djgnn.graph import Graph
from djgnn.graph.operator import SparseOperator
from djgnn.jumps import ENGINES, choose_engine, engines, rank_lists, ranks, twin_classes
from djgnn.jumps.twins import TwinClasses
from djgnn.pump import pump


def literal(u: np.ndarray, k: int) -> list[list[int]]:
    """Sorted by (distance, index), in plain Python."""
    rows = []
    for i in range(len(u)):
        d = [float(np.sqrt(((u[i] - u[j]) ** 2).sum())) for j in range(len(u))]
        rows.append(sorted(range(len(u)), key=lambda j, d=d: (d[j], j))[:k])
    return rows


def coincident_classes(u: np.ndarray) -> TwinClasses:
    _, labels = np.unique(u, axis=0, return_inverse=True)
    return TwinClasses.from_labels(labels.reshape(-1))


def test_lists_and_their_weights_do_not_depend_on_the_blocks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    u = torch.from_numpy(np.random.default_rng(0).integers(0, 4, (40, 2))).float()
    twins = coincident_classes(u.numpy())
    whole = rank_lists(u, twins, 9)
    weight = rank_weights(u, twins, whole.ranks, 0.5)
    monkeypatch.setattr(ranks, "LISTS", 3)
    monkeypatch.setattr("djgnn.filters.table.LISTS", 3)
    assert torch.equal(rank_lists(u, twins, 9).ranks, whole.ranks)
    assert torch.equal(rank_weights(u, twins, whole.ranks, 0.5), weight)


@settings(max_examples=80, deadline=None)
@given(st.integers(1, 25), st.integers(1, 3), st.integers(1, 3), st.integers(0, 10_000))
@pytest.mark.parametrize("engine", list(ENGINES))
def test_lattice_points_with_masses_of_ties(
    engine: str, n: int, p: int, top: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    u = rng.integers(0, top + 1, size=(n, p)).astype(np.float64)
    k = int(rng.integers(1, n + 1))
    points, twins = torch.from_numpy(u), coincident_classes(u)
    found = rank_lists(points, twins, k, engine)
    assert found.index.tolist() == literal(u, k)
    some = torch.from_numpy(rng.permutation(twins.num_classes)[: rng.integers(0, n + 1)])
    part = rank_lists(points, twins, k, engine, classes=some).ranks
    assert torch.equal(part, found.ranks[some])


@pytest.mark.parametrize("engine", list(ENGINES))
def test_coincident_points_that_are_not_twins(engine: str) -> None:
    u = np.repeat(np.array([[0.0], [1.0]]), 6, axis=0)
    alone = TwinClasses.from_labels(np.arange(12))
    found = rank_lists(torch.from_numpy(u), alone, 8, engine).index
    assert found.tolist() == literal(u, 8)


@pytest.mark.parametrize("engine", list(ENGINES))
def test_saturated_positions_are_merged_and_settled(engine: str, monkeypatch) -> None:
    monkeypatch.setattr(ranks, "ROW_ELEMENTS", 64)
    rng = np.random.default_rng(0)
    u = np.sign(rng.normal(size=(60, 2)))
    alone = TwinClasses.from_labels(np.arange(60))
    found = rank_lists(torch.from_numpy(u), alone, 7, engine).index
    assert found.tolist() == literal(u, 7)
    some = torch.tensor([41, 3, 3, 17])  # several at one position
    part = rank_lists(torch.from_numpy(u), alone, 7, engine, classes=some).ranks
    assert torch.equal(part, found[some])


def test_noise_in_u_does_not_separate_twins() -> None:
    twins = TwinClasses.from_labels(np.array([0, 1, 0, 1, 2]))
    u = torch.tensor([[0.0], [1.0], [0.0], [1.0], [5.0]], dtype=torch.float64)
    noisy = u + torch.tensor([0, 1e-9, 1e-9, -1e-9, 0], dtype=torch.float64)[:, None]
    exact = rank_lists(u, twins, 4).index
    assert rank_lists(noisy, twins, 4).index.tolist() == exact.tolist()
    assert exact[2].tolist() == [0, 2, 1, 3]  # by index: the first of my twins, not I


@pytest.mark.parametrize("width", [0, 1, 5])
def test_any_number_of_ranks_up_to_n(width: int) -> None:
    u = torch.rand(5, 2, generator=torch.Generator().manual_seed(0))
    alone = TwinClasses.from_labels(np.arange(5))
    assert rank_lists(u, alone, width).index.tolist() == dense_rank_lists(u, width).tolist()
    with pytest.raises(ValueError, match=r"number of nodes, 5 \(got 6\)"):
        rank_lists(u, alone, 6)


def test_permuting_the_nodes_permutes_the_lists() -> None:
    rng = np.random.default_rng(1)
    u = torch.from_numpy(rng.normal(size=(30, 3)))
    order = torch.from_numpy(rng.permutation(30))
    alone = TwinClasses.from_labels(np.arange(30))
    plain, moved = (rank_lists(points, alone, 5).index for points in (u, u[order]))
    assert torch.equal(order[moved], plain[order])


def test_blocks_of_any_size_give_the_same_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    u = torch.rand(50, 3)
    whole = ENGINES["blockwise"](u, 4, None)
    monkeypatch.setitem(engines.BLOCK_ELEMENTS, "cpu", 60)
    assert torch.equal(ENGINES["blockwise"](u, 4, None), whole)


def test_auto_takes_the_tree_for_few_dimensions_and_unknown_names_are_refused() -> None:
    assert choose_engine("auto", torch.zeros(3, 8)) is ENGINES["kdtree"]
    assert choose_engine("auto", torch.zeros(3, 9)) is ENGINES["blockwise"]
    with pytest.raises(ValueError, match=r"engine must be one of .* \(got 'annoy'\)"):
        choose_engine("annoy", torch.zeros(3, 2))


def test_engines_agree_on_real_data(dataset: str, data_dir) -> None:
    graph = Graph.load(dataset, data=data_dir)
    if graph.num_nodes > 9000:
        pytest.skip("benchmarks/engines.py covers the large sets")
    twins = twin_classes(graph.adjacency)
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(5, graph.num_nodes, generator=generator) / graph.num_nodes**0.5
    u = pump(SparseOperator.from_scipy(graph.adjacency), 3 * weight, torch.zeros(5))
    nodes = torch.randperm(graph.num_nodes, generator=generator)[:500]
    expected = dense_rank_lists(u, 8, twins, nodes)
    found = rank_lists(u, twins, 8, "kdtree")
    assert torch.equal(found.index[nodes], expected)
    assert torch.equal(rank_lists(u, twins, 8, "blockwise").ranks, found.ranks)
    some = torch.arange(0, twins.num_classes, 7)
    assert torch.equal(rank_lists(u, twins, 8, "kdtree", classes=some).ranks, found.ranks[some])


def test_an_empty_graph_ranks_by_index_alone() -> None:
    twins = twin_classes(sp.csr_array((6, 6)))
    assert rank_lists(torch.zeros(6, 2), twins, 3).index.tolist() == [[0, 1, 2]] * 6


def test_positions_that_are_not_finite_are_refused() -> None:
    with pytest.raises(FloatingPointError, match="no longer finite"):
        rank_lists(torch.full((4, 2), torch.nan), TwinClasses.from_labels(np.arange(4)), 2)
