"""Sets of classes: as many right ones as promised, whatever the probabilities are worth."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import softmax

from djgnn.errors import InputError
from djgnn.graph import Graph, heterophilic_sbm, random_splits
from djgnn.training.config import resolve
from djgnn.training.conformal import (
    Promise,
    adaptive_scores,
    coded_sets,
    draws,
    plain_scores,
    thresholds,
    usual_promise,
)
from djgnn.training.folder import new_folder, read_card, read_predictions, write_run
from djgnn.training.inputs import build_djgnn
from djgnn.training.predictions import COLUMNS
from djgnn.training.run import train
from djgnn.training.stored import load_model

CLASSES = 5


def class_sets(*given: Any) -> list[str]:
    texts, place = coded_sets(*given)
    return [texts[i] for i in place.tolist()]


def sample(nodes: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities that are too sure of themselves, and classes of unequal sizes."""
    logits = rng.normal(size=(nodes, CLASSES)) + np.log([0.4, 0.3, 0.15, 0.1, 0.05])
    y = (softmax(logits, axis=1).cumsum(axis=1) < rng.random((nodes, 1))).sum(axis=1)
    return softmax(2 * logits, axis=1).astype(np.float32), y


def coverage(promise: Promise, rounds: int, scored=adaptive_scores) -> tuple[np.ndarray, ...]:
    """Sets of fresh nodes by thresholds of others: classes inside, and the right class."""
    rng, inside, right = np.random.default_rng(0), [], []
    for _ in range(rounds):
        (own, own_y), (new, new_y) = sample(300, rng), sample(200, rng)
        limits = thresholds(scored(own, rng.random(300)), own_y, promise)
        inside.append(scored(new, rng.random(200)) <= limits)
        right.append(new_y)
    return np.concatenate(inside), np.concatenate(right)


@pytest.mark.parametrize("promised", [0.8, 0.9])
@pytest.mark.parametrize("scored", [adaptive_scores, plain_scores])
def test_sets_cover_as_often_as_promised(promised: float, scored) -> None:
    rounds = 200
    inside, y = coverage(Promise(promised), rounds, scored)
    # Of each round's coverage: 300 nodes that it was calibrated on, 200 that it is read from.
    error = np.sqrt(promised * (1 - promised) * (1 / 300 + 1 / 200) / rounds)
    covered = inside[np.arange(y.size), y].mean()
    assert promised - 3 * error < covered < promised + 1 / 301 + 3 * error
    assert inside.any(axis=1).all()


@pytest.mark.parametrize("scored", [adaptive_scores, plain_scores])
def test_a_promise_below_the_accuracy_is_kept_without_the_least_sure_nodes(scored) -> None:
    rng, covered, rounds, promised = np.random.default_rng(0), [], 200, 0.25
    for _ in range(rounds):
        (own, own_y), (new, new_y) = sample(300, rng), sample(200, rng)
        assert (own.argmax(axis=1) == own_y).mean() > promised
        limits = thresholds(scored(own, rng.random(300)), own_y, Promise(promised))
        inside = scored(new, rng.random(200)) <= limits
        covered.append(inside[np.arange(200), new_y].mean())
        alone = inside.any(axis=1)
        assert np.array_equal(inside[alone].argmax(axis=1), new[alone].argmax(axis=1))
        assert inside.sum(axis=1).max() == 1
        assert new.max(axis=1)[~alone].max() < new.max(axis=1)[alone].min()
    error = np.sqrt(promised * (1 - promised) * (1 / 300 + 1 / 200) / rounds)
    assert promised - 3 * error < np.mean(covered) < promised + 1 / 301 + 3 * error


@pytest.mark.parametrize(
    ("right", "nodes", "promised"),
    [
        (80, 100, 0.9),
        (90, 100, 0.9),
        (91, 100, 0.95),
        (96, 100, 0.99),
        (100, 100, 0.99),
        (18, 18, 0.9),
        (19, 19, 0.95),
        (98, 98, 0.95),
        (8, 8, 0.9),
    ],
)
def test_what_is_promised_where_nothing_was_asked_for(right: int, nodes: int, promised) -> None:
    """So that no set is empty, nor has every class because there are too few nodes."""
    shares, y = np.tile(np.float32([[0.7, 0.3]]), (nodes, 1)), np.arange(nodes) >= right
    promise = usual_promise(shares, y.astype(np.int64))
    assert promise.coverage == promised
    limits = thresholds(adaptive_scores(shares, np.full(nodes, 0.5)), y.astype(int), promise)
    assert (limits[0] < 0) == (right >= promised * (nodes + 1))


def test_by_class_a_promise_below_the_accuracy_leaves_the_likeliest_class() -> None:
    shares, y = sample(400, np.random.default_rng(0))
    scores = adaptive_scores(shares, np.full(400, 0.5))
    inside = scores <= thresholds(scores, y, Promise(0.05, "class"))
    assert inside[np.arange(400), shares.argmax(axis=1)].all()


@pytest.mark.parametrize("promised", [0.8, 0.9])
def test_by_class_every_class_is_covered(promised: float) -> None:
    inside, y = coverage(Promise(promised, "class"), 200)
    together, _ = coverage(Promise(promised), 200)
    for c in range(CLASSES):
        rows = np.flatnonzero(y == c)
        assert inside[rows, c].mean() > promised - 0.01
    rare = np.flatnonzero(y == CLASSES - 1)
    assert together[rare, CLASSES - 1].mean() < promised - 0.02
    assert inside.any(axis=1).all()


def test_few_nodes_promise_nothing_so_that_every_class_is_in() -> None:
    shares, y = sample(8, np.random.default_rng(0))
    assert thresholds(adaptive_scores(shares, np.ones(8)), y, Promise(0.9)).tolist() == [1] * 5
    more, y = sample(9, np.random.default_rng(0))
    scores = adaptive_scores(more, np.full(9, 0.5))
    assert thresholds(scores, y, Promise(0.9))[0] == scores[np.arange(9), y].max()
    # Of a class without a label nothing is known either.
    limits = thresholds(scores, np.zeros(9, dtype=np.int64), Promise(0.9, "class"))
    assert (limits[1:] == 1).all()
    assert (adaptive_scores(more, np.ones(9)) <= 1).all()


def test_ties_are_in_the_order_of_the_classes() -> None:
    shares = np.full((1, 4), 0.25, dtype=np.float32)
    np.testing.assert_allclose(
        adaptive_scores(shares, np.array([0.5]))[0], [-0.25, 0.375, 0.625, 0.875]
    )
    names = ["a", "b", "c", "d"]
    found = class_sets({"thresholds": [0.7] * 4}, shares, ["n"], names)
    assert found == class_sets({"thresholds": [0.7] * 4}, shares, ["n"], names)
    assert found[0].split("|") == names[: len(found[0].split("|"))]
    assert class_sets({"thresholds": [0.0] * 4}, shares, ["n"], names) == ["a"]
    assert class_sets({"thresholds": [-0.3] * 4}, shares, ["n"], names) == [""]
    assert class_sets({"thresholds": [1.0] * 4}, shares, ["n"], names) == ["a|b|c|d"]


def test_draws_belong_to_the_names_and_are_even() -> None:
    names = [str(i) for i in range(5000)]
    found = draws(names)
    assert np.array_equal(found[::-1], draws(names[::-1]))
    assert ((found >= 0) & (found < 1)).all()
    counts = np.histogram(found, bins=10, range=(0, 1))[0]
    assert abs(counts - 500).max() < 5 * np.sqrt(500)


def test_names_with_bars_can_be_told_apart() -> None:
    shares = np.array([[0.5, 0.3, 0.2]], dtype=np.float32)
    found = class_sets({"thresholds": [1.0] * 3}, shares, ["n"], ["a|b", "c\\", "d"])
    assert found == ["a\\|b|c\\\\|d"]


@pytest.mark.parametrize("promise", [{"coverage": 0.0}, {"coverage": 1.0}, {"coverage_by": "node"}])
def test_promises_that_cannot_be(promise) -> None:
    with pytest.raises(ValueError, match="must be"):
        Promise(**promise)


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> tuple[Path, Graph]:
    graph = random_splits(heterophilic_sbm(300, hub_size=1))
    config = resolve("full", epochs=6, hidden_channels=8).replace(
        experts=("shares", "propagation", "features")
    )
    module, inputs = build_djgnn(config, graph)
    fitted, result = train(module, inputs, graph, 0, config.training, 0)
    path = tmp_path_factory.mktemp("runs") / "run"
    with new_folder(path) as folder:
        write_run(folder, graph, config, fitted, result, 0, Promise(0.8, "class"))
    return path, graph


def test_a_run_has_sets_of_all_nodes(finished) -> None:
    path, graph = finished
    card, parts = read_card(path)["sets"], graph.split(0)
    assert (card["coverage"], card["by"], card["method"]) == (0.8, "class", "APS")
    assert card["source"] == "validation"
    assert (card["nodes"], card["held_out_nodes"]) == (parts.val.sum(), parts.test.sum())
    assert card["class_coverage"].keys() == set(graph.classes())
    header, *table = read_predictions(path)
    rows = [dict(zip(header, row, strict=True)) for row in table]
    assert header[: len(COLUMNS)] == list(COLUMNS)
    sets = [row["set"].split("|") for row in rows]
    assert all(found[0] == row["prediction"] for found, row in zip(sets, rows, strict=True))
    for found, row in zip(sets, rows, strict=True):
        shares = [float(row[f"p({name})"]) for name in found]
        assert shares == sorted(shares, reverse=True)
    tested = [(found, row) for found, row in zip(sets, rows, strict=True) if row["part"] == "test"]
    covered = np.mean([row["label"] in found for found, row in tested])
    assert covered == pytest.approx(card["held_out_coverage"])
    assert np.mean([len(found) for found, _ in tested]) == pytest.approx(card["mean_size"])
    stored = load_model(path)
    again = class_sets(stored.card["sets"], stored.probabilities, graph.names(), graph.classes())
    same = [a == row["set"] for a, row in zip(again, rows, strict=True)]
    assert np.mean(same) > 0.99


def test_a_run_without_sets_is_read(finished, tmp_path: Path) -> None:
    shutil.copytree(finished[0], tmp_path / "run")
    file = tmp_path / "run" / "result.json"
    card = json.loads(file.read_text())
    limits = card["sets"].pop("thresholds")
    file.write_text(json.dumps(card))
    with pytest.raises(InputError, match=r"sets\.thresholds must be"):
        read_card(tmp_path / "run")
    for name in ("sets", "verdict", "files"):
        del card[name]
    file.write_text(json.dumps(card))
    assert load_model(tmp_path / "run").card.get("sets") is None
    assert class_sets(None, np.ones((2, 1), dtype=np.float32), ["a", "b"], ["c"]) == ["", ""]
    with pytest.raises(InputError, match="one number for each of 2 classes"):
        class_sets({"thresholds": limits}, np.ones((1, 2), dtype=np.float32), ["n"], ["a", "b"])


def test_folds_calibrate_and_are_checked_in_groups() -> None:
    from djgnn.training.folder import run_card
    from djgnn.training.folds import with_splits

    base = heterophilic_sbm(400)
    y = np.where(np.arange(base.num_nodes) % 2 == 0, base.y, -1)
    plain = resolve("full", epochs=4, hidden_channels=8).replace(
        experts=("shares", "propagation", "features")
    )
    graph, config = with_splits(replace(base, y=y), plain)
    module, inputs = build_djgnn(config, graph)
    fitted, result = train(module, inputs, graph, 0, config.training, 0)
    card = run_card(graph, config, fitted, result, 0)["sets"]
    known = int((y >= 0).sum())
    assert (card["source"], card["nodes"], card["held_out_nodes"]) == ("folds", known, known)
    error = np.sqrt(0.09 / known)
    assert card["held_out_coverage"] > 0.9 - 3 * error
    assert 1 <= card["plain_mean_size"] <= 4
    assert 1 <= card["mean_size"] <= 4
    assert card["empty"] == 0
