"""Estimates: consistent with themselves, and nothing is left behind by the probe."""

from __future__ import annotations

import pytest

from djgnn.errors import InputError
from djgnn.graph import Graph, heterophilic_sbm, random_splits
from djgnn.training import resolve
from djgnn.training.estimate import estimate
from djgnn.training.folds import with_splits
from djgnn.training.trial_trainings import usual_epochs

GRAPH = random_splits(heterophilic_sbm(120))


def test_all_epochs_of_all_trainings_are_counted() -> None:
    config = resolve("default", None, hidden_channels=8, epochs=500, patience=50)
    found = estimate(GRAPH, config)
    # Of hops and mix one is trained.
    assert (found.epochs, found.trainings) == (500, len(config.model.experts) - 1)
    assert found.seconds >= 500 * found.trainings * found.seconds_per_epoch * 0.999
    assert found.least_seconds < found.seconds / 5
    assert found.memory_mib >= 0
    plain = estimate(GRAPH, config.replace(experts=(), patience=None, epochs=7))
    assert plain.trainings == 1
    assert plain.seconds == plain.least_seconds


def test_the_whole_is_the_sum_of_its_phases_and_follows_epochs_and_patience() -> None:
    config = resolve("default", None, hidden_channels=8, experts=("features", "rows"))
    found = estimate(GRAPH, config, reading=3.0, measures=100.0)
    assert found.expected_seconds == pytest.approx(sum(found.phases.values()))
    assert found.phases["reading"] == 3
    assert found.phases["report"] > 100
    assert found.phases["training"] < found.seconds
    assert found.peak_mib > found.memory_mib
    nodes = int(GRAPH.split(0).train.sum())
    usual = [
        usual_epochs("rows", nodes, config.replace(**changes).training)
        for changes in ({"patience": None, "epochs": 9}, {"patience": 9}, {"epochs": 2})
    ]
    assert usual[0] == 9
    assert usual[1] > 9
    assert usual[2] == 2


def test_plain_experts_are_tried_and_their_folds_counted() -> None:
    graph, config = with_splits(heterophilic_sbm(120), resolve("full", None, epochs=9), 3)
    names = ("shares", "forest", "features")
    whole = estimate(graph, config.replace(hidden_channels=4, experts=names))
    less = estimate(graph, config.replace(hidden_channels=4, experts=names[2:]))
    assert (whole.trainings, less.trainings) == (3, 3)
    assert whole.phases["training"] > less.phases["training"]


def test_nothing_to_learn_from_is_an_error() -> None:
    bare = Graph(GRAPH.edge_index, GRAPH.num_nodes)
    with pytest.raises(InputError):
        estimate(bare, resolve("default"))


def test_every_fold_is_counted_on_one_thread() -> None:
    graph, config = with_splits(heterophilic_sbm(120), resolve("full", None, epochs=9), 3)
    found = estimate(graph, config.replace(hidden_channels=4, experts=("features", "rows")))
    assert (found.trainings, found.threads) == (6, 1)
    assert found.seconds >= 9 * 6 * found.seconds_per_epoch * 0.999
