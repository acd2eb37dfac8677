"""The weights of a mixture, learned from nodes that its experts did not learn from."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax

from djgnn.model.expert_mixture import LEAST
from djgnn.training import calibration

Floats = NDArray[np.float64]
ROUNDS = 200
MOST_NODES, FEWEST_NODES, PARTS = 20_000, 20, 4
"""Nodes that a mixture is learned from; those that a product needs, and parts to judge it by."""
FIRMNESS = 10.0
"""Slope and offsets of the classes begin to follow the data with more nodes than this."""


def mixing_weights(likelihood: Floats, counts: Floats | None = None) -> Floats:
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


@dataclass(frozen=True, eq=False)
class Mixing:
    """What a mixture learns: see :class:`djgnn.model.expert_mixture.Mixed`.

    Shapes:
        weights, temperatures and powers ``[experts]``, offsets ``[classes]``, or ``[]`` for none.
    """

    weights: Floats
    temperatures: Floats
    powers: Floats
    product: float
    offsets: Floats = field(default_factory=lambda: np.zeros(()))

    def rows(self, folds: int) -> list[tuple[float, float, float]]:
        """Weight, temperature and power of every expert, of which there is one in every fold."""
        columns = (self.weights / folds, self.temperatures, self.powers / folds)
        return list(zip(*(column.tolist() for column in columns), strict=True))

    def mixed(self, held: Sequence[NDArray[np.float32]]) -> Floats:
        """Logarithms of the mixture's probabilities, from the logits of its experts."""
        each = _logs(held, self.temperatures)
        found = np.einsum("e,enc->nc", self.weights, np.exp(each))
        if self.product:
            found += self.product * np.exp(product_of(each, self.powers))
        answer = np.log(np.maximum(found, np.finfo(np.float64).tiny))
        return np.asarray(
            log_softmax(answer + self.offsets, axis=1) if self.offsets.any() else answer
        )


def learned(
    held: Sequence[NDArray[np.float32]],
    y: NDArray[np.int64],
    counts: Floats | None = None,
    offsets: bool = False,
) -> Mixing:
    """Temperatures, the powers of the product, then the weights, from logits of held-out nodes.

    The product is judged by nodes that its powers were not learned from; of many nodes some
    are enough.

    Args:
        held: Logits of every expert.
        y: Classes.
        counts: As how many nodes each of them counts, 1 if absent.
        offsets: Whether the classes have offsets, see :func:`class_offsets`.

    Shapes:
        held ``[m, classes]`` each, y and counts ``[m]``.
    """
    found = _learned(held, y, counts)
    return replace(found, offsets=class_offsets(found.mixed(held), y, counts)) if offsets else found


def _learned(
    held: Sequence[NDArray[np.float32]], y: NDArray[np.int64], counts: Floats | None
) -> Mixing:
    """The mixture without offsets."""
    some = slice(None, None, -(-max(y.size, 1) // MOST_NODES))
    y, counts = y[some], None if counts is None else counts[some]
    held = [z[some] for z in held]
    scales = np.array([calibration.temperature(each, y, counts) for each in held])
    each, rows = _logs(held, scales), np.arange(y.size)
    likelihood, powers = np.exp(each[:, rows, y]), np.zeros(len(held))
    if len(held) == 1 or y.size < FEWEST_NODES:
        return Mixing(mixing_weights(likelihood, counts), scales, powers, 0.0)
    part, product = np.random.default_rng(0).permutation(y.size) % PARTS, np.zeros(y.size)
    for k in range(PARTS):
        rest, own = part != k, part == k
        found = product_powers(each[:, rest], y[rest], None if counts is None else counts[rest])
        product[own] = np.exp(product_of(each[:, own], found))[np.arange(own.sum()), y[own]]
    powers = product_powers(each, y, counts)
    if not powers.any():
        return Mixing(mixing_weights(likelihood, counts), scales, powers, 0.0)
    weights = mixing_weights(np.vstack([likelihood, product]), counts)
    return Mixing(weights[:-1], scales, powers, float(weights[-1]))


def class_offsets(logits: Floats, y: NDArray[np.int64], counts: Floats | None = None) -> Floats:
    r"""Offsets b of the classes, learned beside a slope a of the logits z.

    .. math::
        \min_{a > 0,\, b}\; -\sum_i \log \mathrm{softmax}(a\, (z_i + b))_{y_i}
        + 5\, a^2 |b|^2 + 5 \log^2 a

    With them the classes are answered about as often as they are there: experts that shrink towards
    the class shares, as forests do, otherwise answer rare ones too seldom. A mixture is less sure
    than it could be, so that without the slope the offsets would be too small; which class is
    answered does not depend on it, and the temperature that follows learns it anew.

    Args:
        logits: Logarithms of the probabilities of the mixture.
        y: Classes.
        counts: As how many nodes each of them counts, 1 if absent.

    Shapes:
        logits ``[m, classes]``, y and counts ``[m]``, result ``[classes]``.

    Reference:
        Ranjan, Gneiting: Combining probability forecasts. Journal of the Royal Statistical Society
        B 72, 2010.

    Example:
        >>> class_offsets(np.zeros((1000, 2)), np.array([0] * 900 + [1] * 100)).round(1).tolist()
        [1.0, -1.0]
    """
    times, rows = np.ones(y.size) if counts is None else counts, np.arange(y.size)
    there = np.bincount(y, times, minlength=logits.shape[1])

    def loss(given: Floats) -> tuple[float, Floats]:
        slope, raised = np.exp(given[0]), given[1:]
        found = log_softmax(slope * logits + raised, axis=1)
        value = FIRMNESS / 2 * (given @ given) - times @ found[rows, y]
        shares = np.exp(found)
        pull = times @ ((shares * logits).sum(axis=1) - logits[rows, y])
        gradient = np.concatenate([[slope * pull], times @ shares - there])
        return float(value) / max(y.size, 1), (FIRMNESS * given + gradient) / max(y.size, 1)

    start = np.zeros(1 + logits.shape[1])
    found = np.asarray(minimize(loss, start, jac=True, method="L-BFGS-B").x)
    return np.asarray(found[1:] / np.exp(found[0]))


def product_of(logs: Floats, powers: Floats) -> Floats:
    r"""Logarithms of :math:`q_c \propto \prod_e p_e(c)^{a_e}`.

    Shapes:
        logs ``[experts, n, classes]``, powers ``[experts]``, result ``[n, classes]``.
    """
    bounded = np.maximum(logs, np.log(LEAST))
    return np.asarray(log_softmax(np.einsum("e,enc->nc", powers, bounded), axis=1))


def product_powers(logs: Floats, y: NDArray[np.int64], counts: Floats | None = None) -> Floats:
    r"""The exponents :math:`a \ge 0` with the least :math:`-\sum_i \log q_{y_i} + \sum_e a_e`.

    Args:
        logs: Logarithms of the experts' probabilities.
        y: Classes.
        counts: As how many nodes each of them counts, 1 if absent.

    Shapes:
        logs ``[experts, m, classes]``, y and counts ``[m]``, result ``[experts]``.

    Example:
        >>> sure, blind = np.log([[0.9, 0.1]] * 50), np.log([[0.5, 0.5]] * 50)
        >>> found = product_powers(np.stack([sure, blind]), np.zeros(50, dtype=np.int64))
        >>> bool(found[0] > 1), float(found[1])
        (True, 0.0)
    """
    bounded = np.moveaxis(np.maximum(logs, np.log(LEAST)), 0, 2)
    rows, times = np.arange(y.size), np.ones(y.size) if counts is None else counts
    label = bounded[rows, y]

    def loss(powers: Floats) -> tuple[float, Floats]:
        found = log_softmax(bounded @ powers, axis=1)
        expected = np.einsum("nc,nce->ne", np.exp(found), bounded)
        value = powers.sum() - times @ found[rows, y]
        return value / y.size, (1 - times @ (label - expected)) / y.size

    begin = np.full(len(logs), 1 / len(logs))
    bounds = [(0, None)] * len(logs)
    return np.asarray(minimize(loss, begin, jac=True, method="L-BFGS-B", bounds=bounds).x)


def _logs(held: Sequence[NDArray[np.float32]], scales: Floats) -> Floats:
    """Logarithms of the experts' probabilities, ``[experts, n, classes]``."""
    logits = [z.astype(np.float64) / scale for z, scale in zip(held, scales, strict=True)]
    return np.asarray(log_softmax(np.stack(logits), axis=2))
