"""Average ranks of models over data sets, and which of them the sets cannot tell apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np


def rank_models(
    cells: Sequence[dict[str, Any]], key: str, alpha: float = 0.05
) -> dict[str, Any] | None:
    r"""Average ranks and the critical difference of the Nemenyi test (Demšar, 2006).

    .. math::
        \mathrm{CD} = q_\alpha \sqrt{\frac{k (k + 1)}{6 N}}

    for k models on N data sets; only sets that every model has a figure on count.

    Args:
        cells: Rows with `model`, `dataset` and figures.
        key: Which figure to rank by, larger is better.
        alpha: Level of the test.

    Returns:
        Models from best to worst with their ranks, the critical difference, and runs of models
        closer than it; ``None`` with fewer than two models or two sets.

    Example:
        >>> cells = [
        ...     {"model": m, "dataset": d, "test_mean": v}
        ...     for m, d, v in [("a", "x", 9), ("b", "x", 8), ("a", "y", 7), ("b", "y", 6)]
        ... ]
        >>> found = rank_models(cells, "test_mean")
        >>> found["ranks"], round(found["critical_difference"], 3), found["cliques"]
        ([1.0, 2.0], 1.386, [[0, 1]])
    """
    from scipy.stats import rankdata, studentized_range

    score: dict[tuple[str, str], float] = {}
    for cell in cells:
        if cell[key] is not None:
            score[cell["model"], cell["dataset"]] = cell[key]
    models = sorted({m for m, _ in score})
    sets = sorted({d for _, d in score if all((m, d) in score for m in models)})
    if len(models) < 2 or len(sets) < 2:
        return None
    table = np.array([[score[m, d] for m in models] for d in sets])
    ranks = rankdata(-table, axis=1).mean(axis=0)
    order = np.argsort(ranks, kind="stable")
    k = len(models)
    quantile = float(studentized_range.ppf(1 - alpha, k, math.inf)) / math.sqrt(2)
    width = quantile * math.sqrt(k * (k + 1) / (6 * len(sets)))
    values = [float(v) for v in ranks[order]]
    return {
        "models": [models[i] for i in order],
        "ranks": values,
        "sets": sets,
        "alpha": alpha,
        "critical_difference": width,
        "cliques": cliques(values, width),
    }


def cliques(ranks: Sequence[float], width: float) -> list[list[int]]:
    """First and last place of every longest run of ranks closer than `width`.

    Example:
        >>> cliques([1.0, 1.5, 2.2, 4.0], 1.0)
        [[0, 1], [1, 2]]
    """
    found: list[list[int]] = []
    for first in range(len(ranks)):
        last = first
        while last + 1 < len(ranks) and ranks[last + 1] - ranks[first] < width:
            last += 1
        if last > first and (not found or last > found[-1][1]):
            found.append([first, last])
    return found
