"""`djgnn inspect`: what it says is what the functions measure."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from djgnn.graph import Graph, heterophilic_sbm, random_splits, write_npz, write_tables
from djgnn.spectral import homophily, structural_heterophily
from djgnn.training import resolve

METHODS = ("edge", "node", "class", "adjusted", "label_informativeness")


@pytest.fixture
def inspect(djgnn: Callable[..., Any]) -> Callable[[Graph, Path], dict[str, Any]]:
    """What `djgnn inspect --json` says of a graph written to a folder."""

    def run(graph: Graph, folder: Path) -> dict[str, Any]:
        write_npz(graph, folder / "own.npz")
        status, shown, message = djgnn(
            "inspect", "--no-cost", "--dataset", "own", "--data", folder, "--json"
        )
        assert status == 0, message
        found: dict[str, Any] = json.loads(shown)
        return found

    return run


def test_the_measures_are_those_of_the_theory(inspect, tmp_path: Path) -> None:
    graph = random_splits(heterophilic_sbm(160))
    found = inspect(graph, tmp_path)
    for how in ("given", "symmetric"):
        for method in METHODS:
            expected = homophily(graph, method=method, adjacency=how)
            assert found["heterophily"][how][method] == pytest.approx(expected)
    r = structural_heterophily(graph)
    assert found["heterophily"]["R"]["median"] == pytest.approx(r.median)
    assert found["heterophily"]["R"]["high"] == pytest.approx(r.high)
    assert found["size"]["nodes"] == graph.num_nodes
    assert found["size"]["direction"] == "directed"
    assert sum(found["labels"]["classes"].values()) == graph.num_nodes


def test_tables_and_data_set_say_the_same_and_people_can_read_it(
    djgnn, inspect, tmp_path: Path
) -> None:
    graph = random_splits(heterophilic_sbm(160))
    found = inspect(graph, tmp_path)
    write_tables(graph, tmp_path / "e.csv", tmp_path / "n.csv")
    tables = ("--edges", tmp_path / "e.csv", "--nodes", tmp_path / "n.csv")
    _, shown, _ = djgnn("inspect", "--no-cost", *tables, "--json")
    other = json.loads(shown)
    own = ("name", "labels", "reading")
    assert {k: v for k, v in other.items() if k not in own} == {
        k: v for k, v in found.items() if k not in own
    }
    assert found["reading"] == {"notes": [], "columns": [], "warnings": []}
    assert other["reading"]["notes"][0].startswith("n.csv: comma separated")
    _, text, _ = djgnn("inspect", "--no-cost", *tables)
    for word in ("components", "isolated", "self loops", "twins", "structural heterophily R"):
        assert word in text
    _, both_ways, _ = djgnn("inspect", "--no-cost", *tables, "--symmetric", "--json")
    assert json.loads(both_ways)["size"]["direction"] == "symmetric"


def test_pieces_loops_and_empty_rows_are_counted(inspect, tmp_path: Path) -> None:
    edges = np.array([[0, 1, 2, 4], [1, 2, 2, 5]])
    found = inspect(Graph(edges, num_nodes=7, y=np.zeros(7, dtype=int)), tmp_path)
    size = found["size"]
    assert (size["components"], size["largest_component"]) == (4, 3)
    assert (size["isolated"], size["empty_rows"], size["self_loops"]) == (2, 3, 1)
    assert found["heterophily"] is None
    assert found["advice"]["adjacency"] == "symmetric"


def duplicated(num_hubs: int) -> Graph:
    """Sixty nodes in thirty pairs with the same `num_hubs` outgoing edges and the same label."""
    rng = np.random.default_rng(0)
    pairs = [rng.choice(8, num_hubs, replace=False) for _ in range(30)]
    source = np.repeat(np.arange(60), num_hubs)
    target = 60 + np.concatenate([pairs[i // 2] for i in range(60)])
    hubs = np.stack([60 + np.arange(8), rng.integers(0, 60, 8)])
    y = np.concatenate([np.repeat(rng.integers(0, 2, 30), 2), rng.integers(0, 2, 8)])
    edges = np.concatenate([np.stack([source, target]), hubs], axis=1)
    return Graph(edges, num_nodes=68, y=y)


def test_duplicates_across_the_split_are_called_a_leak(djgnn, inspect, tmp_path: Path) -> None:
    graph = duplicated(4)
    assert inspect(graph, tmp_path)["leak"] is None
    found = inspect(random_splits(graph), tmp_path)
    assert found["twins"]["share"] >= 60 / 68
    assert found["twins"]["agreement"] > 0.8
    assert found["leak"]["warning"]
    assert found["leak"]["share"] > 0.3
    _, shown, _ = djgnn("inspect", "--no-cost", "--dataset", "own", "--data", tmp_path)
    assert "Leaking duplicates" in shown


def test_nodes_that_hang_on_one_neighbour_are_no_duplicates(inspect, tmp_path: Path) -> None:
    found = inspect(random_splits(duplicated(1)), tmp_path)
    assert found["twins"]["share"] > 0.8
    assert found["leak"] == {"test_nodes": 0, "share": 0.0, "warning": False}


def test_a_graph_without_labels_is_inspected_too(djgnn, tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("source,target\na,b\nb,c\n")
    (tmp_path / "n.csv").write_text("id,size\na,1\nb,2\nc,3\n")
    tables = ("--edges", tmp_path / "e.csv", "--nodes", tmp_path / "n.csv")
    status, shown, message = djgnn("inspect", "--no-cost", *tables)
    assert status == 0, message
    assert "Left out: homophily" in shown
    assert "name the column of the classes with --label" in shown
    rows = "id,label\na,x\nb,x\nc,x\n"
    (tmp_path / "l.csv").write_text(rows)
    _, labelled, _ = djgnn("inspect", "--no-cost", *tables[:3], tmp_path / "l.csv")
    assert "Left out: homophily" in labelled
    assert "--label" not in labelled
    _, shown, _ = djgnn("inspect", "--no-cost", *tables, "--json")
    found = json.loads(shown)
    assert found["heterophily"] is None
    assert found["twins"]["agreement"] is None
    assert found["labels"] == {"known": 0, "classes": {}}


def test_partly_labelled_and_edgeless_graphs_do_not_break_it(inspect, tmp_path: Path) -> None:
    y = np.array([0, 1, -1, -1])
    found = inspect(Graph(np.array([[0, 2], [2, 3]]), num_nodes=4, y=y), tmp_path)
    assert found["heterophily"] is None
    assert found["labels"]["known"] == 2
    found = inspect(Graph(np.zeros((2, 0), dtype=int), num_nodes=4, y=y), tmp_path)
    assert found["size"]["isolated"] == 4
    assert found["twins"] == {"share": 1.0, "share_empty": 1.0, "agreement": None}
    # Two classes on the edges, but one only in the largest component.
    edges = np.array([[0, 1, 3], [1, 2, 4]])
    apart = Graph(edges, num_nodes=5, y=np.array([0, 0, 0, 0, 1]))
    assert inspect(apart, tmp_path)["heterophily"]["R"] is None


@pytest.mark.parametrize("name", ["chameleon", "squirrel"])
def test_the_known_leaks_are_found_and_the_filtered_sets_are_clean(
    djgnn, name: str, data_dir: Path
) -> None:
    for suffix, leaking in (("", True), ("_filtered", False)):
        if not (data_dir / f"{name}{suffix}.npz").is_file():
            pytest.skip("data set not here")
        _, shown, _ = djgnn(
            "inspect", "--no-cost", "--dataset", name + suffix, "--data", data_dir, "--json"
        )
        found = json.loads(shown)
        assert found["leak"]["warning"] is leaking
        assert found["advice"]["adjacency"] == "given"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give either --dataset"),
        (["--dataset", "own", "--edges", "e.csv"], "give either --dataset"),
        (["--edges", "e.csv"], "--nodes: missing"),
        (["--edges", "e.csv", "--nodes", "n.csv"], "no such file"),
        (["--dataset", "owm"], "owm"),
    ],
)
def test_bad_input_is_status_2(
    djgnn, arguments: list[str], message: str, empty_cache: Path
) -> None:
    status, shown, error = djgnn("inspect", "--no-cost", *arguments)
    assert (status, shown) == (2, "")
    assert message in error
    assert "Traceback" not in error


def test_what_a_fit_costs_is_told(djgnn, tmp_path: Path) -> None:
    graph = random_splits(heterophilic_sbm(160))
    write_npz(graph, tmp_path / "own.npz")
    own = ("--dataset", "own", "--data", tmp_path, "--set", "epochs=30", "--set", "patience=null")
    found = json.loads(djgnn("inspect", *own, "--json").stdout)["cost"]
    count = len(resolve("default").model.experts) - 1  # of hops and mix one
    assert (found["epochs"], found["trainings"]) == (30, count)
    assert found["seconds"] == pytest.approx(30 * count * found["seconds_per_epoch"], rel=0.5)
    shown = djgnn("inspect", *own).stdout
    assert "fit here, time" in shown
    assert f"{count} x 30 epochs" in shown
    bare = Graph(graph.edge_index, graph.num_nodes, name="bare")
    write_npz(bare, tmp_path / "own.npz")
    assert json.loads(djgnn("inspect", *own, "--json").stdout)["cost"] is None


def test_a_graph_on_which_training_diverges_is_inspected_too(djgnn, tmp_path: Path) -> None:
    graph = random_splits(heterophilic_sbm(60))
    x = np.full((graph.num_nodes, 2), 3e37, dtype=np.float32)
    write_npz(dataclasses.replace(graph, x=x), tmp_path / "own.npz")
    status, shown, message = djgnn("inspect", "--graph", tmp_path / "own.npz", "--json")
    assert status == 0, message
    assert json.loads(shown)["cost"] is None
    assert "what a fit costs is not known" in message
