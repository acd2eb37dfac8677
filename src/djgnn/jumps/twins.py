"""Twin classes: nodes with the same row of A have the same row of U, whatever the weights are."""

from dataclasses import dataclass
from typing import Self

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor


@dataclass(frozen=True, eq=False)
class TwinClasses:
    """A partition of the nodes into classes of equal rows.

    Classes are numbered by their smallest node; `members` lists the nodes class by class, in
    increasing order inside a class; class c owns ``members[start[c] : start[c] + count[c]]``.

    Shapes:
        class_of ``[n]``, members ``[n]``, start, count, representative ``[m]``.

    Example:
        >>> twins = TwinClasses.from_labels([0, 1, 0])
        >>> twins.class_of.tolist(), twins.members.tolist(), twins.count.tolist()
        ([0, 1, 0], [0, 2, 1], [2, 1])
    """

    class_of: Tensor
    members: Tensor
    start: Tensor
    count: Tensor

    @classmethod
    def from_labels(cls, labels: NDArray[np.int64]) -> Self:
        """Build from any labelling of the nodes; classes are renumbered by smallest node."""
        compact = np.unique(labels, return_inverse=True)[1].reshape(-1)
        return cls.from_compact(torch.from_numpy(compact))

    @classmethod
    def from_compact(cls, labels: Tensor) -> Self:
        """Build from labels 0, 1, ..., each of them used, on their device."""
        n, device = labels.numel(), labels.device
        count = torch.bincount(labels)
        node = torch.arange(n, device=device)
        first = torch.full_like(count, n).scatter_reduce_(0, labels, node, "amin")
        by_first = first.argsort()
        number = torch.empty_like(by_first)
        number[by_first] = torch.arange(by_first.numel(), device=device)
        class_of, count = number[labels], count[by_first]
        return cls(class_of, class_of.argsort(stable=True), count.cumsum(0) - count, count)

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

    def to(self, device: torch.device | str) -> Self:
        """The same partition on another device."""
        parts = (self.class_of, self.members, self.start, self.count)
        return type(self)(*(part.to(device) for part in parts))

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
    """Every node alone: what f(I) has, where no two rows are equal.

    Example:
        >>> single_classes(3).class_of.tolist()
        [0, 1, 2]
    """
    return TwinClasses.from_labels(np.arange(num_nodes))


def merge_coincident(
    points: Tensor, twins: TwinClasses
) -> tuple[Tensor, TwinClasses, Tensor | None]:
    """Distinct positions, the classes of nodes there, and the new class of each old one.

    Classes at the same position would be as many ties to settle. ``None`` stands for the identity:
    no two classes are at the same position.

    Shapes:
        points ``[m, p]``, results ``[d, p]``, d classes, and ``[m]``.
    """
    code = _point_hashes(points)
    ordered, order = torch.sort(code)
    same = ordered[1:] == ordered[:-1]
    if not bool(same.any()):
        return points, twins, None
    equal = (points[order[1:]] == points[order[:-1]]).all(dim=1)
    if bool((same & ~equal).any()):  # a collision of hashes
        group = torch.unique(points, dim=0, return_inverse=True)[1]
    else:
        group = torch.empty_like(order)
        group[order[:1]] = 0
        group[order[1:]] = (~same).cumsum(0)
    merged = TwinClasses.from_compact(group[twins.class_of])
    first = twins.class_of[merged.representative]
    return points[first], merged, merged.class_of[twins.representative]


def _row_hashes(rows: sp.csr_array) -> NDArray[np.int64]:
    """A 64-bit hash per row: a sum of mixed (column, value) pairs, modulo 2^64."""
    seed = np.uint64(0x9E3779B97F4A7C15)
    if rows.nnz > rows.shape[1] and bool((rows.data == rows.data[0]).all()):
        value = rows.data[:1].astype(np.float64).view(np.uint64)  # what is mixed is by column alone
        mixed = _mix(_mix(np.arange(rows.shape[1], dtype=np.uint64) + seed) ^ value)[rows.indices]
    else:
        value = rows.data.astype(np.float64).view(np.uint64)
        mixed = _mix(_mix(rows.indices.astype(np.uint64) + seed) ^ value)
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
    """Labels by the full content of each row: slow, only after a hash collision."""
    seen: dict[tuple[bytes, bytes], int] = {}
    labels = np.empty(rows.shape[0], dtype=np.int64)
    for i in range(rows.shape[0]):
        part = slice(rows.indptr[i], rows.indptr[i + 1])
        key = (rows.indices[part].tobytes(), rows.data[part].tobytes())
        labels[i] = seen.setdefault(key, len(seen))
    return labels


def _point_hashes(points: Tensor) -> Tensor:
    """A 64-bit number per point, the same for equal points."""
    whole = torch.int32 if points.dtype == torch.float32 else torch.int64
    bits = (points + 0.0).contiguous().view(whole).long()  # -0 becomes +0
    factor = torch.arange(1, 2 * points.shape[1], 2, device=points.device)
    mixed = (bits + factor) * -0x61C8864680B583EB
    mixed = (mixed ^ (mixed >> 29)) * (factor * 0x3C79AC492BA7B653 | 1)
    total = (mixed ^ (mixed >> 32)).sum(dim=1)
    return total * -0x61C8864680B583EB
