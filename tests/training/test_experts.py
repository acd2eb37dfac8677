"""Mixtures: each expert trained by itself, weights by expectation maximisation, idle jumps out."""

from __future__ import annotations

import dataclasses
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from djgnn.errors import DJGNNWarning
from djgnn.graph import cross_folds, heterophilic_sbm, random_splits
from djgnn.model import DJGNN, DJExperts
from djgnn.model.experts import expert_configs, kind_of
from djgnn.training import Fitted, RunConfig, expert_training, resolve, train
from djgnn.training.calibration import temperature
from djgnn.training.checkpoint import Checkpoint
from djgnn.training.config import Pace
from djgnn.training.expert_training import rates_of, without_idle_jumps
from djgnn.training.experts import fit_experts
from djgnn.training.inputs import build_djgnn, initialize, seeded
from djgnn.training.loop import Targets, fit
from djgnn.training.mixture import dropped_jumps
from djgnn.training.mixture_weights import learned, mixing_weights
from djgnn.training.optimizer import Adam
from djgnn.training.progress import EpochRecord, Hooks

GRAPH = random_splits(heterophilic_sbm(160, hub_size=1))
TARGETS = Targets.of(GRAPH, GRAPH.split(0))


def small(**changes: Any) -> RunConfig:
    sizes = {"hidden_channels": 8, "epochs": 12, "patience": 5, "lr": 0.03}
    return resolve("default", None, **{**sizes, **changes})


def run(config: RunConfig, **hooks: Any) -> tuple[Fitted, tuple[Any, Any]]:
    module, inputs = build_djgnn(config, GRAPH)
    return train(module, inputs, GRAPH, 0, config.training, 0, Hooks(**hooks))[0], inputs


def objective(weights: np.ndarray[Any, Any], likelihood: np.ndarray[Any, Any]) -> float:
    """Log-likelihood of the nodes, and one pseudo-count for every expert."""
    return float(np.log(weights @ likelihood).sum() + np.log(weights).sum())


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 8), st.integers(0, 60), st.integers(0, 10_000))
def test_weights_are_those_of_a_direct_maximisation(count: int, nodes: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    likelihood = rng.beta(0.6, 0.6, size=(count, nodes)) + 1e-6
    weights = mixing_weights(likelihood)
    assert weights.sum() == pytest.approx(1, abs=1e-12)
    assert weights.min() > 0
    free = minimize(
        lambda z: -objective(np.exp(z) / np.exp(z).sum(), likelihood), np.zeros(count), tol=1e-10
    )
    assert objective(weights, likelihood) == pytest.approx(-free.fun, abs=1e-4)
    assert objective(weights, likelihood) >= -free.fun - 1e-4


def test_every_expert_has_one_pseudo_count() -> None:
    np.testing.assert_allclose(mixing_weights(np.empty((4, 0))), np.full(4, 0.25))
    # One of three is always right, the others never: 20 nodes and a count against a count each.
    right = np.array([np.ones(20), np.zeros(20), np.zeros(20)])
    np.testing.assert_allclose(mixing_weights(right), np.array([21, 1, 1]) / 23)
    alike = np.tile(np.linspace(0.1, 0.9, 30), (5, 1))
    np.testing.assert_allclose(mixing_weights(alike), np.full(5, 0.2))
    # A node that no expert expected says nothing about them.
    np.testing.assert_allclose(
        mixing_weights(np.c_[right, np.zeros(3)]), mixing_weights(right), atol=1e-12
    )


def test_an_expert_is_trained_as_if_it_were_alone() -> None:
    config = small()
    mixed, inputs = build_djgnn(config, GRAPH)
    assert isinstance(mixed, DJExperts)
    fitted = fit_experts(mixed, inputs, TARGETS, config.training, seed=3)
    assert [record.name for record in fitted.experts] == list(fitted.module.names)
    for number, name in enumerate(fitted.module.names):
        if name == "profile":  # it is no model by itself
            continue
        own = dataclasses.replace(config, model=mixed.configs[name])
        alone, own_inputs = build_djgnn(own, GRAPH)
        seed = 3 + zlib.crc32(name.encode())
        initialize(alone, seed)
        rates = rates_of(alone, config.training, TARGETS.train.numel())
        single = fit(alone, own_inputs, TARGETS, rates, seeded(seed))
        record = fitted.experts[number]
        assert (record.epoch, record.epochs) == (single.epoch, len(single.history))
        assert record.validation_loss == min(r.validation_loss for r in single.history)
        history = [dataclasses.replace(r, expert="") for r in fitted.history if r.expert == name]
        assert history == list(single.history)
        ours, theirs = mixed.experts[name].state_dict(), alone.state_dict()
        for key, value in theirs.items():
            if not key.startswith("mixture."):  # jumps may have been dropped
                assert torch.equal(ours[key], value), key


@pytest.mark.parametrize(("many", "trained"), [(5000, "hops"), (10, "mix")])
def test_of_hops_and_mix_one_is_trained(
    many: int, trained: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expert_training, "MANY_NODES", many)
    plans: list[Any] = []
    both, inputs = run(small(epochs=3, experts=("features", "hops", "mix")), on_plan=plans.append)
    assert plans == [("features", trained)]
    assert [record.name for record in both.experts] == ["features", trained]
    assert both.module.names == both.module.config.experts == ("features", trained)
    made = {name for name, own in inputs[1].by_expert.items() if own.found is not None}
    assert made == {"features", trained}
    # As if the other one had never been asked for; and who is asked for alone is trained.
    for name in ("hops", "mix"):
        one, _ = run(small(epochs=3, experts=("features", name)))
        assert [record.name for record in one.experts] == ["features", name]
        assert torch.equal(one.logits, both.logits) == (name == trained)


@pytest.mark.parametrize(("more", "trained"), [(1, "hops"), (0, "mix")])
def test_labels_of_all_folds_count_in_that(
    more: int, trained: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expert_training, "MANY_NODES", GRAPH.num_nodes + more)
    graph = cross_folds(GRAPH, 2)
    config = small(epochs=3, experts=("features", "hops", "mix"), folds=2)
    module, inputs = build_djgnn(config, graph)
    fitted, _ = train(module, inputs, graph, 0, config.training, 0)
    assert {kind_of(record.name) for record in fitted.experts} == {"features", trained}


def test_rates_grow_where_there_are_many_training_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[int, list[float]] = {}
    set_rate = Adam.set_rate

    def watch(self: Adam, rate: float) -> None:
        seen.setdefault(id(self.parameters[0]), []).append(rate)
        set_rate(self, rate)

    monkeypatch.setattr(Adam, "set_rate", watch)
    config = small(epochs=40, patience=None, lr=0.01, experts=["features", "profile", "jumps"])
    few, _ = run(config)
    assert not seen
    monkeypatch.setattr(expert_training, "MANY_NODES", 10)
    many, _ = run(config)
    # Twice, for one network and the profile; jumps keep their rate.
    assert [len(rates) for rates in seen.values()] == [40, 40]
    for rates in seen.values():
        assert rates[:16] == [0.01] * 16
        np.testing.assert_allclose(rates[30], 0.02)
    losses = [[r.loss for r in each.history if r.expert == "features"] for each in (few, many)]
    assert losses[0][:16] == losses[1][:16]
    assert losses[0][20:] != losses[1][20:]


def test_a_training_whose_rate_grows_is_resumed_to_the_same_end(tmp_path: Path) -> None:
    config = small(epochs=40, patience=None)
    own = dataclasses.replace(config, model=expert_configs(config.model, True)["features"])

    def trained(stop: int | None, checkpoint: Checkpoint | None) -> Fitted:
        module, inputs = build_djgnn(own, GRAPH)
        initialize(module, 0)
        epochs: list[EpochRecord] = []
        hooks = Hooks(
            on_epoch=lambda _, record: epochs.append(record),
            stop=lambda: stop is not None and len(epochs) == stop,
            checkpoint=checkpoint,
        )
        return fit(module, inputs, TARGETS, own.training, seeded(0), hooks, pace=Pace(growth=4.0))

    whole = trained(None, None)
    assert trained(25, Checkpoint(tmp_path / "c", "key")).interrupted
    resumed = trained(None, Checkpoint(tmp_path / "c", "key"))
    assert resumed.history == whole.history
    assert torch.equal(resumed.logits, whole.logits)


def test_the_mixture_is_that_of_the_experts_as_they_are_stored() -> None:
    config = small()
    fitted, inputs = run(config)
    module: Any = fitted.module
    module.eval()
    with torch.no_grad():
        each = [e(*module.inputs_of(n, inputs))[0] for n, e in module.experts.items()]
        assert torch.equal(module(*inputs)[0], fitted.logits)
    assert torch.equal(module.combine(each), fitted.logits)
    val, y = TARGETS.val, TARGETS.val_y
    scales = [temperature(one[val].numpy(), y.numpy()) for one in each]
    np.testing.assert_allclose(module.temperatures.numpy(), scales, rtol=1e-6)
    chosen = torch.stack(
        [(one[val] / t).double().softmax(dim=1) for one, t in zip(each, scales, strict=True)]
    )
    wanted = learned([one[val].numpy() for one in each], y.numpy())
    np.testing.assert_allclose(module.weights.numpy(), wanted.weights, rtol=1e-5)
    np.testing.assert_allclose(module.powers.numpy(), wanted.powers, rtol=1e-5, atol=1e-6)
    assert float(module.product) == pytest.approx(wanted.product)
    mixed = sum(w * p for w, p in zip(wanted.weights, chosen, strict=True))
    logs = sum(a * p.log() for a, p in zip(wanted.powers, chosen, strict=True))
    mixed = mixed + wanted.product * logs.softmax(dim=1)
    torch.testing.assert_close(fitted.logits[val].double().exp(), mixed, atol=1e-5, rtol=1e-4)
    total = wanted.weights + wanted.product * wanted.powers / max(wanted.powers.sum(), 1e-9)
    assert [r.weight for r in fitted.experts] == pytest.approx(total.tolist(), rel=1e-5)
    loss = F.nll_loss(fitted.logits[val], y)
    assert fitted.validation_loss == pytest.approx(float(loss))
    predicted = fitted.logits.argmax(dim=1).numpy()
    assert fitted.validation == pytest.approx(100 * (predicted[val] == y.numpy()).mean())
    np.testing.assert_array_equal(fitted.decided, predicted[TARGETS.test])
    assert fitted.epoch == max(r.epoch for r in fitted.experts)
    assert len(fitted.history) == len(fitted.decisions) == sum(r.epochs for r in fitted.experts)


@torch.no_grad()
def loss_without(module: DJGNN, inputs: Any, dropped: list[str]) -> float:
    """The validation loss of an expert whose branches of these names are silent."""
    view = module.view(*inputs)
    encoding = module.encode(view)
    parts = [branch(encoding, view) for branch in module.parts]
    h = torch.cat(parts, dim=1).view(len(parts[0]), len(module.branch_names), -1).clone()
    h[:, [module.branch_names.index(name) for name in dropped]] = 0
    logits = module.mixture([h.flatten(1)])
    return float(F.cross_entropy(logits[TARGETS.val], TARGETS.val_y))


@pytest.mark.parametrize("options", [{}, {"classifier_layers": 2}, {"batch_size": 80}], ids=str)
@pytest.mark.parametrize("name", ["joint", "jumps"])
def test_jumps_are_dropped_one_by_one_while_validation_is_no_worse(
    name: str, options: dict[str, Any]
) -> None:
    """Two jumps of a trained expert are made to vote for the wrong classes."""
    config = small(**options)
    config = dataclasses.replace(config, model=expert_configs(config.model, True)[name])
    module, inputs = build_djgnn(config, GRAPH)
    initialize(module, 0)
    fitted = fit(module, inputs, TARGETS, config.training, seeded(0))
    with torch.no_grad():
        module.mixture.weights[0].view(-1, len(module.branch_names), 8)[:, [2, 5]] *= -2
    module.eval()
    left, gone = list(module.jumps.labels[1:]), []
    best = loss_without(module, inputs, [])
    while left:
        losses = [loss_without(module, inputs, [*gone, name]) for name in left]
        least = int(np.argmin(losses))
        if losses[least] > best:
            break
        best = losses[least]
        gone.append(left.pop(least))
    assert left
    assert {"jump2", "jump5"} <= set(gone)
    after = without_idle_jumps(fitted, inputs, TARGETS, config.training)
    assert after.module is module
    named = zip(module.branch_names, module.mixture.alpha.tolist(), strict=True)
    assert {name for name, alpha in named if alpha == 0} == set(gone) == set(dropped_jumps(module))
    assert loss_without(module, inputs, []) == pytest.approx(best, rel=1e-5)
    with torch.no_grad():
        logits, _ = module(*inputs)
    torch.testing.assert_close(after.logits, logits, rtol=1e-4, atol=1e-5)


def test_a_number_of_jumps_that_was_asked_for_is_kept() -> None:
    config = small(epochs=1, num_jumps=6, experts=())
    module, inputs = build_djgnn(config, GRAPH)
    fitted = fit(module, inputs, TARGETS, config.training)
    torch.nn.init.normal_(module.mixture.weights[0], generator=seeded(1))
    assert without_idle_jumps(fitted, inputs, TARGETS, config.training) is fitted
    assert dropped_jumps(module) == ()


def test_an_expert_that_diverges_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    config = small(experts=("features", "given", "rows"), epochs=4)

    def spoil(module: Any, *rest: Any) -> Fitted:
        if module.homophilic is not None:
            torch.nn.init.constant_(module.homophilic.weights[0], float("nan"))
        return fit(module, *rest)

    monkeypatch.setattr(expert_training, "fit", spoil)
    with pytest.warns(DJGNNWarning, match="expert given left out: training diverged"):
        fitted, inputs = run(config)
    assert [record.name for record in fitted.experts] == ["features", "rows"]
    assert fitted.module.weights[1] == fitted.module.powers[1] == 0
    assert float(fitted.module.weights.sum() + fitted.module.product) == pytest.approx(1)
    # What is stored can be read again: all weights are numbers, and the answer is the same.
    assert all(bool(torch.isfinite(v).all()) for v in fitted.module.state_dict().values())
    with torch.no_grad():
        torch.testing.assert_close(fitted.module.eval()(*inputs)[0], fitted.logits)


def test_all_of_them_diverging_is_an_error() -> None:
    with (
        pytest.raises(FloatingPointError, match="lower the learning rate"),
        pytest.warns(DJGNNWarning, match="left out"),
    ):
        run(small(experts=("features", "rows"), lr=1e38, epochs=4))


def test_a_stop_leaves_the_rest_without_weight() -> None:
    found = []
    for _ in range(2):
        seen: list[EpochRecord] = []
        fitted, inputs = run(
            small(),
            on_epoch=lambda total, record, seen=seen: seen.append(record),
            stop=lambda seen=seen: len(seen) == 15,  # in the second expert
        )
        found.append(fitted)
        assert fitted.interrupted
        assert [record.name for record in fitted.experts] == [*fitted.module.names[:2]]
        assert [*dict.fromkeys(record.expert for record in seen)] == [*fitted.module.names[:2]]
        assert fitted.module.weights[2:].sum() == 0
    states = [each.module.state_dict() for each in found]
    for key, value in states[0].items():
        assert torch.equal(value, states[1][key]), key
    assert torch.equal(found[0].logits, found[1].logits)
    with torch.no_grad():
        torch.testing.assert_close(fitted.module.eval()(*inputs)[0], fitted.logits)


def test_decoupled_the_pumps_are_trained_first_and_never_after() -> None:
    config = small(decoupled=True, pump_epochs=4, experts=("joint", "jumps", "given"))
    fitted, _ = run(config)
    for name in ("joint", "jumps"):
        expert = fitted.module.experts[name]
        assert expert.fixed_filters is not None
        assert not expert.pump.weight.requires_grad
        assert len({r.pump_loss for r in fitted.history if r.expert == name}) == 1
    assert fitted.module.experts["given"].pump is None
