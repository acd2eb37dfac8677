"""Trees as experts: boosted ones and a forest, kept as plain arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import softmax
from torch import Tensor

from djgnn.model.columns import Floats, Surroundings, in_blocks
from djgnn.model.table import TreeTable, bounded, leaves

LEAVES, FEW_LEAVES, MANY_NODES = 8, 4, 4000
"""Leaves of a tree, and where there are fewer than many training nodes."""
MOST_TREES, MOST_ROUNDS, ROUNDS, AT_ONCE = 1000, 200, 10, 30
"""Trees of all classes; rounds of one tree per class: in all, in an epoch, and those that are grown
at once, for sorting the columns into bins takes longer than some trees."""
RATES, SLOW, PENALTY, COLUMN_SHARE, MOST_PER_LEAF = (0.1, 0.3), 30, 1.0, 0.3, 20
"""Shrinkage of the first rounds and of later ones, where there is much to learn; how many the first
are, unless there are few in all; L2 penalty of boosting; columns that a split chooses from; nodes
of a leaf."""
FOREST, FOREST_LEAVES, FOREST_PER_LEAF = 100, 128, 5
"""Trees of a forest, their leaves, and nodes of a leaf."""
DEVICE_ROWS, DEVICE_TREES = 1 << 17, 10
"""Rows and trees of a forest at a time on a GPU."""
MANY_ROWS, MANY_EXAMPLES = 2000, 20_000
"""Rows from which on a tree is coded, and training nodes from which on threads grow it; both change
no bit."""


class BoostedTrees(TreeTable):
    r"""Gradient boosting (scikit-learn's) on the columns of :class:`TreeTable`.

    Shapes:
        feature, threshold, value ``[rounds, classes, nodes]``, child
        ``[rounds, classes, nodes, 2]``, of a leaf itself; start ``[classes]``.
    """

    patience = 2
    column_share: ClassVar[float] = COLUMN_SHARE
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
        most = max(ROUNDS, min(MOST_ROUNDS, MOST_TREES // max(1, out_channels)))
        size, self.epochs = (most, out_channels, 2 * LEAVES - 1), most // ROUNDS
        shapes: dict[str, tuple[tuple[int, ...], torch.dtype]] = {
            "feature": (size, torch.int32),
            "threshold": (size, torch.float64),
            "child": ((*size, 2), torch.int32),
            "value": (size, torch.float64),
            "start": ((out_channels,), torch.float64),
            "rounds": ((), torch.int64),
        }
        for name, (shape, dtype) in shapes.items():
            self.register_buffer(name, torch.zeros(shape, dtype=dtype))

    def steps(self, x: Any, near: Surroundings, seed: int) -> Iterator[Floats]:
        """Some rounds of trees after the other, while there is room for them.

        Scikit-learn's classifier is not stored: one that goes on fits its trees again, to the same
        bits, whatever the number of threads.
        """
        from sklearn.ensemble import HistGradientBoostingClassifier
        from threadpoolctl import threadpool_limits

        if not self.rounds:
            self.observe(x, near)
        table = self.columns(x, near)
        rows, y, weights = self.examples(table, seed)
        if len(np.unique(y)) < 2:  # there is nothing to tell apart
            yield self.answer(self.begin(len(table)))
            return
        grown = HistGradientBoostingClassifier(
            l2_regularization=PENALTY,
            max_leaf_nodes=LEAVES if len(y) >= MANY_NODES else FEW_LEAVES,
            min_samples_leaf=min(MOST_PER_LEAF, 2 + len(y) // 25),
            max_features=self.column_share,
            early_stopping=False,
            warm_start=True,
            random_state=seed % 2**32,
        )
        most, there, scores = len(self.value), 0, self.begin(len(table))
        slow = SLOW if most > 2 * SLOW else 0
        scores = self.added(table, scores, 0, int(self.rounds))
        while (first := int(self.rounds)) < most:
            last = min(first + ROUNDS, most)
            while last > there:
                rate, there = RATES[there >= slow], min(there + AT_ONCE, most)
                with threadpool_limits(_threads(y)):
                    grown.set_params(learning_rate=rate, max_iter=there).fit(rows, y, weights)
            self.keep(grown, first, last)
            scores = self.added(table, scores if first else self.begin(len(table)), first, last)
            yield self.answer(scores)

    def ranges(self) -> dict[str, tuple[float, float]]:
        """Trees refer to their own nodes and to columns."""
        return {
            **super().ranges(),
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

    def of_table(self, table: NDArray[np.float32]) -> Floats:
        """Of all rounds."""
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
        columns, rows = np.ascontiguousarray(table.T), np.arange(len(table))
        grown = children[:, :, 0].any(axis=2) | value[:, :, 0].astype(bool)
        trees = [
            (c, feature[r, c], threshold[r, c], children[r, c], value[r, c])
            for r, c in np.argwhere(grown)
        ]
        if len(table) < MANY_ROWS:
            for c, *tree, values in trees:
                scores[c] += values[leaves(columns, rows, *tree)]
            return scores
        codes: list[Any] = [(c, *_coded(*tree)) for c, *tree in trees]

        def work(part: slice) -> None:
            for c, *tree in codes:
                scores[c, part] += _said(columns[:, part], *tree)

        in_blocks(work, len(table))
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
        return np.asfortranarray(bounded(self.reduced(x)))


class Forest(TreeTable):
    r"""Extremely randomised trees (scikit-learn's) on the columns of :class:`TreeTable`.

    Every tree is grown from all training nodes with splits at random places; the answer is the mean
    of the class shares of their leaves.

    Shapes:
        feature, threshold ``[trees, nodes]``, child ``[trees, nodes, 2]``, of a leaf itself; share
        ``[trees, nodes, classes]``.

    Reference:
        Geurts, Ernst, Wehenkel: Extremely randomized trees. Machine Learning 63, 2006.
    """

    feature: Tensor
    threshold: Tensor
    child: Tensor
    share: Tensor

    def __init__(
        self, in_channels: int, out_channels: int, num_nodes: int, directed: bool = True
    ) -> None:
        super().__init__(in_channels, out_channels, num_nodes, directed)
        size = (FOREST, 2 * max(2, min(FOREST_LEAVES, num_nodes)) - 1)
        self.register_buffer("feature", torch.zeros(size, dtype=torch.int32))
        self.register_buffer("threshold", torch.zeros(size, dtype=torch.float64))
        self.register_buffer("child", torch.zeros((*size, 2), dtype=torch.int32))
        self.register_buffer("share", torch.zeros((*size, out_channels)))

    def steps(self, x: Any, near: Surroundings, seed: int) -> Iterator[Floats]:
        """All trees at once."""
        from sklearn.ensemble import ExtraTreesClassifier

        self.observe(x, near)
        table = self.columns(x, near)
        rows, y, weights = self.examples(table, seed)
        grown = ExtraTreesClassifier(
            FOREST,
            max_leaf_nodes=(self.feature.shape[1] + 1) // 2,
            min_samples_leaf=min(FOREST_PER_LEAF, 2 + len(y) // 200),
            max_features=COLUMN_SHARE,
            n_jobs=_threads(y),
            random_state=seed % 2**32,
        ).fit(rows, y, weights)
        names = ("feature", "threshold", "child", "share")
        arrays = {name: np.zeros_like(getattr(self, name).cpu().numpy()) for name in names}
        for k, each in enumerate(grown.estimators_):
            tree, own = each.tree_, np.arange(each.tree_.node_count)
            leaf = tree.children_left < 0
            below = [
                np.where(leaf, own, side) for side in (tree.children_left, tree.children_right)
            ]
            shares = np.zeros((len(own), self.out_channels))
            shares[:, grown.classes_] = tree.value[:, 0]
            place = (k, slice(len(own)))
            arrays["feature"][place] = np.where(leaf, 0, tree.feature)
            arrays["threshold"][place] = np.where(leaf, 0, tree.threshold)
            arrays["child"][place] = np.column_stack(below)
            arrays["share"][place] = shares / shares.sum(axis=1, keepdims=True)
        for name, array in arrays.items():
            getattr(self, name).copy_(torch.from_numpy(array))
        yield self.of_table(table)

    def ranges(self) -> dict[str, tuple[float, float]]:
        """Trees refer to their own nodes and to columns."""
        return {**super().ranges(), "child": (0, self.child.shape[1] - 1), "share": (0, 1)}

    def of_table(self, table: NDArray[np.float32]) -> Floats:
        """The mean over the trees; where none says anything, a little of the class shares."""
        total = (self.sums_on_device if self.share.is_cuda else self.sums)(table)
        return np.asarray(total / total.sum(axis=1, keepdims=True))

    def sums(self, table: NDArray[np.float32]) -> Floats:
        """The class shares and what all trees say, one after the other, ``[rows, classes]``."""
        feature, threshold, child, share = (
            part.cpu().numpy() for part in (self.feature, self.threshold, self.child, self.share)
        )
        total = np.tile(self.prior.double().cpu().numpy(), (len(table), 1))
        columns, rows = np.ascontiguousarray(table.T), np.arange(len(table))

        def work(part: slice) -> None:
            for tree in zip(feature, threshold, child, share, strict=True):
                total[part] += tree[3][leaves(columns, rows[part], *tree[:3])]

        in_blocks(work, len(table))
        return total

    def sums_on_device(self, table: NDArray[np.float32]) -> Floats:
        """The same to the bit, on the device of the expert, some rows and some trees at a time."""
        steps, found = _depth(self.child.cpu().numpy()), np.empty((len(table), self.out_channels))
        for first in range(0, len(table), DEVICE_ROWS):
            part = slice(first, first + DEVICE_ROWS)
            columns = torch.from_numpy(np.ascontiguousarray(table[part].T)).to(self.share.device)
            total = self.prior.double().repeat(columns.shape[1], 1)
            for start in range(0, len(self.share), DEVICE_TREES):
                some = slice(start, start + DEVICE_TREES)
                feature, threshold = self.feature[some].long(), self.threshold[some]
                child = self.child[some].long().flatten(1)
                node = feature.new_zeros(len(feature), columns.shape[1])
                for _ in range(steps):
                    value = columns.gather(0, feature.gather(1, node)).double()
                    node = child.gather(1, 2 * node + (value > threshold.gather(1, node)))
                for share, leaf in zip(self.share[some], node, strict=True):
                    total += share[leaf]
            found[part] = total.cpu().numpy()
        return found


def _depth(child: NDArray[np.int32]) -> int:
    """The most steps from a root to a leaf, of trees whose nodes come before their children."""
    depth, trees = np.zeros(child.shape[:2], dtype=np.int64), np.arange(len(child))
    for node in range(child.shape[1]):
        for below in child[:, node].T:
            further = depth[:, node] + (below != node)
            depth[trees, below] = np.maximum(depth[trees, below], further)
    return int(depth.max())


def _threads(y: NDArray[np.int64]) -> int:
    """How many threads grow trees on so many training nodes."""
    return torch.get_num_threads() if len(y) >= MANY_EXAMPLES else 1


def _coded(
    feature: NDArray[np.int32], threshold: Floats, child: NDArray[np.int32], value: Floats
) -> tuple[NDArray[np.int32], Floats, Floats]:
    """A small tree as comparisons and a table: the value for every outcome of all of them.

    A row is compared at all inner nodes, which is quicker than to walk down. The outcomes are the
    bits of a number, the first comparison the highest.

    Shapes:
        arguments as those of :func:`djgnn.model.table.leaves`; results ``[inner]``, ``[inner]``,
        ``[2**inner]``.
    """
    found = [0]
    for node in found:
        found += [below for below in set(child[node].tolist()) if below not in found]
    inner = [node for node in found if (child[node] != node).any()]
    shift, code = np.zeros(len(child), dtype=np.int64), np.arange(1 << len(inner))
    shift[inner] = np.arange(len(inner))[::-1]
    end = np.zeros_like(code)
    for _ in inner:
        end = child[end, code >> shift[end] & 1].astype(np.int64)
    return feature[inner], threshold[inner], value[end]


def _said(
    columns: NDArray[np.float32], feature: NDArray[np.int32], threshold: Floats, values: Floats
) -> Floats:
    """What a coded tree says of every row, ``[n]``, of columns ``[columns, n]``."""
    kind: Any = np.uint8 if len(feature) <= 8 else np.uint16
    code = np.zeros(columns.shape[1], dtype=kind)
    for column, bound in zip(feature, threshold, strict=True):
        code += code
        code += columns[column] > bound
    return values.take(code)
