"""Configurations: presets, named data sets, YAML."""

from __future__ import annotations

from pathlib import Path

import pytest

from djgnn.errors import InputError
from djgnn.training import RunConfig, TrainConfig, named_configurations, resolve


def test_the_paper_s_table_is_here_word_for_word() -> None:
    table = {
        "texas": (64, 0.2, 0.03, 5e-4, 20),
        "wisconsin": (64, 0.5, 0.03, 5e-4, 5),
        "cornell": (128, 0.5, 0.03, 1e-3, 5),
        "actor": (16, 0.2, 0.03, 1e-4, 3),
        "squirrel": (128, 0.5, 0.003, 5e-4, 8),
        "chameleon": (128, 0.35, 0.003, 5e-4, 12),
        "citeseer": (128, 0.5, 0.003, 5e-4, 5),
        "pubmed": (128, 0.3, 0.01, 5e-4, 3),
        "cora": (128, 0.5, 0.002, 5e-4, 5),
    }
    assert set(table) <= set(named_configurations())
    for name, (hidden, dropout, lr, decay, jumps) in table.items():
        config = resolve("author", name)
        m, t = config.model, config.training
        found = (m.hidden_channels, m.dropout, t.lr, t.weight_decay, m.num_jumps)
        assert found == (hidden, dropout, lr, decay, jumps), name


def test_presets_are_what_they_say() -> None:
    author, paper, default = (resolve(name, "cora") for name in ("author", "paper", "default"))
    assert (author.model.support, author.model.scale, author.model.structure) == (
        "author",
        "volume",
        False,
    )
    assert author.training.patience is None
    assert (paper.model.support, paper.model.scale, paper.model.hb_layers) == ("paper", "unit", 1)
    assert (default.model.support, default.model.scale) == ("shell", "learned")
    assert default.training.structure_gate
    assert default.training.epochs == 700  # the preset's own, before the data set's
    assert author.training.epochs == 400  # the published log's


def test_our_own_values_do_not_touch_the_published_model() -> None:
    assert resolve("author", "pubmed").training.lr == 0.01
    ours = resolve("default", "pubmed").training
    assert (ours.lr, ours.epochs, ours.patience) == (0.03, 250, 50)
    assert resolve("default", "pubmed").model.hidden_channels == 128


def test_yaml_round_trip(tmp_path: Path) -> None:
    config = resolve("author", "texas", lr=0.5)
    (tmp_path / "c.yaml").write_text(config.to_yaml())
    assert RunConfig.read_yaml(tmp_path / "c.yaml") == config


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model: {jumps: 3}", "has no option 'jumps'"),
        ("speed: 3", "unknown section 'speed'"),
        ("- 1", "must hold named sections"),
        ("model: {num_jumps: many}", "num_jumps must be"),
        ("a: !!python/object/apply:os.system ['true']", "is not plain YAML"),
        ("a: [", "is not plain YAML"),
        ("training: {lr: -1}", r"lr must be a positive number \(got -1\)"),
        ("model: {structure: 'no'}", r"structure must be true or false \(got 'no'\)"),
        ("training: {structure_gate: 1}", r"structure_gate must be true or false \(got 1\)"),
        ("training: {class_weight: heavy}", "class_weight must be balanced"),
    ],
)
def test_bad_files_are_refused_by_name(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        RunConfig.read_yaml(tmp_path / "c.yaml")
    assert "c.yaml" in str(caught.value)


def test_a_missing_file_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.yaml"):
        RunConfig.read_yaml(tmp_path / "none.yaml")


@pytest.mark.parametrize("change", [{"epochs": 0}, {"patience": 0}, {"weight_decay": -1.0}])
def test_bad_values_are_refused(change: dict) -> None:
    with pytest.raises(ValueError, match=next(iter(change))):
        TrainConfig(**change)
    with pytest.raises(ValueError, match="there is no option 'speed'"):
        resolve("default", None, speed=3)
