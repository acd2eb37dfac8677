"""The weights of a mixture, learned from nodes that its experts did not learn from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from djgnn.training import calibration

ROUNDS = 200


def mixing_weights(
    likelihood: NDArray[np.float64], counts: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    r"""The weights of a mixture by expectation maximisation, with one pseudo-count each.

    .. math::
        r_{ei} = \frac{w_e\, p_e(y_i)}{\sum_f w_f\, p_f(y_i)}, \qquad
        w_e = \frac{1 + \sum_i r_{ei}}{\sum_f (1 + \sum_i r_{fi})}

    Args:
        likelihood: Probability that each expert gives to the label of each node; nodes that no
            expert was trained on.
        counts: As how many nodes each of them counts, 1 if absent.

    Shapes:
        likelihood ``[experts, m]``, counts ``[m]``, result ``[experts]``.

    Example:
        >>> mixing_weights(np.array([[0.9] * 98, [0.1] * 98])).round(2).tolist()
        [0.99, 0.01]
    """
    experts = len(likelihood)
    weights = np.full(experts, 1 / experts)
    floor, times = np.finfo(np.float64).tiny, 1.0 if counts is None else counts
    for _ in range(ROUNDS):
        parts = weights[:, None] * likelihood
        weights = 1 + (parts / np.maximum(parts.sum(axis=0), floor) * times).sum(axis=1)
        weights /= weights.sum()
    return weights


def learned(
    held: Sequence[NDArray[np.float32]],
    y: NDArray[np.int64],
    counts: NDArray[np.float64] | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The weight and the temperature of every expert, from logits of held-out nodes."""
    scales = [calibration.temperature(each, y, counts) for each in held]
    chosen = [
        calibration.probabilities(each, scale)[np.arange(y.size), y]
        for each, scale in zip(held, scales, strict=True)
    ]
    return mixing_weights(np.stack(chosen).astype(np.float64), counts), np.array(scales)


def weighed(
    held: Sequence[NDArray[np.float32]], weights: NDArray[Any], scales: NDArray[Any]
) -> NDArray[np.float64]:
    """Logarithms of the mixture's probabilities."""
    parts = zip(held, weights, scales, strict=True)
    total = sum(w * calibration.probabilities(z, t).astype(np.float64) for z, w, t in parts)
    return np.asarray(np.log(np.maximum(total, np.finfo(np.float64).tiny)))
