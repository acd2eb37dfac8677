"""Fitted with nodes of a graph: scikit-learn's model selection, and labels that stay hidden."""

from __future__ import annotations

import dataclasses
import pickle
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import (
    GridSearchCV,
    StratifiedKFold,
    cross_val_predict,
    cross_val_score,
    train_test_split,
)
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks

from djgnn import DJClassifier, Graph, InputError
from djgnn.errors import DJGNNWarning
from djgnn.graph import heterophilic_sbm, random_splits
from djgnn.model.config import PLAIN_NAMES

FAST = {
    "epochs": 10,
    "hidden_channels": 8,
    "num_jumps": 2,
    "options": {"experts": ["features", "jumps"]},
    "device": "cpu",
}


@pytest.fixture(scope="module")
def graph() -> Graph:
    made = heterophilic_sbm(200)
    names = tuple(f"page {i}" for i in range(made.num_nodes))
    return dataclasses.replace(made, node_names=names)


@pytest.fixture(scope="module")
def nodes(graph: Graph) -> np.ndarray:
    """Some nodes, not in order."""
    return np.random.default_rng(0).permutation(graph.num_nodes)[:120]


@pytest.fixture(scope="module")
def y(graph: Graph, nodes: np.ndarray) -> np.ndarray:
    return np.array(["ant", "bee", "cat", "dog"])[graph.y[nodes]]


@pytest.fixture(scope="module")
def fitted(graph: Graph, nodes: np.ndarray, y: np.ndarray) -> DJClassifier:
    return DJClassifier(graph=graph, **FAST).fit(nodes, y)


def test_nodes_and_a_label_per_node_mean_the_same(
    graph: Graph, nodes: np.ndarray, y: np.ndarray, fitted: DJClassifier
) -> None:
    everywhere = np.full(graph.num_nodes, "", dtype="<U3")
    everywhere[nodes] = y
    other = DJClassifier(**FAST).fit(graph, everywhere)
    np.testing.assert_array_equal(other.predict_proba(graph), fitted.probabilities_)
    np.testing.assert_array_equal(other.predict(nodes[::-1]), fitted.predict(nodes[::-1]))


def test_nodes_by_number_and_by_name_in_any_form(
    graph: Graph, nodes: np.ndarray, y: np.ndarray, fitted: DJClassifier
) -> None:
    pd = pytest.importorskip("pandas")
    names = [graph.names()[i] for i in nodes]
    forms = [nodes.tolist(), nodes[:, None], nodes.astype(float), pd.Series(nodes), names,
             np.array(names), pd.DataFrame({"id": names}), pd.Index(names)]  # fmt: skip
    want = fitted.predict_proba(graph)[nodes]
    for form in forms:
        np.testing.assert_array_equal(fitted.predict_proba(form), want)
    again = DJClassifier(graph=graph, **FAST).fit(pd.Series(names), pd.Series(y))
    np.testing.assert_array_equal(again.predict_proba(nodes), want)
    assert fitted.score(nodes, y) == (fitted.predict(nodes) == y).mean()
    assert fitted.predict([]).shape == (0,)


def test_no_label_of_the_graph_is_ever_looked_at(
    graph: Graph, nodes: np.ndarray, y: np.ndarray, fitted: DJClassifier, tmp_path: Path
) -> None:
    """Poisoned, missing, of other classes, with splits: the folders are the same bytes."""
    poison = np.random.default_rng(1).integers(0, 9, graph.num_nodes)
    others = {
        "poisoned": dataclasses.replace(graph, y=poison),
        "named": dataclasses.replace(graph, y=poison, class_names=tuple("abcdefghi")),
        "none": dataclasses.replace(graph, y=None, class_names=None),
        "split": random_splits(dataclasses.replace(graph, y=poison)),
    }
    fitted.save(tmp_path / "as it is")
    for name, other in others.items():
        DJClassifier(graph=other, **FAST).fit(nodes, y).save(tmp_path / name)
        for file in ("weights.safetensors", "config.yaml", "graph.npz"):
            want = (tmp_path / "as it is" / file).read_bytes()
            assert (tmp_path / name / file).read_bytes() == want, (name, file)


def test_cross_validation_never_sees_the_fold_s_labels(
    graph: Graph, nodes: np.ndarray, y: np.ndarray
) -> None:
    """Every fold is predicted as by a fit on a graph and labels in which that fold is garbage.

    With the experts that hand labels on to neighbours.
    """
    options = {**FAST, "options": {"experts": ["features", *PLAIN_NAMES]}}
    clf, cv = DJClassifier(graph=graph, **options), StratifiedKFold(3)
    shares = cross_val_predict(clf, nodes, y, cv=cv, method="predict_proba")
    for learned, held in cv.split(nodes, y):
        poison = graph.y.copy()
        poison[nodes[held]] = (poison[nodes[held]] + 1) % 4
        other = DJClassifier(graph=dataclasses.replace(graph, y=poison), **options)
        other.fit(nodes[learned], y[learned])
        np.testing.assert_array_equal(other.predict_proba(nodes[held]), shares[held])


def test_cross_val_score_with_any_splitter_and_scorer(
    graph: Graph, nodes: np.ndarray, y: np.ndarray
) -> None:
    clf = DJClassifier(graph=graph, **FAST)
    scores = cross_val_score(clf, nodes, y, cv=StratifiedKFold(3))
    found = cross_val_predict(clf, nodes, y, cv=StratifiedKFold(3))
    assert scores.mean() == pytest.approx((found == y).mean())
    assert scores.mean() > 0.3  # four classes
    names = ("neg_log_loss", "roc_auc_ovr", "f1_macro")
    for name in names:
        assert np.isfinite(cross_val_score(clf, nodes, y, cv=2, scoring=name)).all()
    held = train_test_split(nodes, y, stratify=y, random_state=0)
    assert clone(clf).fit(held[0], held[2]).score(held[1], held[3]) > 0.2


def test_grid_search_over_jumps(graph: Graph, nodes: np.ndarray, y: np.ndarray) -> None:
    search = GridSearchCV(
        DJClassifier(graph=graph, **FAST), {"num_jumps": [1, 4]}, cv=StratifiedKFold(2)
    ).fit(nodes, y)
    assert {p["num_jumps"] for p in search.cv_results_["params"]} == {1, 4}
    best = search.best_estimator_
    assert best.stored_.config.model.num_jumps == search.best_params_["num_jumps"]
    assert best.graph is graph  # not copied for every candidate
    assert search.predict(nodes).shape == nodes.shape
    assert search.score(nodes, y) == best.score(nodes, y)


def test_a_pipeline_passes_the_nodes_on(graph: Graph, nodes: np.ndarray, y: np.ndarray) -> None:
    line = make_pipeline("passthrough", DJClassifier(graph=graph, **FAST))
    assert line.fit(nodes[:, None], y).predict(nodes[:, None]).dtype == y.dtype
    line.set_params(djclassifier__num_jumps=1)
    assert line.get_params()["djclassifier__num_jumps"] == 1


def test_a_folder_and_a_pickle_keep_the_nodes(
    graph: Graph, nodes: np.ndarray, y: np.ndarray, fitted: DJClassifier, tmp_path: Path
) -> None:
    fitted.save(tmp_path / "model")
    for again in (DJClassifier.load(tmp_path / "model"), pickle.loads(pickle.dumps(fitted))):
        np.testing.assert_array_equal(again.predict(nodes), fitted.predict(nodes))
        fresh = clone(again).fit(nodes, y)
        np.testing.assert_array_equal(fresh.predict_proba(nodes), fitted.predict_proba(nodes))
    assert DJClassifier.load(tmp_path / "model").graph.y is None


CHECKS = [
    "estimator_cloneable", "estimator_tags_renamed", "valid_tag_types", "estimator_repr",
    "no_attributes_set_in_init", "estimators_unfitted", "do_not_raise_errors_in_init_or_set_params",
    "mixin_order", "get_params_invariance", "set_params", "parameters_default_constructible",
]  # fmt: skip


@pytest.mark.parametrize("check", CHECKS)
def test_scikit_learn_s_own_checks(check: str, graph: Graph) -> None:
    """Those that fit nothing. The others fit matrices of features: what they mean is below."""
    for clf in (DJClassifier(), DJClassifier(graph=graph, **FAST)):
        getattr(estimator_checks, f"check_{check}")("DJClassifier", clf)


def test_the_checks_that_fit_repeated_with_nodes(
    graph: Graph, nodes: np.ndarray, y: np.ndarray, fitted: DJClassifier
) -> None:
    clf = DJClassifier(graph=graph, **FAST)
    before, given = clf.get_params(), (nodes.copy(), y.copy())
    frozen = nodes.copy()
    frozen.flags.writeable = False
    assert clf.fit(frozen, y) is clf
    assert clf.get_params() == before  # and nothing that was given has changed
    assert all((old == new).all() for old, new in zip(given, (nodes, y), strict=True))
    learned = {name for name in vars(clf) if name not in before}
    assert all(name.endswith("_") for name in learned)
    first, held = clf.predict_proba(nodes), dict(vars(clf))
    np.testing.assert_array_equal(first, clf.fit(nodes, y).predict_proba(nodes))  # idempotent
    np.testing.assert_array_equal(first, fitted.predict_proba(nodes))
    order = np.argsort(nodes)
    np.testing.assert_array_equal(clf.predict_proba(nodes[order]), first[order])
    np.testing.assert_array_equal(np.vstack([clf.predict_proba([i]) for i in nodes]), first)
    assert vars(clf).keys() == held.keys()
    shuffled = DJClassifier(graph=graph, **FAST).fit(nodes[order], y[order])
    np.testing.assert_array_equal(shuffled.predict_proba(nodes), first)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("mask", r"X: is a mask; give the nodes, np\.flatnonzero"),
        ("matrix", "features belong into the graph"),
        ("beyond", r"X\[1\]: no such node; they count from 0 to"),
        ("negative", r"X\[1\]: no such node"),
        ("fraction", "whole numbers or names"),
        ("graph", "must be nodes of the graph"),
        ("name", "did you mean 'page 1'"),
        ("text", "must be nodes of the graph"),
        ("more", r"one label per node of X, \[119\]"),
        ("no labels", "give the labels of the nodes in X"),
        ("two labels", r"X\[0\]: this node is there again with another label"),
        ("minus one", "if -1 is a class, write the labels as 0 and 1"),
        ("measurement", "looks like a measurement"),
        ("both kinds", "partly text and partly not"),
    ],
)
def test_what_is_wrong_is_said(
    graph: Graph, nodes: np.ndarray, y: np.ndarray, given: str, said: str
) -> None:
    forms = {
        "mask": (np.ones(graph.num_nodes, dtype=bool), y),
        "matrix": (graph.x, y),
        "beyond": ([0, 10**6], ["a", "b"]),
        "negative": ([0, -1], ["a", "b"]),
        "fraction": ([0, 0.5], ["a", "b"]),
        "graph": (graph, graph.y),
        "name": (["page 0", "pages 1"], ["a", "b"]),
        "text": ("page 0", ["a"]),
        "more": (nodes[1:], y),
        "no labels": (nodes, None),
        "two labels": ([*nodes, nodes[0]], [*y, "eel"]),
        "minus one": (nodes, np.where(y == "ant", -1, 1)),
        "measurement": (nodes, np.linspace(0, 1, 120)),
        "both kinds": (nodes, [*y[:-1].tolist(), 7]),
    }
    with pytest.raises(InputError, match=said):
        DJClassifier(graph=graph, **FAST).fit(*forms[given])


def test_a_node_given_twice_with_one_label_counts_once(
    graph: Graph, nodes: np.ndarray, y: np.ndarray, fitted: DJClassifier
) -> None:
    again = DJClassifier(graph=graph, **FAST).fit([*nodes, nodes[0]], [*y, y[0]])
    np.testing.assert_array_equal(again.predict_proba(nodes), fitted.predict_proba(nodes))


def test_a_score_without_labels_is_of_nodes_that_were_not_learned_from(
    graph: Graph, nodes: np.ndarray, y: np.ndarray, fitted: DJClassifier
) -> None:
    assert fitted.score() == pytest.approx(fitted.validation_score_ / 100)
    with pytest.raises(InputError, match="give the labels of the nodes in X"):
        fitted.score(nodes)
    own = DJClassifier(**FAST).fit(graph)
    assert own.score() == own.score(graph) == pytest.approx(own.validation_score_ / 100)
    split = random_splits(graph)
    test = split.split(0).test
    honest = DJClassifier(**FAST).fit(split)
    right = honest.predict(graph) == graph.y
    assert honest.score() == honest.score(split) == pytest.approx(right[test].mean())
    unseen = np.setdiff1d(np.arange(graph.num_nodes), nodes)
    assert fitted.score(unseen, np.array(["ant", "bee", "cat", "dog"])[graph.y[unseen]]) > 0.2
    with pytest.warns(DJGNNWarning, match="not a class of the model"):
        fitted.score(nodes[:2], ["eel", "eel"])
