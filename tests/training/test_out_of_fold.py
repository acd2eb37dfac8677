"""What the mean of members adds, estimated without a label."""

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

from djgnn.training.out_of_fold import expected_gain
from djgnn.training.selection import score

METRICS = ["accuracy", "macro_f1", "roc_auc", "average_precision"]


def members_of(
    noise: float, classes: int, rng: np.random.Generator, nodes: int = 4000
) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """Four members that see the odds with noise of their own, their mean, and the classes."""
    odds = 1.5 * rng.normal(size=(nodes, classes)) + np.linspace(0, -1, classes)
    y = (softmax(odds, axis=1).cumsum(axis=1)[:, :-1] < rng.random((nodes, 1))).sum(axis=1)
    members = [log_softmax(odds + noise * rng.normal(size=odds.shape), axis=1) for _ in range(4)]
    return members, np.log(np.exp(members).mean(axis=0)), y


def scored(logits: np.ndarray, y: np.ndarray, metric: str) -> float:
    ranks = metric in ("roc_auc", "average_precision")
    return score(logits[:, 1] - logits[:, 0] if ranks else logits.argmax(axis=1), y, metric)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("sharp", [0.5, 1.0, 3.0])
def test_the_estimate_is_near_the_true_gain(metric: str, sharp: float) -> None:
    """However sure the members are of themselves; of unsure ones it is not more."""
    members, answer, y = members_of(1.2, 2 if metric != "macro_f1" else 4, np.random.default_rng(0))
    single = np.mean([scored(each, y, metric) for each in members])
    gain = scored(answer, y, metric) - single
    found = expected_gain(
        [log_softmax(sharp * z, axis=1) for z in members], sharp * answer, float(single), metric
    )
    assert gain > 1.5
    assert abs(found - gain) < 0.35 * gain or (sharp < 1 and 0 < found < gain)


@pytest.mark.parametrize("metric", METRICS)
def test_members_that_agree_add_nothing(metric: str) -> None:
    members, _, _ = members_of(1.0, 2, np.random.default_rng(1), 300)
    assert expected_gain([members[0]] * 4, members[0], 70.0, metric) == pytest.approx(0)


@pytest.mark.parametrize("measured", [0.0, 20.0, 100.0])
@pytest.mark.parametrize("metric", METRICS)
def test_scores_that_no_temperature_explains_have_a_finite_gain(
    measured: float, metric: str
) -> None:
    members, answer, _ = members_of(1.0, 2, np.random.default_rng(2), 300)
    found = expected_gain(members, answer, measured, metric)
    assert np.isfinite(found)
    assert -5 < found < 30
