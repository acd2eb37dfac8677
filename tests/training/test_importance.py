"""Importance of columns: what carries the class matters, what does not does not."""

from typing import Any

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp
import torch

from djgnn.graph import Graph
from djgnn.graph.table_rules import column_groups
from djgnn.training import importance as room
from djgnn.training.config import RunConfig, resolve
from djgnn.training.folds import with_splits
from djgnn.training.held_out import HeldOut
from djgnn.training.importance import importance, permuted
from djgnn.training.inputs import build_djgnn
from djgnn.training.loop import Fitted
from djgnn.training.run import train

N = 240
CONFIG = resolve("full", epochs=20, hidden_channels=8).replace(
    experts=("shares", "propagation", "boosting", "features", "given")
)
Run = tuple[Graph, RunConfig, Fitted, Any]


def table(noise: int = 1) -> Graph:
    """A random graph whose nodes' classes are seen in two columns of three kinds."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, N)
    columns: dict[str, Any] = {
        "id": [f"n{i}" for i in range(N)],
        "strong": 3 * y + rng.standard_normal(N),
        "colour": np.where(rng.random(N) < 0.8, np.array(["red", "blue"])[y], "green"),
        **{f"noise{i}": rng.standard_normal(N) for i in range(noise)},
        "kind": np.array(["a", "b"])[y],
    }
    ends = rng.integers(0, N, (2, 2 * N))
    edges = pl.DataFrame({"from": [f"n{i}" for i in ends[0]], "to": [f"n{i}" for i in ends[1]]})
    return Graph.from_frames(edges, pl.DataFrame(columns), label="kind")


def run(graph: Graph, config: RunConfig = CONFIG) -> Run:
    graph, config = with_splits(graph, config)
    module, inputs = build_djgnn(config, graph)
    return graph, config, train(module, inputs, graph, 0, config.training)[0], inputs


@pytest.fixture(scope="module")
def trained() -> Run:
    return run(table())


def test_columns_of_the_table_are_the_groups() -> None:
    graph = table()
    groups = column_groups(graph)
    assert set(groups) == {"strong", "colour", "noise0"}
    names = graph.card["features"]
    assert all(names[i].startswith(group) for group, rows in groups.items() for i in rows)
    assert np.array_equal(np.sort(np.concatenate(list(groups.values()))), np.arange(len(names)))


def test_what_carries_the_class_matters(trained: Run) -> None:
    before = trained[2].logits.clone()
    found = importance(*trained, asked=True)["importance"]
    drop = {each["group"]: each["drop"] for each in found}
    assert min(drop["strong"], drop["colour"]) > 3
    assert abs(drop["noise0"]) < 3
    assert [each["drop"] for each in found] == sorted(drop.values(), reverse=True)
    assert importance(*trained, asked=True)["importance"] == found
    assert torch.equal(trained[2].logits, before)


def test_permuting_nothing_changes_nothing(trained: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "permuted", lambda x, *_: x)
    found = importance(*trained, asked=True)["importance"]
    assert all(each["drop"] == each["error"] == 0 for each in found)


def test_it_is_left_out_where_it_takes_long(trained: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "SECONDS", 0.0)
    card = importance(*trained)
    assert set(card) == {"importance_note"}
    assert "--importance" in card["importance_note"]
    assert "importance" in importance(*trained, asked=True)


def test_of_many_columns_the_telling_ones_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "MOST_GROUPS", 3)
    found = importance(*run(table(noise=4), CONFIG.replace(epochs=2)), asked=True)["importance"]
    assert {each["group"] for each in found} == {"strong", "colour", "4 others"}


def test_columns_that_are_constant_on_held_out_nodes_tell_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(room, "MOST_GROUPS", 2)
    graph = table()
    green = list(graph.card["features"]).index("colour=green")
    nodes = np.flatnonzero(np.asarray(graph.x)[:, green] > 0)
    y = np.asarray(graph.y)[nodes]
    held = HeldOut("test", nodes, y, np.ones((nodes.size, 2), dtype=np.float32), {})
    assert list(room._groups(graph, held)) == ["strong", "2 others"]


def test_features_without_names_are_one_group() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    x = (y[:, None] * 3 + rng.standard_normal((60, 4))).astype(np.float32)
    graph = Graph(rng.integers(0, 60, (2, 90)), num_nodes=60, x=x, y=y)
    small = CONFIG.replace(epochs=10, experts=("features", "given"))
    (only,) = importance(*run(graph, small), asked=True)["importance"]
    assert only["group"] == "all features"
    assert only["drop"] > 20
    bare = Graph(graph.edge_index, num_nodes=60, y=y)
    assert importance(*run(bare, small), asked=True) == {}


def test_sparse_features_are_permuted_as_dense_ones() -> None:
    rng = np.random.default_rng(0)
    x = (rng.random((7, 5)) * (rng.random((7, 5)) < 0.5)).astype(np.float32)
    columns, order = np.array([1, 4]), rng.permutation(7)
    dense = permuted(x, columns, order)
    found = permuted(sp.csr_array(x), columns, order)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found.toarray(), dense)
    np.testing.assert_array_equal(dense[:, [0, 2, 3]], x[:, [0, 2, 3]])
    np.testing.assert_array_equal(dense[:, columns], x[order][:, columns])


def test_a_pass_ends_when_it_is_expected_to_take_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(room.time, "perf_counter", lambda: now[0])
    clock = room._Clock({"a": 3.0, "b": 1.0}, 10.0)
    now[0] = 9.0
    clock.answered("a")
    assert clock.expected() == 12.0  # longer than it may, but not by far
    now[0] = 10.5
    with pytest.raises(TimeoutError):
        clock.answered("b")
    clock = room._Clock({"a": 1.0, "b": 9.0}, 10.0)
    now[0] += 2.0
    with pytest.raises(TimeoutError):
        clock.answered("a")
    assert clock.expected() == 20.0
