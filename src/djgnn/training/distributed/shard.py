"""Which rows are whose: successive nodes, so that every process has about the same work."""

from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

# The work of a node beside its edges, counted in edges.
ROW_COST = 8


@dataclass(frozen=True)
class Shard:
    """The nodes of every process: process r has those from ``bounds[r]`` up to ``bounds[r + 1]``.

    Example:
        >>> shard = Shard((0, 3, 5), rank=1)
        >>> shard.first, shard.last, shard.sizes
        (3, 5, [3, 2])
    """

    bounds: tuple[int, ...]
    rank: int

    @classmethod
    def balanced(
        cls, edges: NDArray[np.int64], size: int, rank: int, first_share: float = 1.0
    ) -> Self:
        """Cut where edges and rows are about equally many on every process.

        Args:
            edges: Number of edges of each node.
            size: Number of processes.
            rank: This one.
            first_share: What the first process has, of what another one has.

        Example:
            >>> Shard.balanced(np.array([16, 0, 0, 0]), 2, rank=0).bounds
            (0, 1, 4)
        """
        work = np.concatenate([[0], np.cumsum(edges + ROW_COST)])
        aims = work[-1] * (first_share + np.arange(size - 1)) / (first_share + size - 1)
        after = np.searchsorted(work, aims)
        before = np.maximum(after - 1, 0)
        cuts = np.where(aims - work[before] <= work[after] - aims, before, after)
        return cls((0, *(int(cut) for cut in cuts), len(edges)), rank)

    @property
    def first(self) -> int:
        """The first node of this process."""
        return self.bounds[self.rank]

    @property
    def last(self) -> int:
        """One beyond the last node of this process."""
        return self.bounds[self.rank + 1]

    @property
    def num_nodes(self) -> int:
        """Nodes of all processes."""
        return self.bounds[-1]

    @property
    def sizes(self) -> list[int]:
        """How many nodes each process has."""
        return [last - first for first, last in zip(self.bounds, self.bounds[1:], strict=False)]

    def counts(self, nodes: Tensor, factor: int = 1) -> list[int]:
        """How many of some sorted places are each process's, with `factor` places per node.

        Shapes:
            nodes ``[m]``.
        """
        edges = factor * torch.tensor(self.bounds, device=nodes.device, dtype=nodes.dtype)
        return torch.searchsorted(nodes.contiguous(), edges).diff().tolist()
