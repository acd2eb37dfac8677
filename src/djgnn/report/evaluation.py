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
    r"""Newcombe's 95% interval of a ROC-AUC in percent (2006, part 2, method 5).

    As Wilson's for a share, it holds every area :math:`\theta` that is no more than z standard
    errors away from the area seen, a, with the error that :math:`\theta` would have:

    .. math::
        (a - \theta)^2 \le z^2 \, \frac{\theta (1 - \theta)}{n_+ n_-} \Bigl( 1 + (\bar n - 1)
        \bigl( \tfrac{1 - \theta}{2 - \theta} + \tfrac{\theta}{1 + \theta} \bigr) \Bigr),
        \qquad \bar n = (n_+ + n_-) / 2,

    the variance of Hanley and McNeil (1982) made symmetric. It does not collapse at 0 and 100.

    Example:
        >>> [round(v, 1) for v in auc_interval(80.0, 100, 100)]
        [73.1, 85.3]
        >>> [round(v, 1) for v in auc_interval(100.0, 1, 1)]
        [20.7, 100.0]
    """
    from scipy.optimize import brentq

    if min(positives, negatives) == 0 or not math.isfinite(auc):
        return (math.nan, math.nan)
    a, half = auc / 100, (positives + negatives) / 2 - 1

    def beyond(t: float) -> float:
        pairs = 1 + half * ((1 - t) / (2 - t) + t / (1 + t))
        return (a - t) ** 2 - 1.959964**2 * t * (1 - t) * pairs / (positives * negatives)

    low = brentq(beyond, 0, min(a, 1 - 1e-12)) if a > 0 else 0.0
    high = brentq(beyond, max(a, 1e-12), 1) if a < 1 else 1.0
    return (100 * float(low), 100 * float(high))


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
