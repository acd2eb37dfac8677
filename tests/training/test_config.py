"""Configurations: presets, named data sets, YAML."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from djgnn.errors import InputError
from djgnn.model.config import EXPERT_NAMES, NETWORK_NAMES, PLAIN_NAMES
from djgnn.training import RunConfig, TrainConfig, named_configurations, resolve
from djgnn.training.config import Pace

# Hidden channels, dropout, learning rate, weight decay, jumps: the paper's last table. Epochs and
# columns of U: the published logs.
TABLE = {
    "texas": (64, 0.2, 0.03, 5e-4, 20, 200, 5),
    "wisconsin": (64, 0.5, 0.03, 5e-4, 5, 700, 5),
    "cornell": (128, 0.5, 0.03, 1e-3, 5, 2000, 5),
    "cornell_old": (128, 0.5, 0.03, 1e-3, 5, 2000, 5),
    "actor": (16, 0.2, 0.03, 1e-4, 3, 700, 3),
    "squirrel": (128, 0.5, 0.003, 5e-4, 8, 700, 5),
    "chameleon": (128, 0.35, 0.003, 5e-4, 12, 700, 5),
    "citeseer": (128, 0.5, 0.003, 5e-4, 5, 400, 6),
    "pubmed": (128, 0.3, 0.01, 5e-4, 3, 200, 3),
    "cora": (128, 0.5, 0.002, 5e-4, 5, 400, 5),
    "a set of somebody": (64, 0.5, 0.01, 5e-4, 5, 700, 5),
}
# What the presets of the published model had in version 0.1 beside that, and what they are today.
PUBLISHED = {
    "model": {
        "source": "adjacency",
        "pump_adjacency": "given",
        "homophilic_adjacency": "given",
        "homophilic": True,
        "structure": False,
        "classifier_layers": 1,
        "engine": "auto",
    },
    "training": {
        "patience": None,
        "class_weight": None,
        "pump_weight": 1.0,
        "decoupled": False,
        "pump_epochs": 100,
        "pump_lr": 0.03,
        "batch_size": None,
    },
}
OWN = {
    "author": {"support": "author", "scale": "volume", "hb_layers": 2},
    "paper": {"support": "paper", "scale": "unit", "hb_layers": 1},
}
ONE_NETWORK = {
    "model": {
        "experts": (),
        "folds": None,
        "jumps": True,
        "jump_inputs": "features",
        "hops": None,
        "diffusion": 0,
        "deep": 0,
        "mix": 0,
    },
    "training": {"label_smoothing": None, "select": "score"},
}


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("known", TABLE)
def test_the_published_models_have_the_values_they_always_had(name: str, known: str) -> None:
    hidden, dropout, lr, decay, jumps, epochs, centers = TABLE[known]
    sizes = {"hidden_channels": hidden, "dropout": dropout, "num_jumps": jumps}
    rates = {"lr": lr, "weight_decay": decay, "epochs": epochs}
    model = {**PUBLISHED["model"], **OWN[name], **sizes, "num_centers": centers}
    assert resolve(name, known).to_dict() == {
        "model": {**model, **ONE_NETWORK["model"]},
        "training": {**PUBLISHED["training"], **rates, **ONE_NETWORK["training"]},
        "preset": name,
    }


def test_every_named_set_is_in_the_table() -> None:
    assert set(named_configurations()) == set(TABLE) - {"a set of somebody"}


def test_the_default_is_one_configuration_for_every_set() -> None:
    default = resolve("default")
    assert all(resolve("default", name) == default for name in named_configurations())
    assert default == RunConfig()  # the preset says what the classes have
    assert default.model.experts == NETWORK_NAMES
    assert (default.model.num_jumps, default.training.select) == ("auto", "loss")


def test_the_full_preset_is_the_default_with_plain_experts() -> None:
    full = resolve("full")
    assert all(resolve("full", name) == full for name in named_configurations())
    assert full.model.experts == EXPERT_NAMES == (*PLAIN_NAMES, *NETWORK_NAMES)
    assert full.replace(experts=NETWORK_NAMES) == replace(resolve("default"), preset="full")


@pytest.mark.parametrize(("nodes", "decay"), [(4999, 5e-4), (5000, 5e-5)])
def test_automatic_decay_follows_the_number_of_training_nodes(nodes: int, decay: float) -> None:
    assert TrainConfig().decay(nodes) == decay
    assert TrainConfig(weight_decay=0.3).decay(nodes) == 0.3


def epochs_run(config: TrainConfig, losses: list[float]) -> int:
    """How many epochs a training with these validation losses has; the best is the lowest."""
    for count in range(1, len(losses) + 1):
        best = min(range(count), key=lambda epoch: losses[epoch])
        if config.ends(losses[:count], best):
            return count
    raise AssertionError("it never ends")


def test_patience_waits_for_a_better_epoch() -> None:
    falling, flat = [1 / (1 + epoch) for epoch in range(60)], [0.5] * 60
    assert epochs_run(TrainConfig(patience=5, epochs=60), [*falling[:20], *flat]) == 20 + 5
    assert epochs_run(TrainConfig(patience=None, epochs=60), [*falling[:20], *flat]) == 60
    assert epochs_run(TrainConfig(patience=5, epochs=60), falling) == 60


def test_automatic_patience_grows_with_progress() -> None:
    config, nan = TrainConfig(patience="auto", epochs=1000), float("nan")
    assert epochs_run(config, [1.0] * 1000) == 1 + 25
    for last in (3, 24, 25, 40, 50, 70):  # the last epoch with progress
        losses = [*(1 / (1 + epoch) for epoch in range(last + 1)), *[2.0] * 1000]
        assert epochs_run(config, losses) == last + 1 + min(max(last, 25), 50)
    slow = [0.9999**epoch for epoch in range(1000)]  # half a percent in fifty epochs
    assert epochs_run(config, slow) == 1 + 25
    assert epochs_run(config, [0.999**epoch for epoch in range(1000)]) == 1000
    assert epochs_run(config, [nan] * 1000) == 1 + 25
    assert epochs_run(config, [1.0, 0.5, *[nan] * 1000]) == 2 + 25


OLD = """
model:
  hidden_channels: 128
  num_jumps: 12
  num_centers: 5
  dropout: 0.35
  support: shell
  scale: learned
  source: adjacency
  pump_adjacency: given
  homophilic_adjacency: given
  homophilic: true
  hb_layers: 2
  structure: {structure}
  classifier_layers: 1
  engine: auto
training:
  epochs: 700
  lr: 0.003
  weight_decay: 0.0005
  structure_gate: {gate}
  patience: 200
  class_weight: null
  pump_weight: 1.0
  decoupled: false
  pump_epochs: 100
  pump_lr: 0.03
  batch_size: null
preset: default
"""


@pytest.mark.parametrize("gate", ["true", "false"])
@pytest.mark.parametrize("structure", ["true", "false"])
def test_a_file_of_version_0_1_is_one_network(gate: str, structure: str, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(OLD.format(gate=gate, structure=structure))
    config = RunConfig.read_yaml(tmp_path / "c.yaml")
    found, written = config.to_dict(), yaml.safe_load((tmp_path / "c.yaml").read_text())
    assert written["training"].pop("structure_gate") in (True, False)
    for section in ("model", "training"):
        assert found[section].items() >= written[section].items()
        new = {k: v for k, v in found[section].items() if k not in written[section]}
        assert new == {**ONE_NETWORK[section], **({"select": None} if "select" in new else {})}
    # Written anew it is the same, without what is gone.
    (tmp_path / "d.yaml").write_text(config.to_yaml())
    assert RunConfig.read_yaml(tmp_path / "d.yaml") == config


def test_options_that_are_gone_are_read_where_they_changed_nothing(tmp_path: Path) -> None:
    text = OLD.format(gate="true", structure="true")
    for option, fine in (("refresh: exact", True), ("refresh: lazy", False)):
        changed = text.replace("training:\n", f"training:\n  {option}\n")
        (tmp_path / "c.yaml").write_text(changed)
        if fine:
            assert RunConfig.read_yaml(tmp_path / "c.yaml").model.experts == ()
        else:
            with pytest.raises(InputError, match="has no option 'refresh'"):
                RunConfig.read_yaml(tmp_path / "c.yaml")


def test_yaml_round_trip(tmp_path: Path) -> None:
    for config in (
        resolve("author", "texas", lr=0.5),
        resolve("default", None, class_weight=(1.0, 2.0)),
        resolve("default", None, experts=("deep", "joint"), num_jumps=3, hops=0),
    ):
        (tmp_path / "c.yaml").write_text(config.to_yaml())
        assert RunConfig.read_yaml(tmp_path / "c.yaml") == config


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model: {speed: 3}", "has no option 'speed'"),
        ("model: {jumps: 3}", r"jumps must be true or false \(got 3\)"),
        ("model: {experts: [deep, wide]}", r"experts must be a list, each one of .*deep.* \(got"),
        ("speed: 3", "unknown section 'speed'"),
        ("- 1", "must hold named sections"),
        ("model: {num_jumps: many}", "num_jumps must be"),
        ("a: !!python/object/apply:os.system ['true']", "is not plain YAML"),
        ("a: [", "is not plain YAML"),
        ("training: {lr: -1}", r"lr must be a positive number \(got -1\)"),
        ("model: {structure: 'no'}", r"structure must be true or false \(got 'no'\)"),
        ("training: {select: best}", r"select must be .*loss.* \(got 'best'\)"),
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


@pytest.mark.parametrize(
    ("loss", "fall", "epochs"),
    [
        (60.0, 0.02, 6),  # hopeless: more than 50 times behind
        (6.0, 0.02, 22),  # likewise: nearly four times behind, so late
        (1.5, 0.001, 51),  # behind, and four times the gain of 25 epochs would not catch up
        (1.4, 0.02, 200),  # behind, but it comes closer
        (1.05, 0.02, 200),
    ],
)
def test_an_expert_that_is_behind_another_ends_early(loss: float, fall: float, epochs: int) -> None:
    losses = [max(loss * (1 - fall) ** i, 0.5) for i in range(200)]
    config = TrainConfig(epochs=200)
    ended = next(
        n for n in range(1, 201) if config.ends(losses[:n], n - 1, rival=1.0, hopeless=3.0)
    )
    assert ended == epochs if epochs < 200 else ended > 51


@pytest.mark.parametrize(("learned", "epochs"), [(False, 50), (True, 26)])
def test_who_has_not_begun_to_learn_is_waited_for(learned: bool, epochs: int) -> None:
    config, losses = TrainConfig(epochs=200), [0.7 if learned else 0.999] * 200
    assert next(n for n in range(1, 201) if config.ends(losses[:n], 0, chance=1.0)) == epochs
    assert next(n for n in range(1, 201) if config.ends(losses[:n], 0)) == 26


@pytest.mark.parametrize(("loss", "ends"), [(0.68, True), (0.665, False)])
def test_who_has_learned_much_less_than_another_is_behind(loss: float, ends: bool) -> None:
    config, losses = TrainConfig(epochs=200), [0.69 * (loss / 0.69) ** (i / 59) for i in range(60)]
    assert config.ends(losses, 59, rival=0.66, chance=0.69) is ends  # three quarters: 0.6675
    assert not config.ends(losses, 59, rival=0.66)


@pytest.mark.parametrize(
    ("soon", "fast", "epochs"), [(False, False, 51), (True, False, 26), (False, True, 51)]
)
def test_some_experts_that_are_behind_are_given_up_sooner(
    soon: bool, fast: bool, epochs: int
) -> None:
    config, losses = TrainConfig(epochs=200), [1.5 * 0.999**i for i in range(200)]
    pace = Pace(fast=fast, soon=soon)
    ends = (config.ends(losses[:n], n - 1, 0.5, pace=pace) for n in range(1, 201))
    assert next(n for n, ended in enumerate(ends, 1) if ended) == epochs


def test_catching_up_counts_for_those_too() -> None:
    config, losses = TrainConfig(epochs=200), [2 * 0.97**i for i in range(60)]
    assert losses[30] > 0.7  # behind, but it gains a quarter in ten epochs
    assert not any(config.ends(losses[:n], n - 1, 0.5, pace=Pace(soon=True)) for n in range(1, 61))


@pytest.mark.parametrize(("fast", "waited"), [(False, 50), (True, 30)])
def test_who_learns_faster_is_waited_for_less(fast: bool, waited: int) -> None:
    config, losses = TrainConfig(epochs=400), [0.99**i for i in range(100)] + [0.99**99] * 300
    pace = Pace(fast=fast)
    ended = next(n for n in range(100, 401) if config.ends(losses[:n], 99, pace=pace))
    assert ended == 100 + waited


@given(
    st.lists(st.floats(0.1, 3.0), min_size=1, max_size=80),
    st.sampled_from([math.inf, 3.0]),
    st.sampled_from([math.inf, 2.0]),
    st.sampled_from([Pace(), Pace(4.0, fast=True), Pace(soon=True)]),
)
def test_a_rival_is_asked_for_wherever_it_matters(
    losses: list[float], hopeless: float, chance: float, pace: Pace
) -> None:
    config, best = TrainConfig(epochs=200), losses.index(min(losses))
    rivals = (math.inf, 2.0, 1.0, 0.3, 0.01)
    ends = {config.ends(losses, best, rival, hopeless, chance, pace) for rival in rivals}
    assert len(ends) == 1 or config.compares(len(losses), hopeless, pace)
    assert not TrainConfig(patience=9).compares(len(losses), hopeless, pace)
