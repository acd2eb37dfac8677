"""The row of numbers that trees see of a node: features, degrees, labels around it, its place."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from djgnn.model.columns import (
    Floats,
    Surroundings,
    degree_profile,
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

WIDEST, DIRECT, PLACES, HOPS, PROFILE = 80, 40, 32, 1, 5
"""Columns that wide features are reduced to, those of them that stay as they are, and columns of
the SVD of A; steps of the means; columns of :func:`djgnn.model.columns.degree_profile`."""


class TreeTable(PlainExpert):
    r"""An expert that sees of a node what one can say of it in numbers.

    The columns: features X (of wide ones the commonest, and the others reduced by an SVD), their
    means over neighbours, logarithms of degrees and the degrees around a node, the classes of
    labelled neighbours and of theirs (:func:`label_shares`), and places by an SVD of A. Later nodes
    get the same columns from what is stored.

    Shapes:
        projection ``[F, width]``, or empty where X is narrow; vectors
        ``[n, places * directions]``.
    """

    projection: Tensor
    vectors: Tensor

    def __init__(
        self, in_channels: int, out_channels: int, num_nodes: int, directed: bool = True
    ) -> None:
        super().__init__(in_channels, out_channels, num_nodes, directed)
        width, ways = min(WIDEST, num_nodes), 2 if directed else 1
        wide = in_channels if in_channels > width else 0
        self.register_buffer("projection", torch.zeros(wide, width))
        self.register_buffer("vectors", torch.zeros(num_nodes, ways * min(PLACES, num_nodes - 1)))

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """No label, and nothing learned from any."""
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
        parts = [bounded(h)]
        for way in ways:
            parts += map(bounded, neighbour_means(h, [mean_normalize(way)], HOPS)[1:])
        degrees = [np.log1p(totals(way)) for way in (*ways, near.both)[: 2 * len(ways) - 1]]
        degrees += degree_profile(near.both)
        prior = self.prior.double().cpu().numpy()
        known = self.known_labels(h.shape[0])
        shares = label_shares(near, known, prior, self.directed)
        parts += map(bounded, [*degrees, *shares, places(ways, self.vectors.cpu().numpy())])
        return np.column_stack(parts)

    def examples(
        self, table: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], NDArray[np.int64], Floats | None]:
        """Rows of the training nodes, their classes, and their weights if they differ."""
        label = self.label.cpu().numpy()
        nodes = np.flatnonzero(label >= 0)
        y = label[nodes]
        share = np.bincount(y, minlength=self.out_channels) / max(1, len(nodes))
        weight = (self.prior.double().cpu().numpy() * inverse(share))[y]
        return table[nodes], y, None if np.allclose(weight, 1) else weight

    def ranges(self) -> dict[str, tuple[float, float]]:
        """Trees refer to columns."""
        ways = 2 if self.directed else 1
        width = self.projection.shape[1] if len(self.projection) else self.in_channels
        shares = (ways + 1) * (self.out_channels + 1)
        degrees = 2 * ways - 1 + PROFILE
        columns = width * (1 + ways * HOPS) + degrees + shares + self.vectors.shape[1]
        return {**super().ranges(), "feature": (0, columns - 1)}

    def probabilities(self, x: Any, near: Surroundings) -> Floats:
        """What the trees say of all nodes."""
        return self.of_table(self.columns(x, near))

    def some(self, x: Any, graph: WholeGraph, rows: NDArray[np.int64]) -> Tensor:
        """Logits of some nodes; the trees see no others."""
        return self.logits(self.of_table(self.columns(*self.whole(x, graph))[rows]))

    def of_table(self, table: NDArray[np.float32]) -> Floats:
        """What the trees say of rows, ``[rows, classes]``."""
        raise NotImplementedError


def leaves(
    table: NDArray[np.float32],
    feature: NDArray[np.int32],
    threshold: Floats,
    child: NDArray[np.int32],
) -> NDArray[np.int64]:
    """The leaf of a tree that every row ends in.

    Shapes:
        table ``[rows, columns]``; feature, threshold ``[nodes]``, child ``[nodes, 2]``, of a leaf
        itself; result ``[rows]``.
    """
    rows, node = np.arange(len(table)), np.zeros(len(table), dtype=np.int64)
    for _ in range(len(feature)):
        right = table[rows, feature[node]] > threshold[node]
        before, node = node, child[node, right.astype(np.int64)].astype(np.int64)
        if (node == before).all():
            break
    return node


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
