"""Plain experts in the mixture: trained blind, stored, read back, explained, asked of new nodes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

from djgnn.graph import Graph, heterophilic_sbm, random_splits
from djgnn.model.config import PLAIN_NAMES
from djgnn.model.experts import members, networks
from djgnn.report.run_data import load_run
from djgnn.training import Fitted, RunConfig, TrainConfig, resolve, train
from djgnn.training.expert_training import rates_of
from djgnn.training.folder import Answers, new_folder, read_card, write_run
from djgnn.training.inputs import build_djgnn, initialize, seeded
from djgnn.training.loop import Targets, fit
from djgnn.training.optimizer import Adam
from djgnn.training.passes import choose_passes
from djgnn.training.progress import Hooks
from djgnn.training.stored import load_model

GRAPH = random_splits(heterophilic_sbm(160, hub_size=1))
CONFIG = resolve(
    "full", experts=(*PLAIN_NAMES, "features", "jumps"), hidden_channels=8, epochs=8, num_jumps=3
)


def run(
    graph: Graph, config: RunConfig = CONFIG, folder: Path | None = None, **hooks: Any
) -> tuple[Fitted, Any]:
    module, inputs = build_djgnn(config, graph)
    fitted, result = train(module, inputs, graph, 0, config.training, 0, Hooks(**hooks))
    if folder is not None:
        with new_folder(folder) as place:
            write_run(place, graph, config, fitted, result, 0)
    return fitted, inputs


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Fitted]:
    """A run that is kept."""
    folder = tmp_path_factory.mktemp("plain") / "run"
    return folder, run(GRAPH, folder=folder)[0]


def test_they_come_first_and_have_epochs_of_their_own(stored: tuple[Path, Fitted]) -> None:
    fitted = stored[1]
    assert tuple(record.name for record in fitted.experts) == CONFIG.model.experts
    epochs = {record.name: record.epochs for record in fitted.experts}
    assert (epochs["shares"], epochs["propagation"]) == (1, 4)
    assert all(record.weight > 0 for record in fitted.experts)
    by_name = {record.name: record for record in fitted.experts}
    for name in PLAIN_NAMES:
        own = [r for r in fitted.history if r.expert == name]
        assert by_name[name].validation_loss == min(r.validation_loss for r in own)
        assert own[by_name[name].epoch].validation_loss == by_name[name].validation_loss
    module: Any = fitted.module
    assert [m.name for m in networks(module)] == [
        m.name for m in members(module) if m.name not in PLAIN_NAMES
    ]


@pytest.mark.parametrize("name", PLAIN_NAMES)
def test_labels_beside_the_training_nodes_reach_nothing_but_the_choice_of_the_epoch(
    name: str,
) -> None:
    train_mask = GRAPH.split(0).train
    poisoned = replace(GRAPH, y=np.where(train_mask, GRAPH.y, (GRAPH.y + 1) % 4))
    found = []
    for graph in (GRAPH, poisoned):
        module, inputs = build_djgnn(CONFIG, graph)
        expert, targets = module.experts[name], Targets.of(graph, graph.split(0))
        initialize(expert, 1)
        passes = choose_passes(expert, module.inputs_of(name, inputs), targets, CONFIG.training)
        optimizer = Adam(expert.parameters())
        loss = [float(passes.update(optimizer, seeded(2))[0]) for _ in range(3)]
        found.append({**expert.state_dict(), "loss": torch.tensor(loss), "out": passes.evaluate()})
    for key, value in found[0].items():
        assert torch.equal(value, found[1][key]), key


def test_test_labels_change_no_byte(stored: tuple[Path, Fitted]) -> None:
    test = GRAPH.split(0).test
    poisoned, _ = run(replace(GRAPH, y=np.where(test, (GRAPH.y + 1) % 4, GRAPH.y)))
    for key, value in stored[1].module.state_dict().items():
        assert torch.equal(value, poisoned.module.state_dict()[key]), key


def test_a_stored_run_answers_as_the_trained_one(stored: tuple[Path, Fitted]) -> None:
    folder, fitted = stored
    model = load_model(folder)
    np.testing.assert_array_equal(model.logits, fitted.logits.numpy())
    card = read_card(folder)
    assert [e["name"] for e in card["experts"]] == list(CONFIG.model.experts)
    assert [part["expert"] for part in card["jumps"]] == ["jumps"]
    read = load_run(folder)
    shares = read.shares
    assert set(shares) == set(CONFIG.model.experts)
    total = sum(shares.values())
    np.testing.assert_allclose(total, np.exp(fitted.logits.numpy()), atol=1e-6)
    logits = {**fitted.by_expert, "features": torch.zeros(GRAPH.num_nodes, 4)}
    said = Answers(logits, read.probabilities, pl.DataFrame(read.predictions))
    known = load_run(folder, said)
    same = {kind: np.array_equal(shares[kind], known.shares[kind]) for kind in shares}
    assert [kind for kind, equal in same.items() if not equal] == ["features"]


def test_new_nodes_are_classified_without_their_labels(stored: tuple[Path, Fitted]) -> None:
    model = load_model(stored[0])
    node = int(np.flatnonzero(GRAPH.split(0).test)[0])
    row = GRAPH.adjacency[[node]].indices
    n = GRAPH.num_nodes
    edges = np.concatenate([GRAPH.edge_index, np.stack([np.full(row.size, n), row])], axis=1)
    x = np.vstack([GRAPH.x, GRAPH.x[[node]]])
    later = Graph(edges, n + 1, x=x, node_names=(*GRAPH.names(), "new"))
    shares = model.predict(later)
    np.testing.assert_allclose(shares[:n], model.probabilities, atol=1e-6)
    assert shares[n].sum() == pytest.approx(1, abs=1e-5)
    labelled = replace(later, y=np.r_[GRAPH.y, 3], class_names=GRAPH.class_names)
    np.testing.assert_array_equal(model.predict(labelled), shares)


def test_an_explanation_names_the_labelled_neighbours(stored: tuple[Path, Fitted]) -> None:
    model = load_model(stored[0])
    near = (GRAPH.adjacency + GRAPH.adjacency.T).toarray() > 0
    train_mask = GRAPH.split(0).train
    for node in (3, 50, 120):
        found = model.explain(node)
        parts = {part.expert: part for part in found.experts}
        assert set(parts) == set(CONFIG.model.experts)
        for name in GRAPH.classes():
            total = sum(part.shares[name] for part in found.experts)
            assert np.log(total) == pytest.approx(model.logits[node][int(name)], abs=1e-5)
        assert parts["boosting"].branches == parts["shares"].branches == ()
        (branch,) = parts["propagation"].branches
        listed = {neighbour.node for neighbour in branch.neighbours}
        assert listed == set(np.flatnonzero(near[node] & train_mask)) - {node}
        assert all(neighbour.part == "train" for neighbour in branch.neighbours)
        for name, logit in parts["propagation"].logits.items():
            whole = parts["propagation"].bias[name] + branch.contributions[name]
            assert whole == pytest.approx(logit, abs=1e-6)


def test_a_run_that_is_stopped_before_its_first_network_has_a_page(tmp_path: Path) -> None:
    fitted, _ = run(GRAPH, folder=tmp_path / "run", stop=lambda: True)
    assert fitted.interrupted
    assert [record.name for record in fitted.experts] == ["shares", "propagation"]
    data = load_run(tmp_path / "run")
    assert (data.shown.name, data.shown.weight) == ("features", 0.0)
    np.testing.assert_allclose(sum(data.shares.values()).sum(axis=1), 1, atol=1e-5)


def test_damaged_trees_are_refused(stored: tuple[Path, Fitted], tmp_path: Path) -> None:
    import shutil

    from safetensors.torch import load_file, save_file
    from tests.reseal import reseal

    from djgnn.errors import InputError

    folder = Path(shutil.copytree(stored[0], tmp_path / "run"))
    state = load_file(folder / "weights.safetensors")
    state["experts.boosting.child"].view(-1)[0] = 2**30
    save_file(state, folder / "weights.safetensors", {"format": "djgnn-run-1"})
    reseal(folder)
    with pytest.raises(InputError, match=r"weights.safetensors: damaged.*boosting.child"):
        load_model(folder)


def test_batches_are_for_the_networks(stored: tuple[Path, Fitted]) -> None:
    batched, _ = run(GRAPH, CONFIG.replace(batch_size=40))
    for name in PLAIN_NAMES:
        whole = stored[1].module.experts[name].state_dict()
        for key, value in batched.module.experts[name].state_dict().items():
            assert torch.equal(value, whole[key]), key


def test_a_class_may_be_absent_from_training() -> None:
    split = GRAPH.split(0)
    y = np.where(split.train & (GRAPH.y == 1), 2, GRAPH.y)
    fitted, _ = run(replace(GRAPH, y=y))
    assert fitted.logits.isfinite().all()
    assert {record.name for record in fitted.experts} == set(CONFIG.model.experts)


@pytest.mark.parametrize("case", ["no edges", "no features", "neither", "one column"])
def test_graphs_that_lack_something(case: str, tmp_path: Path) -> None:
    graph = GRAPH
    if case in ("no edges", "neither"):
        graph = replace(graph, edge_index=np.zeros((2, 0), dtype=np.int64))
    if case in ("no features", "neither"):
        graph = replace(graph, x=None)
    if case == "one column":
        graph = replace(graph, x=graph.x[:, :1])
    fitted, _ = run(graph, folder=tmp_path / "run")
    model = load_model(tmp_path / "run")
    np.testing.assert_array_equal(model.logits, fitted.logits.numpy())
    n = graph.num_nodes
    x = None if graph.x is None else np.vstack([graph.x, graph.x[:1]])
    edges = np.concatenate([graph.edge_index, [[n], [0]]], axis=1)
    later = Graph(edges, n + 1, x=x, node_names=(*graph.names(), "new"))
    assert np.isfinite(model.predict(later)).all()


def test_the_optimiser_leaves_them_alone() -> None:
    module, inputs = build_djgnn(CONFIG, GRAPH)
    targets, expert = Targets.of(GRAPH, GRAPH.split(0)), module.experts["boosting"]
    initialize(expert, 0)
    config = rates_of(expert, TrainConfig(epochs=30), 99)
    assert (config.epochs, config.patience) == (expert.epochs, 2)
    fitted = fit(expert, module.inputs_of("boosting", inputs), targets, config, seeded(0))
    kept = [r.validation_loss for r in fitted.history]
    assert fitted.epoch == int(np.argmin(kept))
    assert len(kept) in (fitted.epoch + 3, expert.epochs)
    assert int(expert.rounds) == 10 * (fitted.epoch + 1)
