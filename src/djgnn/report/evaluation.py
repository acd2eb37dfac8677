"""How good the predictions are: interval, confusion, scores per class."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def accuracy_interval(correct: int, total: int) -> tuple[float, float]:
    """Wilson's 95% interval of a share, in percent.

    Example:
        >>> [round(v, 2) for v in accuracy_interval(50, 100)]
        [40.38, 59.62]
    """
    from scipy.stats import binomtest

    if total == 0:
        return (math.nan, math.nan)
    interval = binomtest(correct, total).proportion_ci(0.95, method="wilson")
    return (100 * float(interval.low), 100 * float(interval.high))


def auc_interval(auc: float, positives: int, negatives: int) -> tuple[float, float]:
    r"""The 95% interval of a ROC-AUC in percent, by the formula of Hanley and McNeil (1982).

    .. math::
        s^2 = \frac{a(1-a) + (n_+ - 1)(\frac{a}{2-a} - a^2) + (n_- - 1)(\frac{2a^2}{1+a} - a^2)}
                   {n_+ n_-}

    Example:
        >>> [round(v, 1) for v in auc_interval(80.0, 100, 100)]
        [73.9, 86.1]
    """
    if min(positives, negatives) == 0 or not math.isfinite(auc):
        return (math.nan, math.nan)
    a = auc / 100
    first, second = a / (2 - a) - a * a, 2 * a * a / (1 + a) - a * a
    variance = a * (1 - a) + (positives - 1) * first + (negatives - 1) * second
    half = 1.959964 * math.sqrt(max(variance, 0.0) / (positives * negatives))
    return (100 * max(0.0, a - half), 100 * min(1.0, a + half))


def confusion(
    y: NDArray[np.int64], predicted: NDArray[np.int64], num_classes: int
) -> NDArray[np.int64]:
    """Counts, true class down and predicted class across.

    Example:
        >>> confusion(np.array([0, 0, 1]), np.array([0, 1, 1]), 2).tolist()
        [[1, 1], [0, 1]]
    """
    counts = np.bincount(y * num_classes + predicted, minlength=num_classes**2)
    return counts.reshape(num_classes, num_classes)


def class_scores(counts: NDArray[np.int64]) -> list[dict[str, Any]]:
    """Precision, recall and F1 of every class in percent; ``None`` where there is nothing to count.

    Example:
        >>> class_scores(np.array([[1, 1], [0, 1]]))[1]
        {'precision': 50.0, 'recall': 100.0, 'f1': 66.66666666666667, 'support': 1}
    """
    rows = []
    for c in range(counts.shape[0]):
        hit, true, said = int(counts[c, c]), int(counts[c].sum()), int(counts[:, c].sum())
        rows.append(
            {
                "precision": 100 * hit / said if said else None,
                "recall": 100 * hit / true if true else None,
                "f1": 100 * 2 * hit / (true + said) if true + said else None,
                "support": true,
            }
        )
    return rows
