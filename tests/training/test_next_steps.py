"""What to do next: wrong labels that were planted are found, nodes to label are spread."""

import csv
import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import precision_recall_curve
from tests.reseal import reseal

from djgnn.errors import InputError
from djgnn.graph import Graph, random_splits, stochastic_block_model
from djgnn.report.payload import advice
from djgnn.training.calibration import Calibration
from djgnn.training.config import resolve
from djgnn.training.folder import new_folder, read_card, write_run
from djgnn.training.folds import with_splits
from djgnn.training.held_out import HeldOut, held_out
from djgnn.training.inputs import build_djgnn
from djgnn.training.next_labels import next_labels
from djgnn.training.next_steps import next_lines
from djgnn.training.run import train
from djgnn.training.suspects import neighbours, suspects
from djgnn.training.thresholds import POINTS, precision_recall, thresholds

CONFIG = resolve("full", epochs=30, hidden_channels=8).replace(
    experts=("shares", "propagation", "features", "given")
)


def flipped(graph: Graph, share: float, seed: int = 0) -> tuple[Graph, np.ndarray]:
    """The graph with other labels for some nodes, and which."""
    rng, y = np.random.default_rng(seed), np.array(graph.y)
    nodes = rng.choice(y.size, round(share * y.size), replace=False)
    y[nodes] = (y[nodes] + rng.integers(1, graph.num_classes, nodes.size)) % graph.num_classes
    return dataclasses.replace(graph, y=y), nodes


def test_planted_labels_come_first_and_the_folder_tells_of_them(tmp_path: Path) -> None:
    blocks = 0.01 + 0.09 * np.eye(3)
    graph = stochastic_block_model([100, 100, 100], blocks, signal=1.5, random_state=1)
    graph, wrong = flipped(graph, 0.05)
    hidden = np.setdiff1d(np.arange(0, 300, 10), wrong)
    graph = dataclasses.replace(graph, y=np.where(np.isin(np.arange(300), hidden), -1, graph.y))
    graph, config = with_splits(graph, CONFIG)
    module, inputs = build_djgnn(config, graph)
    fitted, result = train(module, inputs, graph, 0, config.training)
    with new_folder(tmp_path / "run") as folder:
        write_run(folder, graph, config, fitted, result, 0)
    card = read_card(tmp_path / "run")
    with (tmp_path / "run" / "suspects.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    planted = {graph.names()[i] for i in wrong}
    assert len(planted & {row["node"] for row in rows[: len(planted)]}) >= 0.8 * len(planted)
    assert [row["node"] for row in rows[:50]] == [each["node"] for each in card["suspects"]]
    probability = [float(row["probability"]) for row in rows]
    assert probability == sorted(probability)
    assert all(row["label"] != row["prediction"] for row in rows)
    assert 0.5 * len(planted) <= card["suspected"] <= 2 * len(planted)
    assert card["held_out"] == "folds"
    with (tmp_path / "run" / "label-next.csv").open(newline="") as file:
        wanted = [row["node"] for row in csv.DictReader(file)]
    assert sorted(wanted) == sorted(graph.names()[i] for i in hidden)
    assert set(card["thresholds"]) == set(graph.classes())
    assert [line.split(":")[0] for line in next_lines(card, tmp_path)] == [
        f"{card['suspected']} labels look wrong",
        "label these next",
    ]
    assert {row["looks_wrong"] for row in rows} == {"yes", "no"}
    assert sum(row["looks_wrong"] == "yes" for row in rows) == card["suspected"]
    assert advice(card)["suspects"][0]["looks_wrong"]
    assert next_lines({}, tmp_path) == []
    path = tmp_path / "run" / "result.json"
    for damage in (
        {"suspects": [{"node": "x"}]},
        {"label_next": [{**card["label_next"][0], "margin": 2}]},
        {"thresholds": {"0": [{"precision": "high"}]}},
        {"importance": [{"group": "x", "drop": float("nan"), "error": 0.0}]},
    ):
        path.write_text(json.dumps({**card, **damage}))
        with pytest.raises(InputError, match=next(iter(damage))):
            read_card(tmp_path / "run")
    older = {k: v for k, v in card.items() if k not in ("suspects", "label_next", "thresholds")}
    path.write_text(json.dumps(older))
    reseal(tmp_path / "run")
    assert "suspects" not in read_card(tmp_path / "run")


def test_that_no_label_looks_wrong_and_no_column_matters_is_said(tmp_path: Path) -> None:
    where = tmp_path / "suspects.csv"
    assert next_lines({"suspected": 0, "suspects": []}, tmp_path) == ["no label looks wrong"]
    assert next_lines({"suspected": 0, "suspects": [{}]}, tmp_path) == [
        f"no label looks wrong; those predicted otherwise: {where}"
    ]
    columns = [{"group": "a", "drop": 0.3, "error": 0.2}, {"group": "b", "drop": -0.7, "error": 0}]
    (line,) = next_lines({"importance": columns}, tmp_path)
    assert line == "no column matters: shuffling one lowers the score by no more than chance"
    useful = {"group": "c", "drop": 0.2, "error": 0.05}  # surer than the first, which drops more
    (line,) = next_lines({"importance": [columns[0], useful]}, tmp_path)
    assert line == "matters most: c (0.2 points without it)"
    guessed = {"importance": [columns[0], useful], "verdict": {"at_chance": True}}
    assert next_lines(guessed, tmp_path) == []


def test_without_folds_the_test_part_is_looked_at_and_else_validation() -> None:
    graph = random_splits(stochastic_block_model([30, 30], [[0.2, 0.02], [0.02, 0.2]]))
    config = CONFIG.replace(epochs=3)
    module, inputs = build_djgnn(config, graph)
    fitted, _ = train(module, inputs, graph, 0, config.training)
    found = held_out(graph, fitted)
    assert found.source == "test"
    assert np.array_equal(found.nodes, np.flatnonzero(graph.split(0).test))
    bare = graph.with_masks(
        np.asarray(graph.train_mask), np.asarray(graph.val_mask), np.zeros((60, 1), dtype=np.bool_)
    )
    found = held_out(bare, fitted)
    assert found.source == "validation"
    assert np.array_equal(found.nodes, np.flatnonzero(graph.split(0).val))
    np.testing.assert_allclose(found.shares.sum(axis=1), 1, atol=1e-5)


def test_reasons_name_experts_neighbours_and_a_twin() -> None:
    # 0 and 1 have the same neighbours, 2 to 4; 0 is said to be a, all else here is b.
    edges = np.array([[0, 0, 0, 1, 1, 1], [2, 3, 4, 2, 3, 4]])
    graph = Graph(edges, num_nodes=6, y=np.array([0, 1, 1, 1, -1, 0]), class_names=("a", "b"))
    shares = np.array([[0.04, 0.96], [0.5001, 0.4999], [0.2, 0.8]], dtype=np.float32)
    alone = {"shares": np.array([0, 0, 0]), "features": np.array([1, 0, 1]), "rows": np.ones(3)}
    held = HeldOut("folds", np.array([0, 1, 2]), np.array([0, 1, 1]), shares, alone)
    first, second = suspects(graph, held)
    assert (first.node, first.label, first.prediction) == ("0", "a", "b")
    assert first.reasons == (
        "b is 24 times as likely; 2 of 2 experts say b; 2 of 2 labelled neighbours are b; "
        "1 has the same neighbours and is b"
    )
    assert first.looks_wrong
    assert (second.node, second.prediction) == ("1", "a")
    assert second.reasons == "a is 1 times as likely; 0 has the same neighbours and is a"
    assert not second.looks_wrong


def test_nodes_to_label_are_uncertain_central_and_not_neighbours() -> None:
    # Two stars, 0 with 2 to 7 and 1 with 8 to 11, a labelled pair 12, 13, and 14, which is sure.
    star = [(0, i) for i in range(2, 8)] + [(1, i) for i in range(8, 12)] + [(12, 13), (13, 14)]
    y = np.full(15, -1)
    y[[12, 13]] = 0, 1
    graph = Graph(np.array(star).T, num_nodes=15, y=y, class_names=("a", "b"))
    shares = np.full((15, 2), 0.5, dtype=np.float32)
    shares[14] = 0.99, 0.01
    found = [int(each.node) for each in next_labels(graph, shares)]
    assert found[:2] == [0, 1]
    assert found[-1] == 14
    assert sorted(found) == [i for i in range(15) if y[i] < 0]
    assert [int(each.node) for each in next_labels(graph, shares, most=2)] == [0, 1]
    whole = dataclasses.replace(graph, y=np.arange(15) % 2)
    assert next_labels(whole, shares) == []


def test_a_chosen_node_halves_the_worth_of_its_neighbours() -> None:
    # 0 and 1 are joined hubs of 5 leaves each; 12 is the hub of 4 leaves elsewhere.
    edges = [(0, 1)] + [(i % 2, i) for i in range(2, 12)] + [(12, i) for i in range(13, 17)]
    graph = Graph(np.array(edges).T, num_nodes=17, y=np.full(17, -1), class_names=("a", "b"))
    found = [int(each.node) for each in next_labels(graph, np.full((17, 2), 0.5, np.float32), 3)]
    assert found == [0, 12, 3]  # 3 hangs on 1, which has lost to 0


def test_a_hub_among_sure_nodes_comes_after_a_node_among_unsure_ones() -> None:
    # 0 has 40 neighbours, 4 of them unsure; 41 has 3, all unsure.
    edges = [(0, i) for i in range(1, 41)] + [(41, i) for i in range(42, 45)]
    graph = Graph(np.array(edges).T, num_nodes=45, y=np.full(45, -1), class_names=("a", "b"))
    shares = np.full((45, 2), 0.5, dtype=np.float32)
    shares[5:41] = 0.99, 0.01
    first, *others = next_labels(graph, shares)
    assert (first.node, first.neighbours, first.reach) == ("41", 3, 1.75)
    assert next(each for each in others if each.node == "0").reach < 1.4


def test_thresholds_agree_with_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 300)
    share = np.clip(0.3 + 0.3 * y + 0.2 * rng.standard_normal(300), 0.01, 0.99).round(2)
    place, precision, recall, count = precision_recall(share, y == 1)
    wanted_precision, wanted_recall, wanted_place = precision_recall_curve(y == 1, share)
    np.testing.assert_allclose(place, wanted_place[::-1])
    np.testing.assert_allclose(precision, wanted_precision[:-1][::-1])
    np.testing.assert_allclose(recall, wanted_recall[:-1][::-1])
    assert count[-1] == 300
    labels = np.where(np.arange(300) < 200, y, -1)
    graph = Graph(np.zeros((2, 0)), num_nodes=300, y=labels, class_names=("no", "yes", "never"))
    shares = np.column_stack([1 - share, share, np.zeros(300)]).astype(np.float32)
    known = np.arange(200)
    card = thresholds(graph, HeldOut("folds", known, y[:200], shares[:200], {}), shares)
    assert set(card["thresholds"]) == {"no", "yes"}
    assert card["thresholds"]["yes"]
    shares = shares.astype(np.float64).round(6)  # as predictions.csv has them
    for row in card["thresholds"]["yes"]:
        above = shares[:200, 1] >= row["threshold"]
        assert np.mean(y[:200][above]) >= row["precision"]
        assert above.sum() == row["nodes"]
        assert y[:200][above].sum() / y[:200].sum() == pytest.approx(row["recall"])
        assert (shares[200:, 1] >= row["threshold"]).sum() == row["unlabelled"]
        lower = [t for t in np.unique(shares[:200, 1]) if t < row["threshold"]]
        assert all(np.mean(y[:200][shares[:200, 1] >= t]) < row["precision"] for t in lower)
    curve = card["pr_curve"]["yes"]
    assert len(curve["threshold"]) == len(curve["recall"]) == len(curve["precision"]) <= POINTS
    assert curve["recall"][-1] == 1


def test_where_the_curve_of_calibration_is_flat_lists_go_by_the_logits() -> None:
    sure = np.random.default_rng(0).permutation(np.linspace(0.5, 6, 40))
    logits = np.stack([sure, np.zeros(40)], axis=1).astype(np.float32)
    flat = Calibration(1.0, (0.5, 1.0), (0.8, 0.8))
    shares = flat.probabilities(logits)
    y = np.where(np.arange(40) < 20, 1, -1)
    graph = Graph(np.zeros((2, 0)), num_nodes=40, y=y, class_names=("a", "b"))
    held = HeldOut("folds", np.arange(20), y[:20], shares[:20], {})
    doubted = [int(each.node) for each in suspects(graph, held)]
    assert doubted == np.argsort(-sure[:20]).tolist()  # the surest of the other class first
    wanted = [int(each.node) for each in next_labels(graph, shares)]
    assert wanted == (20 + np.argsort(sure[20:])).tolist()  # the least sure first
    right = HeldOut("folds", np.arange(20), (sure[:20] < 2).astype(np.int64), shares[:20], {})
    rows = thresholds(graph, right, shares)["thresholds"]["a"]
    assert rows[-1]["recall"] == 1  # the classes fall apart by logits, on one step of the curve


def test_nodes_to_label_are_chosen_one_after_the_other() -> None:
    graph = stochastic_block_model([40, 40], [[0.1, 0.05], [0.05, 0.1]])
    graph = dataclasses.replace(graph, y=np.where(np.arange(80) % 3 == 0, graph.y, -1))
    shares = np.random.default_rng(0).dirichlet(np.ones(2), 80).astype(np.float32).round(1)
    near = neighbours(graph)
    degree = np.diff(near.indptr)
    every = {row.node: row for row in next_labels(graph, shares)}
    value = np.array([-1.0] * 80)
    for i, name in enumerate(graph.names()):
        if name in every:
            value[i] = (1 - every[name].margin) * every[name].reach
    for row in every.values():
        best = min(np.flatnonzero(value >= 0), key=lambda i: (-value[i], -degree[i], i))
        assert row.node == graph.names()[best]
        value[best] = -1
        value[near.indices[near.indptr[best] : near.indptr[best + 1]]] /= 2
