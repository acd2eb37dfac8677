"""No test label is read before the final evaluation: poisoned ones change nothing but the test."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml

from djgnn.bench import cell as cells
from djgnn.bench.cell import build, hide_labels, run_cell, train_split
from djgnn.bench.spec import MODELS, make_spec
from djgnn.cli.tables import TuneOptions, run_tune
from djgnn.graph import Graph, write_npz


def poison(graph: Graph) -> Graph:
    """Other labels on the test nodes, which are the same in every split."""
    y = graph.y.copy()
    test = graph.split(0).test
    y[test] = (y[test] + 1) % graph.num_classes
    return replace(graph, y=y)


@pytest.mark.parametrize("model", MODELS)
def test_poisoned_test_labels_select_the_same_epochs(model: str, tiny: Graph) -> None:
    recipe = make_spec(model, "own", (0,), epochs=4).recipe()
    clean, bad = (run_cell(model, g, recipe, (1,)) for g in (tiny, poison(tiny)))
    for a, b in zip(clean.splits, bad.splits, strict=True):
        assert (a.epoch, a.validation) == (b.epoch, b.validation)
    assert clean.parameters == bad.parameters


def test_the_poison_reaches_the_evaluation(tiny: Graph) -> None:
    recipe = make_spec("mlp", "own", (0,), epochs=30).recipe()
    clean, bad = (run_cell("mlp", g, recipe, (0,)).splits[0] for g in (tiny, poison(tiny)))
    assert clean.oracle_test != bad.oracle_test


def test_building_sees_no_label_and_training_no_test_label(
    tiny: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, Graph] = {}
    real_build, real_train = cells.build_baseline, cells.train

    def spy_build(recipe, graph, device):
        seen["build"] = graph
        return real_build(recipe, graph, device)

    def spy_train(module, inputs, graph, *rest):
        seen["train"] = graph
        return real_train(module, inputs, graph, *rest)

    monkeypatch.setattr(cells, "build_baseline", spy_build)
    monkeypatch.setattr(cells, "train", spy_train)
    built = build(make_spec("gcn", "own", (0,), epochs=2).recipe(), tiny)
    train_split(built, tiny, 1)
    parts = tiny.split(1)
    assert not seen["build"].y[tiny.y >= 0].any()
    assert not seen["train"].y[parts.test].any()
    for mask in (parts.train, parts.val):
        assert np.array_equal(seen["train"].y[mask], tiny.y[mask])
    assert seen["build"].num_classes == seen["train"].num_classes == tiny.num_classes


def test_hidden_labels_keep_the_number_of_classes_and_the_unlabelled() -> None:
    graph = Graph(np.array([[0], [1]]), num_nodes=4, y=[0, 2, 1, -1])
    hidden = hide_labels(graph)
    assert hidden.y.tolist() == [0, 0, 0, -1]
    assert hidden.num_classes == 3
    assert hide_labels(graph, np.array([False, True, False, True])).y.tolist() == [0, 0, 1, -1]


def test_a_search_over_poisoned_labels_chooses_the_same(tiny: Graph, tmp_path: Path) -> None:
    chosen = {}
    for name, graph in (("clean", tiny), ("bad", poison(tiny))):
        data, out = tmp_path / name, tmp_path / f"{name}-search"
        data.mkdir()
        write_npz(graph, data / "own.npz")
        options = TuneOptions(
            out,
            model="gcn",
            dataset="own",
            trials=3,
            splits="0-1",
            epochs=4,
            workers=0,
            data=data,
            quiet=True,
        )
        run_tune(options)
        place = out / "gcn-own"
        with (place / "history.csv").open() as file:
            rows = [{k: v for k, v in r.items() if k != "seconds"} for r in csv.DictReader(file)]
        chosen[name] = (yaml.safe_load((place / "best.yaml").read_text()), rows)
    assert chosen["clean"] == chosen["bad"]
    assert len({row["validation_mean"] for row in chosen["clean"][1]}) > 1


def test_a_split_does_not_depend_on_what_ran_before(tiny: Graph) -> None:
    for model in ("djgnn", "gat", "tuned_gcn"):
        recipe = make_spec(model, "own", (0,), epochs=3).recipe()
        alone = run_cell(model, tiny, recipe, (1,)).splits[0]
        after = run_cell(model, tiny, recipe, (0, 1)).splits[1]
        assert (alone.validation, alone.test, alone.epoch) == (
            after.validation,
            after.test,
            after.epoch,
        )
