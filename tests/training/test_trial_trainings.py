"""Trials: what ends in one ends there in a fit; what does not is expected by rule."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from djgnn.graph import heterophilic_sbm, random_splits
from djgnn.model.experts import Member, members
from djgnn.training import resolve, trial_trainings
from djgnn.training.inputs import build_djgnn
from djgnn.training.loop import Targets
from djgnn.training.run import train
from djgnn.training.threads import suitable_threads
from djgnn.training.trial_trainings import LONG, SHORT, expected_epochs, usual_epochs

GRAPH = random_splits(heterophilic_sbm(120))
NAMES = ("features", "hops", "rows", "deep", "joint")
CONFIG = resolve("default", None, hidden_channels=8, experts=NAMES)


def expected(seconds: dict[str, float], **changes: Any) -> dict[str, float]:
    config = CONFIG.replace(**changes)
    module, inputs = build_djgnn(config, GRAPH)
    targets = Targets.of(GRAPH, GRAPH.split(0), "cpu")
    with suitable_threads(GRAPH, torch.device("cpu")):  # sums depend on their number
        return expected_epochs(members(module), seconds, inputs, targets, config.training, 0)


def test_what_ends_in_a_trial_takes_as_many_epochs_in_a_fit() -> None:
    names = ("features", "rows")
    found = expected(dict.fromkeys(names, 1e-4), experts=names)
    config = CONFIG.replace(experts=names)
    module, inputs = build_djgnn(config, GRAPH)
    with suitable_threads(GRAPH, torch.device("cpu")):
        fitted, _ = train(module, inputs, GRAPH, 0, config.training, 0)
    assert found == {each.name: each.epochs for each in fitted.experts}


def test_without_time_for_trials_what_is_usual_is_expected() -> None:
    nodes = int(GRAPH.split(0).train.sum())
    for changes in ({}, {"patience": 7}, {"patience": None, "epochs": 9}, {"epochs": 12}):
        training = CONFIG.replace(**changes).training
        usual = {kind: usual_epochs(kind, nodes, training) for kind in NAMES}
        assert expected(dict.fromkeys(NAMES, 1e6), **changes) == usual


def test_others_resemble_those_that_were_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = {"features": 82, "rows": 22, "hops": 268}
    asked: list[tuple[str, int]] = []

    def trial(own: Member, *rest: Any) -> tuple[float, float, float]:
        asked.append((own.name, rest[3]))
        return tried[own.name], 1.0, 0.5

    monkeypatch.setattr(trial_trainings, "_trial", trial)
    found = expected({"features": 0.01, "rows": 0.01, "hops": 0.01, "deep": 1e6, "joint": 1e6})
    assert [name for name, _ in asked] == ["features", "rows", "hops"]
    assert asked[2][1] == SHORT
    assert {name: found[name] for name in tried} == tried
    assert found["deep"] == pytest.approx(45 * (268 / 67) ** 0.8)
    assert found["joint"] == pytest.approx(60 * (22 / 44) ** 0.8)


@pytest.mark.parametrize(
    ("fall", "epochs"), [(SHORT, LONG), (5, 5 + 25), (20, 20 + 25)], ids=["falls", "flat", "late"]
)
def test_a_trial_that_was_cut_short_is_continued_by_rule(
    monkeypatch: pytest.MonkeyPatch, fall: int, epochs: int
) -> None:
    losses = [0.9 ** min(epoch, fall - 1) for epoch in range(SHORT)]
    history = [SimpleNamespace(validation_loss=loss) for loss in losses]
    fitted = SimpleNamespace(history=history, validation_loss=losses[-1], seconds=100.0)
    monkeypatch.setattr(trial_trainings.Training, "run", lambda *_: fitted)
    seconds = {name: 2 / SHORT if name == "hops" else 1e6 for name in NAMES}
    assert expected(seconds)["hops"] == epochs
