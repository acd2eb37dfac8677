"""The paper's claims a, b, c on block models, judged by the values of the study."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from levels import NUM_LEVELS, SERIES, SIGNAL
from numpy.typing import NDArray
from scipy.stats import t
from study import CellValues

READINGS = {"printed": "gap = (p-q)/(p+q)", "spectral": "gap = 1 - (p-q)/(p+q), that of the walk"}


@dataclass(frozen=True)
class Verdict:
    """Whether a claim held in a series of the study, under a reading of "gap"."""

    claim: str
    series: str
    reading: str
    held: bool
    why: str

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return dataclasses.asdict(self)


def feature_ceiling(signal: float = SIGNAL) -> float:
    r"""Accuracy in percent that no classifier of the features alone exceeds, on average.

    .. math:: 100\, \Phi\bigl(s \sqrt 2 / 2\bigr)

    for two Gaussian classes whose means are s times two random directions, about
    :math:`\sqrt 2` apart.

    Example:
        >>> round(feature_ceiling(0.75), 1)
        70.2
    """
    return 50.0 * (1.0 + math.erf(signal * math.sqrt(2) / 2 / math.sqrt(2)))


def judge_claims(cells: Sequence[CellValues]) -> list[Verdict]:
    """Judge the claims a, b and c of Appendix B.

    The paper calls (p - q)/(p + q) the spectral gap. It is the second *eigenvalue* of the walk; the
    gap is 1 minus it, and the text (massive message passing between classes, a near-complete
    graph) describes a large gap in that sense. So a and c are judged under both readings.

    - a, small gaps help: the accuracy, with the mean of its level taken off, correlates negatively
      with the gap.
    - b, low or medium structural heterophily and a gap not too high give good results: at the
      lower half of the levels and the middle gaps the accuracy is above what the features alone
      allow, and above that of the upper half.
    - c, large gaps are worst: the gap with the lowest mean accuracy is the largest, by a margin to
      the next.

    Every comparison is made seed by seed and must differ from zero at the 95 percent level.

    Args:
        cells: Records of :func:`study.run_study`.
    """
    verdicts = []
    for series in SERIES:
        own = {(c["gap"], c["level"], c["seed"]): c["test"] for c in cells if c["series"] == series}
        gaps, levels, seeds = (sorted(set(axis)) for axis in zip(*own, strict=True))
        tests = np.array([[[own[g, k, s] for s in seeds] for k in levels] for g in gaps])
        for reading in READINGS:
            verdicts.append(_judge_small_gaps(gaps, tests, series, reading))
            verdicts.append(_judge_large_gaps(gaps, tests, series, reading))
        if series == "structural":
            verdicts.append(_judge_low_heterophily(gaps, levels, tests))
    return sorted(verdicts, key=lambda v: (v.claim, v.reading, v.series != "structural"))


def exceeds(values: NDArray[np.float64], bar: float = 0.0) -> bool:
    """Whether a mean over seeds is above a bar by Student's t at 95 percent; never for one seed.

    Example:
        >>> exceeds(np.array([1.0, 1.2, 0.8])), exceeds(np.array([1.0, 3.0])), exceeds(np.ones(1))
        (True, False, False)
    """
    if values.size < 2:
        return False
    return bool(values.mean() - bar > t.ppf(0.975, values.size - 1) * _error(values))


def _error(values: NDArray[np.float64]) -> float:
    """The standard error of a mean; NaN for one value."""
    return float(values.std(ddof=1)) / math.sqrt(values.size) if values.size > 1 else math.nan


def _shown(values: NDArray[np.float64]) -> str:
    return f"{values.mean():.2f} +- {_error(values):.2f}"


def _judge_small_gaps(gaps: Any, tests: Any, series: str, reading: str) -> Verdict:
    """Claim a. `tests` has the accuracies ``[gaps, levels, seeds]``."""
    sign, means = (1.0 if reading == "printed" else -1.0), tests.mean(axis=1)
    rest = tests - tests.mean(axis=0)
    grid = np.repeat(gaps, tests.shape[1])
    correlation = np.array(
        [
            0.0 if np.ptp(grid) == 0 or np.ptp(of) == 0 else sign * np.corrcoef(grid, of)[0, 1]
            for of in rest.reshape(grid.size, -1).T
        ]
    )
    small, large = (0, -1) if sign > 0 else (-1, 0)
    why = (
        f"correlation of accuracy with the gap {_shown(correlation)}; smallest gap "
        f"((p-q)/(p+q) = {gaps[small]:g}) minus largest ({gaps[large]:g}): "
        f"{_shown(means[small] - means[large])} points"
    )
    return Verdict("a", series, reading, exceeds(-correlation), why)


def _judge_large_gaps(gaps: Any, tests: Any, series: str, reading: str) -> Verdict:
    """Claim c."""
    means = tests.mean(axis=1)
    largest = len(gaps) - 1 if reading == "printed" else 0
    worst, second = np.argsort(means.mean(axis=1), kind="stable")[:2]
    margin = means[second] - means[worst]
    listed = ", ".join(f"{g:g}: {_shown(of)}" for g, of in zip(gaps, means, strict=True))
    why = (
        f"mean accuracy by (p-q)/(p+q) {listed}; largest gap is {gaps[largest]:g}, worst is "
        f"{gaps[worst]:g}, {_shown(margin)} points below the next"
    )
    return Verdict("c", series, reading, bool(worst == largest and exceeds(margin)), why)


def _judge_low_heterophily(gaps: Any, levels: Any, tests: Any) -> Verdict:
    """Claim b, at the gaps between the smallest and the largest."""
    middle = slice(1, -1) if len(gaps) > 2 else slice(None)
    half = NUM_LEVELS // 2
    below, ceiling = np.array(levels) < half, feature_ceiling()
    low, high = (tests[middle][:, of].mean(axis=(0, 1)) for of in (below, ~below))
    why = (
        f"levels 0 to {half - 1} at (p-q)/(p+q) = {', '.join(f'{g:g}' for g in gaps[middle])}: "
        f"accuracy {_shown(low)}; features alone allow {ceiling:.1f}; above the higher levels by "
        f"{_shown(low - high)}"
    )
    held = exceeds(low, ceiling) and exceeds(low - high)
    return Verdict("b", "structural", "both", held, why)
