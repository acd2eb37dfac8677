"""Scores: the one that belongs to the data set, in percent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from numpy.typing import NDArray


def decision(logits: Tensor, metric: str) -> Tensor:
    """What a score needs of the logits: the class, or for ROC-AUC the log-odds of class 1.

    Shapes:
        logits ``[n, classes]``, result ``[n]``.
    """
    if metric == "roc_auc":
        return logits[:, 1] - logits[:, 0]
    return logits.argmax(dim=1).to(torch.int16)


def score(decisions: NDArray[np.generic], y: NDArray[np.int64], metric: str) -> float:
    """Accuracy or ROC-AUC in percent; NaN where it is not defined.

    That is without any node, and for ROC-AUC with one class or decisions that are no numbers.

    Example:
        >>> score(np.array([1, 0, 1]), np.array([1, 1, 1]), "accuracy")
        66.66666666666666
    """
    if y.size == 0:
        return float("nan")
    if metric == "accuracy":
        return 100 * float(np.mean(decisions == y))
    if np.unique(y).size < 2 or not np.isfinite(decisions).all():
        return float("nan")
    from sklearn.metrics import roc_auc_score

    return 100 * float(roc_auc_score(y, decisions))
