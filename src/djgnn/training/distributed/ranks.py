"""Rank lists of the nodes of one process, among all nodes."""

from __future__ import annotations

import torch
from torch import Tensor

from djgnn.filters import FilterTable
from djgnn.filters.table import rank_weights
from djgnn.jumps import class_ranks
from djgnn.model import DJGNN
from djgnn.training.distributed.collectives import gather
from djgnn.training.distributed.operators import ShardOperators


class OwnRanks:
    """The rank lists of the own nodes, kept while the positions stay the same.

    As :class:`djgnn.model.held_ranks.HeldRanks`, but that ``refresh="lazy"`` searches like
    ``"exact"``, which has the same result.

    Args:
        module: The model.
        operators: The own rows.
    """

    def __init__(self, module: DJGNN, operators: ShardOperators) -> None:
        self.module, self.operators = module, operators
        self._held: tuple[Tensor, Tensor] | None = None
        self._changes = 0

    def __call__(self, u: Tensor) -> Tensor:
        """Rank lists of the own twin classes at these positions of all nodes.

        Shapes:
            u ``[n, p]``, result ``[classes, R]``.
        """
        held = self._held or self._take_up(u)
        if held is None:
            self._held = held = self._keep(u, self._search(u))
        elif not torch.equal(held[0], u):
            self._changes += 1
            old = self._changes % self.module.config.refresh_every
            self._held = held = self._keep(u, held[1] if old else self._search(u))
        return held[1]

    def _keep(self, u: Tensor, ranks: Tensor) -> tuple[Tensor, Tensor]:
        """Lists that may grow old are kept whole by the model, for a checkpoint."""
        mine, held = self.operators, u.detach().clone()
        if self.module.config.refresh_every > 1:
            whole = gather(mine.group, ranks[mine.place], mine.shard.sizes, "ranks")
            lists = whole[mine.twins.representative]
            self.module.ranks.hold(mine, held, lists, self._changes)
        return held, ranks

    def _take_up(self, u: Tensor) -> tuple[Tensor, Tensor] | None:
        """Go on with the lists of a checkpoint."""
        found = self.module.ranks.take_up(self.operators, u)
        if found is None:
            return None
        self._changes = self.module.ranks.changes
        self._held = (found[1], found[2].ranks[self.operators.classes])
        return self._held

    def table(self, u: Tensor) -> FilterTable:
        """The filters of the own nodes, ``[own, R]``."""
        mine, ranks = self.operators, self(u)
        scale = self.module.scale(mine)
        weight = rank_weights(u, mine.twins, ranks, scale, mine.classes)
        index, weight = ranks[mine.place], weight.index_select(0, mine.place)
        return FilterTable(index, weight, self.module.branches)

    def _search(self, u: Tensor) -> Tensor:
        mine, count = self.operators, self.module.num_ranks
        return class_ranks(u, mine.twins, count, mine.classes, self.module.config.engine)
