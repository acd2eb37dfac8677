"""Cross-fitted classifiers: every label is learned from, and answered by those that did not."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from djgnn import DJClassifier, Graph, InputError
from djgnn.graph import heterophilic_sbm, random_splits
from djgnn.training.folds import with_splits
from djgnn.training.inputs import build_djgnn
from djgnn.training.run import train

FAST = {
    "epochs": 20,
    "hidden_channels": 8,
    "options": {"experts": ["shares", "propagation", "features", "rows"]},
    "device": "cpu",
}


@pytest.fixture(scope="module")
def graph() -> Graph:
    return dataclasses.replace(heterophilic_sbm(400), class_names=("ant", "bee", "cat", "dog"))


@pytest.fixture(scope="module")
def known(graph: Graph) -> np.ndarray:
    """Words for half of the nodes, nothing for the others."""
    words = np.array(graph.classes(), dtype=object)[graph.y]
    words[np.random.default_rng(0).permutation(graph.num_nodes)[::2]] = None
    return words


@pytest.fixture(scope="module")
def fitted(graph: Graph, known: np.ndarray) -> DJClassifier:
    return DJClassifier(**FAST).fit(graph, known)


def test_it_is_what_the_command_trains(graph: Graph, known: np.ndarray, fitted: DJClassifier):
    codes = np.array([-1 if k is None else graph.classes().index(k) for k in known])
    own = dataclasses.replace(graph, y=codes)
    folded, config = with_splits(own, fitted.stored_.config.replace(folds=None))
    module, inputs = build_djgnn(config, folded)
    want, _ = train(module, inputs, folded, 0, config.training)
    assert config.model.folds == fitted.model_.folds == 4
    shares = want.calibration.probabilities(want.logits.numpy())
    np.testing.assert_array_equal(fitted.predict_proba(graph), shares)
    assert fitted.verdict_["source"] == "folds"
    assert set(fitted.branch_weights_) <= {"shares", "propagation", "features", "rows"}


def test_a_score_without_labels_is_out_of_fold(
    graph: Graph, known: np.ndarray, fitted: DJClassifier, tmp_path: Path
) -> None:
    held = fitted.stored_.held
    assert held is not None
    assert sorted(held.nodes) == np.flatnonzero([k is not None for k in known]).tolist()
    want = float(np.mean(fitted.classes_[held.shares.argmax(axis=1)] == known[held.nodes]))
    judged = fitted.verdict_
    assert fitted.score() == pytest.approx(want) == judged["measured"] / 100
    assert judged["expected"] == pytest.approx(judged["measured"] + judged["gain"])
    learned = dataclasses.replace(
        graph, y=np.where([k is None for k in known], -1, graph.y)
    )  # the labels that it knows, and no others
    assert fitted.score(learned) == fitted.score()
    hidden = np.array([k is None for k in known])
    right = fitted.predict(graph)[hidden] == np.array(graph.classes())[graph.y[hidden]]
    assert fitted.score(graph) == pytest.approx(right.mean())  # never learned from
    assert judged["measured"] < 100 * right.mean()  # one of four members answered
    assert judged["low"] < 100 * right.mean() < judged["high"]
    weight = np.zeros(graph.num_nodes)
    weight[held.nodes[:7]] = 1
    some = fitted.classes_[held.shares[:7].argmax(axis=1)] == known[held.nodes[:7]]
    assert fitted.score(sample_weight=weight) == pytest.approx(some.mean())


@pytest.mark.parametrize("folds", [None, 1, 3])
def test_sets_hold_what_they_promise(
    folds: int | None, graph: Graph, known: np.ndarray, fitted: DJClassifier, tmp_path: Path
) -> None:
    clf = fitted if folds is None else DJClassifier(folds=folds, **FAST).fit(graph, known)
    hidden = np.flatnonzero([k is None for k in known])
    truth = np.array(graph.classes())[graph.y[hidden]]
    sizes = []
    for coverage in (0.6, 0.9):
        sets = clf.predict_set(hidden, coverage=coverage)
        covered = np.mean([label in each for label, each in zip(truth, sets, strict=True)])
        spread = 1 / clf.stored_.judged.y.size + 1 / hidden.size
        assert covered > coverage - 2 * np.sqrt(coverage * (1 - coverage) * spread)
        likeliest = clf.predict(hidden).tolist()
        pairs = zip(sets, likeliest, strict=True)
        assert all(each[0] == first for each, first in pairs if each.size)
        assert coverage < 0.9 or all(each.size for each in sets)
        sizes.append(np.mean([len(each) for each in sets]))
    assert 0.5 < sizes[0] < sizes[1] < 4
    by_class = clf.predict_set(hidden, coverage_by="class")
    for name in clf.classes_:
        own = [name in each for label, each in zip(truth, by_class, strict=True) if label == name]
        assert np.mean(own) > 0.75
    clf.save(tmp_path / "kept")
    again = DJClassifier.load(tmp_path / "kept", device="cpu")
    assert again.folds == clf.folds
    for one, other in zip(by_class, again.predict_set(hidden, coverage_by="class"), strict=True):
        np.testing.assert_array_equal(one, other)
    as_written = clf.predict_set(graph)
    limits = clf.stored_.card["sets"]["thresholds"]
    assert max(limits) < 1
    assert {len(each) for each in as_written} <= {1, 2, 3, 4}


def test_a_split_of_the_graph_is_kept(graph: Graph) -> None:
    split = random_splits(graph)
    clf = DJClassifier(**FAST).fit(split)
    assert clf.model_.folds == 1
    assert clf.stored_.held is None
    no_validation = split.with_masks(
        split.train_mask | split.val_mask, np.zeros_like(split.val_mask), split.test_mask
    )
    folded = DJClassifier(folds=2, **FAST).fit(no_validation)
    assert folded.model_.folds == 2
    assert sorted(folded.stored_.held.nodes) == np.flatnonzero(no_validation.train_mask).tolist()
    with pytest.raises(InputError, match=r"folds: the graph has a split of its own.*\(got 4\)"):
        DJClassifier(folds=4, **FAST).fit(split)


def test_few_labels_have_fewer_folds(graph: Graph) -> None:
    few = {0: "ant", 1: "bee", 2: "ant", 3: "bee", 4: "cat"}
    nodes, y = list(few), list(few.values())
    assert DJClassifier(graph=graph, **FAST).fit(nodes, y).model_.folds == 2


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"folds": 0}, "folds: must be None or a whole number of at least 1"),
        ({"folds": "4"}, "folds: must be None or a whole number"),
        ({"folds": True}, "folds: must be None or a whole number"),
        ({"folds": 1000}, "there can be from 1 to 20 folds"),
        ({"folds": 2, "preset": "paper", "options": None}, "only a mixture of experts"),
        ({"options": {"folds": 3}}, "folds is a parameter"),
    ],
)
def test_folds_that_cannot_be_are_refused(given, said: str, graph: Graph, known) -> None:
    with pytest.raises(InputError, match=said):
        DJClassifier(**{**FAST, **given}).fit(graph, known)


def test_a_promise_that_cannot_be_kept_is_refused(fitted: DJClassifier) -> None:
    for bad in ({"coverage": 1}, {"coverage": "most"}, {"coverage_by": "node"}):
        with pytest.raises(InputError, match=f"{next(iter(bad))} must be"):
            fitted.predict_set([0], **bad)
