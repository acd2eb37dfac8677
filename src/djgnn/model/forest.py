"""A forest as an expert, kept as plain arrays."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from djgnn.model.node_statistics import Floats, Surroundings, in_blocks
from djgnn.model.tree_columns import TreeTable, leaves
from djgnn.model.trees import COLUMN_SHARE, threads_for

FOREST, FOREST_LEAVES, FOREST_PER_LEAF = 100, 128, 5
"""Trees of a forest, their leaves, and nodes of a leaf."""
DEVICE_ROWS, DEVICE_TREES = 1 << 17, 10
"""Rows and trees of a forest at a time on a GPU."""


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

    def steps(self, x: Any, near: Surroundings, seed: int) -> Iterator[Floats | Tensor]:
        """All trees at once."""
        from sklearn.ensemble import ExtraTreesClassifier

        self.observe(x, near)
        table = self.table(x, near)
        near.made.pop("table", None)
        rows, y, weights = self.examples(table, seed)
        grown = ExtraTreesClassifier(
            FOREST,
            max_leaf_nodes=(self.feature.shape[1] + 1) // 2,
            min_samples_leaf=min(FOREST_PER_LEAF, 2 + len(y) // 200),
            max_features=COLUMN_SHARE,
            n_jobs=threads_for(y),
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

    def of_table(self, table: NDArray[np.float32]) -> Floats | Tensor:
        """The mean over the trees; where none says anything, a little of the class shares."""
        if self.share.is_cuda:
            sums = self.sums_on_device(table)
            return sums / sums.sum(dim=1, keepdim=True)
        total = self.sums(table)
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

    def sums_on_device(self, table: NDArray[np.float32]) -> Tensor:
        """The same to the bit, on the device of the expert, some rows and some trees at a time."""
        steps = _depth(self.child.cpu().numpy())
        found = self.threshold.new_empty(len(table), self.out_channels)
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
            found[part] = total
        return found


def _depth(child: NDArray[np.int32]) -> int:
    """The most steps from a root to a leaf, of trees whose nodes come before their children."""
    depth, trees = np.zeros(child.shape[:2], dtype=np.int64), np.arange(len(child))
    for node in range(child.shape[1]):
        for below in child[:, node].T:
            further = depth[:, node] + (below != node)
            depth[trees, below] = np.maximum(depth[trees, below], further)
    return int(depth.max())
