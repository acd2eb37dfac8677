"""The protocol: no test label reaches training or selection, and the figures say what they are."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score, f1_score

from djgnn.bench import run_cell
from djgnn.errors import InputError
from djgnn.graph import Graph, heterophilic_sbm, random_splits
from djgnn.graph.checks import BINARY, METRICS
from djgnn.training import RunConfig, resolve, train
from djgnn.training.inputs import build_djgnn, initialize
from djgnn.training.loop import Fitted
from djgnn.training.progress import EpochRecord, Hooks
from djgnn.training.selection import decision, judge, score


@pytest.fixture(scope="module")
def graph() -> Graph:
    return random_splits(heterophilic_sbm(160, hub_size=1), num_splits=2)


def mixture(**changes) -> RunConfig:
    """All experts, few epochs."""
    options = {"hidden_channels": 8, "epochs": 12, "patience": 5, **changes}
    return resolve("default", None, **options)


def small(**changes) -> RunConfig:
    """One network."""
    return mixture(**{"num_jumps": 3, "experts": (), "structure": False, **changes})


def run(graph: Graph, config: RunConfig, split: int = 0, seed: int = 0):
    module, inputs = build_djgnn(config, graph)
    return train(module, inputs, graph, split, config.training, seed)


@pytest.mark.parametrize("config", [small(), mixture()], ids=["one network", "experts"])
@pytest.mark.parametrize("metric", METRICS)
def test_poisoned_test_labels_change_nothing_but_the_test_score(
    graph: Graph, config: RunConfig, metric: str
) -> None:
    parts = graph.split(0)
    y = graph.y % 2 if metric in BINARY else graph.y
    honest = dataclasses.replace(graph, y=y, card={"metric": metric})
    y = y.copy()
    y[parts.test] = (y[parts.test] + 1) % honest.num_classes
    poisoned = dataclasses.replace(honest, y=y)
    fitted, result = run(honest, config)
    again, other = run(poisoned, config)
    assert (result.epoch, result.validation) == (other.epoch, other.validation)
    assert torch.equal(fitted.logits, again.logits)
    assert fitted.history == again.history
    assert fitted.calibration == again.calibration
    assert fitted.validation_loss == again.validation_loss
    np.testing.assert_array_equal(fitted.decided, again.decided)
    np.testing.assert_array_equal(fitted.decisions, again.decisions)
    # Weights of experts and of their mixture, epochs, and jumps that were dropped.
    timeless = [
        [dataclasses.replace(record, seconds=0) for record in each.experts]
        for each in (fitted, again)
    ]
    assert timeless[0] == timeless[1]
    assert len(timeless[0]) == len(getattr(fitted.module, "names", ()))
    state = again.module.state_dict()
    for key, value in fitted.module.state_dict().items():
        assert torch.equal(value, state[key]), key
    assert result.test != other.test


def test_decisions_that_are_no_numbers_have_no_roc_auc() -> None:
    y = np.array([0, 1, 1])
    assert np.isnan(score(np.array([0.1, np.nan, 0.3]), y, "roc_auc"))
    assert np.isnan(score(np.array([0.1, np.inf, 0.3]), y, "roc_auc"))
    assert score(np.array([0.1, 0.2, 0.3]), y, "roc_auc") == 100


def test_one_bad_epoch_does_not_spoil_the_oracle(graph: Graph) -> None:
    fitted, _ = run(graph, small())
    y = np.arange(graph.split(0).test.sum()) % 2
    rows = np.stack([y, np.full(y.size, np.nan), 1 - y]).astype(np.float32)
    broken = dataclasses.replace(fitted, decisions=rows, decided=rows[2], epoch=2)
    result = judge(broken, y, "roc_auc")
    assert (result.test, result.oracle_test) == (0, 100)


def test_validation_nodes_of_one_class_are_refused_where_roc_auc_counts() -> None:
    y = np.arange(60) % 2
    train_mask = np.arange(60) < 30
    val = (np.arange(60) >= 30) & (y == 0)
    edges = np.stack([np.arange(59), np.arange(1, 60)])
    masks = {"train_mask": train_mask, "val_mask": val, "test_mask": ~train_mask & ~val}
    graph = Graph(edges, num_nodes=60, y=y, card={"metric": "roc_auc"}, **masks)
    with pytest.raises(InputError, match="no ROC-AUC"):
        run(graph, small())


def test_one_seed_gives_one_result_bit_for_bit(graph: Graph) -> None:
    first, second, other = (run(graph, mixture(epochs=4), seed=s)[0] for s in (3, 3, 4))
    assert torch.equal(first.logits, second.logits)
    assert first.history == second.history
    assert not torch.equal(first.logits, other.logits)


def test_nothing_touches_the_global_generator(graph: Graph) -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    module, inputs = build_djgnn(mixture(epochs=3), graph)
    state = torch.get_rng_state()
    train(module, inputs, graph, 0, mixture(epochs=3).training, 1)
    assert torch.equal(state, torch.get_rng_state())
    assert before.shape == state.shape


def fake(validations: list[float], losses: list[float], decisions: list[list[int]], epoch: int):
    history = tuple(
        EpochRecord(i, 0.0, 0.0, 0.0, loss, value)
        for i, (value, loss) in enumerate(zip(validations, losses, strict=True))
    )
    return Fitted(
        torch.nn.Identity(),
        epoch,
        validations[epoch],
        losses[epoch],
        torch.zeros(1),
        torch.zeros(1),
        history,
        np.array(decisions[epoch]),
        np.array(decisions),
        0.0,
    )


def test_test_is_read_at_the_selected_epoch_and_the_oracle_at_the_best() -> None:
    fitted = fake([50, 60, 55], [1, 1, 1], [[1, 1], [1, 0], [0, 0]], epoch=1)
    result = judge(fitted, np.array([1, 1]), "accuracy", split=4)
    assert (result.split, result.validation, result.test, result.oracle_test) == (4, 60, 50, 100)


def test_ties_go_to_the_lower_validation_loss(graph: Graph) -> None:
    fitted, _ = run(graph, small(select="score", epochs=30, patience=None))
    best = max(r.validation for r in fitted.history)
    tied = [r for r in fitted.history if r.validation == best]
    assert fitted.history[fitted.epoch].validation == fitted.validation == best
    assert fitted.validation_loss == min(r.validation_loss for r in tied)


def test_or_the_lowest_validation_loss_decides(graph: Graph) -> None:
    fitted, _ = run(graph, small(select="loss", epochs=30, patience=None, lr=0.1))
    assert fitted.validation_loss == min(r.validation_loss for r in fitted.history)
    assert fitted.validation < max(r.validation for r in fitted.history)


def test_the_model_returned_is_the_one_of_the_selected_epoch(graph: Graph) -> None:
    config = small(epochs=30, patience=None)
    module, inputs = build_djgnn(config, graph)
    fitted, _ = train(module, inputs, graph, 0, config.training, 0)
    fitted.module.eval()
    with torch.no_grad():
        logits, _ = fitted.module(*inputs)
    assert torch.equal(logits, fitted.logits)


def test_jumps_move_while_training(graph: Graph) -> None:
    config = small(epochs=30, patience=None, lr=0.05)
    module, inputs = build_djgnn(config, graph)
    initialize(module, 0)
    module.run(*inputs)
    before, seen = module.ranks._ranks.clone(), []
    train(
        module,
        inputs,
        graph,
        0,
        config.training,
        0,
        Hooks(lambda total, record: seen.append(module.ranks._ranks.clone())),
    )
    assert len(seen) == 30
    assert not torch.equal(seen[0], before)
    assert sum(not torch.equal(a, b) for a, b in itertools.pairwise(seen)) > 20


def test_patience_stops_early(graph: Graph) -> None:
    fitted, _ = run(graph, small(epochs=500, patience=3))
    assert len(fitted.history) == fitted.epoch + 4 < 500


def test_decoupled_mode_trains_the_pump_first_and_never_after(graph: Graph) -> None:
    config = small(decoupled=True, pump_epochs=5)
    module, inputs = build_djgnn(config, graph)
    fitted, _ = train(module, inputs, graph, 0, config.training, 0)
    frozen = fitted.module.fixed_filters
    assert torch.equal(frozen.weight, torch.ones_like(frozen.weight))
    assert not fitted.module.pump.weight.requires_grad
    cell = run_cell("djgnn", graph, config, [0, 1])  # one module, two splits
    assert cell.splits[0].validation == fitted.validation


def test_a_cell_reports_every_split_with_sample_deviation(graph: Graph) -> None:
    cell = run_cell("djgnn", graph, small(), [0, 1])
    values = [s.test for s in cell.splits]
    plain = cell.to_dict()
    assert plain["test_mean"] == pytest.approx(np.mean(values))
    assert plain["test_std"] == pytest.approx(np.std(values, ddof=1))
    wanted = {"model", "dataset", "preset", "protocol", "seed", "splits", "validation_mean"}
    wanted |= {"test_mean", "test_std", "oracle_mean", "seconds", "peak_memory_mib"}
    wanted |= {"data_sha256", "versions"}
    assert wanted <= set(plain)
    assert set(plain["splits"][0]) == {
        "split",
        "validation",
        "test",
        "oracle_test",
        "epoch",
        "seconds",
    }
    assert all(s.oracle_test >= s.test for s in cell.splits)
    assert plain["data_sha256"] == graph.content_hash


@pytest.mark.parametrize("name", ["mlp", "gcn"])
def test_baselines_run_in_the_same_cell(name: str, graph: Graph) -> None:
    from djgnn.baselines import baseline_config

    config = baseline_config(name, hidden_channels=8, epochs=5)
    cell = run_cell(name, graph, config, [0])
    assert cell.splits[0].test >= 0
    again = run_cell(name, graph, config, [0])
    assert [s.test for s in again.splits] == [s.test for s in cell.splits]


def test_roc_auc_belongs_to_the_data_set() -> None:
    assert score(np.array([0.1, 0.9, 0.8]), np.array([0, 1, 0]), "roc_auc") == 100
    assert np.isnan(score(np.array([0.1]), np.array([1]), "roc_auc"))
    binary = heterophilic_sbm(120, num_classes=2, hub_size=1)
    binary = dataclasses.replace(binary, card={"metric": "roc_auc"})
    fitted, result = run(random_splits(binary), small())
    assert fitted.decisions.dtype == np.float32
    assert 0 <= result.test <= 100


@pytest.mark.parametrize("classes", [2, 4])
def test_scores_are_scikit_learn_s(classes: int) -> None:
    rng = np.random.default_rng(classes)
    for size in (1, 2, 5, 300):
        y = rng.choice(classes, size, p=[0.7, *[0.3 / (classes - 1)] * (classes - 1)])
        said = np.where(rng.random(size) < 0.5, y, rng.integers(0, classes, size)).astype(np.int16)
        want = f1_score(y, said, average="macro", labels=np.unique(y), zero_division=0)
        assert score(said, y, "macro_f1") == pytest.approx(100 * want)
        odds = (rng.normal(size=size) + y).astype(np.float32)
        if classes == 2 and np.unique(y).size == 2:
            rare = int(np.bincount(y).argmin()) if y.mean() != 0.5 else 1
            want = average_precision_score(y == rare, odds if rare else -odds)
            assert score(odds, y, "average_precision") == pytest.approx(100 * want)
    assert np.isnan(score(np.zeros(0), np.zeros(0, dtype=np.int64), "macro_f1"))
    assert np.isnan(score(np.array([0.1]), np.array([1]), "average_precision"))


@pytest.mark.parametrize("metric", METRICS)
def test_epochs_are_chosen_by_the_score_that_is_asked_for(metric: str) -> None:
    graph = heterophilic_sbm(160)
    y = (graph.y == 0).astype(np.int64)
    split = random_splits(dataclasses.replace(graph, y=y, card={"metric": metric}))
    fitted, result = run(split, small(epochs=30, select="score", class_weight="balanced"))
    scores = [record.validation for record in fitted.history]
    assert result.validation == scores[result.epoch] == max(scores)
    truth = split.y[split.split(0).val]
    decided = decision(fitted.logits, metric).numpy()[split.split(0).val]
    assert result.validation == score(decided, truth, metric)


def test_scores_of_two_classes_refuse_more(graph: Graph) -> None:
    for metric in BINARY:
        with pytest.raises(InputError, match=f"metric {metric}: needs two classes"):
            run(dataclasses.replace(graph, card={"metric": metric}), small())


def test_splits_that_cannot_be_learned_from_are_refused(graph: Graph) -> None:
    n = graph.num_nodes
    empty, some = np.zeros(n, dtype=bool), np.arange(n) < 80
    no_val = graph.with_masks(some, empty, ~some)
    with pytest.raises(InputError, match="no validation node"):
        run(no_val, small())
    no_train = graph.with_masks(empty, some, ~some)
    with pytest.raises(InputError, match="no training node"):
        run(no_train, small())
    one = dataclasses.replace(
        graph, y=np.zeros(n, dtype=np.int64), train_mask=some, val_mask=~some, test_mask=empty
    )
    with pytest.raises(InputError, match="one class"):
        run(one, small())


def test_labels_outside_the_masks_are_not_used(graph: Graph) -> None:
    nodes = np.arange(graph.num_nodes)
    masked = graph.with_masks(
        nodes < 60, (nodes >= 60) & (nodes < 90), (nodes >= 90) & (nodes < 120)
    )
    y = graph.y.copy()
    y[120:] = (y[120:] + 1) % graph.num_classes
    config = small()
    first, second = (run(g, config) for g in (masked, dataclasses.replace(masked, y=y)))
    assert torch.equal(first[0].logits, second[0].logits)
    assert first[1].test == second[1].test


def test_no_test_nodes_means_no_test_score(graph: Graph) -> None:
    some = np.arange(graph.num_nodes) < 80
    masked = graph.with_masks(some, ~some, np.zeros(graph.num_nodes, dtype=bool))
    _, result = run(masked, small())
    assert np.isnan(result.test)
    assert result.validation > 0


def test_more_jumps_than_nodes_is_refused_with_the_graph_s_name() -> None:
    tiny = random_splits(Graph(np.array([[0, 1], [1, 2]]), 6, y=[0, 1, 0, 1, 0, 1], name="tiny"))
    with pytest.raises(InputError, match="tiny: num_jumps=9 needs 9 ranks"):
        build_djgnn(small(num_jumps=9), tiny)


def test_a_graph_without_features_or_edges_still_trains() -> None:
    y = np.arange(30) % 2
    bare = random_splits(Graph(np.zeros((2, 0)), 30, y=y))
    _, result = run(bare, small())
    assert np.isfinite(result.validation)


def test_divergence_is_said_not_hidden(graph: Graph) -> None:
    with pytest.raises(FloatingPointError, match="lower the learning rate"):
        run(graph, small(lr=1e38, epochs=4))


def test_a_training_that_overflows_blames_the_values_not_the_rate() -> None:
    graph = random_splits(heterophilic_sbm(60))
    weight = np.full(graph.num_edges, 3e38, dtype=np.float32)
    config = resolve("default", None, experts=(), num_jumps=3, hidden_channels=4, epochs=2)
    graph = dataclasses.replace(graph, edge_weight=weight)
    module, inputs = build_djgnn(config, graph)
    with pytest.raises(FloatingPointError, match=r"diverged: edge weights reach 3e\+38"):
        train(module, inputs, graph, 0, config.training, 0)
