"""The paper's claims a, b, c on block models, judged by the values of the study."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from djgnn.graph.sbm_levels import NUM_LEVELS, SERIES, SIGNAL

CellValues: TypeAlias = dict[str, Any]
READINGS = {
    "printed": "gap = (p-q)/(p+q)",
    "spectral": "gap = 1 - (p-q)/(p+q), that of the walk",
}
CONFIDENCE = 0.95
"""Two-sided; few seeds need more standard errors for it (Student's t)."""


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds and its standard error (NaN for one seed)."""

    mean: float
    error: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Estimate:
        """Mean and standard error of one value per seed.

        Example:
            >>> Estimate.of([1.0, 3.0])
            Estimate(mean=2.0, error=1.0, count=2)
        """
        array = np.asarray(values, dtype=np.float64)
        spread = float(array.std(ddof=1)) if array.size > 1 else float("nan")
        return cls(float(array.mean()), spread / math.sqrt(array.size), array.size)

    def above(self, bar: float = 0.0) -> bool:
        """Whether the mean is above a bar, with the confidence asked for; never for one seed.

        Example:
            >>> Estimate(1.0, 0.3, 5).above(), Estimate(1.0, 0.3, 3).above()
            (True, False)
        """
        from scipy.stats import t

        if self.count < 2:
            return False
        return self.mean - bar > float(t.ppf((1 + CONFIDENCE) / 2, self.count - 1)) * self.error

    def __str__(self) -> str:
        return f"{self.mean:.2f} +- {self.error:.2f}"


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
        return {key: getattr(self, key) for key in ("claim", "series", "reading", "held", "why")}


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
        cells: Records of :func:`djgnn.bench.sbm_study.run_study`.
    """
    verdicts = []
    for series in SERIES:
        own = [cell for cell in cells if cell["series"] == series]
        for reading in READINGS:
            verdicts += [_small_gaps(own, series, reading), _large_gaps(own, series, reading)]
    verdicts.append(_low_heterophily([c for c in cells if c["series"] == "structural"]))
    return sorted(verdicts, key=lambda v: (v.claim, v.reading, v.series != "structural"))


def gap_means(cells: Sequence[CellValues]) -> dict[float, list[float]]:
    """Per gap the mean accuracy over the levels, one value per seed."""
    seeds = sorted({cell["seed"] for cell in cells})
    return {
        gap: [_mean(c for c in cells if c["gap"] == gap and c["seed"] == seed) for seed in seeds]
        for gap in sorted({cell["gap"] for cell in cells})
    }


def _small_gaps(cells: Sequence[CellValues], series: str, reading: str) -> Verdict:
    sign = 1.0 if reading == "printed" else -1.0
    correlation = Estimate.of([sign * r for r in _correlations(cells)])
    means = gap_means(cells)
    small, large = (min(means), max(means)) if sign > 0 else (max(means), min(means))
    ahead = Estimate.of([a - b for a, b in zip(means[small], means[large], strict=True)])
    held = Estimate(-correlation.mean, correlation.error, correlation.count).above()
    why = (
        f"correlation of accuracy with the gap {correlation}; smallest gap "
        f"((p-q)/(p+q) = {small:g}) minus largest ({large:g}): {ahead} points"
    )
    return Verdict("a", series, reading, held, why)


def _large_gaps(cells: Sequence[CellValues], series: str, reading: str) -> Verdict:
    means = gap_means(cells)
    largest = max(means) if reading == "printed" else min(means)
    order = sorted(means, key=lambda gap: float(np.mean(means[gap])))
    worst, second = order[0], order[1]
    margin = Estimate.of([b - a for a, b in zip(means[worst], means[second], strict=True)])
    held = worst == largest and margin.above()
    listed = ", ".join(f"{gap:g}: {Estimate.of(means[gap])}" for gap in means)
    why = (
        f"mean accuracy by (p-q)/(p+q) {listed}; largest gap is {largest:g}, worst is {worst:g}, "
        f"{margin} points below the next"
    )
    return Verdict("c", series, reading, held, why)


def _low_heterophily(cells: Sequence[CellValues]) -> Verdict:
    gaps = sorted({cell["gap"] for cell in cells})
    middle = gaps[1:-1] or gaps
    half = NUM_LEVELS // 2
    seeds = sorted({cell["seed"] for cell in cells})
    low, high = (
        [
            _mean(
                c
                for c in cells
                if c["gap"] in middle and (c["level"] < half) is below and c["seed"] == seed
            )
            for seed in seeds
        ]
        for below in (True, False)
    )
    good, better = Estimate.of(low), Estimate.of([a - b for a, b in zip(low, high, strict=True)])
    ceiling = feature_ceiling()
    held = good.above(ceiling) and better.above()
    why = (
        f"levels 0 to {half - 1} at (p-q)/(p+q) = {', '.join(f'{gap:g}' for gap in middle)}: "
        f"accuracy {good}; features alone allow {ceiling:.1f}; above the higher levels by {better}"
    )
    return Verdict("b", "structural", "both", held, why)


def _correlations(cells: Sequence[CellValues]) -> list[float]:
    """Per seed the correlation of gap and accuracy, the mean of each level taken off."""
    found = []
    for seed in sorted({cell["seed"] for cell in cells}):
        own = [cell for cell in cells if cell["seed"] == seed]
        level = {k: _mean(c for c in own if c["level"] == k) for k in {c["level"] for c in own}}
        gap = np.array([cell["gap"] for cell in own])
        rest = np.array([cell["test"] - level[cell["level"]] for cell in own])
        flat = np.ptp(gap) == 0 or np.ptp(rest) == 0
        found.append(0.0 if flat else float(np.corrcoef(gap, rest)[0, 1]))
    return found


def _mean(cells: Any) -> float:
    return float(np.mean([cell["test"] for cell in cells]))
