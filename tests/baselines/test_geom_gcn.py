"""Geom-GCN: its planes, its relations, and the model given them."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from tests.baselines.conftest import dense

from djgnn.baselines.geom_gcn import Embedding, embed, isomap, latent_neighbours, relations
from djgnn.baselines.matrices import operator, without_loops
from djgnn.graph import Graph


def grid(side: int) -> sp.csr_array:
    line = sp.diags_array([1.0, 1.0], offsets=[-1, 1], shape=(side, side))
    return sp.csr_array(sp.kron(line, sp.eye_array(side)) + sp.kron(sp.eye_array(side), line))


def two_cliques() -> sp.csr_array:
    matrix = sp.lil_array(sp.block_diag([np.ones((8, 8)), np.ones((8, 8))]))
    matrix[7, 8] = matrix[8, 7] = 1
    return without_loops(sp.csr_array(matrix))


def test_isomap_of_a_path_is_the_line() -> None:
    path = sp.diags_array([1.0, 1.0], offsets=[-1, 1], shape=(9, 9)).tocsr()
    line = isomap(sp.csr_array(path))[:, 0]
    np.testing.assert_allclose(np.abs(np.diff(line)), 1, atol=1e-8)


def test_landmarks_see_the_same_plane() -> None:
    whole, some = isomap(grid(12)), isomap(grid(12), landmarks=60)
    full = np.linalg.norm(whole[:, None] - whole[None], axis=2).ravel()
    part = np.linalg.norm(some[:, None] - some[None], axis=2).ravel()
    assert np.corrcoef(full, part)[0, 1] > 0.97


@pytest.mark.parametrize("method", get_args(Embedding))
def test_planes_tell_two_cliques_apart_and_repeat(method: str) -> None:
    points = embed(two_cliques(), method)
    assert points.shape == (16, 2)
    first, second = points[:7], points[9:]
    apart = np.linalg.norm(first.mean(axis=0) - second.mean(axis=0))
    spreads = [np.linalg.norm(p - p.mean(axis=0), axis=1).mean() for p in (first, second)]
    assert apart > 2 * max(spreads)
    np.testing.assert_array_equal(points, embed(two_cliques(), method))


def test_points_of_the_poincare_disc_stay_inside() -> None:
    assert (np.linalg.norm(embed(grid(6), "poincare"), axis=1) < 1).all()


def test_as_many_latent_as_graph_neighbours() -> None:
    points = np.random.default_rng(0).standard_normal((200, 2))
    near = latent_neighbours(points, 5.0)
    assert near.nnz / 200 == pytest.approx(5, abs=0.1)
    assert near.diagonal().sum() == 0
    same = latent_neighbours(np.zeros((200, 2)), 5.0)
    assert same.sum(axis=1).max() <= 21


def test_relations_split_both_neighbourhoods() -> None:
    a = grid(5)
    points = np.random.default_rng(0).standard_normal((25, 2))
    made = relations(a, points)
    assert len(made) == 9
    pattern = sum((r != 0).astype(int) for r in made[:4])
    assert (pattern != (a != 0).astype(int)).nnz == 0
    for q in range(4):
        # What lies to the upper right of me has me to its lower left.
        assert ((made[q] != 0) != (made[3 - q] != 0).T).nnz == 0
    assert (made[8] != 0).toarray().tolist() == np.eye(25, dtype=bool).tolist()


def test_given_the_relations_renumbering_renumbers_the_logits(graph: Graph, built) -> None:
    module, (x, edges) = built("geom_gcn", graph)
    expected = module(x, edges)
    parts = [r.to_scipy() for r in module.constants(x, edges)]
    order = np.random.default_rng(0).permutation(graph.num_nodes)
    moved_x = dense(x)[order]
    moved = tuple(operator(r[order][:, order], moved_x) for r in parts)
    module._prepared = (moved_x, edges, edges._version, moved)
    torch.testing.assert_close(module(moved_x, edges), expected[order], atol=1e-5, rtol=1e-4)
