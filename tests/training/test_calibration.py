"""Temperature scaling finds the temperature that was put in, and leaves predictions alone."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax

from djgnn.training.calibration import (
    calibration_card,
    calibration_error,
    probabilities,
    reliability,
    temperature,
)


def drawn(scale: float, count: int = 20_000) -> tuple[np.ndarray, np.ndarray]:
    """Labels drawn from softmax(z), logits that claim z * scale."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(count, 4)) * 2
    shares = softmax(z, axis=1)
    y = (rng.random(count)[:, None] > shares.cumsum(axis=1)).sum(axis=1)
    return (z * scale).astype(np.float32), y


@pytest.mark.parametrize("scale", [0.5, 1.0, 3.0])
def test_the_temperature_is_found(scale: float) -> None:
    logits, y = drawn(scale)
    found = temperature(logits, y)
    assert found == pytest.approx(scale, rel=0.05)
    after = reliability(probabilities(logits, found), y)
    assert calibration_error(after) < 0.01
    if scale != 1.0:
        assert calibration_error(reliability(probabilities(logits), y)) > 0.05
    np.testing.assert_array_equal(
        probabilities(logits, found).argmax(axis=1), logits.argmax(axis=1)
    )


def test_nothing_to_fit_on_leaves_logits_alone() -> None:
    assert temperature(np.zeros((0, 3), dtype=np.float32), np.zeros(0, dtype=np.int64)) == 1.0


@pytest.mark.parametrize("count", [3, 30, 300])
def test_a_few_right_nodes_are_no_certainty(count: int) -> None:
    barely = np.tile(np.array([[0.1, 0.0, 0.0]], dtype=np.float32), (count, 1))
    right = np.zeros(count, dtype=np.int64)
    sure = probabilities(barely, temperature(barely, right)).max()
    assert sure <= (count + 1) / (count + 2) + 1e-3


def test_bins_partition_the_nodes() -> None:
    shares = np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0], [0.7, 0.3]], dtype=np.float32)
    bins = reliability(shares, np.array([0, 0, 0, 1]), bins=10)
    assert sum(b.count for b in bins) == 4
    assert (bins[9].count, bins[9].accuracy, bins[9].confidence) == (2, 0.5, 1.0)
    assert (bins[4].count, bins[4].accuracy) == (1, 1.0)
    assert (bins[6].count, bins[6].accuracy) == (1, 0.0)
    wanted = (2 * abs(0.5 - 1.0) + abs(1.0 - 0.5) + abs(0.0 - 0.7)) / 4
    assert calibration_error(bins) == pytest.approx(wanted, abs=1e-6)


def test_the_card_leaves_unknown_labels_and_empty_parts_out() -> None:
    logits, y = drawn(2.0, 200)
    y[:50] = -1
    parts = {"test": np.arange(200) < 100, "none": np.zeros(200, dtype=bool)}
    card = calibration_card(logits, y, parts, 2.0)
    assert card["test"]["nodes"] == 50
    assert card["test"]["error"] < card["test"]["error_before"]
    assert "none" not in card


def test_logits_of_any_size_are_calibrated() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    right = np.where(rng.random(400) < 0.8, y, 1 - y)
    z = np.zeros((400, 2))
    z[np.arange(400), right] = 1
    share = np.mean(right == y)
    for size in (1.0, 1e3, 1e9):
        scaled = size * z
        sure = probabilities(scaled.astype(np.float32), temperature(scaled, y)).max(axis=1)
        np.testing.assert_allclose(sure, share, atol=0.01)
