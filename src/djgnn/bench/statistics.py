r"""Whether a gap between two models is more than the luck of the splits.

Splits of one data set share most of their nodes, so their scores are not independent and a plain
t test finds differences that are not there. The test decided on here is Nadeau and Bengio's, which
corrects for the overlap; Wilcoxon's signed ranks stand beside it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

EXACT_UP_TO = 13
"""Signed ranks are enumerated up to this many differences (8192 sign patterns)."""
LEVEL = 0.05
"""Of all tests."""


@dataclass(frozen=True)
class Paired:
    """Two models on the same splits of one data set; figures in percent, `difference` is a - b.

    `standard_error` is the corrected one of the mean difference, see :func:`corrected_t`.
    """

    difference: float
    standard_error: float
    t: float
    p_t: float
    p_wilcoxon: float
    cohen_d: float
    cliff_delta: float
    num_splits: int

    @property
    def within_one_error(self) -> bool:
        """Whether the gap is at most one standard error: not worth a claim."""
        return abs(self.difference) <= self.standard_error


def compare(a: ArrayLike, b: ArrayLike, test_to_train: float, resolution: float = 0.0) -> Paired:
    """Compare two models split by split.

    Args:
        a: Scores of the first model, one per split.
        b: Scores of the second, on the same splits in the same order.
        test_to_train: Test nodes divided by training nodes of a split.
        resolution: What one test node is worth, see :func:`corrected_t`.

    Raises:
        ValueError: If the two do not pair up, or a score is not finite.

    Example:
        >>> found = compare([81, 83, 82, 84], [80, 80, 80, 80], test_to_train=0.5)
        >>> round(found.difference, 3), round(found.t, 3), found.p_wilcoxon
        (2.5, 2.236, 0.125)
    """
    first, second = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    if first.shape != second.shape or first.ndim != 1 or first.size == 0:
        raise ValueError(
            "scores must come in pairs, one per split and model "
            f"(got {first.shape} and {second.shape})"
        )
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        raise ValueError("scores must be finite; leave out splits without a test score (got NaN)")
    difference = first - second
    t, p, error = corrected_t(difference, test_to_train, resolution)
    return Paired(
        difference=float(difference.mean()),
        standard_error=error,
        t=t,
        p_t=p,
        p_wilcoxon=wilcoxon(difference),
        cohen_d=cohen_d(difference),
        cliff_delta=cliff_delta(first, second),
        num_splits=difference.size,
    )


def settle_ties(values: ArrayLike) -> NDArray[np.float64]:
    """The values to nine digits: equal scores stay equal whatever order their mean was taken in."""
    return np.round(np.asarray(values, dtype=float), 9)


def corrected_t(
    difference: ArrayLike, test_to_train: float, resolution: float = 0.0
) -> tuple[float, float, float]:
    r"""Nadeau and Bengio's corrected resampled t test of a mean difference of zero.

    .. math:: t = \bar d \Big/ \sqrt{\left(\tfrac1J + \tfrac{n_{test}}{n_{train}}\right) s_d^2},
       \qquad J - 1 \text{ degrees of freedom.}

    Scores go in steps of one test node, so a few splits may differ by the same number of nodes by
    chance. A difference that rests on m nodes varies by about :math:`\sqrt m` of them between
    samples, so :math:`s_d` is taken to be one node, `resolution`, at least.

    Args:
        difference: One difference per split, J of them.
        test_to_train: :math:`n_{test}/n_{train}`; 0 gives the plain paired t test.
        resolution: What one test node is worth, in the unit of the differences; 0 if not known.

    Returns:
        t, its two-sided p value, and the standard error (the root). What tells nothing of the
        spread, one split or equal differences of unknown resolution, gives (0, 1, infinity);
        differences that are all zero give (0, 1, 0).

    References:
        Nadeau and Bengio, Inference for the generalization error, Machine Learning 52, 2003.

    Example:
        >>> t, p, error = corrected_t([1.0, 3.0, 2.0, 4.0], test_to_train=0.5)
        >>> round(t, 4), round(p, 4), round(error, 4)
        (2.2361, 0.1114, 1.118)
    """
    d = np.asarray(difference, dtype=float)
    if d.size < 2:
        return 0.0, 1.0, math.inf
    if not settle_ties(d).any():
        return 0.0, 1.0, 0.0
    spread = float(d.std(ddof=1)) if np.ptp(settle_ties(d)) else 0.0
    error = math.sqrt(1 / d.size + test_to_train) * max(spread, resolution)
    if error == 0:
        return 0.0, 1.0, math.inf
    t = float(d.mean()) / error
    return t, float(2 * stats.t.sf(abs(t), d.size - 1)), error


def wilcoxon(difference: ArrayLike) -> float:
    """Two-sided p value of Wilcoxon's signed-rank test; zero differences are left out.

    Exact, also with ties, up to 13 differences; the normal approximation above that.

    Example:
        >>> wilcoxon([1.0, 2.0, 3.0, 4.0, 5.0])
        0.0625
        >>> wilcoxon([0.0, 0.0])
        1.0
    """
    d = settle_ties(difference)
    d = d[d != 0]
    if d.size == 0:
        return 1.0
    if d.size > EXACT_UP_TO:
        return float(stats.wilcoxon(d, method="asymptotic").pvalue)
    if np.unique(np.abs(d)).size == d.size:
        return float(stats.wilcoxon(d, method="exact").pvalue)
    signs = stats.PermutationMethod(n_resamples=2**d.size)
    return float(min(1.0, stats.wilcoxon(d, method=signs).pvalue))


def cohen_d(difference: ArrayLike) -> float:
    """Cohen's d of paired values: mean difference in standard deviations of the differences.

    Example:
        >>> round(cohen_d([1.0, 2.0, 3.0]), 6)
        2.0
    """
    d = np.asarray(difference, dtype=float)
    spread = float(d.std(ddof=1)) if d.size > 1 else 0.0
    mean = float(d.mean())
    if spread < 1e-12:
        return 0.0 if abs(mean) < 1e-12 else math.copysign(math.inf, mean)
    return mean / spread


def cliff_delta(a: ArrayLike, b: ArrayLike) -> float:
    """Cliff's delta: share of pairs where a is larger, less the share where b is.

    Example:
        >>> cliff_delta([1, 2, 3], [0, 2, 2])
        0.3333333333333333
    """
    first, second = settle_ties(a), settle_ties(b)
    return float(np.sign(first[:, None] - second[None, :]).mean())


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment for several tests, in the order given.

    Example:
        >>> holm([0.01, 0.04, 0.03])
        [0.03, 0.06, 0.06]
    """
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    for rank, i in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = highest
    return adjusted


def verdicts(comparisons: Mapping[str, Paired]) -> dict[str, tuple[int, float, float]]:
    """Who is better on which set: 1 the first model, -1 the second, 0 the splits cannot tell.

    Decided by the corrected t test; Holm's adjustment runs over the sets of this one pair.

    Returns:
        For each set the verdict and the adjusted p values of the corrected t test and of Wilcoxon.
    """
    by_t = holm([pair.p_t for pair in comparisons.values()])
    by_rank = holm([pair.p_wilcoxon for pair in comparisons.values()])
    return {
        name: (int(np.sign(pair.difference)) if p < LEVEL else 0, p, q)
        for (name, pair), p, q in zip(comparisons.items(), by_t, by_rank, strict=True)
    }


def sentence(a: str, b: str, comparisons: Mapping[str, Paired]) -> str:
    """What the comparisons of two models over several data sets say, in words.

    Example:
        >>> sure = compare([9, 9.1, 9, 9.1], [1, 1.1, 1.1, 1], 0.4)
        >>> unsure = compare([1, 2, 3, 4], [2, 1, 4, 3], 0.4)
        >>> sentence("djgnn", "gcn", {"texas": sure, "cora": unsure})
        'djgnn is better than gcn on 1 of 2 sets (texas); on the other one the splits cannot tell.'
    """
    decided = verdicts(comparisons)
    wins = [name for name, (sign, _, _) in decided.items() if sign > 0]
    losses = [name for name, (sign, _, _) in decided.items() if sign < 0]
    open_ = len(decided) - len(wins) - len(losses)
    total = f"{len(decided)} set{'s' if len(decided) != 1 else ''}"
    if not wins and not losses:
        return f"{a} against {b}: on none of {total} can the splits tell them apart."
    parts = []
    if wins:
        parts.append(f"{a} is better than {b} on {len(wins)} of {total} ({', '.join(wins)})")
    if losses:
        of = "" if wins else f" of {total}"
        parts.append(f"{b} is better than {a} on {len(losses)}{of} ({', '.join(losses)})")
    if open_:
        rest = "the other one" if open_ == 1 else f"the other {open_}"
        parts.append(f"on {rest} the splits cannot tell")
    return "; ".join(parts) + "."


def average_ranks(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean rank of every model over the data sets; 1 is best, ties share.

    Shapes:
        scores ``[sets, models]``, result ``[models]``.

    Example:
        >>> average_ranks(np.array([[90.0, 80.0, 80.0], [60.0, 70.0, 50.0]])).tolist()
        [1.5, 1.75, 2.75]
        >>> average_ranks(np.array([[0.1 + 0.2, 0.3]])).tolist()
        [1.5, 1.5]
    """
    ranks: NDArray[np.float64] = stats.rankdata(-settle_ties(scores), axis=1).mean(axis=0)
    return ranks


def friedman(scores: NDArray[np.float64]) -> float:
    """p value of Friedman's test that all models are alike.

    1 for fewer than three models, for one set, and where all models tie on every set.

    Shapes:
        scores ``[sets, models]``.

    Example:
        >>> round(friedman(np.array([[3.0, 2.0, 1.0], [3.0, 2.0, 1.0]])), 3)
        0.135
    """
    sets, models = scores.shape
    settled = settle_ties(scores)
    if models < 3 or sets < 2 or np.ptp(settled, axis=1).max() == 0:
        return 1.0
    return float(stats.friedmanchisquare(*settled.T).pvalue)


def critical_difference(models: int, sets: int) -> float:
    r"""Nemenyi's critical difference of two average ranks.

    .. math:: CD = q_\alpha \sqrt{k (k + 1) / 6 N}

    with k models, N data sets, :math:`\alpha = 0.05` and :math:`q_\alpha` the studentised range
    divided by :math:`\sqrt 2`.

    References:
        Demsar, Statistical comparisons of classifiers over multiple data sets, JMLR 7, 2006.

    Example:
        >>> round(critical_difference(4, 14), 2)  # Demsar's example: q = 2.569
        1.25
    """
    q = float(stats.studentized_range.ppf(1 - LEVEL, models, np.inf)) / math.sqrt(2)
    return q * math.sqrt(models * (models + 1) / (6 * sets))
