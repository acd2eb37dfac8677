"""Cross-fitting: every label is learned from, and no figure comes from a label that was."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from djgnn.errors import InputError
from djgnn.graph import Graph, cross_folds, heterophilic_sbm, random_splits
from djgnn.model import DJExperts
from djgnn.model.experts import kind_of
from djgnn.training.config import RunConfig, resolve
from djgnn.training.folder import new_folder, write_run
from djgnn.training.folds import with_splits
from djgnn.training.inputs import build_djgnn
from djgnn.training.loop import Fitted
from djgnn.training.out_of_fold import expected_gain
from djgnn.training.run import train
from djgnn.training.selection import SplitResult
from djgnn.training.stored import load_model

BASE = heterophilic_sbm(160)
N = BASE.num_nodes
KNOWN = dataclasses.replace(BASE, y=np.where(np.arange(N) % 3 == 0, -1, np.asarray(BASE.y)))
CONFIG = resolve("full", epochs=6, hidden_channels=4).replace(
    experts=("shares", "propagation", "features", "rows", "jumps")
)


def run(graph: Graph, config: RunConfig = CONFIG) -> tuple[Graph, RunConfig, Fitted, SplitResult]:
    graph, config = with_splits(graph, config)
    module, inputs = build_djgnn(config, graph)
    return graph, config, *train(module, inputs, graph, 0, config.training)


def test_every_label_is_held_out_once_and_learned_from_otherwise() -> None:
    graph = cross_folds(KNOWN, 4)
    held = np.stack([graph.split(k).val for k in range(4)])
    assert graph.y is not None
    assert np.array_equal(held.sum(axis=0), graph.y >= 0)
    for k in range(4):
        parts = graph.split(k)
        assert np.array_equal(parts.train, (graph.y >= 0) & ~parts.val)
        assert not parts.test.any()
        counts = np.bincount(graph.y[parts.val], minlength=graph.num_classes)
        assert abs(counts - np.bincount(graph.y[graph.y >= 0]) / 4).max() < 2


def test_the_mean_of_members_is_estimated_to_gain_where_nodes_have_no_label() -> None:
    graph, _, fitted, result = run(KNOWN)
    seen, module = fitted.evidence, fitted.module
    assert seen is not None
    unknown = np.flatnonzero(np.asarray(graph.y) < 0)
    with torch.no_grad():
        inputs = build_djgnn(CONFIG.replace(folds=4, experts=module.config.experts), graph)[1]
        logits = [module.experts[n](*module.inputs_of(n, inputs))[0][unknown] for n in module.names]
        each = [module.combine(logits, torch.full((unknown.size,), k)) for k in range(4)]
        members = [z.double().numpy() for z in each]
    answer = fitted.logits[unknown].double().numpy()
    assert (seen.members, seen.gain) == (
        4,
        pytest.approx(expected_gain(members, answer, result.validation), abs=1e-3),
    )
    assert 0 < seen.gain < 20
    assert run(BASE)[2].evidence.gain == 0  # there is no other node to estimate it on


@pytest.mark.parametrize(("folds", "expected"), [(None, 4), (1, None), (3, 3)])
def test_how_many_folds(folds: int | None, expected: int | None) -> None:
    graph, config = with_splits(KNOWN, CONFIG, folds)
    assert config.model.folds == expected
    assert graph.num_splits == (expected or 1)


def test_folds_that_cannot_be() -> None:
    with pytest.raises(InputError, match="splits of its own"):
        with_splits(cross_folds(KNOWN), CONFIG, 3)
    with pytest.raises(InputError, match="only a mixture"):
        with_splits(KNOWN, resolve("author", "texas"), 3)
    two = dataclasses.replace(KNOWN, y=np.where(np.arange(N) < 3, np.arange(N) % 2, -1))
    with pytest.raises(InputError, match="from 1 to 1 folds"):
        with_splits(two, CONFIG, 4)
    assert with_splits(two, CONFIG)[1].model.folds is None


def test_splits_that_are_no_folds_are_refused() -> None:
    folded = CONFIG.replace(folds=2)
    for graph in (random_splits(KNOWN, 2), cross_folds(KNOWN, 3)):
        module, inputs = build_djgnn(folded, graph)
        with pytest.raises(InputError, match="2 folds, but the graph has splits of its own"):
            train(module, inputs, graph, 0, folded.training)


def test_members_of_a_fold_speak_for_its_nodes() -> None:
    graph, _, fitted, _ = run(KNOWN)
    module: Any = fitted.module
    assert isinstance(module, DJExperts)
    inputs = build_djgnn(CONFIG.replace(folds=4), graph)[1]
    module.eval()
    with torch.no_grad():
        each = {n: e(*module.inputs_of(n, inputs))[0] for n, e in module.experts.items()}
    values = (module.weights, module.temperatures, module.powers)
    weights, scales, powers = (dict(zip(module.names, v.tolist(), strict=True)) for v in values)
    product = float(module.product)
    assert sum(weights.values()) + product == pytest.approx(1)

    def mixed(names: Sequence[str], rows: np.ndarray, times: int) -> torch.Tensor:
        logs = {n: (each[n][rows] / scales[n]).log_softmax(dim=1) for n in names}
        agreed = sum(times * powers[n] * logs[n] for n in names).softmax(dim=1)
        raised = sum(times * weights[n] * logs[n].exp() for n in names) + product * agreed
        raised = raised * module.offsets.exp()
        return raised / raised.sum(dim=1, keepdim=True)

    for k in range(4):
        rows = np.flatnonzero(graph.split(k).val)
        own = [n for n in module.names if n.endswith(f"-{k + 1}")]
        wanted = mixed(own, rows, 4)
        torch.testing.assert_close(fitted.logits[rows].exp(), wanted, atol=1e-5, rtol=1e-4)
    rest = np.flatnonzero(np.asarray(graph.y) < 0)
    wanted = mixed(module.names, rest, 1)
    torch.testing.assert_close(fitted.logits[rest].exp(), wanted, atol=1e-5, rtol=1e-4)


def test_evidence_of_a_node_does_not_depend_on_its_label() -> None:
    graph, _, fitted, _ = run(KNOWN)
    assert fitted.evidence is not None
    # Other labels in fold 0, as many of each class: its members see the same, others do not.
    rows = np.flatnonzero(graph.split(0).val)
    y = np.array(graph.y)
    y[rows] = np.roll(y[rows], 7)
    other = dataclasses.replace(graph, y=y)
    config = CONFIG.replace(folds=4)
    module, inputs = build_djgnn(config, other)
    again = train(module, inputs, other, 0, config.training)[0]
    assert isinstance(again.module, DJExperts)
    assert again.evidence is not None
    for name in ("shares-1", "propagation-1"):
        for key, value in fitted.module.experts[name].state_dict().items():  # type: ignore[union-attr,index]
            assert torch.equal(value, again.module.experts[name].state_dict()[key]), key
    rows_of = np.isin(again.evidence.nodes, rows)
    assert not np.array_equal(fitted.evidence.logits[~rows_of], again.evidence.logits[~rows_of])


def test_a_stored_run_says_the_same_and_new_nodes_have_an_answer(tmp_path: Path) -> None:
    graph, config, fitted, result = run(KNOWN)
    with new_folder(tmp_path / "run") as folder:
        card = write_run(folder, graph, config, fitted, result, 0)
    assert card["protocol"] == "cross-fitting"
    assert sum(card["alpha"].values()) == pytest.approx(1, abs=1e-5)
    assert set(card["alpha"]) <= {kind_of(record["name"]) for record in card["experts"]}
    stored = load_model(tmp_path / "run")
    np.testing.assert_allclose(stored.logits, fitted.logits.numpy(), atol=1e-4)
    found = stored.explain(int(np.flatnonzero(graph.split(2).val)[0]))
    assert all(part.expert.endswith("-3") for part in found.experts)
    total = sum(part.shares[found.prediction] for part in found.experts)
    assert np.isclose(total, np.exp(found.logits[found.prediction]), atol=1e-5)
    x = np.asarray(graph.x)
    edges = np.concatenate([graph.edge_index, [[0, N], [N, 1]]], axis=1)
    later = Graph(edges, num_nodes=N + 1, x=np.concatenate([x, x[:1]]), class_names=graph.classes())
    assert stored.predict(later)[N].sum() == pytest.approx(1, abs=1e-5)


def test_figures_of_balanced_classes_are_of_the_mixture_that_answers() -> None:
    y = np.asarray(KNOWN.y)
    rare = np.where((y == 0) | (np.arange(N) % 4 > 0), np.where(y >= 0, np.minimum(y, 1), -1), -1)
    graph = dataclasses.replace(KNOWN, y=rare, class_names=None)
    balanced = CONFIG.replace(class_weight="balanced")
    graph, _, fitted, _ = run(graph, balanced)
    assert fitted.evidence is not None
    said = fitted.evidence.logits.argmax(axis=1)
    answers = fitted.logits.argmax(dim=1).numpy()[fitted.evidence.nodes]
    assert abs(np.mean(said == 0) - np.mean(answers == 0)) < 0.2
