"""What each process holds: its own rows, and of the others nothing."""

from __future__ import annotations

import dataclasses

import jobs
import numpy as np
import pytest
import scipy.sparse as sp
from processes import run_group

from djgnn.graph import Graph
from djgnn.model.operators import ADJACENCIES, gcn_normalize, treat
from djgnn.training.distributed.rows import without_rows
from djgnn.training.distributed.shard import Shard


def weighted() -> Graph:
    """Directed, with weights and loops; process 1 gets rows without edges."""
    source = np.array([0, 0, 1, 2, 2, 9, 9, 9, 8, 3])
    target = np.array([1, 0, 2, 9, 2, 0, 9, 8, 9, 8])
    x = np.arange(20, dtype=np.float32).reshape(10, 2)
    y = np.arange(10) % 2
    weight = np.linspace(0.5, 2, 10)
    return Graph(np.stack([source, target]), 10, x=x, y=y, edge_weight=weight)


@pytest.mark.parametrize("size", [2, 3])
def test_a_process_holds_its_own_rows(size: int) -> None:
    graph = weighted()
    found = run_group(size, jobs.held_rows, graph)
    assert [process["bounds"][0] for process in found[1:]] == [p["bounds"][1] for p in found[:-1]]
    for rank, process in enumerate(found):
        own = slice(*process["bounds"])
        count = own.stop - own.start
        np.testing.assert_array_equal(process["features"], graph.x[own])
        assert process["adjacency"] == (count, 10)
        assert process["module"] == (2, 2, True)
        np.testing.assert_allclose(process["degree"], graph.adjacency.sum(axis=1), rtol=1e-6)
        for treatment in ADJACENCIES:
            whole = treat(graph.adjacency, treatment)
            np.testing.assert_array_equal(process[treatment], whole.toarray()[own])
            wanted = gcn_normalize(whole).toarray()[own]
            np.testing.assert_array_equal(process[f"normalised {treatment}"], wanted)
        if rank:
            assert process["edges"] == 0
            assert process["whole"] == (None, None)
    assert sp.issparse(found[0]["whole"][0])


def test_labels_and_splits_are_everywhere() -> None:
    graph = dataclasses.replace(jobs.sbm(), class_names=tuple("abcd"))
    bare = without_rows(graph)
    assert (bare.num_edges, bare.num_features, bare.num_nodes) == (0, 0, graph.num_nodes)
    np.testing.assert_array_equal(bare.y, graph.y)
    np.testing.assert_array_equal(bare.split(0).train, graph.split(0).train)
    assert (bare.classes(), bare.metric, bare.name) == (graph.classes(), graph.metric, graph.name)


def test_the_first_process_may_have_fewer_rows() -> None:
    edges = np.full(1000, 2)
    assert Shard.balanced(edges, 4, 0).sizes == [250, 250, 250, 250]
    first, *others = Shard.balanced(edges, 4, 0, first_share=0.5).sizes
    assert others[0] == pytest.approx(2 * first, abs=2)
    assert max(others) - min(others) <= 1
    assert Shard.balanced(edges, 1, 0, first_share=0.5).sizes == [1000]
