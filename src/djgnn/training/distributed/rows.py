"""The rows of one process, handed out by the first, which has the graph."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from djgnn.graph import Graph
from djgnn.training.distributed.exchange import swap
from djgnn.training.distributed.group import Group
from djgnn.training.distributed.shard import Shard

WHOLE, LEAST = 0.2, 0.1
"""By what part of all rows the first process has fewer than each other one, for it has the whole
graph and the weights of all experts beside them; and what it has at least, of what they have."""


@dataclass(frozen=True, eq=False)
class OwnRows:
    """The edges of the nodes of one process.

    Shapes:
        outgoing ``[own, n]`` (rows of A), incoming ``[own, n]`` (rows of its transpose).
    """

    shard: Shard
    outgoing: sp.csr_array
    incoming: sp.csr_array

    @classmethod
    def of(cls, group: Group, adjacency: sp.csr_array | None, directed: bool = True) -> Self:
        """Take the own rows; every process must call this at the same time.

        Args:
            group: The processes.
            adjacency: A, on the first process.
            directed: Whether it differs from its transpose.
        """
        a: Any = adjacency
        how = (group.size, 0, max(LEAST, (1 - (group.size - 1) * WHOLE) / (1 + WHOLE)))
        bounds = group.shared(lambda: Shard.balanced(np.diff(a.indptr), *how).bounds)
        shard = Shard(bounds, group.rank)
        outgoing = own_rows(group, shard, a)
        if not directed:
            return cls(shard, outgoing, outgoing)
        return cls(shard, outgoing, own_rows(group, shard, sp.csr_array(a.T) if group.first else a))

    def treated(self, treatment: str) -> sp.csr_array:
        """The rows in double precision, see :func:`djgnn.model.operators.treat`."""
        if treatment == "given":
            return self.outgoing.astype(np.float64)
        back = self.incoming.astype(np.float64)
        if treatment == "transposed":
            return back
        return sp.csr_array(self.outgoing.astype(np.float64).maximum(back))


def own_rows(group: Group, shard: Shard, matrix: Any) -> Any:
    """The own rows of a matrix, dense or CSR, that the first process has.

    Every process must call this at the same time.
    """
    kind = group.shared(lambda: (sp.issparse(matrix), matrix.shape[1]))
    if not kind[0]:
        return _handed(group, shard.sizes, matrix)
    parts = (matrix.data, matrix.indices, np.diff(matrix.indptr)) if group.first else [None] * 3
    lengths = _handed(group, shard.sizes, parts[2])
    counts = group.gathered(int(lengths.sum()))
    data, indices = (_handed(group, counts, part) for part in parts[:2])
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(indices.dtype)
    return sp.csr_array((data, indices, indptr), shape=(lengths.size, kind[1]))


def _handed(group: Group, sizes: list[int], values: NDArray[Any] | None) -> NDArray[Any]:
    """The own ones of values that the first process has, `sizes` of them for each process."""
    held: Any = values
    kind = group.shared(lambda: (held.dtype.str, held.shape[1:]))
    if not group.first:
        held = np.empty((0, *kind[1]), dtype=kind[0])
    give = sizes if group.first else [0] * group.size
    take = [sizes[group.rank], *[0] * (group.size - 1)]
    found: NDArray[Any] = swap(torch.tensor(held), give, take).numpy()
    return found


def without_rows(graph: Graph) -> Graph:
    """What every process needs of a graph: labels and splits, but no edges and no features."""
    y, masks = graph.y, (graph.train_mask, graph.val_mask, graph.test_mask)
    empty = np.zeros((2, 0), dtype=np.int64)
    facts = (graph.class_names, graph.name, graph.card)
    return Graph(empty, graph.num_nodes, None, y, None, *masks, None, *facts)
