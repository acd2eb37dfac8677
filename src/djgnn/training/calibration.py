"""Confidence that can be believed: temperature scaling on validation, and how to check it."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax

BINS = 15
LARGEST = 20.0


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


def temperature(logits: NDArray[np.float32], y: NDArray[np.int64]) -> float:
    r"""The T > 0 with the least :math:`-\sum_i \sum_c t_{ic} \log \mathrm{softmax}(z_i / T)_c`.

    One number for all classes: predictions stay the same, only confidence moves (Guo et al.,
    2017). The targets t are those of Platt (1999): of m nodes a label counts
    :math:`(m + 1) / (m + 2)`, the other classes share the rest, so that a few nodes that are all
    right do not make the model certain. At least 1/20, and 1 where there is nothing to fit on.

    Args:
        logits: Of nodes that were not trained on.
        y: Their classes.

    Shapes:
        logits ``[m, classes]``, y ``[m]``.

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
        return -float(((1 - doubt) * label + others * (scores.sum(axis=1) - label)).mean())

    bound = np.log(LARGEST)
    found = float(minimize_scalar(loss, bounds=(-bound, bound), method="bounded").x)
    if found > 0.99 * bound:  # logits of any size, from features that were never scaled
        most = np.log(LARGEST * max(float(np.ptp(z)), LARGEST))
        found = float(minimize_scalar(loss, bounds=(bound, most), method="bounded").x)
    return float(np.exp(found))


def probabilities(logits: NDArray[np.float32], scale: float = 1.0) -> NDArray[np.float32]:
    """Softmax of logits / T, in float64 inside.

    Shapes:
        logits and result ``[n, classes]``.
    """
    return np.asarray(softmax(logits.astype(np.float64) / scale, axis=1), dtype=np.float32)


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


def calibration_card(
    logits: NDArray[np.float32],
    y: NDArray[np.int64],
    parts: dict[str, NDArray[np.bool_]],
    scale: float,
) -> dict[str, Any]:
    """Errors before and after scaling on each part, and the bins after it, for a run's card."""
    card: dict[str, Any] = {"temperature": scale, "bins": BINS}
    for name, mask in parts.items():
        rows = mask & (y >= 0)
        if not rows.any():
            continue
        before, after = (reliability(probabilities(logits[rows], t), y[rows]) for t in (1.0, scale))
        card[name] = {
            "nodes": int(rows.sum()),
            "error_before": calibration_error(before),
            "error": calibration_error(after),
            "reliability": [asdict(b) for b in after if b.count],
        }
    return card
