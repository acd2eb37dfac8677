"""The row of numbers that trees see of a node: features, degrees, labels around it, its place."""

from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from djgnn.model.node_statistics import (
    EVERY,
    FORMER_POWER,
    POWER,
    Floats,
    Rows,
    Surroundings,
    degree_profile,
    in_blocks,
    inverse,
    label_shares,
    places,
    reduction,
    sharing,
    some,
    totals,
)
from djgnn.model.operators import WholeGraph
from djgnn.model.table_experts import PlainExpert, as_matrix

WIDEST, DIRECT, PLACES, PROFILE = 80, 40, 32, 5
"""Columns that wide features are reduced to, those of them that stay as they are, columns of the
SVD of A and of :func:`djgnn.model.node_statistics.degree_profile`."""
MOST_EXAMPLES, LEAST_EXAMPLES = 50_000, 20
"""Training nodes that trees learn from where there are more, and of a class at least."""


class TreeTable(PlainExpert):
    r"""An expert on a table with a row of numbers for every node.

    The columns: features X (of wide ones the commonest, and the others reduced by an SVD), their
    means over neighbours, logarithms of degrees and the degrees around a node, the classes of
    labelled neighbours and of theirs (:func:`label_shares`), and places by an SVD of A. Later nodes
    get the same columns from what is stored. Of more than 50,000 training nodes trees learn from
    about 50,000, of every class its share and at least 20.

    Shapes:
        projection ``[F, width]``, or empty where X is narrow; vectors
        ``[n, places * directions]``; power ``[]``, of the degrees that places are divided by.
    """

    projection: Tensor
    vectors: Tensor
    power: Tensor

    def __init__(
        self, in_channels: int, out_channels: int, num_nodes: int, directed: bool = True
    ) -> None:
        super().__init__(in_channels, out_channels, num_nodes, directed)
        width, ways = min(WIDEST, num_nodes), 2 if directed else 1
        wide = in_channels if in_channels > width else 0
        self.register_buffer("projection", torch.zeros(wide, width))
        self.register_buffer("vectors", torch.zeros(num_nodes, ways * min(PLACES, num_nodes - 1)))
        self.register_buffer("power", torch.zeros(()))

    def reset_parameters(self, generator: Generator | None = None) -> None:
        """No label, and nothing learned from any."""
        super().reset_parameters()
        for name, buffer in self.named_buffers():
            if name != "label":
                buffer.zero_()

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        """Version 1.0 did not store the power."""
        state_dict.setdefault(f"{prefix}power", torch.tensor(FORMER_POWER))
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def observe(self, x: Any, near: Surroundings) -> None:
        """Learn the projection of the features and the singular vectors of A, without labels."""
        self.observe_features(x, near)
        self.power.fill_(POWER)
        width = self.vectors.shape[1] // len(near.ways(self.directed))
        if width:
            found = near.singular(self.directed, width, self.vectors.device)
            self.vectors.copy_(torch.from_numpy(found))

    def observe_features(self, x: Any, near: Surroundings) -> None:
        """Learn the projection of wide features, which is the same for all experts."""
        columns, width = as_matrix(x), self.projection.shape[1]
        if not self.projection.numel() or _is_identity(columns):
            return
        with sharing:
            if "projection" not in near.made:
                near.made["projection"] = _stored(
                    reduction(columns.astype(np.float64), width, DIRECT)
                )
            self.projection.copy_(near.made["projection"])

    def reduced(self, x: Any) -> NDArray[Any]:
        """The features, wide ones as projected, ``[n, width]``."""
        matrix: Any = as_matrix(x)
        if self.projection.numel():
            matrix = matrix @ self.projection.cpu().numpy()
        return matrix.toarray() if sp.issparse(matrix) else np.asarray(matrix)

    def columns(self, x: Any, near: Surroundings, rows: Rows = EVERY) -> NDArray[np.float32]:
        """What the trees see of some nodes, known and later, ``[rows, columns]``, by columns."""
        count, first = np.arange(near.both.shape[0])[rows].size, 0
        found = np.empty((self.num_columns, count), dtype=np.float32)
        for part in self._parts(x, near, rows):
            wide = part.reshape(count, -1)
            place = found[first : first + wide.shape[1]]
            _fill(place, wide)
            first += len(place)
        return found.T

    @property
    def num_columns(self) -> int:
        """How many there are."""
        ways = 2 if self.directed else 1
        width = self.projection.shape[1] if len(self.projection) else self.in_channels
        shares = (ways + 1) * (self.out_channels + 1)
        degrees = 2 * ways - 1 + PROFILE
        return width * (1 + ways) + degrees + shares + self.vectors.shape[1]

    def _parts(self, x: Any, near: Surroundings, rows: Rows) -> Iterator[NDArray[Any]]:
        """One part of the columns after the other, as together they are the largest array."""
        h, ways = self.reduced(x), near.ways(self.directed)
        yield h[rows]
        for mean in near.means(self.directed):
            yield from near.columns_of(some(mean, rows), h)
        degrees = (totals(way)[rows] for way in (*ways, near.both)[: 2 * len(ways) - 1])
        yield from map(np.log1p, degrees)
        yield from degree_profile(near, rows)
        known, prior = self.known_labels(h.shape[0]), self.prior.double().cpu().numpy()
        yield from label_shares(near, known, prior, self.directed, rows)
        vectors = self.vectors.cpu().numpy()
        yield from places(near, self.directed, vectors, rows, float(self.power))

    def examples(
        self, table: NDArray[np.float32], seed: int = 0, kind: type[np.floating[Any]] = np.float32
    ) -> tuple[NDArray[np.floating[Any]], NDArray[np.int64], Floats | None]:
        """Rows of training nodes, their classes, and their weights if they differ.

        The rows are of the type that the learner works with, which then needs no copy of them.
        """
        label = self.label.cpu().numpy()
        nodes = np.flatnonzero(label >= 0)
        y = label[nodes]
        share = np.bincount(y, minlength=self.out_channels) / max(1, len(nodes))
        if len(nodes) > MOST_EXAMPLES:
            drawn = _drawn(y, seed)
            nodes, y = nodes[drawn], y[drawn]
        weight = (self.prior.double().cpu().numpy() * inverse(share))[y]
        rows = np.empty((table.shape[1], len(nodes)), dtype=kind)
        for column, into in zip(table.T, rows, strict=True):
            into[:] = column[nodes]
        return rows.T, y, None if np.allclose(weight, 1) else weight

    def ranges(self) -> dict[str, tuple[float, float]]:
        """Trees refer to columns."""
        return {**super().ranges(), "feature": (0, self.num_columns - 1), "power": (0, 1)}

    def probabilities(self, x: Any, near: Surroundings) -> Floats | Tensor:
        """What the trees say of all nodes."""
        return self.of_table(self.columns(x, near))

    def table(self, x: Any, near: Surroundings, rows: Rows = EVERY) -> NDArray[np.float32]:
        """The columns, kept for the next expert that has the same, as boosting and forest of a fold
        do, and given up to it."""
        names = ("label", "prior", "projection", "vectors")
        with sharing:
            owner, table = near.made.pop("table", (None, None))
            same = owner is not None and type(self).columns is type(owner).columns
            if not same or not all(torch.equal(getattr(self, n), getattr(owner, n)) for n in names):
                table = self.columns(x, near, rows)
                near.made["table"] = (self, table)
        return cast(NDArray[np.float32], table)

    def later_logits(self, x: Any, near: Surroundings) -> Tensor:
        """Of the nodes after the known ones; the trees see no others."""
        return self.logits(self.of_table(self.table(x, near, slice(self.num_nodes, None))))

    def some(self, x: Any, graph: WholeGraph, rows: NDArray[np.int64]) -> Tensor:
        """Logits of some nodes; the trees see no others."""
        return self.logits(self.of_table(self.columns(*self.whole(x, graph), rows)))

    def of_table(self, table: NDArray[np.float32]) -> Floats | Tensor:
        """What the trees say of rows, ``[rows, classes]``."""
        raise NotImplementedError


def leaves(
    columns: NDArray[np.float32],
    rows: NDArray[np.int64],
    feature: NDArray[np.int32],
    threshold: Floats,
    child: NDArray[np.int32],
) -> NDArray[np.int64]:
    """The leaf of a tree that each of some rows ends in.

    Shapes:
        columns ``[columns, n]``; rows ``[rows]``; feature, threshold ``[nodes]``, child
        ``[nodes, 2]``, of a leaf itself; result ``[rows]``.
    """
    values, first = columns.reshape(-1), feature.astype(np.int64) * columns.shape[1]
    node, below = np.zeros(len(rows), dtype=np.int64), child.astype(np.int64).reshape(-1)
    for _ in range(len(feature)):
        right = values.take(first.take(node) + rows) > threshold.take(node)
        before, node = node, below.take(2 * node + right)
        if (node == before).all():
            break
    return node


def _drawn(y: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """Places of the nodes that trees learn from: of every class its share, at least a few."""
    count = np.bincount(y)
    share = np.ceil(count * MOST_EXAMPLES / len(y)).astype(np.int64)
    order = np.random.default_rng(seed).permutation(len(y))
    order = order[np.argsort(y[order], kind="stable")]  # class by class, at random within
    number = np.arange(len(y)) - np.repeat(np.cumsum(count) - count, count)
    return np.sort(order[number < np.maximum(share, LEAST_EXAMPLES)[y[order]]])


def _fill(place: NDArray[np.float32], values: NDArray[Any]) -> None:
    """Write values ``[n, width]`` into columns ``[width, n]``."""

    def work(part: slice) -> None:
        place[:, part] = bounded(values[part]).T

    in_blocks(work, len(values))


def bounded(table: NDArray[Any]) -> NDArray[np.float32]:
    """As single precision has it."""
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
