"""What a cross-fitted model says about nodes that its members did not learn from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import softmax
from torch import Tensor

from djgnn.model.expert_mixture import Mixed
from djgnn.training.selection import decision, score

Floats = NDArray[np.float64]
MOST_NODES = 10_000
"""Nodes that a gain is estimated on."""
STEPS, BOUND = 12, 4.0
"""Halvings of the range of log T, and its end."""
DRAWS = 4
"""Draws of all classes, for scores that are not means over nodes."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """What a cross-fitted model says about labelled nodes that it did not learn from.

    Neither the epochs nor the weights behind a node's answer were chosen with its label; which
    kinds of networks there are was chosen in the first fold. `alone` has the logits of every kind
    of expert by itself. `gain` is by how many points the mean of all `members`, which answers for
    nodes without a label, is ahead of the single one that answers here, see
    :func:`averaging_gain`.

    Shapes:
        nodes and y ``[m]``, logits ``[m, classes]``, logarithms of probabilities.
    """

    nodes: NDArray[np.int64]
    y: NDArray[np.int64]
    logits: Floats
    alone: Mapping[str, NDArray[np.float32]]
    members: int = 1
    gain: float = 0.0


@torch.no_grad()
def averaging_gain(
    module: Mixed,
    logits: Sequence[Tensor],
    fold: Tensor,
    folds: Sequence[int],
    measured: float,
    metric: str,
) -> float:
    """What the mean of a mixture's members adds to the score of one, on nodes without a label.

    Args:
        module: The mixture, with its weights in place.
        logits: Of each of its experts.
        fold: The fold of every node, -1 where it is in none: no member learned from these.
        folds: Those that have members.
        measured: The score of single members on labelled nodes, each of another fold.
        metric: Which score.

    Shapes:
        logits ``[n, classes]`` each, fold ``[n]``.

    Returns:
        Points; 0 if every node has a label, or if there is only one member.
    """
    rows = torch.nonzero(fold < 0)[:, 0]
    rows = rows[:: -(-max(rows.numel(), 1) // MOST_NODES)]
    if len(folds) < 2 or not rows.numel():
        return 0.0
    own = [each[rows] for each in logits]
    said = [module.combine(own, torch.full_like(rows, k)) for k in folds]
    answer, *members = (z.double().cpu().numpy() for z in (module.combine(own), *said))
    return expected_gain(members, answer, measured, metric)


def expected_gain(
    members: Sequence[Floats], answer: Floats, measured: float, metric: str = "accuracy"
) -> float:
    r"""By how many points an answer is expected to be ahead of the members that it is made of.

    The class of node i is taken to be drawn from

    .. math::
        q_i \propto P_i^{1/T}

    with P the answer, and the least T from 1 on with which single members score no more than they
    were measured to. What the answer scores then, less what they do, is the gain. It comes from the
    nodes that members disagree on. T is at least 1: where nearly every prediction is right, a lower
    one would count every disagreement as an error of single members.

    Args:
        members: Logarithms of the probabilities that each gives to the classes of some nodes.
        answer: Those of the answer.
        measured: The score of single members, in percent.
        metric: Which score, see :func:`djgnn.training.selection.score`.

    Shapes:
        members and answer ``[n, classes]`` each.

    Example:
        >>> one, other, mean = np.log([[0.9, 0.1]]), np.log([[0.4, 0.6]]), np.log([[0.8, 0.2]])
        >>> round(expected_gain([one, one, other], mean, 60.0), 2)  # (0.8 + 0.8 + 0.2) / 3 = 0.6
        20.0
    """
    told = [decision(torch.from_numpy(z), metric).numpy() for z in (*members, answer)]
    draw = np.random.default_rng(0).random((DRAWS, len(answer), 1))

    def scores(log_t: float) -> tuple[float, float]:
        """Of single members and of the answer, at a temperature."""
        q = softmax(answer / np.exp(log_t), axis=1)
        if metric == "accuracy":
            each = [100 * float(q[np.arange(len(q)), said].mean()) for said in told]
        else:
            drawn = (q.cumsum(axis=1)[:, :-1] < draw).sum(axis=2)
            each = np.mean([[score(said, y, metric) for said in told] for y in drawn], 0).tolist()
        return float(np.mean(each[:-1])), each[-1]

    low, high = 0.0, BOUND
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if scores(middle)[0] > measured else (low, middle)
    single, together = scores(low)
    return together - single if np.isfinite(together - single) else 0.0
