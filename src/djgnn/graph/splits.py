"""Splits of the labelled nodes of a graph: random ones, and folds for cross-fitting."""

import numpy as np

from djgnn.errors import InputError
from djgnn.graph.graph import Graph, Split


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
    kinds = np.unique(graph.y[labelled])
    groups = [labelled[graph.y[labelled] == c] for c in kinds] if stratify else [labelled]
    masks = np.zeros((3, graph.num_nodes, num_splits), dtype=np.bool_)
    for s in range(num_splits):
        rng = np.random.default_rng([random_state, s])
        for group in groups:
            parts = np.split(rng.permutation(group), _ends(group.size, train, val))
            for part, nodes in enumerate(parts):
                masks[part, nodes, s] = True
    return graph.with_masks(*masks)


def cross_folds(graph: Graph, folds: int = 4, random_state: int = 0) -> Graph:
    """Splits for cross-fitting: the labelled nodes in folds, each of which is held out once.

    Split k learns from all labelled nodes outside of fold k, and its validation part is fold k;
    there is no test part. Every class is dealt out evenly.

    Args:
        graph: A graph with labels.
        folds: How many, at least 2.
        random_state: Seed.

    Returns:
        The same graph with masks of shape ``[n, folds]``.

    Raises:
        InputError: Without labels, or with fewer labelled nodes than folds.

    Example:
        >>> g = Graph(np.zeros((2, 0)), num_nodes=10, y=np.array([0, 1] * 4 + [-1, -1]))
        >>> cross_folds(g).split(3)
        Split(index=3, train/val/test=6/2/0)
    """
    y = graph.labels
    labelled = np.flatnonzero(y >= 0)
    if folds < 2 or labelled.size < folds:
        raise InputError(
            f"{graph.name}: folds must be at least 2 and at most the number of labelled nodes, "
            f"{labelled.size} (got {folds})"
        )
    shuffled = np.random.default_rng([random_state, folds]).permutation(labelled)
    dealt = shuffled[np.argsort(y[shuffled], kind="stable")]
    held = np.zeros((graph.num_nodes, folds), dtype=np.bool_)
    held[dealt, np.arange(dealt.size) % folds] = True
    train = (y >= 0)[:, None] & ~held
    return graph.with_masks(train, held, np.zeros_like(held))


def all_held_out(graph: Graph) -> Split:
    """The parts of a cross-fitted run: every labelled node was held out once, none is left.

    Example:
        >>> from djgnn.graph import heterophilic_sbm
        >>> graph = heterophilic_sbm(160)
        >>> bool(all_held_out(graph).val.all())
        True
    """
    known = graph.labels >= 0
    return Split(np.zeros_like(known), known, np.zeros_like(known))


def _ends(size: int, train: float, val: float) -> tuple[int, int]:
    """Where the training and the validation part of a shuffled group end."""
    if size < 3:
        return min(size, 1), size if val > 0 else min(size, 1)
    rest = train + val < 1
    first = min(max(round(size * train), 1), size - (2 if val > 0 and rest else 1))
    second = max(round(size * (train + val)), first + (val > 0))
    return first, max(min(second, size - 1) if rest else second, first)
