"""The two kinds of pass of an epoch, over the rows of one process."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from djgnn.filters import FilterTable
from djgnn.model import DJGNN
from djgnn.model.outputs import Encoding
from djgnn.training.distributed.collectives import gather, gather_results, reduce_gradients
from djgnn.training.distributed.forward import decode, encode, positions
from djgnn.training.distributed.operators import ShardOperators
from djgnn.training.distributed.ranks import OwnRanks


class ShardedPasses:
    """A DJ-GNN's passes: every process computes its rows; the logits of all come back.

    An evaluation leaves its first half to the training pass after it.

    Args:
        module: The model, with the same weights on every process.
        inputs: The own rows of x, and of the graph.
        train: Indices of the training nodes of all processes, ascending.
    """

    def __init__(self, module: DJGNN, inputs: tuple[Any, ShardOperators], train: Tensor) -> None:
        self.module = module
        self.x, self.operators = inputs
        self.rows, self.all = self.operators.rows(train), self.operators.all_rows()
        self.ranks = OwnRanks(module, self.operators)
        self._encoding: Encoding | None = None

    def train(self, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
        """Logits of the training nodes of all processes, with dropout, and the pump loss."""
        encoding = self._encoding or self._encode()
        self._encoding = None
        self.module.train()
        own = decode(self.module, encoding, self.operators, self.rows, generator)
        group, sizes = self.operators.group, self.rows.sizes
        return gather_results(group, own, sizes, "logits"), encoding.pump_loss

    def evaluate(self) -> Tensor:
        """Logits of all nodes, without dropout or gradients."""
        self.module.eval()
        self._encoding = self._encode()
        with torch.no_grad():
            own = decode(self.module, self._encoding.detach(), self.operators, self.all)
            return gather(self.operators.group, own, self.all.sizes, "logits")

    def reduce(self) -> None:
        """Sum the gradients of all processes."""
        reduce_gradients(self.operators.group, self.module.parameters())

    @property
    def encoding(self) -> Encoding | None:
        """The first half of the last evaluation, with the filters of all nodes, for observers.

        Every process must ask at the same time.
        """
        held = self._encoding
        return None if held is None else _whole(held, self.operators)

    def _encode(self) -> Encoding:
        return encode(self.module, self.x, self.operators, self.ranks)


@torch.no_grad()
def whole_encoding(module: DJGNN, inputs: tuple[Any, ShardOperators]) -> Encoding:
    """The first half of a pass, with the filters of all nodes; X W stays that of the own ones."""
    x, operators = inputs
    return _whole(encode(module, x, operators, OwnRanks(module, operators)), operators)


@torch.no_grad()
def freeze_pump(module: DJGNN, operators: ShardOperators) -> FilterTable:
    """Fix the filters of the own nodes, see :meth:`djgnn.model.DJGNN.freeze_pump`."""
    u = positions(module, operators).u
    return module.fix_filters(OwnRanks(module, operators).table(u))


def _whole(encoding: Encoding, operators: ShardOperators) -> Encoding:
    table = encoding.table
    index, weight = (
        gather(operators.group, part.detach(), operators.shard.sizes, "record")
        for part in (table.index, table.weight)
    )
    filters = FilterTable(index, weight, table.branches)
    return Encoding(encoding.pump, filters, encoding.jumps, encoding.homophilic)
