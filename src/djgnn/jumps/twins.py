"""Twin classes: nodes with the same row of A have the same row of U, whatever the weights are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class TwinClasses:
    """A partition of the nodes into classes of equal rows.

    Classes are numbered by their smallest node; `members` lists the nodes class by class, in
    increasing order inside a class; class c owns ``members[start[c] : start[c] + count[c]]``.

    Shapes:
        class_of ``[n]``, members ``[n]``, start, count, representative ``[m]``.
    """

    class_of: Tensor
    members: Tensor
    start: Tensor
    count: Tensor

    @classmethod
    def from_labels(cls, labels: NDArray[np.int64]) -> TwinClasses:
        """Build from any labelling of the nodes; classes are renumbered by smallest node."""
        _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
        number = np.empty(first.size, dtype=np.int64)
        number[np.argsort(first)] = np.arange(first.size)
        class_of = number[inverse.reshape(-1)]
        members = np.argsort(class_of, kind="stable")
        count = np.bincount(class_of, minlength=first.size)
        start = np.cumsum(count) - count
        return cls(*(torch.from_numpy(part) for part in (class_of, members, start, count)))

    @property
    def num_nodes(self) -> int:
        """Number of nodes n."""
        return self.class_of.numel()

    @property
    def num_classes(self) -> int:
        """Number of classes m."""
        return self.count.numel()

    @property
    def representative(self) -> Tensor:
        """The smallest node of each class."""
        return self.members[self.start]

    def to(self, device: torch.device | str) -> TwinClasses:
        """The same partition on another device."""
        parts = (self.class_of, self.members, self.start, self.count)
        return TwinClasses(*(part.to(device) for part in parts))

    def __repr__(self) -> str:
        return f"TwinClasses(num_nodes={self.num_nodes}, num_classes={self.num_classes})"


def twin_classes(matrix: sp.sparray) -> TwinClasses:
    """Group the nodes by equal rows, exactly: hash every row, then verify within equal hashes.

    Args:
        matrix: The n x n matrix whose rows are compared. Explicit zeros do not count.

    Example:
        >>> import scipy.sparse as sp
        >>> twin_classes(sp.csr_array([[0, 1, 0], [0, 0, 1], [0, 1, 0]])).class_of.tolist()
        [0, 1, 0]
    """
    rows = sp.csr_array(matrix, copy=True)
    rows.sum_duplicates()
    rows.eliminate_zeros()
    labels = _row_hashes(rows)
    order = np.argsort(labels, kind="stable")
    same_hash = labels[order][1:] == labels[order][:-1]
    equal = np.zeros(rows.shape[0], dtype=np.bool_)
    equal[1:][same_hash] = _equal_rows(rows, order[1:][same_hash], order[:-1][same_hash])
    if equal[1:].sum() == same_hash.sum():
        classes = np.empty(rows.shape[0], dtype=np.int64)
        classes[order] = np.cumsum(~equal)
        return TwinClasses.from_labels(classes)
    return TwinClasses.from_labels(_compare_bytes(rows))


def single_classes(num_nodes: int) -> TwinClasses:
    """Every node alone: what f(I) has, where no two rows are equal."""
    return TwinClasses.from_labels(np.arange(num_nodes))


def _row_hashes(rows: sp.csr_array) -> NDArray[np.int64]:
    """A 64-bit hash per row: a sum of mixed (column, value) pairs, modulo 2^64."""
    column = rows.indices.astype(np.uint64)
    value = rows.data.astype(np.float64).view(np.uint64)
    mixed = _mix(_mix(column + np.uint64(0x9E3779B97F4A7C15)) ^ value)
    total = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(mixed, dtype=np.uint64)])
    sums = total[rows.indptr[1:]] - total[rows.indptr[:-1]]
    length = np.diff(rows.indptr).astype(np.uint64)
    return _mix(sums + length).view(np.int64)


def _mix(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of splitmix64."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def _equal_rows(
    rows: sp.csr_array, left: NDArray[np.int64], right: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Whether row left[i] and row right[i] are equal, entry by entry."""
    if left.size == 0:
        return np.zeros(0, dtype=np.bool_)
    size = np.diff(rows.indptr)
    same: NDArray[np.bool_] = size[left] == size[right]
    pairs = np.flatnonzero(same & (size[left] > 0))
    length = size[left[pairs]]
    owner = np.repeat(pairs, length)
    offset = np.arange(owner.size) - np.repeat(np.cumsum(length) - length, length)
    a, b = (rows.indptr[side[owner]] + offset for side in (left, right))
    differs = (rows.indices[a] != rows.indices[b]) | (rows.data[a] != rows.data[b])
    same[owner[differs]] = False
    return same


def _compare_bytes(rows: sp.csr_array) -> NDArray[np.int64]:
    """Labels by the full content of each row: the slow road, taken after a hash collision."""
    seen: dict[tuple[bytes, bytes], int] = {}
    labels = np.empty(rows.shape[0], dtype=np.int64)
    for i in range(rows.shape[0]):
        part = slice(rows.indptr[i], rows.indptr[i + 1])
        key = (rows.indices[part].tobytes(), rows.data[part].tobytes())
        labels[i] = seen.setdefault(key, len(seen))
    return labels
