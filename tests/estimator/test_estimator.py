"""The scikit-learn face."""

from __future__ import annotations

import copy
import dataclasses
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import ParameterGrid

from djgnn import DJClassifier, InputError
from djgnn.errors import DJGNNWarning
from djgnn.graph import Graph, heterophilic_sbm, random_splits
from djgnn.graph.checks import METRICS
from djgnn.model.config import PLAIN_NAMES
from djgnn.parameters import NAMED, config_of
from djgnn.training import resolve

FAST = {"epochs": 15, "hidden_channels": 8, "num_jumps": 2}


@pytest.fixture(scope="module")
def graph() -> Graph:
    return heterophilic_sbm(200)


@pytest.fixture(scope="module")
def known(graph: Graph) -> np.ndarray:
    return np.where(np.arange(graph.num_nodes) % 2 == 0, graph.y, -1)


@pytest.fixture(scope="module")
def fitted(graph: Graph, known: np.ndarray) -> DJClassifier:
    return DJClassifier(folds=1, options=FAST).fit(graph, known)


def test_every_node_is_classified(graph: Graph, fitted: DJClassifier) -> None:
    proba = fitted.predict_proba(graph)
    assert proba.shape == (graph.num_nodes, 4)
    np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-5)
    assert (fitted.predict(graph) == fitted.classes_[proba.argmax(axis=1)]).all()
    assert (fitted.transduction_ == fitted.predict(graph)).all()
    assert fitted.embedding_.shape == (graph.num_nodes, 5)
    assert sum(fitted.branch_weights_.values()) == pytest.approx(1)
    assert tuple(fitted.branch_weights_) == fitted.model_.names
    assert {(r.expert, r.epoch) for r in fitted.history_ if r.expert not in PLAIN_NAMES} == {
        (name, epoch)
        for name in fitted.model_.names
        for epoch in range(15)
        if name not in PLAIN_NAMES
    }
    assert fitted.model_.names[: len(PLAIN_NAMES)] == PLAIN_NAMES
    unseen = np.where(np.arange(graph.num_nodes) % 2 == 1, graph.y, -1)
    assert fitted.score(graph, unseen) > 0.3  # four classes


@pytest.mark.parametrize("kind", ["str", "float", "none"])
def test_labels_of_any_type_mean_the_same(
    kind: str, graph: Graph, known: np.ndarray, fitted: DJClassifier
) -> None:
    forms = {
        "str": ["" if c < 0 else f"class {c}" for c in known],
        "float": [np.nan if c < 0 else float(c) for c in known],
        "none": [None if c < 0 else f"class {c}" for c in known],
    }
    other = DJClassifier(folds=1, options=FAST).fit(graph, forms[kind])
    assert (other.predict_proba(graph) == fitted.predict_proba(graph)).all()
    assert other.classes_[1] == {"str": "class 1", "float": 1.0, "none": "class 1"}[kind]


def test_labels_are_compared_by_value(graph: Graph, known: np.ndarray) -> None:
    whole = DJClassifier(folds=1, options=FAST).fit(graph, known)
    floats = np.where(known < 0, np.nan, known)
    real = DJClassifier(folds=1, options=FAST).fit(graph, floats)
    named = DJClassifier(folds=1, options=FAST).fit(graph)  # the graph's own classes: "0", "1", ...
    for clf in (whole, real, named):
        scores = {
            clf.score(graph, graph.y),
            clf.score(graph, graph.y.astype(float)),
            clf.score(graph, graph.y.astype(str)),
        }
        assert len(scores) == 1
        assert scores.pop() == (clf.predict(graph).astype(float) == graph.y).mean()
    with pytest.warns(DJGNNWarning, match="not a class of the model"):
        assert whole.score(graph, np.where(graph.y == 0, 9, -1)) == 0
    with pytest.raises(InputError, match="no label is known"):
        whole.score(graph, np.full(graph.num_nodes, -1))
    with pytest.raises(InputError, match="one label per node"):
        whole.score(graph, graph.y[:5])


def test_the_graph_s_own_labels_are_no_values(graph: Graph) -> None:
    other = dataclasses.replace(graph, class_names=("1", "2", "3", "4", "5")[: graph.num_classes])
    clf = DJClassifier(folds=1, options=FAST).fit(other)
    names = np.array(other.classes())[other.y]
    assert clf.score(other, other.y) == clf.score(other, names) > 0.2
    assert clf.score(other, names) == (clf.predict(other) == names).mean()
    with pytest.raises(InputError, match="the graph has none"):
        clf.score(dataclasses.replace(other, y=None, class_names=None))


@pytest.mark.parametrize(
    ("weight", "said"), [([1.0], "one weight per node"), ("zero", "positive"), ("minus", "not neg")]
)
def test_weights_that_make_no_mean_are_refused(
    graph: Graph, fitted: DJClassifier, weight: object, said: str
) -> None:
    n = graph.num_nodes
    given = {"zero": np.zeros(n), "minus": np.full(n, -1.0)}.get(str(weight), weight)
    with pytest.raises(InputError, match=said):
        fitted.score(graph, graph.y, sample_weight=given)


def test_missing_values_of_pandas_and_numpy_mean_unknown(
    graph: Graph, known: np.ndarray, fitted: DJClassifier
) -> None:
    pd = pytest.importorskip("pandas")
    forms = [
        pd.array([pd.NA if c < 0 else c for c in known], dtype="Int64"),
        pd.Series([pd.NA if c < 0 else f"{c}" for c in known], dtype="string"),
        [np.float32("nan") if c < 0 else int(c) for c in known],
        [-1.0 if c < 0 else float(c) for c in known],
        ["-1" if c < 0 else f"{c}" for c in known],
    ]
    for form in forms:
        other = DJClassifier(folds=1, options=FAST).fit(graph, form)
        assert len(other.classes_) == 4
        assert (other.predict_proba(graph) == fitted.predict_proba(graph)).all()


def test_random_states_are_scikit_learn_s(graph: Graph, known: np.ndarray, tmp_path) -> None:
    plain = DJClassifier(folds=1, options=FAST, random_state=3).fit(graph, known)
    numpys = DJClassifier(folds=1, options=FAST, random_state=np.int64(3)).fit(graph, known)
    assert (plain.predict_proba(graph) == numpys.predict_proba(graph)).all()
    drawn = DJClassifier(folds=1, options=FAST, random_state=np.random.RandomState(5)).fit(
        graph, known
    )
    drawn.save(tmp_path / "drawn")
    loaded = DJClassifier.load(tmp_path / "drawn")
    assert isinstance(loaded.random_state, int)
    again = clone(loaded).fit(graph, known)
    assert (again.predict_proba(graph) == drawn.predict_proba(graph)).all()
    DJClassifier(folds=1, options=FAST, random_state=None).fit(graph, known).save(tmp_path / "none")
    assert DJClassifier.load(tmp_path / "none").random_state is None
    for bad in (-1, 2**63, "three", 1.5):
        with pytest.raises(InputError, match="random_state"):
            DJClassifier(folds=1, options=FAST, random_state=bad).fit(graph, known)


def test_what_is_handed_out_can_be_changed(graph: Graph, fitted: DJClassifier) -> None:
    before = fitted.predict(graph)
    fitted.predict_proba(graph)[:] = 0
    assert (fitted.predict(graph) == before).all()


def test_options_may_be_numpy_s(graph: Graph, known: np.ndarray, tmp_path) -> None:
    options = {**FAST, "epochs": np.int64(3), "lr": np.float64(0.02)}
    DJClassifier(folds=1, options=options).fit(graph, known).stored_.config.to_yaml()


def test_hidden_labels_do_not_matter(graph: Graph, known: np.ndarray, fitted: DJClassifier) -> None:
    rolled = dataclasses.replace(graph, y=np.roll(graph.y, 1))
    again = DJClassifier(folds=1, options=FAST).fit(rolled, known)
    assert (again.predict_proba(graph) == fitted.predict_proba(graph)).all()


def test_stored_splits_are_honoured_and_test_labels_unseen(graph: Graph) -> None:
    split = random_splits(graph)
    first = DJClassifier(folds=1, options=FAST).fit(split)
    y = split.y.copy()
    y[split.split(0).test] = 0
    second = DJClassifier(folds=1, options=FAST).fit(dataclasses.replace(split, y=y))
    assert (first.predict_proba(graph) == second.predict_proba(graph)).all()


def test_parameters_are_seen_by_scikit_learn(graph: Graph, known: np.ndarray, tmp_path) -> None:
    shown = {"epochs": 3, "hidden_channels": 8, "num_jumps": 2, "folds": 1}
    clf = DJClassifier(**shown, options={"support": "paper"})
    names = {"num_jumps", "hidden_channels", "dropout", "lr", "weight_decay", "epochs", "patience"}
    assert names < clf.get_params().keys()
    assert clone(clf).get_params() == clf.get_params()
    with pytest.raises(ValueError, match="speed"):
        clf.set_params(speed=1)
    scores = {}
    for point in ParameterGrid({"num_jumps": [1, 2], "lr": [0.01, 0.1]}):
        found = clone(clf).set_params(**point).fit(graph, known)
        config = found.stored_.config
        assert {"num_jumps": config.model.num_jumps, "lr": config.training.lr} == point
        assert (config.training.epochs, config.model.support) == (3, "paper")
        scores[config.model.num_jumps, config.training.lr] = found.validation_score_
    assert len(scores) == 4
    found.save(tmp_path / "m")
    assert DJClassifier.load(tmp_path / "m").get_params() == found.get_params()


def test_a_score_of_one_s_own(graph: Graph, known: np.ndarray, tmp_path) -> None:
    quick = {**FAST, "experts": ["features", "jumps"]}
    rare = np.where(known < 0, -1, known == 0)
    fits = {
        metric: DJClassifier(folds=1, options=quick, metric=metric, select="score").fit(graph, rare)
        for metric in METRICS
    }
    for metric, clf in fits.items():
        assert clf.stored_.card["metric"] == metric
        assert clf.stored_.config.training.select == "score"
    assert len({clf.validation_score_ for clf in fits.values()}) > 1
    clf.save(tmp_path / "model")
    assert DJClassifier.load(tmp_path / "model").get_params() == clf.get_params()
    binary = dataclasses.replace(graph, card={"metric": "roc_auc"})
    assert (
        DJClassifier(folds=1, options=quick).fit(binary, rare).stored_.card["metric"] == "roc_auc"
    )
    assert (
        DJClassifier(folds=1, options=quick).fit(binary, known).stored_.card["metric"] == "accuracy"
    )
    with pytest.raises(InputError, match=r"metric: must be one of accuracy.*'f1'"):
        DJClassifier(metric="f1").fit(graph, known)
    with pytest.raises(InputError, match="metric roc_auc: needs two classes"):
        DJClassifier(folds=1, options=quick, metric="roc_auc").fit(graph, known)


def test_none_is_the_preset_s_value_and_a_parameter_wins_over_its_option() -> None:
    none, classes = dict.fromkeys(NAMED), np.arange(2)
    assert config_of("paper", none, None, None, classes) == resolve("paper")
    said = {"epochs": 9, "patience": None}
    config = config_of("full", {**none, "epochs": 7}, said, None, classes).training
    assert (config.epochs, config.patience) == (7, None)
    with pytest.raises(InputError, match="lr must be"):
        config_of("full", {**none, "lr": -1.0}, None, None, classes)


def test_scikit_learn_s_conventions(graph: Graph, known: np.ndarray, fitted: DJClassifier) -> None:
    twin = clone(fitted)
    assert twin.get_params() == fitted.get_params()
    assert twin.set_params(random_state=3).random_state == 3
    with pytest.raises(NotFittedError):
        twin.predict(graph)
    for again in (pickle.loads(pickle.dumps(fitted)), copy.deepcopy(fitted)):
        assert (again.predict(graph) == fitted.predict(graph)).all()
    other = DJClassifier(folds=1, options=FAST, random_state=1).fit(graph, known)
    assert (other.predict_proba(graph) != fitted.predict_proba(graph)).any()


def test_what_cannot_be_fitted_is_refused(graph: Graph, known: np.ndarray, fitted) -> None:
    with pytest.raises(InputError, match="one label per node"):
        DJClassifier().fit(graph, known[:5])
    with pytest.raises(InputError, match="one class"):
        DJClassifier(folds=1, options=FAST).fit(graph, np.zeros(graph.num_nodes))
    with pytest.raises(InputError, match="no node has a label"):
        DJClassifier(folds=1, options=FAST).fit(graph, np.full(graph.num_nodes, -1))
    with pytest.raises(InputError, match="no option 'speed'"):
        DJClassifier(options={"speed": 1}).fit(graph, known)
    with pytest.raises(InputError, match=r"the labels are all different.*\(got \d+ labels\)"):
        DJClassifier().fit(graph, np.arange(graph.num_nodes))
    for folds in (None, 1):
        with pytest.raises(InputError, match="validation_size"):
            DJClassifier(folds=folds, validation_size=0).fit(graph, known)
    dates = np.array(["2026-01-01", "2026-01-02"], dtype="datetime64[D]")[graph.y % 2]
    with pytest.raises(InputError, match="write others as text"):
        DJClassifier().fit(graph, dates)
    with pytest.raises(InputError, match="not the one"):
        fitted.predict(heterophilic_sbm(200, random_state=5))
