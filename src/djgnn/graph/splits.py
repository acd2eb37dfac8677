"""Splits: the stored ones, and random stratified ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from djgnn.errors import InputError
from djgnn.graph.graph import Graph, Split

if TYPE_CHECKING:
    from numpy.typing import NDArray


def split_of(graph: Graph, index: int = 0) -> Split:
    """The stored split `index` of a graph, as masks of length n."""
    if graph.train_mask is None or graph.val_mask is None or graph.test_mask is None:
        raise InputError(
            f"{graph.name}: the graph has no splits; make some with `random_splits(graph)`"
        )
    if not 0 <= index < graph.num_splits:
        raise InputError(
            f"split {index}: {graph.name} has splits 0 to {graph.num_splits - 1} (got {index})"
        )
    masks = (graph.train_mask, graph.val_mask, graph.test_mask)
    train, val, test = (mask[:, index] for mask in masks)
    return Split(train=train, val=val, test=test, index=index)


def random_splits(
    graph: Graph,
    num_splits: int = 1,
    train: float = 0.6,
    val: float = 0.2,
    stratify: bool = True,
    random_state: int = 0,
) -> Graph:
    r"""Split the labelled nodes at random into training, validation and test parts.

    With ``stratify`` every class is divided in the given shares (rounded so that a class of at
    least three nodes is in all three parts, and a class with fewer is in the training part first).

    Args:
        graph: A graph with labels.
        num_splits: How many independent splits to draw.
        train: Share of the labelled nodes in the training part.
        val: Share in the validation part; the rest is the test part.
        stratify: Divide class by class.
        random_state: Seed; split s of a call is the same whatever `num_splits` is.

    Returns:
        The same graph with masks of shape ``[n, num_splits]``.

    Example:
        >>> import numpy as np
        >>> g = Graph(np.zeros((2, 0)), num_nodes=10, y=np.array([0, 1] * 5))
        >>> random_splits(g).split(0)
        Split(index=0, train/val/test=6/2/2)
    """
    if graph.y is None:
        raise InputError(f"{graph.name}: cannot be split without labels")
    if not (0 < train < 1 and 0 <= val < 1 and train + val <= 1):
        raise InputError(
            f"train={train}, val={val}: shares must be between 0 and 1 and sum to at most 1"
        )
    if num_splits < 1:
        raise InputError(f"num_splits: must be at least 1 (got {num_splits})")
    labelled = np.flatnonzero(graph.y >= 0)
    groups = (
        [labelled[graph.y[labelled] == c] for c in np.unique(graph.y[labelled])]
        if stratify
        else [labelled]
    )
    masks = np.zeros((3, graph.num_nodes, num_splits), dtype=np.bool_)
    for s in range(num_splits):
        rng = np.random.default_rng([random_state, s])
        for group in groups:
            order = rng.permutation(group)
            ends = _ends(order.size, train, val)
            for part, nodes in enumerate(np.split(order, ends)):
                masks[part, nodes, s] = True
    return graph.with_masks(*masks)


def _ends(size: int, train: float, val: float) -> NDArray[np.int64]:
    """Where the training and the validation part of a shuffled group end."""
    if size < 3:
        return np.array([min(size, 1), size if val > 0 else min(size, 1)])
    first = min(max(round(size * train), 1), size - 1)
    second = round(size * (train + val))
    if val > 0:
        first = min(first, size - 2) if train + val < 1 else min(first, size - 1)
        second = max(second, first + 1)
    if train + val < 1:
        second = min(second, size - 1)
    return np.array([first, max(second, first)])
