"""Calibrated confidence: a temperature and a curve fitted on validation, and their check."""

from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression, minimize_scalar
from scipy.special import log_softmax, softmax

from djgnn.errors import InputError

BINS = 15
LARGEST = 20.0
FEWEST = 30
"""Nodes that a curve needs."""
LEAD = 1e-5
"""By which the likeliest class stays ahead of the second, where a curve would put it behind."""
TILT = 1e-3
"""Part of the probability that is the odds before the curve: they break its many ties."""


@dataclass(frozen=True)
class ReliabilityBin:
    """Nodes whose confidence lies in (low, high]: how sure the model was, how often it was right.

    `confidence` and `accuracy` are means, ``None`` in an empty bin.
    """

    low: float
    high: float
    count: int
    confidence: float | None
    accuracy: float | None


def temperature(
    logits: NDArray[np.float32], y: NDArray[np.int64], counts: NDArray[np.float64] | None = None
) -> float:
    r"""The T > 0 with the least :math:`-\sum_i \sum_c t_{ic} \log \mathrm{softmax}(z_i / T)_c`.

    One number for all classes: predictions stay the same, only confidence moves (Guo et al.,
    2017). The targets t are those of Platt (1999): of m nodes a label counts
    :math:`(m + 1) / (m + 2)`, the other classes share the rest, so that a few nodes that are all
    right do not make the model certain. At least 1/20, and 1 where there is nothing to fit on.

    Args:
        logits: Of nodes that were not trained on.
        y: Their classes.
        counts: As how many nodes each of them counts, 1 if absent.

    Shapes:
        logits ``[m, classes]``, y and counts ``[m]``.

    Example:
        >>> sure = np.array([[9.0, 0.0]] * 4)
        >>> temperature(sure, np.array([0, 0, 0, 1])) > 5
        True
    """
    if y.size == 0:
        return 1.0
    z, rows = logits.astype(np.float64), np.arange(y.size)
    doubt = 1 / (y.size + 2)
    others = doubt / max(z.shape[1] - 1, 1)

    def loss(log_t: float) -> float:
        scores = log_softmax(z / np.exp(log_t), axis=1)
        label = scores[rows, y]
        found = (1 - doubt) * label + others * (scores.sum(axis=1) - label)
        return -float(np.average(found, weights=counts))

    bound = np.log(LARGEST)
    found = float(minimize_scalar(loss, bounds=(-bound, bound), method="bounded").x)
    if found > 0.99 * bound:  # logits of any size, from features that were never scaled
        most = np.log(LARGEST * max(float(np.ptp(z)), LARGEST))
        found = float(minimize_scalar(loss, bounds=(bound, most), method="bounded").x)
    return float(np.exp(found))


def reliability(
    shares: NDArray[np.float32], y: NDArray[np.int64], bins: int = BINS
) -> tuple[ReliabilityBin, ...]:
    """Nodes by confidence, in bins of equal width.

    Args:
        shares: Probabilities.
        y: Classes.
        bins: How many.

    Shapes:
        shares ``[m, classes]``, y ``[m]``.
    """
    confidence, right = shares.max(axis=1), shares.argmax(axis=1) == y
    edges = np.linspace(0, 1, bins + 1)
    place = np.clip(np.ceil(confidence * bins).astype(np.int64) - 1, 0, bins - 1)
    found = []
    for b in range(bins):
        inside = place == b
        count = int(inside.sum())
        means = (float(v[inside].mean()) if count else None for v in (confidence, right))
        found.append(ReliabilityBin(float(edges[b]), float(edges[b + 1]), count, *means))
    return tuple(found)


def calibration_error(table: tuple[ReliabilityBin, ...]) -> float:
    r"""Expected calibration error, :math:`\sum_b \frac{m_b}{m} |\text{acc}_b - \text{conf}_b|`.

    Example:
        >>> calibration_error(reliability(np.array([[0.8, 0.2]] * 5), np.array([0, 0, 0, 0, 1])))
        0.0
    """
    gaps = [b.count * abs(b.accuracy - b.confidence) for b in table if b.accuracy is not None]  # type: ignore[operator]
    return round(float(sum(gaps)) / max(sum(b.count for b in table), 1), 12)


@dataclass(frozen=True)
class Calibration:
    """What makes probabilities of logits: a temperature, then a curve for the likeliest class.

    The curve leads from confidence to how often validation nodes of such confidence were right;
    the other classes share the rest as before. The likeliest class stays the likeliest. Without
    knots there is no curve.

    The curve of an isotonic regression has steps, on which all nodes would have the same
    probability. So a thousandth of it is :math:`(1 + z / (1 + |z|)) / 2` with the log-odds z before
    the curve: what is sorted by probability is sorted by them where the curve is flat.
    """

    temperature: float = 1.0
    confidence: tuple[float, ...] = ()
    accuracy: tuple[float, ...] = ()

    @classmethod
    def fit(cls, logits: NDArray[np.float32], y: NDArray[np.int64]) -> Self:
        """Temperature, and from 30 nodes on the isotonic regression of being right on confidence.

        As with the temperature, nodes that are all right, or all wrong, do not prove certainty:
        accuracy lies between 1 / (m + 2) and (m + 1) / (m + 2).

        Shapes:
            logits ``[m, classes]``, y ``[m]``; of nodes that were not trained on.
        """
        scale = temperature(logits, y)
        if y.size < FEWEST:
            return cls(scale)
        shares = cls(scale).probabilities(logits).astype(np.float64)
        place, group = np.unique(shares.max(axis=1), return_inverse=True)
        right = shares.argmax(axis=1) == y
        count = np.bincount(group)
        level = isotonic_regression(np.bincount(group, right) / count, weights=count).x
        level = np.clip(level, 1 / (y.size + 2), (y.size + 1) / (y.size + 2))
        step = np.r_[True, np.diff(level) != 0]
        ends = step | np.r_[step[1:], True]  # the first and last of equal levels
        return cls(scale, tuple(place[ends].tolist()), tuple(level[ends].tolist()))

    @classmethod
    def from_card(cls, card: dict[str, Any]) -> Self:
        """Read from a run's card; version 0.1 had no curve.

        Raises:
            InputError: If its curve is not one.
        """
        curve = card.get("curve", {"confidence": (), "accuracy": ()})
        x, level = curve["confidence"], curve["accuracy"]
        if len(x) != len(level) or (np.diff(x) <= 0).any() or (np.diff(level) < 0).any():
            raise InputError(
                "calibration.curve: confidence must rise, and accuracy must not fall; restore the "
                f"file or run `djgnn fit` again (got {x!s:.100} and {level!s:.100})"
            )
        return cls(card["temperature"], tuple(x), tuple(level))

    def probabilities(self, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        """Calibrated probabilities.

        Shapes:
            logits and result ``[n, classes]``.
        """
        shares = np.asarray(softmax(logits.astype(np.float64) / self.temperature, axis=1))
        if not self.confidence or shares.shape[0] == 0 or shares.shape[1] < 2:
            return np.asarray(shares, dtype=np.float32)
        rows, best = np.arange(len(shares)), shares.argmax(axis=1)
        first = shares[rows, best]
        shares[rows, best] = 0
        rest = np.maximum(shares.sum(axis=1), np.finfo(np.float64).tiny)
        shares /= rest[:, None]
        second = shares.max(axis=1)
        odds = np.log(first / rest)
        level = np.interp(first, self.confidence, self.accuracy)
        tilt = TILT * (1 + odds / (1 + np.abs(odds))) / 2
        least = (1 + LEAD + tilt) * second / (1 + second)
        level = np.maximum((1 - TILT) * level + tilt, least)
        shares *= (1 - level)[:, None]
        shares[rows, best] = level
        return shares.astype(np.float32)


def calibration_card(
    logits: NDArray[np.float32],
    y: NDArray[np.int64],
    parts: dict[str, NDArray[np.bool_]],
    found: Calibration,
) -> dict[str, Any]:
    """Errors before and after it on each part, and the bins after it, for a run's card."""
    curve = {"confidence": list(found.confidence), "accuracy": list(found.accuracy)}
    card: dict[str, Any] = {"temperature": found.temperature, "curve": curve, "bins": BINS}
    for name, mask in parts.items():
        rows = mask & (y >= 0)
        if not rows.any():
            continue
        shown = (Calibration().probabilities(logits[rows]), found.probabilities(logits[rows]))
        before, after = (reliability(shares, y[rows]) for shares in shown)
        card[name] = {
            "nodes": int(rows.sum()),
            "error_before": calibration_error(before),
            "error": calibration_error(after),
            "reliability": [asdict(b) for b in after if b.count],
        }
    return card
