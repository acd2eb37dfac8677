"""The rank lists of a model: searched when U has changed, kept while it has not."""

from typing import Any

import torch
from torch import Tensor

from djgnn.jumps import SearchMemory, TwinClasses, rank_lists
from djgnn.jumps.ranks import capturing


class RankMemory:
    """Rank lists of the current positions of a model.

    An evaluation and the training step after it see the same U and search once.

    Args:
        engine: Neighbour search, see :mod:`djgnn.jumps.engines`.
        num_ranks: How many ranks R.
    """

    def __init__(self, engine: str, num_ranks: int) -> None:
        self.engine, self.num_ranks = engine, num_ranks
        self.forget()

    def forget(self) -> None:
        """Clear everything that searches left."""
        self._key: tuple[TwinClasses, Tensor | None] | None = None
        self._u = self._ranks = torch.empty(0)
        self._memory = SearchMemory()

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles leave the lists out."""
        return {**self.__dict__, "_key": None, "_u": torch.empty(0), "_ranks": torch.empty(0)}

    def __call__(self, u: Tensor, twins: TwinClasses, classes: Tensor | None = None) -> Tensor:
        """The lists of twin classes at these positions; kept while the positions stay the same.

        Positions are compared by value: optimisers may change weights without a new version.

        Args:
            u: Positions of all nodes.
            twins: The twin classes of the graph.
            classes: Whose lists; all by default.

        Shapes:
            u ``[n, p]``, classes ``[m]``, result ``[m, R]``.
        """
        if capturing(u):
            return self.search(u, twins, classes)
        known = self._key is not None and self._key[0] is twins and self._key[1] is classes
        if not known or not torch.equal(self._u, u):
            self._ranks = self.search(u, twins, classes)
            self._key, self._u = (twins, classes), u.detach().clone()
        return self._ranks

    def search(self, u: Tensor, twins: TwinClasses, classes: Tensor | None = None) -> Tensor:
        """The lists of these positions, searched whether they changed or not."""
        found = rank_lists(u, twins, self.num_ranks, self.engine, self._memory, classes)
        return found.ranks
