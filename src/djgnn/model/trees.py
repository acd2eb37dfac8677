"""Boosted trees as an expert: the table they see, and the trees themselves as plain arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from scipy.special import softmax
from torch import Tensor

from djgnn.model.columns import (
    Floats,
    Surroundings,
    inverse,
    label_shares,
    neighbour_means,
    places,
    reduction,
    singular_places,
    totals,
)
from djgnn.model.operators import WholeGraph, mean_normalize
from djgnn.model.plain import PlainExpert, as_matrix

WIDEST, DIRECT, PLACES, HOPS = 80, 40, 32, 1
"""Columns that wide features are reduced to, those of them that stay as they are, and columns of
the SVD of A; steps of the means."""
LEAVES, MOST_TREES, MOST_ROUNDS, ROUNDS, AT_ONCE = 8, 2000, 200, 10, 50
"""Leaves of a tree; trees of all classes; rounds of one tree per class: in all, in an epoch, and
those that are grown at once, for sorting the columns into bins takes longer than most trees."""
RATE, PENALTY, COLUMN_SHARE, MOST_PER_LEAF = 0.1, 1.0, 0.3, 20
"""Shrinkage and L2 penalty of boosting; columns that a split chooses from; nodes of a leaf."""


class BoostedTrees(PlainExpert):
    r"""Gradient boosting (scikit-learn's) on what one can say of a node in numbers.

    The columns: features X (of wide ones the commonest, and the others reduced by an SVD), their
    means over neighbours, logarithms of degrees, the classes of labelled neighbours and of theirs
    (:func:`label_shares`), and places by an SVD of A. Later nodes get the same columns from what is
    stored.

    Shapes:
        projection ``[F, width]``, or empty where X is narrow; vectors
        ``[n, places * directions]``; feature, threshold, value ``[rounds, classes, nodes]``,
        child ``[rounds, classes, nodes, 2]``, of a leaf itself; start ``[classes]``.
    """

    patience = 2
    column_share: ClassVar[float] = COLUMN_SHARE
    projection: Tensor
    vectors: Tensor
    feature: Tensor
    threshold: Tensor
    child: Tensor
    value: Tensor
    start: Tensor
    rounds: Tensor

    def __init__(
        self, in_channels: int, out_channels: int, num_nodes: int, directed: bool = True
    ) -> None:
        super().__init__(in_channels, out_channels, num_nodes, directed)
        width, ways = min(WIDEST, num_nodes), 2 if directed else 1
        most = max(ROUNDS, min(MOST_ROUNDS, MOST_TREES // max(1, out_channels)))
        size, self.epochs = (most, out_channels, 2 * LEAVES - 1), most // ROUNDS
        shapes: dict[str, tuple[tuple[int, ...], torch.dtype]] = {
            "projection": ((in_channels if in_channels > width else 0, width), torch.float32),
            "vectors": ((num_nodes, ways * min(PLACES, num_nodes - 1)), torch.float32),
            "feature": (size, torch.int32),
            "threshold": (size, torch.float64),
            "child": ((*size, 2), torch.int32),
            "value": (size, torch.float64),
            "start": ((out_channels,), torch.float64),
            "rounds": ((), torch.int64),
        }
        for name, (shape, dtype) in shapes.items():
            self.register_buffer(name, torch.zeros(shape, dtype=dtype))

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """No label, no tree."""
        super().reset_parameters()
        for name, buffer in self.named_buffers():
            if name != "label":
                buffer.zero_()

    def observe(self, x: Any, near: Surroundings) -> None:
        """Learn the projection of the features and the singular vectors of A, without labels."""
        self.observe_features(x)
        ways = near.ways(self.directed)
        width = self.vectors.shape[1] // len(ways)
        if width:
            self.vectors.copy_(_stored(singular_places(ways, width)))

    def observe_features(self, x: Any) -> None:
        """Learn the projection of wide features."""
        columns = as_matrix(x)
        if self.projection.numel() and not _is_identity(columns):
            wide = columns.astype(np.float64)
            self.projection.copy_(_stored(reduction(wide, self.projection.shape[1], DIRECT)))

    def reduced(self, x: Any) -> NDArray[Any]:
        """The features, wide ones as projected, ``[n, width]``."""
        matrix: Any = as_matrix(x)
        if self.projection.numel():
            matrix = matrix @ self.projection.cpu().numpy()
        return matrix.toarray() if sp.issparse(matrix) else np.asarray(matrix)

    def columns(self, x: Any, near: Surroundings) -> NDArray[np.float32]:
        """What the trees see of every node, known and later, ``[n, columns]``."""
        h, ways = self.reduced(x), near.ways(self.directed)
        # In half the precision as soon as they are known: together they are the largest array.
        parts = [_bounded(h)]
        for way in ways:
            parts += map(_bounded, neighbour_means(h, [mean_normalize(way)], HOPS)[1:])
        degrees = [np.log1p(totals(way)) for way in (*ways, near.both)[: 2 * len(ways) - 1]]
        prior = self.prior.double().cpu().numpy()
        known = self.known_labels(h.shape[0])
        shares = label_shares(near, known, prior, self.directed)
        parts += map(_bounded, [*degrees, *shares, places(ways, self.vectors.cpu().numpy())])
        return np.column_stack(parts)

    def steps(self, x: Any, near: Surroundings, seed: int) -> Iterator[Floats]:
        """Some rounds of trees after the other, while there is room for them.

        Scikit-learn's classifier is not stored: one that goes on fits its trees again, to the same
        bits, for it runs in one thread.
        """
        from sklearn.ensemble import HistGradientBoostingClassifier
        from threadpoolctl import threadpool_limits

        if not self.rounds:
            with threadpool_limits(1):
                self.observe(x, near)
        table, label = self.columns(x, near), self.label.cpu().numpy()
        nodes = np.flatnonzero(label >= 0)
        count = np.bincount(label[nodes], minlength=self.out_channels)
        if np.count_nonzero(count) < 2:  # there is nothing to tell apart
            yield self.answer(self.begin(len(table)))
            return
        weight = (self.prior.cpu().numpy() * inverse(count / len(nodes)))[label[nodes]]
        weights = None if np.allclose(weight, 1) else weight
        grown = HistGradientBoostingClassifier(
            learning_rate=RATE,
            l2_regularization=PENALTY,
            max_leaf_nodes=LEAVES,
            min_samples_leaf=min(MOST_PER_LEAF, 2 + len(nodes) // 25),
            max_features=self.column_share,
            early_stopping=False,
            warm_start=True,
            random_state=seed % 2**32,
        )
        most, there, scores = len(self.value), 0, self.begin(len(table))
        scores = self.added(table, scores, 0, int(self.rounds))
        while (first := int(self.rounds)) < most:
            last = min(first + ROUNDS, most)
            if last > there:
                there = min(-(-last // AT_ONCE) * AT_ONCE, most)
                with threadpool_limits(1):
                    grown.set_params(max_iter=there).fit(table[nodes], label[nodes], weights)
            self.keep(grown, first, last)
            scores = self.added(table, scores if first else self.begin(len(table)), first, last)
            yield self.answer(scores)

    def ranges(self) -> dict[str, tuple[float, float]]:
        """Trees refer to their own nodes and to columns."""
        ways = 2 if self.directed else 1
        width = self.projection.shape[1] if len(self.projection) else self.in_channels
        shares = (ways + 1) * (self.out_channels + 1)
        columns = width * (1 + ways * HOPS) + 2 * ways - 1 + shares + self.vectors.shape[1]
        return {
            **super().ranges(),
            "feature": (0, columns - 1),
            "child": (0, self.child.shape[2] - 1),
            "rounds": (0, len(self.value)),
        }

    def keep(self, grown: Any, first: int, last: int) -> None:
        """Copy the trees of some rounds of a classifier of scikit-learn.

        Of two classes it has the log-odds of the second.
        """
        classes = grown.classes_[-grown.n_trees_per_iteration_ :]
        start = np.zeros(self.out_channels)
        start[classes] = grown._baseline_prediction.reshape(-1)
        self.start.copy_(torch.from_numpy(start))
        names = ("feature", "threshold", "child", "value")
        arrays = {
            name: np.zeros_like(getattr(self, name)[first:last].cpu().numpy()) for name in names
        }
        for r, trees in enumerate(grown._predictors[first:last]):
            for c, tree in zip(classes, trees, strict=True):
                nodes, place = tree.nodes, (r, c, slice(len(tree.nodes)))
                leaf, own = nodes["is_leaf"].astype(bool), np.arange(len(nodes))
                below = [np.where(leaf, own, nodes[side]) for side in ("left", "right")]
                arrays["feature"][place] = np.where(leaf, 0, nodes["feature_idx"])
                arrays["threshold"][place] = np.where(leaf, 0, nodes["num_threshold"])
                arrays["child"][place] = np.column_stack(below)
                arrays["value"][place] = np.where(leaf, nodes["value"], 0)
        for name, array in arrays.items():
            getattr(self, name)[first:last].copy_(torch.from_numpy(array))
        self.rounds.fill_(last)

    def probabilities(self, x: Any, near: Surroundings) -> Floats:
        """Of all rounds."""
        return self._of_table(self.columns(x, near))

    def some(self, x: Any, graph: WholeGraph, rows: NDArray[np.int64]) -> Tensor:
        """Logits of some nodes; the trees see no others."""
        return self.logits(self._of_table(self.columns(*self.whole(x, graph))[rows]))

    def _of_table(self, table: NDArray[np.float32]) -> Floats:
        return self.answer(self.added(table, self.begin(len(table)), 0, int(self.rounds)))

    def begin(self, num_nodes: int) -> Floats:
        """The scores without a tree, ``[classes, num_nodes]``."""
        return np.repeat(self.start.cpu().numpy()[:, None], num_nodes, axis=1)

    def added(self, table: NDArray[np.float32], scores: Floats, first: int, last: int) -> Floats:
        """Add what the trees of some rounds say of every row to its scores, one after the other.

        Shapes:
            table ``[n, columns]``, scores ``[classes, n]``.
        """
        feature, threshold, children, value = (
            part[first:last].cpu().numpy()
            for part in (self.feature, self.threshold, self.child, self.value)
        )
        rows = np.arange(len(table))
        for r in range(last - first):
            for c in np.flatnonzero(children[r, :, 0].any(axis=1) | value[r, :, 0].astype(bool)):
                node = np.zeros(len(table), dtype=np.int64)
                for _ in range(LEAVES - 1):
                    right = table[rows, feature[r, c, node]] > threshold[r, c, node]
                    node = children[r, c, node, right.astype(np.int64)]
                scores[c] += value[r, c, node]
        return scores

    def answer(self, scores: Floats) -> Floats:
        """Probabilities, ``[n, classes]``; a class that no training node has gets the least."""
        seen = (self.prior > 0).cpu().numpy()
        found = np.zeros((scores.shape[1], self.out_channels))
        found[:, seen] = softmax(scores[seen].T, axis=1)
        return found


class FeatureTrees(BoostedTrees):
    """Boosted trees that see the features and no edge: what a graph must surpass to be of use."""

    column_share = 1.0

    def observe(self, x: Any, near: Surroundings) -> None:
        """Learn the projection of the features."""
        self.observe_features(x)

    def columns(self, x: Any, near: Surroundings) -> NDArray[np.float32]:
        """The features, ``[n, columns]``."""
        return _bounded(self.reduced(x))


def _bounded(table: NDArray[Any]) -> NDArray[np.float32]:
    most = np.finfo(np.float32).max
    return np.asarray(np.clip(table, -most, most), dtype=np.float32)


def _stored(values: Floats) -> Tensor:
    return torch.from_numpy(values.astype(np.float32))


def _is_identity(x: Any) -> bool:
    """Whether nodes have a column each: they have no features."""
    n, width = x.shape
    if n != width or not sp.issparse(x) or x.nnz != n:
        return False
    return bool((x.indices == np.arange(n)).all() and (x.data == 1).all())
