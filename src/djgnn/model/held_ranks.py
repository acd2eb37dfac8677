"""The rank lists of a model: searched when U has changed, kept while it has not."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor

from djgnn.jumps import JumpHierarchy, SearchMemory, TwinClasses, rank_lists
from djgnn.jumps.ranks import capturing
from djgnn.model.config import ModelConfig


class HasTwins(Protocol):
    """Whatever knows the twin classes of a graph."""

    @property
    def twins(self) -> TwinClasses: ...  # noqa: D102


# A graph, positions of it, and their lists.
Held = tuple[HasTwins, Tensor, JumpHierarchy]


class HeldRanks:
    """Rank lists of the current positions of a model, and what its searches remember.

    An evaluation and the training step after it see the same U and search once.

    Args:
        config: Engine.
        num_ranks: How many ranks R.
    """

    def __init__(self, config: ModelConfig, num_ranks: int) -> None:
        self.config, self.num_ranks = config, num_ranks
        self.forget()

    def forget(self) -> None:
        """Start anew."""
        self._held: Held | None = None
        self._restored: dict[str, Tensor] = {}
        self._memory = SearchMemory()
        self._changes = 0

    def __getstate__(self) -> dict[str, Any]:
        """What a copy or a pickle takes along: everything but the lists."""
        return {**self.__dict__, "_held": None}

    def __call__(self, u: Tensor, operators: HasTwins) -> JumpHierarchy:
        """The lists of these positions; kept while the positions stay the same.

        Positions are compared by value: optimisers may change weights without leaving a trace.
        """
        if capturing(u):
            return self.search(u, operators.twins)
        held = self._held or self.take_up(operators, u)
        if held is None or held[0] is not operators:
            self._changes = 0
            self._held = held = (operators, u.detach().clone(), self.search(u, operators.twins))
        elif not torch.equal(held[1], u):
            self._changes += 1
            old = self._changes % self.config.refresh_every
            ranked = held[2] if old else self.search(u, operators.twins)
            self._held = held = (operators, u.detach().clone(), ranked)
        return held[2]

    def search(self, u: Tensor, twins: TwinClasses) -> JumpHierarchy:
        """The lists of these positions, searched whether they changed or not."""
        return rank_lists(u, twins, self.num_ranks, self.config.engine, self._memory)

    @property
    def old(self) -> dict[str, Tensor]:
        """Lists that may be older than the positions, as a checkpoint keeps them; or nothing.

        Setting it lets the next pass go on with them.
        """
        if self.config.refresh_every == 1 or self._held is None:
            return {}
        changes = torch.tensor(self._changes)
        return {"u": self._held[1], "ranks": self._held[2].ranks, "changes": changes}

    @old.setter
    def old(self, state: dict[str, Tensor]) -> None:
        self._held, self._restored = None, state

    @property
    def changes(self) -> int:
        """How often U has changed since the first search."""
        return self._changes

    def hold(self, operators: HasTwins, u: Tensor, ranks: Tensor, changes: int) -> None:
        """Take lists of these positions that others have searched.

        Shapes:
            u ``[n, p]``, ranks ``[m, R]``.
        """
        self._held, self._changes = (operators, u, JumpHierarchy(ranks, operators.twins)), changes

    def take_up(self, operators: HasTwins, u: Tensor) -> Held | None:
        """Go on with the lists of a checkpoint, if there are any and they are of this graph."""
        state, self._restored = self._restored, {}
        if not state:
            return None
        ranks, twins = state["ranks"].to(u.device), operators.twins
        if ranks.shape != (twins.num_classes, self.num_ranks) or state["u"].shape != u.shape:
            return None
        if ranks.numel() and not 0 <= int(ranks.min()) <= int(ranks.max()) < twins.num_nodes:
            return None
        self._changes = int(state["changes"])
        self._held = (operators, state["u"].to(u), JumpHierarchy(ranks, twins))
        return self._held
