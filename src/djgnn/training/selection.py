"""Scores and selection protocols: which epoch a reported figure was read at."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from djgnn.graph.checks import BINARY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from djgnn.training.loop import Fitted

PROTOCOLS = ("validation", "oracle")
MOST_DRAWN = 20_000
"""Nodes of a bootstrap sample."""


def decision(logits: Tensor, metric: str) -> Tensor:
    """What a score needs of the logits: the class, or to rank nodes the log-odds of class 1.

    Shapes:
        logits ``[n, classes]``, result ``[n]``.
    """
    if metric in BINARY:
        return logits[:, 1] - logits[:, 0]
    return logits.argmax(dim=1).to(torch.int16)


def score(decisions: NDArray[Any], y: NDArray[np.int64], metric: str) -> float:
    """A score in percent; NaN where it is not defined.

    - ``accuracy``;
    - ``macro_f1``: the mean of F1 over the classes that occur in `y`;
    - ``roc_auc``, of two classes;
    - ``average_precision`` of the rarer of two classes, of class 1 if both are as many.

    Not defined are scores of no node, and the last two for one class or for decisions that are not
    finite.

    Example:
        >>> score(np.array([1, 0, 1]), np.array([1, 1, 1]), "accuracy")
        66.66666666666666
        >>> round(score(np.array([1, 1, 1, 0]), np.array([1, 1, 0, 0]), "macro_f1"), 1)
        73.3
    """
    if y.size == 0:
        return float("nan")
    if metric == "accuracy":
        return 100 * float(np.mean(decisions == y))
    if metric == "macro_f1":
        said, size = decisions.astype(np.int64), 1 + max(int(y.max()), int(decisions.max()))
        right, given, there = (np.bincount(v, minlength=size) for v in (y[said == y], said, y))
        return 100 * float(np.mean((2 * right / np.maximum(given + there, 1))[there > 0]))
    if np.unique(y).size < 2 or not np.isfinite(decisions).all():
        return float("nan")
    from sklearn.metrics import average_precision_score, roc_auc_score

    if metric == "roc_auc":
        return 100 * float(roc_auc_score(y, decisions))
    rare = int(2 * y.sum() <= y.size)
    return 100 * float(average_precision_score(y == rare, decisions if rare else -decisions))


def resampled(
    decided: Sequence[NDArray[Any]], y: NDArray[np.int64], metric: str, draws: int
) -> NDArray[np.float64]:
    """Scores of several deciders on the same bootstrap samples of nodes, ``[deciders, draws]``.

    Of more than 20,000 nodes a sample has 20,000, and the scores are shrunk towards their mean by
    the root of that share, so that their spread is that of all nodes; time
    O(draws * m log m) for these m.

    Args:
        decided: Decisions of each of them.
        y: Classes.
        metric: Which score.
        draws: How many samples.

    Shapes:
        decided and y ``[n]``.

    Example:
        >>> y = np.arange(40_000) % 2
        >>> drawn = resampled([y * (np.arange(40_000) > 8_000)], y, "accuracy", 50)
        >>> bool(abs(drawn.mean() - 90) < 0.1), bool(0.1 < drawn.std() < 0.2)  # root of pq / n
        (True, True)
    """
    rng, size = np.random.default_rng(0), min(y.size, MOST_DRAWN)
    rows = (rng.integers(y.size, size=size) for _ in range(draws))
    found = np.array([[score(each[row], y[row], metric) for each in decided] for row in rows]).T
    if size == y.size:
        return found
    centre = np.nanmean(found, axis=1, keepdims=True)
    return np.asarray(centre + (found - centre) * math.sqrt(size / y.size))


@dataclass(frozen=True)
class SplitResult:
    """Figures of one split, in percent.

    `test` is read at the epoch that validation chose. `oracle_test` is the largest test
    score of all epochs, the figure that the published code reports: it peeks at the test labels
    and is here to explain published numbers, never to be compared with honest ones.

    Example:
        >>> result = SplitResult(0, validation=80, test=78, oracle_test=81, epoch=12, seconds=1)
        >>> result.oracle_test - result.test  # what peeking at the test labels adds
        3
    """

    split: int
    validation: float
    test: float
    oracle_test: float
    epoch: int
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


def judge(fitted: Fitted, test_y: NDArray[np.int64], metric: str, split: int = 0) -> SplitResult:
    """Score the test nodes of a finished run, under both protocols.

    The only place where a score on test labels is computed for a result; the model is finished.

    Example:
        >>> from djgnn.graph import heterophilic_sbm, random_splits
        >>> from djgnn.training import Targets, fit, resolve
        >>> from djgnn.training.inputs import build_djgnn
        >>> graph = random_splits(heterophilic_sbm(160), num_splits=1)
        >>> config = resolve("paper", epochs=3, hidden_channels=8)
        >>> module, inputs = build_djgnn(config, graph)
        >>> targets = Targets.of(graph, graph.split(0))
        >>> fitted = fit(module, inputs, targets, config.training)
        >>> result = judge(fitted, graph.y[graph.split(0).test], "accuracy")
        >>> result.test <= result.oracle_test
        True
    """
    test = score(fitted.decided, test_y, metric)
    scores = [test, *(score(row, test_y, metric) for row in fitted.decisions)]
    return SplitResult(
        split=split,
        validation=fitted.validation,
        test=test,
        oracle_test=max((s for s in scores if not math.isnan(s)), default=math.nan),
        epoch=fitted.epoch,
        seconds=fitted.seconds,
    )
