"""Configurations: options are checked, published settings load, search spaces are spaces."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from djgnn.baselines import (
    BASELINES,
    BaselineConfig,
    baseline_config,
    options_of,
    published,
    search_space,
)
from djgnn.errors import InputError
from djgnn.training.config import RunConfig, TrainConfig

PUBLISHED = [(model, dataset) for model in BASELINES for dataset in published(model)]
CELLS = ("gcn", "gat", "mlp", "gcnii", "ggcn", "fsgnn", "graff", "ordered_gnn", "acmii_gcn")
NINE = ["texas", "wisconsin", "cornell_old", "actor", "chameleon", "squirrel"]
NINE += ["citeseer", "cora", "pubmed"]


def test_unknown_baselines_are_refused() -> None:
    with pytest.raises(ValueError, match=r"model must be one of .* \(got 'gin'\)"):
        baseline_config("gin")


def test_options_go_where_they_belong() -> None:
    config = baseline_config("gcn").replace(lr=0.5, hidden_channels=7)
    assert (config.training.lr, config.options["hidden_channels"]) == (0.5, 7)
    with pytest.raises(ValueError, match=r"gcn has no option 'speed'; it has adjacency, .* lr"):
        config.replace(speed=1)
    with pytest.raises(ValueError, match="gcn has no option 'heads'"):
        BaselineConfig("gcn", {"heads": 2})


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("gcn", {"hidden_channels": 0}, r"must be a whole number of at least 1 .* \(got 0\)"),
        ("gcn", {"hidden_channels": 2.5}, r"must be a whole number .* \(got 2.5\)"),
        ("gcn", {"dropout": 1.0}, r"dropout must be at least 0 and below 1 \(got 1.0\)"),
        ("gcn", {"adjacency": "both"}, r"adjacency must be one of symmetric, .* \(got 'both'\)"),
        ("gcnii", {"alpha": 1.5}, r"alpha must be a number from 0 to 1 \(got 1.5\)"),
        ("gcnii", {"variant": 1}, r"variant must be true or false \(got 1\)"),
        ("cgnn", {"alpha": float("nan")}, r"alpha must be a number \(got nan\)"),
        ("tuned_gat", {"heads": 3}, r"multiple of heads=3 \(got 128\)"),
        ("boosting", {"max_leaf_nodes": 1}, r"max_leaf_nodes must be at least 2 .* \(got 1 and"),
    ],
)
def test_values_are_checked(name: str, change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        baseline_config(name, **change)


@pytest.mark.parametrize("name", BASELINES)
def test_yaml_round_trip(name: str, tmp_path: Path) -> None:
    config = baseline_config(name, lr=0.123)
    file = tmp_path / "config.yaml"
    file.write_text(config.to_yaml())
    assert BaselineConfig.read_yaml(file) == config


def test_removed_training_options_are_accepted_with_their_former_default() -> None:
    old = {"model": "gcn", "training": {"lr": 0.5, "structure_weight_decay": None}}
    assert BaselineConfig.from_dict(old).training.lr == 0.5
    with pytest.raises(ValueError, match="no option 'structure_weight_decay'"):
        BaselineConfig.from_dict({"model": "gcn", "training": {"structure_weight_decay": 0.1}})


def test_files_that_are_no_configuration_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    for text in ("[1]", "model: gcn\nextra: 1", "model: gin", "model: gcn\ntraining: {speed: 1}"):
        file.write_text(text)
        with pytest.raises(InputError, match=r"usable configuration|named sections"):
            BaselineConfig.read_yaml(file)


@pytest.mark.parametrize(("model", "name"), PUBLISHED)
def test_published_settings_say_where_they_come_from(model: str, name: str) -> None:
    config = baseline_config(model, name)
    assert ".com/" in config.source or "arXiv" in config.source
    assert config.training.pump_weight == 0


def test_the_cells_with_published_settings_are_there() -> None:
    for model in CELLS:
        assert set(NINE) <= set(published(model)), model
    assert set(NINE) <= set(published("pairnorm"))


def test_published_values_of_a_few_cells() -> None:
    gcnii = baseline_config("gcnii", "texas")
    assert (gcnii.options["num_layers"], gcnii.options["lam"]) == (32, 1.5)
    assert gcnii.training.weight_decay == 1e-4
    graff = baseline_config("graff", "squirrel")
    assert (graff.options["time"], graff.options["weights"]) == (3.275, "dominant")
    ordered = baseline_config("ordered_gnn", "chameleon")
    assert ordered.options["features"] == "identity"
    assert ordered.options["encoder_weight_decay"] == -1
    fsgnn = baseline_config("fsgnn", "pubmed")
    assert (fsgnn.training.lr, fsgnn.options["attention_lr"]) == (0.005, 0.02)


def test_other_data_sets_get_the_defaults() -> None:
    assert baseline_config("gcn", "own") == baseline_config("gcn")
    assert baseline_config("graff").training.epochs == 150


@pytest.mark.parametrize("name", [*BASELINES, "djgnn"])
def test_search_spaces_are_made_of_allowed_values(name: str) -> None:
    space = search_space(name)
    base = RunConfig() if name == "djgnn" else baseline_config(name)
    assert {"lr", "weight_decay"} <= set(space)
    assert 4 <= len(space) <= 12
    for key, entry in space.items():
        tried = entry["values"] if "values" in entry else [entry["low"], entry["high"]]
        assert len(tried) > 1
        for value in tried:
            if key == "hidden_channels" and name in ("ordered_gnn", "tuned_gat"):
                assert value % 4 == 0
            base.replace(**{key: value})
        assert "values" in entry or set(entry) == {"low", "high", "log"}


def test_every_option_has_a_default() -> None:
    for name in BASELINES:
        assert dataclasses.asdict(options_of(name)())
    assert TrainConfig().epochs == 1000
