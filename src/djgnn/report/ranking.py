"""Average ranks of models over data sets, and which of them the sets cannot tell apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def rank_models(
    cells: Sequence[dict[str, Any]], key: str, alpha: float = 0.05
) -> dict[str, Any] | None:
    """Average ranks and the critical difference, see :mod:`djgnn.bench.statistics`.

    Only sets that every model has a figure on count.

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
    from djgnn.bench.critical_difference import cliques
    from djgnn.bench.statistics import average_ranks, critical_difference

    score: dict[tuple[str, str], float] = {}
    for cell in cells:
        if cell[key] is not None:
            score[cell["model"], cell["dataset"]] = cell[key]
    models = sorted({m for m, _ in score})
    sets = sorted({d for _, d in score if all((m, d) in score for m in models)})
    if len(models) < 2 or len(sets) < 2:
        return None
    table = np.array([[score[m, d] for m in models] for d in sets])
    ranks = average_ranks(table)
    order = np.argsort(ranks, kind="stable")
    width = critical_difference(len(models), len(sets), alpha)
    values = [float(v) for v in ranks[order]]
    return {
        "models": [models[i] for i in order],
        "ranks": values,
        "sets": sets,
        "alpha": alpha,
        "critical_difference": width,
        "cliques": [list(span) for span in cliques(values, width)],
    }
