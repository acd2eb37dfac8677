"""Boosted trees as experts, kept as plain arrays."""

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import softmax
from torch import Tensor

from djgnn.model.node_statistics import EVERY, Floats, Rows, Surroundings, in_blocks
from djgnn.model.tree_columns import TreeTable, bounded, leaves

LEAVES, FEW_LEAVES, MANY_NODES = 8, 4, 4000
"""Leaves of a tree, and where there are fewer than many training nodes."""
MOST_TREES, MOST_ROUNDS, ROUNDS, AT_ONCE = 1000, 200, 10, 30
"""Trees of all classes; rounds of one tree per class: in all, in an epoch, and those that are grown
at once, for sorting the columns into bins takes longer than some trees."""
RATES, SLOW, PENALTY, COLUMN_SHARE, MOST_PER_LEAF = (0.1, 0.3), 30, 1.0, 0.3, 20
"""Shrinkage of the first rounds and of later ones, where there is much to learn; how many the first
are, unless there are few in all; L2 penalty of boosting; columns that a split chooses from; nodes
of a leaf."""
MANY_ROWS, DEVICE_ROWS, MANY_EXAMPLES = 2000, 50_000, 20_000
"""Rows from which on a tree is coded, and answers on a GPU if it is there; training nodes from
which on threads grow it. None of them changes a bit of the scores."""


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
        table = self.table(x, near)
        rows, y, weights = self.examples(table, seed, np.float64)
        if len(np.unique(y)) < 2:  # there is nothing to tell apart
            yield self.answer(self.begin(len(table)))
            return
        columns = self.held(table)
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
        scores = self.added(columns, scores, 0, int(self.rounds))
        while (first := int(self.rounds)) < most:
            last = min(first + ROUNDS, most)
            while last > there:
                rate, there = RATES[there >= slow], min(there + AT_ONCE, most)
                with threadpool_limits(threads_for(y)):
                    grown.set_params(learning_rate=rate, max_iter=there).fit(rows, y, weights)
            self.keep(grown, first, last)
            scores = self.added(columns, scores if first else self.begin(len(table)), first, last)
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

    def of_table(self, table: NDArray[np.float32]) -> Floats | Tensor:
        """Of all rounds."""
        scores = self.added(self.held(table), self.begin(len(table)), 0, int(self.rounds))
        found: Floats | Tensor = self.answer(scores)
        return found

    def held(self, table: NDArray[np.float32]) -> NDArray[np.float32] | Tensor:
        """The columns of a table where trees answer, ``[columns, n]``."""
        columns = np.ascontiguousarray(table.T)
        if self.value.is_cuda and len(table) >= DEVICE_ROWS:
            return torch.from_numpy(columns).to(self.value.device)
        return columns

    def begin(self, num_nodes: int) -> Floats:
        """The scores without a tree, ``[classes, num_nodes]``."""
        return np.repeat(self.start.cpu().numpy()[:, None], num_nodes, axis=1)

    def added(
        self, columns: NDArray[np.float32] | Tensor, scores: Any, first: int, last: int
    ) -> Any:
        """Add what the trees of some rounds say of every row to its scores, one after the other.

        Shapes:
            columns ``[columns, n]``, scores ``[classes, n]``.
        """
        feature, threshold, children, value = (
            part[first:last].cpu().numpy()
            for part in (self.feature, self.threshold, self.child, self.value)
        )
        grown = children[:, :, 0].any(axis=2) | value[:, :, 0].astype(bool)
        trees = [
            (c, feature[r, c], threshold[r, c], children[r, c], value[r, c])
            for r, c in np.argwhere(grown)
        ]
        if isinstance(columns, Tensor):
            scores = torch.as_tensor(scores).to(columns.device)
            for c, *tree in trees:
                scores[c] += _said_on_device(columns, *_coded(*tree))
            return scores
        rows = np.arange(columns.shape[1])
        if len(rows) < MANY_ROWS:
            for c, *tree, values in trees:
                scores[c] += values[leaves(columns, rows, *tree)]
            return scores
        codes: list[Any] = [(c, *_coded(*tree)) for c, *tree in trees]

        def work(part: slice) -> None:
            for c, *tree in codes:
                scores[c, part] += _said(columns[:, part], *tree)

        in_blocks(work, len(rows))
        return scores

    def answer(self, scores: Any) -> Any:
        """Probabilities, ``[n, classes]``; a class that no training node has gets the least."""
        seen = self.prior > 0
        if isinstance(scores, Tensor):
            answer = scores.new_zeros(scores.shape[1], self.out_channels)
            answer[:, seen] = scores[seen].t().softmax(dim=1)
            return answer
        there = seen.cpu().numpy()
        found = np.zeros((scores.shape[1], self.out_channels))
        found[:, there] = softmax(scores[there].T, axis=1)
        return found


class FeatureTrees(BoostedTrees):
    """Boosted trees that see the features and no edge: what a graph must surpass to be of use."""

    column_share = 1.0

    def table(self, x: Any, near: Surroundings, rows: Rows = EVERY) -> NDArray[np.float32]:
        """No other expert has the same."""
        return self.columns(x, near, rows)

    def observe(self, x: Any, near: Surroundings) -> None:
        """Learn the projection of the features."""
        self.observe_features(x, near)

    def columns(self, x: Any, near: Surroundings, rows: Rows = EVERY) -> NDArray[np.float32]:
        """The features, ``[rows, columns]``."""
        return np.asfortranarray(bounded(self.reduced(x)[rows]))


def threads_for(y: NDArray[np.int64]) -> int:
    """How many threads grow trees on so many training nodes."""
    return torch.get_num_threads() if len(y) >= MANY_EXAMPLES else 1


def _coded(
    feature: NDArray[np.int32], threshold: Floats, child: NDArray[np.int32], value: Floats
) -> tuple[NDArray[np.int32], Floats, Floats]:
    """A small tree as comparisons and a table: the value for every outcome of all of them.

    A row is compared at all inner nodes, which is quicker than to walk down. The outcomes are the
    bits of a number, the first comparison the highest.

    Shapes:
        arguments as those of :func:`djgnn.model.tree_columns.leaves`; results ``[inner]``,
        ``[inner]``, ``[2**inner]``.
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


def _said_on_device(
    columns: Tensor, feature: NDArray[np.int32], threshold: Floats, values: Floats
) -> Tensor:
    """The same on the device of the columns."""
    if not len(feature):
        return columns.new_full((columns.shape[1],), float(values[0]), dtype=torch.float64)
    code = torch.zeros(columns.shape[1], dtype=torch.int32, device=columns.device)
    for column, bound in zip(feature.tolist(), threshold.tolist(), strict=True):
        # Both in double precision, as numpy compares them.
        code = 2 * code + (columns[column].double() > bound)
    return torch.from_numpy(values).to(columns.device)[code]
