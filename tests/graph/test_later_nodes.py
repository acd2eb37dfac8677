"""Later versions of a graph: who was there before, and whether it is the same graph at all."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from djgnn.errors import InputError
from djgnn.graph import Graph, arrivals, check_related, heterophilic_sbm, new_nodes
from djgnn.graph.new_nodes import places

DRAWN = heterophilic_sbm(160)
COUNT = DRAWN.num_nodes
NAMES = tuple(f"n{i}" for i in range(COUNT))
KNOWN = dataclasses.replace(DRAWN, node_names=NAMES)


def first(number: int) -> Graph:
    """The graph of the first nodes."""
    inside = (KNOWN.edge_index < number).all(axis=0)
    edges, x, y = KNOWN.edge_index[:, inside], KNOWN.x[:number], KNOWN.y[:number]
    return Graph(edges, number, x, y, node_names=NAMES[:number])


def renamed(graph: Graph, order: np.ndarray) -> Graph:
    """The same names in another order, each with the edges of another node."""
    return dataclasses.replace(graph, node_names=tuple(np.array(graph.names())[order].tolist()))


def test_names_are_found_before_and_between_others() -> None:
    assert places(KNOWN, first(100)).tolist() == [*range(100), *[-1] * (COUNT - 100)]
    order = np.random.default_rng(0).permutation(COUNT)
    shuffled = places(renamed(KNOWN, order), first(100))
    assert shuffled.tolist() == [i if i < 100 else -1 for i in order]


def test_edges_of_new_nodes_are_those_that_touch_one() -> None:
    new, place = arrivals(KNOWN, first(100))
    dense = KNOWN.adjacency.toarray()
    assert place.tolist() == [*range(100), *[-1] * (COUNT - 100)]
    np.testing.assert_array_equal(new.outgoing.toarray(), dense[100:, :100])
    np.testing.assert_array_equal(new.incoming.toarray(), dense[:100, 100:].T)
    np.testing.assert_array_equal(new.among.toarray(), dense[100:, 100:])


def test_of_many_edges_a_sample_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(new_nodes, "MANY_EDGES", 1)
    order = np.random.default_rng(0).permutation(COUNT)
    with pytest.raises(InputError, match=r"only \d+ were there"):
        check_related(renamed(KNOWN, order), first(100))

    def never(*given: object) -> None:
        raise AssertionError

    monkeypatch.setattr(new_nodes, "_counted", never)
    check_related(KNOWN, first(100))


def test_no_edge_between_known_nodes_is_no_reason_to_refuse(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(new_nodes, "MANY_EDGES", 1)
    new = dataclasses.replace(KNOWN, edge_index=np.array([[150, 151], [0, 152]]))
    check_related(new, first(100))
