"""Trained classifiers: kept in a folder, met by new nodes, asked for reasons."""

from __future__ import annotations

import dataclasses
import json
import pickle
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.base import clone
from tests.reseal import reseal

from djgnn import DJClassifier, Graph, InputError
from djgnn.errors import DJGNNWarning
from djgnn.graph import heterophilic_sbm

FAST = {"epochs": 15, "hidden_channels": 8, "num_jumps": 2, "experts": ["features", "jumps"]}


@pytest.fixture(scope="module")
def graph() -> Graph:
    return heterophilic_sbm(160)


@pytest.fixture(scope="module")
def labels(graph: Graph) -> np.ndarray:
    """Words for half of the nodes, nothing for the others."""
    words = np.array(["ant", "bee", "cat", "dog"], dtype=object)
    known = np.full(graph.num_nodes, None, dtype=object)
    known[::2] = words[graph.y[::2]]
    return known


@pytest.fixture(scope="module")
def fitted(graph: Graph, labels: np.ndarray) -> DJClassifier:
    return DJClassifier(options=FAST, device="cpu").fit(graph, labels)


def grown(graph: Graph, count: int = 5) -> Graph:
    """The graph with new nodes that copy the first ones, edges and features."""
    n = graph.num_nodes
    out = np.isin(graph.edge_index[0], np.arange(count))
    more = graph.edge_index[:, out].copy()
    more[0] += n
    names = (*graph.names(), *(f"new {i}" for i in range(count)))
    x = np.vstack([graph.x, graph.x[:count]])
    edges = np.concatenate([graph.edge_index, more], axis=1)
    return Graph(edges, n + count, x=x, node_names=names)


def test_of_a_later_graph_the_later_nodes_are_predicted(graph: Graph, fitted: DJClassifier) -> None:
    later = grown(graph)
    shares = fitted.predict_proba(later)
    assert shares.shape == (5, 4)
    np.testing.assert_allclose(shares.sum(axis=1), 1, atol=1e-5)
    assert set(fitted.predict(later)) <= set(fitted.classes_)
    whole = fitted.stored_.predict(later)
    np.testing.assert_array_equal(whole[-5:], shares)
    np.testing.assert_array_equal(whole[:-5], fitted.predict_proba(graph))
    first = dataclasses.replace(
        later, edge_index=(later.edge_index + 5) % later.num_nodes,
        x=np.roll(later.x, 5, axis=0), node_names=tuple(np.roll(later.node_names, 5)),
    )  # fmt: skip
    np.testing.assert_allclose(fitted.predict_proba(first), shares, atol=1e-6)


def test_later_nodes_are_scored_alone(graph: Graph, fitted: DJClassifier) -> None:
    later = grown(graph)
    words = fitted.predict(later)
    assert fitted.score(later, words) == 1
    all_wrong = np.full(later.num_nodes, "ant", dtype=object)
    all_wrong[-5:] = words
    assert fitted.score(later, all_wrong) == 1  # one label per node: those of known nodes are not
    weight = np.arange(5) + 1.0
    wrong = np.where(np.arange(5) == 4, "nobody", words)
    with pytest.warns(DJGNNWarning, match="not a class"):
        assert fitted.score(later, wrong, sample_weight=weight) == pytest.approx(10 / 15)


def test_known_nodes_by_name_are_what_they_were(graph: Graph, fitted: DJClassifier) -> None:
    part = np.arange(40)
    inside = np.isin(graph.edge_index, part).all(axis=0)
    names = tuple(graph.names()[i] for i in part)
    small = Graph(graph.edge_index[:, inside], 40, x=graph.x[:40], node_names=names)
    np.testing.assert_array_equal(fitted.predict_proba(small), fitted.predict_proba(graph)[:40])


def test_new_nodes_alone_are_enough(graph: Graph, fitted: DJClassifier) -> None:
    """Only the new nodes and those they point at need to be in the later graph."""
    later = grown(graph)
    n = graph.num_nodes
    more = later.edge_index[:, later.edge_index[0] >= n]
    keep = np.unique(np.concatenate([np.arange(n, n + 5), more[1]]))
    place = np.full(later.num_nodes, -1)
    place[keep] = np.arange(keep.size)
    names = tuple(np.array(later.names())[keep].tolist())
    small = Graph(place[more], keep.size, x=later.x[keep], node_names=names)
    np.testing.assert_allclose(fitted.predict_proba(small), fitted.predict_proba(later), atol=1e-6)


def test_without_names_new_nodes_come_last() -> None:
    named = heterophilic_sbm(160)
    plain = Graph(named.edge_index, named.num_nodes, x=named.x, y=named.y)
    clf = DJClassifier(options=FAST, device="cpu").fit(plain)
    later = grown(plain)
    bare = Graph(later.edge_index, later.num_nodes, x=later.x)
    assert clf.predict(bare).shape == (5,)
    moved = Graph(later.edge_index[:, 3:], later.num_nodes, x=later.x)
    with pytest.raises(InputError, match="nor that with new nodes"):
        clf.predict(moved)
    with pytest.raises(InputError, match="not the one"):
        clf.predict(Graph(plain.edge_index[:, 3:], plain.num_nodes, x=plain.x))


def test_strangers_are_refused(graph: Graph, fitted: DJClassifier) -> None:
    names = tuple(f"nobody {i}" for i in range(graph.num_nodes))
    with pytest.raises(InputError, match="has no node of the one"):
        fitted.predict(Graph(graph.edge_index[::-1], graph.num_nodes, node_names=names))


def test_a_graph_without_features_takes_new_nodes_too() -> None:
    named = heterophilic_sbm(160)
    plain = Graph(named.edge_index, named.num_nodes, y=named.y)
    clf = DJClassifier(options=FAST, device="cpu").fit(plain)
    later = grown(named)
    bare = Graph(later.edge_index, later.num_nodes)
    assert np.isfinite(clf.predict_proba(bare)).all()


@pytest.mark.parametrize("kind", ["text", "whole", "truth", "fraction"])
def test_save_and_load_keep_everything(kind: str, graph: Graph, tmp_path: Path) -> None:
    y: np.ndarray = np.where(np.arange(graph.num_nodes) % 2 == 0, graph.y, -1)
    if kind == "text":
        y = np.array([None if v < 0 else f"kind {v}" for v in y], dtype=object)
    if kind == "truth":
        y = np.array([None if v < 0 else bool(v % 2) for v in y], dtype=object)
    if kind == "fraction":
        y = np.where(y < 0, np.nan, y + 0.5)
    clf = DJClassifier(options=FAST, random_state=3, class_weight="balanced", device="cpu")
    clf.fit(graph, y).save(tmp_path / "model")
    again = DJClassifier.load(tmp_path / "model", device="cpu")
    assert again.classes_.dtype == clf.classes_.dtype
    np.testing.assert_array_equal(again.classes_, clf.classes_)
    np.testing.assert_array_equal(again.transduction_, clf.transduction_)
    np.testing.assert_allclose(again.predict_proba(graph), clf.predict_proba(graph), atol=1e-6)
    np.testing.assert_allclose(again.embedding_, clf.embedding_, atol=1e-6)
    assert again.get_params() == clf.get_params()
    assert again.history_ == clf.history_
    assert again.validation_score_ == clf.validation_score_
    assert again.temperature_ == clf.temperature_
    assert again.verdict_ == clf.verdict_
    assert clf.verdict_["source"] == "folds"
    assert again.score() == clf.score() == pytest.approx(clf.validation_score_ / 100)
    np.testing.assert_array_equal(again.predict(grown(graph)), clf.predict(grown(graph)))
    with pytest.raises(InputError, match="exists already"):
        clf.save(tmp_path / "model")
    clf.save(tmp_path / "model", overwrite=True)
    assert not list(tmp_path.glob("**/*.pkl"))


def test_class_weights_by_label_survive_a_folder(
    graph: Graph, labels: np.ndarray, tmp_path: Path
) -> None:
    weight = {"ant": 5.0, "bee": 0.5}
    clf = DJClassifier(options=FAST, class_weight=weight, device="cpu").fit(graph, labels)
    clf.save(tmp_path / "model")
    assert DJClassifier.load(tmp_path / "model").class_weight == weight
    with pytest.raises(InputError, match="'cow' is not a label"):
        DJClassifier(options=FAST, class_weight={"cow": 1.0}).fit(graph, labels)


def test_class_weights_move_the_balance(graph: Graph, labels: np.ndarray) -> None:
    """A class that weighs a hundred times more is predicted more often; balanced equals 1 here."""
    plain, heavy = (
        DJClassifier(options=FAST, class_weight=w, device="cpu").fit(graph, labels)
        for w in (None, {"dog": 100.0})
    )
    assert (heavy.transduction_ == "dog").sum() > (plain.transduction_ == "dog").sum()


def test_pickling_and_cloning(graph: Graph, fitted: DJClassifier) -> None:
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict_proba(graph), fitted.predict_proba(graph))
    np.testing.assert_array_equal(again.predict(grown(graph)), fitted.predict(grown(graph)))
    fresh = clone(fitted)
    assert fresh.get_params() == fitted.get_params()
    assert not hasattr(fresh, "classes_")


def test_reasons_by_name_and_number(graph: Graph, fitted: DJClassifier) -> None:
    name = graph.names()[4]
    found = fitted.explain(name)
    assert found == fitted.explain(4)
    assert found.prediction == fitted.transduction_[4]
    with pytest.raises(InputError, match="none of that name"):
        fitted.explain("nobody at all")
    with pytest.raises(InputError, match="must be between"):
        fitted.explain(10**6)


def _weights(path: Path) -> None:
    from safetensors.torch import load_file, save_file

    state = load_file(path / "weights.safetensors")
    key = next(key for key, value in state.items() if value.ndim == 2)
    state[key] = state[key][:, 1:].contiguous()
    save_file(state, path / "weights.safetensors")


def _not_finite(path: Path) -> None:
    from safetensors.torch import load_file, save_file

    state = load_file(path / "weights.safetensors")
    state[next(key for key in state if key.endswith("bias"))][0] = float("nan")
    save_file(state, path / "weights.safetensors")


def _held_out(path: Path, **changes: np.ndarray) -> None:
    from safetensors.numpy import load_file, save_file

    file = path / "held_out.safetensors"
    save_file({**load_file(file), **changes}, file)


def _card(path: Path, **changes: object) -> None:
    card = json.loads((path / "result.json").read_text())
    (path / "result.json").write_text(json.dumps({**card, **changes}))


DAMAGE = {
    "no weights": lambda p: (p / "weights.safetensors").unlink(),
    "no graph": lambda p: (p / "graph.npz").unlink(),
    "no options": lambda p: (p / "config.yaml").unlink(),
    "no history": lambda p: (p / "history.csv").unlink(),
    "half the weights": lambda p: (p / "weights.safetensors").write_bytes(
        (p / "weights.safetensors").read_bytes()[:999]
    ),
    "weights of another graph": _weights,
    "weights that are no numbers": _not_finite,
    "no held-out nodes": lambda p: (p / "held_out.safetensors").unlink(),
    "half of the held-out nodes": lambda p: (p / "held_out.safetensors").write_bytes(
        (p / "held_out.safetensors").read_bytes()[:99]
    ),
    "held-out nodes that are none": lambda p: _held_out(p, nodes=np.arange(10_000)),
    "held-out nodes twice": lambda p: _held_out(p, nodes=np.zeros(87, dtype=np.int64)),
    "held-out probabilities that are none": lambda p: _held_out(
        p, shares=np.full((87, 4), np.nan, dtype=np.float32)
    ),
    "a pickle for weights": lambda p: torch.save({"a": 1}, p / "weights.safetensors"),
    "half the graph": lambda p: (p / "graph.npz").write_bytes((p / "graph.npz").read_bytes()[:999]),
    "huge options": lambda p: (p / "config.yaml").write_text(
        (p / "config.yaml").read_text().replace("hidden_channels: 8", f"hidden_channels: {10**9}")
    ),
    "python in options": lambda p: (p / "config.yaml").write_text(
        "a: !!python/object/apply:os.system ['touch pwned']"
    ),
    "card of another graph": lambda p: _card(p, data={"sha256": "0" * 64, "classes": []}),
    "card without temperature": lambda p: _card(p, calibration={}),
    "temperature of zero": lambda p: _card(p, calibration={"temperature": 0.0}),
    "labels of a type that is none": lambda p: _card(
        p, labels={"dtype": "no such type", "values": [1, 2]}
    ),
    "labels with fields": lambda p: _card(p, labels={"dtype": "3i8", "values": [1, 2, 3, 4]}),
    "too few labels": lambda p: _card(p, labels={"dtype": "<i8", "values": [1]}),
    "parameters that are none": lambda p: _card(p, estimator={"speed": 3}),
    "no figures": lambda p: _card(p, result={}),
    "card nested beyond reason": lambda p: (p / "result.json").write_text("[" * 100_000),
    "card that is a list": lambda p: (p / "result.json").write_text("[]"),
    "card that is no JSON": lambda p: (p / "result.json").write_bytes(b"\xff\xfe{"),
    "history that is no table": lambda p: (p / "history.csv").write_text("epoch\nmany\n"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_folder_is_refused(
    damage: str, fitted: DJClassifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    fitted.save("model")
    DAMAGE[damage](Path("model"))
    with suppress(TypeError, ValueError, RecursionError):  # the damage itself is named
        reseal(Path("model"))
    with pytest.raises(InputError, match="model") as caught:
        DJClassifier.load("model", device="cpu")
    assert "\n" not in str(caught.value)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model"]


def test_a_width_of_texts_in_a_card_takes_no_memory(fitted: DJClassifier, tmp_path: Path) -> None:
    fitted.save(tmp_path / "model")
    names = ["a", "bee", "c", "d"]
    _card(tmp_path / "model", labels={"dtype": "<U300000000", "values": names})
    reseal(tmp_path / "model")
    found = DJClassifier.load(tmp_path / "model", device="cpu").classes_
    assert (found.tolist(), found.dtype) == (names, np.dtype("<U3"))


def test_trained_in_batches(graph: Graph, labels: np.ndarray, tmp_path: Path) -> None:
    """A classifier that was, answers in batches too, as a whole pass does."""
    options = {**FAST, "batch_size": 50}
    clf = DJClassifier(folds=1, options=options, device="cpu").fit(graph, labels)
    stored = clf.stored_
    with torch.no_grad():
        whole = stored.module(*stored.inputs)[0].numpy()
    np.testing.assert_allclose(stored.logits, whole, atol=1e-5)
    assert clf.embedding_.shape == (graph.num_nodes, 5)
    clf.save(tmp_path / "kept")
    again = DJClassifier.load(tmp_path / "kept", device="cpu")
    np.testing.assert_array_equal(again.predict_proba(graph), clf.predict_proba(graph))
    assert again.predict(grown(graph)).shape == (5,)
