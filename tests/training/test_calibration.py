"""Temperature scaling finds the temperature that was put in, and leaves predictions alone."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax

from djgnn.errors import InputError
from djgnn.training.calibration import (
    Calibration,
    calibration_card,
    calibration_error,
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


def probabilities(logits: np.ndarray, scale: float = 1.0) -> np.ndarray:
    return Calibration(scale).probabilities(logits)


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
    card = calibration_card(logits, y, parts, Calibration(2.0))
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


def test_a_curve_mends_what_no_temperature_can() -> None:
    # Half of the nodes are right as often as they say, the others much less often.
    rng = np.random.default_rng(1)
    sure = np.where(rng.random(6000) < 0.5, 0.95, 0.6)
    y = (rng.random(6000) >= np.where(sure > 0.9, 0.94, 0.35)).astype(np.int64)
    logits = np.log(np.stack([sure, 1 - sure], axis=1)).astype(np.float32)
    learned, other = slice(0, 3000), slice(3000, 6000)
    found = Calibration.fit(logits[learned], y[learned])
    plain = reliability(probabilities(logits[other], found.temperature), y[other])
    curved = reliability(found.probabilities(logits[other]), y[other])
    assert calibration_error(curved) < calibration_error(plain) / 1.5


@pytest.mark.parametrize("classes", [2, 3, 7])
def test_a_curve_keeps_sums_and_the_likeliest_class(classes: int) -> None:
    rng = np.random.default_rng(classes)
    logits = rng.normal(size=(400, classes)).astype(np.float32)
    y = np.where(rng.random(400) < 0.4, logits.argmax(axis=1), rng.integers(0, classes, 400))
    found = Calibration.fit(logits[:200], y[:200])
    shares = found.probabilities(logits)
    np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-6)
    at_label = shares[np.arange(400), logits.argmax(axis=1)]
    assert (shares.argmax(axis=1) == logits.argmax(axis=1)).all()
    order = np.argsort(probabilities(logits, found.temperature).max(axis=1))
    assert shares.min() >= 0
    if classes == 2:
        assert (np.diff(at_label[order]) >= 0).all()


def test_where_the_curve_is_flat_the_order_is_that_before_it() -> None:
    sure = np.linspace(0.2, 12, 500)
    logits = np.stack([sure, np.zeros(500)], axis=1).astype(np.float32)
    y = (np.arange(500) % 10 == 0).astype(np.int64)  # right as often, however sure: one step
    found = Calibration.fit(logits, y)
    steps = np.interp(probabilities(logits, 1.0)[:, 0], found.confidence, found.accuracy)
    assert np.unique(steps).size < 10
    shares = found.probabilities(logits)
    assert (np.diff(shares[:, 0]) > 0).all()
    assert (np.diff(shares[:, 1]) < 0).all()
    written = [f"{share:.6f}" for share in shares[:, 0]]  # as in predictions.csv
    assert len(set(written)) > 250
    np.testing.assert_allclose(shares[:, 0].mean(), 0.9, atol=0.01)


def test_the_order_is_kept_where_the_curve_would_put_the_likeliest_class_behind() -> None:
    sure = np.linspace(0.01, 2, 50)
    logits = np.stack([sure, np.zeros(50)], axis=1).astype(np.float32)
    shares = Calibration(1.0, (0.5, 1.0), (0.2, 0.2)).probabilities(logits)
    assert (shares[:, 0] > 0.5).all()
    assert shares[:, 0].max() < 0.501
    assert (np.diff(shares[:, 0]) > 0).all()


def test_a_curve_is_read_from_a_card_as_it_was_written() -> None:
    logits, y = drawn(1.5, 300)
    found = Calibration.fit(logits, y)
    assert found.confidence
    card = calibration_card(logits, y, {}, found)
    assert Calibration.from_card(card) == found
    assert Calibration.from_card({"temperature": 2.0}) == Calibration(2.0)
    falling = {"confidence": [0.5, 0.9], "accuracy": [0.8, 0.2]}
    with pytest.raises(InputError, match="accuracy must not fall"):
        Calibration.from_card({"temperature": 1.0, "curve": falling})


def test_few_nodes_draw_no_curve() -> None:
    logits, y = drawn(1.0, 29)
    assert Calibration.fit(logits, y).confidence == ()
