"""The verdict: what to expect, what simpler means give, whether the graph helps."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from djgnn.graph import Graph
from djgnn.training.calibration import Calibration
from djgnn.training.config import resolve
from djgnn.training.folder import run_card
from djgnn.training.folds import with_splits
from djgnn.training.inputs import build_djgnn
from djgnn.training.loop import ExpertRecord, Fitted
from djgnn.training.out_of_fold import Evidence
from djgnn.training.run import train
from djgnn.training.selection import score
from djgnn.training.verdict import verdict

N, EPOCHS = 1000, 50


def graph_of(
    y: np.ndarray, metric: str = "accuracy", features: bool = True, parts: Any = None
) -> Graph:
    """A path; all labelled nodes are of the validation part if nothing else is said."""
    edges = np.stack([np.arange(N - 1), np.arange(1, N)])
    x = np.ones((N, 2), dtype=np.float32) if features else None
    blank = np.zeros(N, dtype=np.bool_)
    masks = {"train_mask": blank, "val_mask": y >= 0, "test_mask": blank, **(parts or {})}
    return Graph(edges, num_nodes=N, x=x, y=y, card={"metric": metric}, **masks)


def answers(y: np.ndarray, right: float, classes: int, seed: int) -> np.ndarray:
    """Logits that are right on about a share of the nodes."""
    rng = np.random.default_rng(seed)
    said = np.where(rng.random(y.size) < right, y, (y + 1) % classes)
    return np.log(0.8 * np.eye(classes)[said] + 0.2 / classes).astype(np.float32)


def fitted_of(logits: np.ndarray, evidence: Evidence | None = None, **more: Any) -> Fitted:
    none: Any = torch.nn.Identity()
    given = torch.from_numpy(logits)
    blank = np.zeros(0)
    return Fitted(none, 3, 0.0, 0.0, given, given, (), blank, blank, 0.0, evidence=evidence, **more)


def cross_fitted(
    right: float,
    alone: dict[str, float],
    known: int = 400,
    classes: int = 3,
    metric: str = "accuracy",
    features: bool = True,
    **more: Any,
) -> tuple[Graph, Fitted]:
    """A run of folds on the first nodes, whose answers are right so often."""
    rng = np.random.default_rng(5)
    truth = rng.choice(classes, N, p=[0.6, *[0.4 / (classes - 1)] * (classes - 1)])
    logits, nodes = answers(truth, right, classes, 0), np.arange(known)
    y = np.where(np.arange(N) < known, truth, -1)
    own = {
        kind: answers(truth, r, classes, 1 + i)[nodes] for i, (kind, r) in enumerate(alone.items())
    }
    seen = Evidence(nodes, truth[nodes], logits[nodes].astype(np.float64), own)
    return graph_of(y, metric, features), fitted_of(logits, seen, **more)


def test_the_text_has_every_figure() -> None:
    graph, fitted = cross_fitted(0.9, {"features": 0.7, "propagation": 0.75})
    found = verdict(graph, fitted, 0, EPOCHS)
    assert found is not None
    assert found["source"] == "folds"
    assert found["nodes"] == 400
    y, seen = graph.y[:400], fitted.evidence
    assert found["expected"] == pytest.approx(100 * (seen.logits.argmax(axis=1) == y).mean())
    assert found["largest_class"] == pytest.approx(100 * np.bincount(y).max() / 400)
    for kind in ("features", "propagation"):
        assert found[kind] == pytest.approx(score(seen.alone[kind].argmax(axis=1), y, "accuracy"))
    assert found["text"] == (
        f"{found['expected']:.1f}% expected ({found['low']:.1f} to {found['high']:.1f}). Guessing "
        f"the largest class: {found['largest_class']:.1f}; features alone: {found['features']:.1f};"
        f" label propagation: {found['propagation']:.1f}. The graph helps."
    )
    assert found["warnings"] == []


@pytest.mark.parametrize("metric", ["accuracy", "macro_f1"])
def test_what_averaging_adds_is_told_apart_and_widens_the_interval(metric: str) -> None:
    graph, fitted = cross_fitted(0.7, {}, metric=metric)
    plain = verdict(graph, fitted, 0, EPOCHS)
    seen = replace(fitted.evidence, members=4, gain=3.0)
    found = verdict(graph, replace(fitted, evidence=seen), 0, EPOCHS)
    assert (plain["gain"], plain["measured"]) == (0, plain["expected"])
    assert found["expected"] == pytest.approx(found["measured"] + 3)
    assert found["measured"] == plain["measured"]
    wide, narrow = (each["high"] - each["low"] for each in (found, plain))
    # The error of the gain is half of it, and is independent of the other one.
    assert wide == pytest.approx(np.hypot(narrow, 2 * 1.96 * 1.5), rel=0.03)
    made = f"{found['measured']:.1f} on nodes not learned from, +3.0 for averaging 4 members"
    assert f"): {made}. Guessing" in found["text"]
    most = replace(fitted.evidence, gain=40.0)
    assert verdict(graph, replace(fitted, evidence=most), 0, EPOCHS)["expected"] == 100


@pytest.mark.parametrize("metric", ["accuracy", "macro_f1"])
@pytest.mark.parametrize(
    ("right", "features", "helps", "end"),
    [
        (0.9, 0.7, True, "The graph helps."),
        (0.9, 0.9, False, "The graph does not help: features alone do as well."),
        (0.9, None, None, "."),
    ],
)
def test_whether_the_graph_helps(metric, right, features, helps, end) -> None:
    alone = {} if features is None else {"features": features}
    found = verdict(*cross_fitted(right, alone, metric=metric), 0, EPOCHS)
    assert found["graph_helps"] is helps
    assert found["text"].endswith(end)
    assert ("features alone:" in found["text"]) == (features is not None)


def test_without_features_the_expert_of_that_name_says_nothing() -> None:
    found = verdict(*cross_fitted(0.9, {"features": 0.4}, features=False), 0, EPOCHS)
    assert found["features"] is None
    assert found["graph_helps"] is None


@pytest.mark.parametrize("metric", ["accuracy", "macro_f1", "roc_auc", "average_precision"])
def test_chance_is_called_chance(metric: str) -> None:
    graph, fitted = cross_fitted(1.0, {}, classes=2, metric=metric)
    blind = np.tile(np.log([[0.6, 0.4]]), (400, 1))
    blind += 1e-9 * np.random.default_rng(0).normal(size=blind.shape)
    seen = replace(fitted.evidence, logits=blind)
    found = verdict(graph, replace(fitted, evidence=seen), 0, EPOCHS)
    assert found["text"].endswith("Nothing helps: it is no better than guessing the largest class.")
    assert any("at chance" in text for text in found["warnings"])
    sure = verdict(graph, fitted, 0, EPOCHS)
    assert sure["expected"] == pytest.approx(100)
    assert not any("at chance" in text for text in sure["warnings"])
    assert (found["at_chance"], sure["at_chance"]) == (True, False)


def test_that_nothing_helps_is_not_said_beside_a_better_score() -> None:
    graph, fitted = cross_fitted(0.0, {"propagation": 1.0}, known=5)
    found = verdict(graph, fitted, 0, EPOCHS)
    assert found["propagation"] > found["largest_class"] > found["measured"]
    said = "It is not ahead of guessing the largest class by more than chance."
    assert found["text"].endswith(f"label propagation: {found['propagation']:.1f}. {said}")


@pytest.mark.parametrize("right", [0.0, 0.5, 0.9, 0.99, 1.0])
@pytest.mark.parametrize("known", [40, 300, 900])
def test_the_interval_holds_the_accuracy_of_the_unlabelled_nodes(right: float, known: int) -> None:
    rng, inside, rounds = np.random.default_rng(0), 0, 400
    y = np.where(np.arange(N) < known, 0, -1)
    graph = replace(graph_of(y), class_names=("a", "b"))
    for _ in range(rounds):
        logits = np.eye(2)[(rng.random(N) >= right).astype(int)]
        seen = Evidence(np.arange(known), y[:known], logits[:known], {})
        found = verdict(graph, fitted_of(logits, seen), 0, EPOCHS)
        truth = 100 * (logits[known:].argmax(axis=1) == 0).mean()
        inside += found["low"] <= truth <= found["high"]
        assert 0 <= found["low"] <= found["expected"] <= found["high"] <= 100
        assert found["low"] < found["high"]
    assert inside / rounds > 0.92


def test_scores_that_rank_have_an_interval_too() -> None:
    rng, inside, rounds = np.random.default_rng(1), 0, 60
    for _ in range(rounds):
        truth = (rng.random(N) < 0.3).astype(np.int64)
        odds = truth + rng.normal(size=N)
        logits = np.column_stack([np.zeros(N), odds])
        y = np.where(np.arange(N) < 300, truth, -1)
        seen = Evidence(np.arange(300), truth[:300], logits[:300], {})
        found = verdict(graph_of(y, "roc_auc"), fitted_of(logits, seen), 0, EPOCHS)
        inside += found["low"] <= score(odds[300:], truth[300:], "roc_auc") <= found["high"]
    assert "ROC-AUC expected (" in found["text"]
    assert inside / rounds > 0.85


def test_without_folds_the_test_part_is_read_or_else_validation_with_a_warning() -> None:
    truth = np.random.default_rng(0).integers(3, size=N)
    logits, place = answers(truth, 0.8, 3, 0), np.arange(N)
    own = {"features": torch.from_numpy(answers(truth, 0.5, 3, 1))}
    fitted = fitted_of(logits, alone=own)
    masks = {"train_mask": place < 500, "val_mask": (place >= 500) & (place < 700)}
    graph = graph_of(truth, parts={**masks, "test_mask": place >= 700})
    found = verdict(graph, fitted, 0, EPOCHS)
    assert (found["source"], found["nodes"]) == ("test", 300)
    rows = slice(700, None)
    assert found["expected"] == pytest.approx(
        score(logits[rows].argmax(axis=1), truth[rows], "accuracy")
    )
    assert found["features"] < found["expected"] - 20
    assert found["propagation"] is None
    assert found["graph_helps"]
    assert found["warnings"] == []
    found = verdict(graph_of(truth, parts=masks), fitted, 0, EPOCHS)
    assert (found["source"], found["nodes"]) == ("validation", 200)
    assert any("may flatter" in text for text in found["warnings"])


def record(name: str, weight: float, epoch: int) -> ExpertRecord:
    return ExpertRecord(name, weight, epoch, EPOCHS, 0.0, 0.0, 0.0)


def test_guard_rails_speak_up() -> None:
    experts = (
        record("jumps-1", 0.3, EPOCHS - 1),
        record("jumps-2", 0.3, 3),
        record("deep-1", 0.01, EPOCHS - 1),
        record("propagation-1", 0.39, EPOCHS - 1),
    )
    graph, fitted = cross_fitted(
        0.9,
        {},
        known=12,
        classes=4,
        experts=experts,
        diverged=("rows",),
        calibration=Calibration(25.0),
    )
    found = verdict(graph, fitted, 0, EPOCHS)
    said = " | ".join(found["warnings"])
    assert "the best epoch of jumps is the last of 50" in said
    assert "temperature of the calibration is 25" in said
    assert "diverged: rows" in said
    count = np.bincount(graph.y[:12], minlength=4)
    for c, name in enumerate(graph.classes()):
        assert (f"{name} ({count[c]})" in said) == (count[c] < 5)
    assert "points wide, it rests on 12 labels" in said
    stopped = verdict(graph, replace(fitted, interrupted=True), 0, EPOCHS)
    assert "best epoch" not in " ".join(stopped["warnings"])


@pytest.mark.parametrize("folds", [1, 3])
def test_trees_that_need_no_edge_do_not_count_for_the_graph(folds: int) -> None:
    """Edges at random; a perceptron of two epochs misses what trees find in the features."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(900, 12)).astype(np.float32)
    truth = (x[:, 0] > 0.3) + 2 * (np.abs(x[:, 1]) > 0.7)
    y = np.where(np.arange(900) % 2, truth, -1)
    edges = rng.integers(900, size=(2, 1800))
    config = resolve("full", epochs=12).replace(experts=("propagation", "boosting", "features"))
    config = config.replace(hidden_channels=2, dropout=0.9)
    graph, config = with_splits(Graph(edges, num_nodes=900, x=x, y=y), config, folds)
    module, inputs = build_djgnn(config, graph)
    fitted, result = train(module, inputs, graph, 0, config.training, 0)
    found = run_card(graph, config, fitted, result, 0)["verdict"]
    assert found["graph_helps"] is False
    assert found["features"] > 85
    bare = run_card(graph, config, replace(fitted, alone={}), result, 0)["verdict"]
    if folds > 1:
        assert bare["graph_helps"] is True
        known = fitted.alone["feature_trees"].isfinite().all(dim=1).numpy()
        assert np.array_equal(np.flatnonzero(known), np.sort(fitted.evidence.nodes))
