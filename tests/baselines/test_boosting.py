"""Boosting: its columns, its trees against scikit-learn's own fit, and the protocol of all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.ensemble import HistGradientBoostingClassifier
from tests.baselines.conftest import dense, received

from djgnn.baselines import baseline_config
from djgnn.bench.cell import build, train_split
from djgnn.errors import InputError
from djgnn.graph import Graph, random_splits
from djgnn.training.checkpoint import Checkpoint
from djgnn.training.inputs import initialize, seeded
from djgnn.training.loop import Fitted, Targets, fit
from djgnn.training.progress import Hooks

FEW = {"iterations": 3, "min_samples_leaf": 4, "max_features": 0.5}


@pytest.fixture(scope="module")
def ready(graph: Graph) -> Graph:
    """The small graph with one split."""
    return random_splits(graph, num_splits=1)


def run(graph: Graph, seed: int = 0, **changes: Any) -> tuple[Any, Fitted]:
    """The prepared columns and a finished run."""
    config = baseline_config("boosting", **{**FEW, "epochs": 4, "patience": None, **changes})
    built = build(config, graph)
    return built.module.constants(*built.inputs), train_split(built, graph, 0, seed)


def oracle(columns: Any, graph: Graph, iterations: int, seed: int = 0) -> torch.Tensor:
    """Log probabilities of trees that were fitted in one go."""
    train = graph.split(0).train
    trees = HistGradientBoostingClassifier(
        max_iter=iterations,
        min_samples_leaf=4,
        max_features=0.5,
        early_stopping=False,
        random_state=seed,
    )
    return torch.from_numpy(trees.fit(columns[train], graph.y[train]).predict_proba(columns)).log()


@pytest.mark.parametrize("seed", [0, 3])
def test_epochs_are_scikit_learns_trees_fitted_in_one_go(ready: Graph, seed: int) -> None:
    columns, fitted = run(ready, seed)
    expected = oracle(columns, ready, 3 * (fitted.epoch + 1), seed)
    torch.testing.assert_close(fitted.logits, expected.float())
    test = ready.split(0).test
    for epoch, decisions in enumerate(fitted.decisions):
        chosen = oracle(columns, ready, 3 * (epoch + 1), seed).argmax(dim=1).numpy()
        assert np.array_equal(decisions, chosen[test])


def test_two_classes_are_log_odds_of_the_second(ready: Graph) -> None:
    binary = replace(ready, y=(ready.y > 0).astype(np.int64), card={"metric": "roc_auc"})
    columns, fitted = run(binary)
    expected = oracle(columns, binary, 3 * (fitted.epoch + 1))
    torch.testing.assert_close(fitted.logits, expected.float(), atol=1e-5, rtol=1e-4)


def test_columns_are_means_over_neighbours_and_degrees(graph: Graph, built) -> None:
    module, (x, edges) = built("boosting", graph, num_hops=2, components=500)
    a = received(edges, graph.num_nodes).double().numpy()
    whole = dense(x).double().numpy()
    assert not np.array_equal(a, a.T)
    expected = [whole]
    for way in (a, a.T):
        mean = way / np.maximum(way.sum(axis=1, keepdims=True), 1)
        expected += [mean @ whole, mean @ mean @ whole]
    degrees = [a.sum(axis=1), a.sum(axis=0), np.maximum(a, a.T).sum(axis=1)]
    np.testing.assert_allclose(module.constants(x, edges), np.column_stack([*expected, *degrees]))


def test_an_undirected_graph_is_seen_once(graph: Graph, built) -> None:
    module, inputs = built("boosting", graph, adjacency="symmetric")
    assert module.constants(*inputs).shape[1] == 3 * graph.num_features + 3


def test_wide_features_are_reduced_to_their_leading_singular_vectors(graph: Graph, built) -> None:
    rng = np.random.default_rng(0)
    low = rng.standard_normal((graph.num_nodes, 3)) @ rng.standard_normal((3, 40))
    x = sp.csr_array(low + 1e-7 * rng.standard_normal(low.shape))
    wide = Graph(graph.edge_index, graph.num_nodes, x=x, y=graph.y)
    module, inputs = built("boosting", wide, components=3, num_hops=0)
    kept = module.constants(*inputs)[:, :3]
    np.testing.assert_allclose(kept @ kept.T, low @ low.T, atol=1e-4)
    again, other = built("boosting", wide, components=3, num_hops=0)
    assert np.array_equal(again.constants(*other)[:, :3], kept)


def test_a_class_without_training_nodes_is_improbable_but_not_impossible(ready: Graph) -> None:
    train = ready.split(0).train
    y = np.where(train & (ready.y == 1), 0, ready.y)
    _, fitted = run(replace(ready, y=y))
    assert fitted.logits.isfinite().all()
    assert (fitted.logits.argmax(dim=1) != 1).all()


def test_class_weights_reach_the_trees(ready: Graph) -> None:
    few = tuple(20.0 if c == 0 else 1.0 for c in range(ready.num_classes))
    plain, heavy = (run(ready, class_weight=w)[1].logits.softmax(dim=1) for w in (None, few))
    assert heavy[:, 0].mean() > plain[:, 0].mean()


def test_a_restored_run_goes_on_to_the_same_bits(ready: Graph, tmp_path: Path) -> None:
    config = baseline_config("boosting", **FEW, epochs=5, patience=None)
    built = build(config, ready)
    targets = Targets.of(ready, ready.split(0))

    def go(stop_after: int | None, path: Path) -> Fitted:
        initialize(built.module, 7)
        done: list[int] = []
        hooks = Hooks(
            on_epoch=lambda _, record: done.append(record.epoch),
            stop=lambda: len(done) == stop_after,
            checkpoint=Checkpoint(path, "key", every=0),
        )
        return fit(built.module, built.inputs, targets, built.training, seeded(7), hooks)

    whole = go(None, tmp_path / "a")
    assert go(2, tmp_path / "b").interrupted
    rest = go(None, tmp_path / "b")
    assert [r.loss for r in rest.history] == [r.loss for r in whole.history]
    assert torch.equal(rest.logits, whole.logits)
    assert torch.equal(rest.module(*built.inputs), rest.logits)


def test_poisoned_test_labels_give_the_same_bytes(ready: Graph) -> None:
    y = ready.y.copy()
    test = ready.split(0).test
    y[test] = (y[test] + 1) % ready.num_classes
    config = baseline_config("boosting", **FEW, epochs=4)
    clean, bad = (train_split(build(config, g), g, 0) for g in (ready, replace(ready, y=y)))
    assert torch.equal(clean.logits, bad.logits)
    assert np.array_equal(clean.decisions, bad.decisions)
    assert clean.history == bad.history


def test_neither_features_nor_edges_are_needed(ready: Graph) -> None:
    bare = replace(ready, x=None, edge_index=np.zeros((2, 0), dtype=np.int64))
    assert run(bare)[1].logits.isfinite().all()


def test_there_are_no_mini_batches(ready: Graph) -> None:
    with pytest.raises(InputError, match="only the DJ-GNN is trained in mini-batches"):
        run(ready, batch_size=10)
