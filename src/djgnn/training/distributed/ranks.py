"""Rank lists of the nodes of one process, among all nodes."""

from __future__ import annotations

import torch
from torch import Tensor

from djgnn.filters import FilterTable
from djgnn.filters.table import rank_weights
from djgnn.jumps import rank_lists
from djgnn.model import DJGNN
from djgnn.training.distributed.collectives import gather
from djgnn.training.distributed.operators import ShardOperators


class OwnRanks:
    """The rank lists of the own nodes, kept while the positions stay the same.

    As :class:`djgnn.model.held_ranks.HeldRanks`.

    Args:
        module: The model.
        operators: The own rows.
    """

    def __init__(self, module: DJGNN, operators: ShardOperators) -> None:
        self.module, self.operators = module, operators
        self._held: tuple[Tensor, Tensor] | None = None
        self._changes = 0
        self._whole: Tensor | None = None  # the lists of all classes, where they may grow old

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
        held = u.detach().clone()
        if self._whole is not None:
            self.module.ranks.hold(self.operators, held, self._whole, self._changes)
        return held, ranks

    def _take_up(self, u: Tensor) -> tuple[Tensor, Tensor] | None:
        """Go on with the lists of a checkpoint."""
        found = self.module.ranks.take_up(self.operators, u)
        if found is None:
            return None
        self._changes, self._whole = self.module.ranks.changes, found[2].ranks
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
        engine = self.module.config.engine
        ranks = rank_lists(u, mine.twins, count, engine, classes=mine.classes).ranks
        if self.module.config.refresh_every > 1:
            by_node = gather(mine.group, ranks[mine.place], mine.shard.sizes, "ranks")
            self._whole = by_node[mine.twins.representative]
        return ranks
