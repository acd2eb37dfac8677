"""Intervals cover the true score as often as they claim."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from djgnn.report.payload import auc_interval


@pytest.mark.parametrize(("positives", "negatives"), [(1, 1), (1, 50), (50, 1), (20, 300)])
def test_a_perfect_area_is_not_certain(positives: int, negatives: int) -> None:
    low, high = auc_interval(100.0, positives, negatives)
    assert high == 100
    assert low < 97
    assert auc_interval(0.0, positives, negatives) == pytest.approx((0.0, 100 - low))


def test_more_nodes_narrow_the_interval() -> None:
    lows = [auc_interval(100.0, k, k)[0] for k in (1, 10, 100, 10_000, 1_000_000)]
    assert lows == sorted(lows)
    # as Wilson's interval of one success in one trial
    assert lows[0] == pytest.approx(100 / (1 + 1.959964**2))
    assert lows[-1] < 100


def test_without_nodes_there_is_no_interval() -> None:
    assert all(math.isnan(v) for v in (*auc_interval(50.0, 0, 3), *auc_interval(math.nan, 3, 3)))


@pytest.mark.parametrize("area", [0.7, 0.9, 0.98, 0.995])
@pytest.mark.parametrize(("positives", "negatives"), [(3, 3), (5, 50), (50, 5), (30, 300)])
def test_the_interval_covers_the_area_of_normal_scores(
    area: float, positives: int, negatives: int
) -> None:
    rng, runs = np.random.default_rng(0), 1000
    ahead = rng.standard_normal((runs, positives)) + math.sqrt(2) * norm.ppf(area)
    behind = rng.standard_normal((runs, negatives))
    seen = (ahead[:, :, None] > behind[:, None, :]).mean(axis=(1, 2))
    spans = [auc_interval(100 * float(a), positives, negatives) for a in seen]
    covered = np.mean([low <= 100 * area <= high for low, high in spans])
    assert covered > 0.93
