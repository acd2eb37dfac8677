"""Which labels a run on a graph without splits learns from: all of them, in folds, or a part."""

import numpy as np

from djgnn.errors import InputError
from djgnn.graph import Graph, cross_folds, random_splits
from djgnn.training.config import RunConfig

USUAL, MANY_LABELS = 4, 20_000
"""Folds where nothing was asked for, and from how many labels on there is one."""


def with_splits(
    graph: Graph, config: RunConfig, folds: int | None = None, seed: int = 0
) -> tuple[Graph, RunConfig]:
    """The graph with folds or a split, and the configuration that learns from them.

    A graph with splits of its own keeps them. Otherwise a mixture is cross-fitted in four folds if
    there are fewer than 20,000 labels and the classes have nodes enough; 1 fold is a split of
    60/20/20.

    Args:
        graph: With labels.
        config: What to train.
        folds: How many; ``None`` for the above.
        seed: Of the folds.

    Raises:
        InputError: If so many folds cannot be made.
    """
    y = graph.labels[graph.labels >= 0]
    most = _most_folds(y, graph.metric)
    problem = ""
    if folds not in (None, 1):
        if graph.num_splits:
            problem = "the graph has splits of its own; leave --folds out to use them"
        elif not config.model.experts:
            problem = "only a mixture of experts is cross-fitted; use the preset full or default"
        elif folds is not None and not 2 <= folds <= most:
            problem = (
                f"there can be from 1 to {max(most, 1)} folds, for each must leave two classes to "
                "learn from; give fewer folds or more labels"
            )
    if problem:
        raise InputError(f"{graph.name}: {problem} (got {folds} folds)")
    if graph.num_splits:
        return graph, config
    few = y.size < MANY_LABELS and bool(config.model.experts)
    number = folds or (min(USUAL, most) if few else 1)
    if number < 2:
        return random_splits(graph, random_state=seed), config
    return cross_folds(graph, number, seed), config.replace(folds=number)


def _most_folds(y: np.ndarray, metric: str) -> int:
    """How many folds of labels can be held out, each of which leaves two classes to learn from."""
    count = np.sort(np.bincount(y)[np.unique(y)]) if y.size else np.zeros(0, dtype=np.int64)
    if count.size < 2 or count[-2] < 2:
        return 1
    return int(min(20, count[0] if metric == "roc_auc" else y.size // 2))
