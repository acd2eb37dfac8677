"""The product of experts: its powers, when it gets weight, and that shares still add up."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import log_softmax

from djgnn.model.expert_mixture import Mixed
from djgnn.training.mixture_weights import (
    Mixing,
    class_offsets,
    learned,
    product_of,
    product_powers,
)

CLASSES = 3


def witnesses(nodes: int, strength: float, count: int = 3) -> tuple[list[np.ndarray], np.ndarray]:
    """Logits of experts whose errors are independent, and the classes."""
    rng = np.random.default_rng(0)
    y = rng.integers(CLASSES, size=nodes)
    clear = strength * np.eye(CLASSES)[y]
    return [(clear + rng.normal(size=clear.shape)).astype(np.float32) for _ in range(count)], y


def in_torch(found: Mixing, logits: list[np.ndarray]) -> Mixed:
    made = Mixed({f"e{i}": torch.nn.Identity() for i in range(len(logits))}).double()
    for name in ("weights", "temperatures", "powers"):
        getattr(made, name).copy_(torch.from_numpy(getattr(found, name)))
    made.product.fill_(found.product)
    made.offsets = torch.from_numpy(found.offsets)
    return made


def test_independent_witnesses_are_multiplied() -> None:
    """With normal errors the product of the experts is Bayes' rule, with all powers equal."""
    logits, y = witnesses(3000, 1.0)
    found = learned(logits, y)
    assert found.product > 0.8
    tempered = np.stack(
        [log_softmax(z / t, 1) for z, t in zip(logits, found.temperatures, strict=True)]
    )
    np.testing.assert_allclose(found.powers, 1, atol=0.15)
    rows = np.arange(y.size)
    alone = tempered[:, rows, y].mean(axis=1).max()
    assert found.mixed(logits)[rows, y].mean() > alone + 0.1
    bayes = log_softmax(sum(logits).astype(float), 1)
    np.testing.assert_allclose(product_of(tempered, found.powers), bayes, atol=0.6)


def test_offsets_are_those_of_a_mixture_that_is_as_sure_as_it_could_be() -> None:
    """Half as sure, it has half the offsets, so that the same classes are answered."""
    rng = np.random.default_rng(0)
    z = log_softmax(2 * rng.standard_normal((20_000, 3)), axis=1)
    truth = z + np.array([0.8, 0.0, -0.8])
    y = (log_softmax(truth, axis=1) + rng.gumbel(size=z.shape)).argmax(axis=1)
    sure, unsure = class_offsets(z, y), class_offsets(log_softmax(z / 2, axis=1), y)
    np.testing.assert_allclose(sure, [0.8, 0, -0.8], atol=0.06)
    np.testing.assert_allclose(unsure, sure / 2, atol=0.02)
    assert np.mean((z / 2 + unsure).argmax(axis=1) == truth.argmax(axis=1)) > 0.98


def test_offsets_raise_classes_that_are_answered_too_seldom() -> None:
    logits, y = witnesses(3000, 1.0)
    lowered = [z - np.float32([1.5, 0, 0])[: z.shape[1]] for z in logits]
    plain, raised = learned(lowered, y), learned(lowered, y, offsets=True)
    assert not plain.offsets.any()
    assert raised.offsets[0] == raised.offsets.max()
    before, after = (found.mixed(lowered) for found in (plain, raised))
    rows = np.arange(y.size)
    assert after[rows, y].mean() > before[rows, y].mean()
    answered = np.exp(after).mean(axis=0)
    np.testing.assert_allclose(answered, np.bincount(y) / y.size, atol=0.01)
    made, given = in_torch(raised, lowered), [torch.from_numpy(z).double() for z in lowered]
    np.testing.assert_allclose(made.combine(given).numpy(), after, atol=1e-9)
    np.testing.assert_allclose(made.shares(given).sum(dim=0).numpy(), np.exp(after), atol=1e-9)
    assert bool((made.alone(given) <= made.shares(given)).all())


def test_what_says_nothing_gets_no_power() -> None:
    logits, y = witnesses(500, 1.0, 2)
    blind = np.random.default_rng(1).normal(size=logits[0].shape).astype(np.float32)
    found = learned([*logits, blind], y)
    assert found.powers[2] < 0.1
    assert found.weights.sum() + found.product == pytest.approx(1)


def test_few_nodes_or_one_expert_have_no_product() -> None:
    logits, y = witnesses(19, 1.0)
    assert learned(logits, y).product == 0
    assert learned(logits[:1] * 1, y).product == 0
    assert learned([z[:0] for z in logits], y[:0]).weights == pytest.approx([1 / 3] * 3)


def test_a_product_that_learned_its_nodes_by_heart_is_not_believed() -> None:
    """Many experts of noise fit a few nodes together, but not the nodes that were kept apart."""
    rng = np.random.default_rng(2)
    y = rng.integers(2, size=40)
    noise = [rng.normal(size=(40, 2)).astype(np.float32) for _ in range(30)]
    assert learned(noise, y).product < 0.25


def test_powers_are_at_a_minimum() -> None:
    logits, y = witnesses(200, 0.7)
    logs = np.stack([log_softmax(z.astype(float), 1) for z in logits])
    found, rows = product_powers(logs, y), np.arange(y.size)

    def loss(powers: np.ndarray) -> float:
        return float(powers.sum() - product_of(logs, powers)[rows, y].sum())

    for step in np.vstack([np.eye(3), -np.eye(3)]) * 1e-2:
        assert loss(np.maximum(found + step, 0)) >= loss(found) - 1e-6


def test_shares_with_a_product_add_up_in_and_outside_of_folds() -> None:
    logits, y = witnesses(300, 1.0, 4)
    found = learned(logits, y)
    made = in_torch(found, logits)
    each = [torch.from_numpy(z).double() for z in logits]
    answer = made.combine(each)
    np.testing.assert_allclose(answer.numpy(), found.mixed(logits), atol=1e-9)
    torch.testing.assert_close(made.shares(each).sum(dim=0), answer.exp())
    assert float(made.influence().sum()) == pytest.approx(1)
    made.folds = 2  # the first two are members of fold 0
    fold = torch.arange(300) % 3 - 1
    shares, answer = made.shares(each, fold), made.combine(each, fold)
    torch.testing.assert_close(shares.sum(dim=0), answer.exp())
    torch.testing.assert_close(answer.exp().sum(dim=1), torch.ones(300, dtype=torch.float64))
    assert float(shares[2:, fold == 0].abs().max()) == 0
    assert float(shares[:2, fold == 1].abs().max()) == 0
    torch.testing.assert_close(made.influence(fold).sum(dim=0), torch.ones(300, 1).double())
