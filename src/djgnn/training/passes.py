"""The two kinds of pass of an epoch: with gradients on the training nodes, without on all."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor, nn

from djgnn.model import DJGNN
from djgnn.model.djgnn import Encoding


class Passes(Protocol):
    """What the training loop asks of a model."""

    def train(self, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
        """Logits of the training nodes, with dropout, and a further loss."""

    def evaluate(self) -> Tensor:
        """Logits of all nodes, without dropout or gradients."""


def two_phase(module: nn.Module, inputs: tuple[Any, Any], train: Tensor) -> Passes:
    """The cheapest passes for a module.

    Args:
        module: Any model of the training loop.
        inputs: x and structure.
        train: Indices of the training nodes.
    """
    if isinstance(module, DJGNN):
        return _SharedPasses(module, inputs, train)
    return _PlainPasses(module, inputs, train)


class _SharedPasses:
    """A DJ-GNN's passes: an evaluation leaves its first half to the training pass after it."""

    def __init__(self, module: DJGNN, inputs: tuple[Any, Any], train: Tensor) -> None:
        self.module = module
        self.x, self.operators = inputs
        self.rows = self.operators.rows(train)
        self.encoding: Encoding | None = None

    def train(self, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
        encoding = self.encoding or self.module.encode(self.x, self.operators)
        self.encoding = None
        self.module.train()
        return self.module.decode(encoding, self.rows, generator), encoding.pump_loss

    def evaluate(self) -> Tensor:
        self.module.eval()
        self.encoding = self.module.encode(self.x, self.operators)
        with torch.no_grad():
            return self.module.decode(self.encoding.detach(), self.operators)


class _PlainPasses:
    """Two whole passes."""

    def __init__(self, module: nn.Module, inputs: tuple[Any, Any], train: Tensor) -> None:
        self.module, self.inputs, self.index = module, inputs, train

    def train(self, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
        self.module.train()
        logits = self.module(*self.inputs, generator=generator)
        return logits[self.index], logits.new_zeros(())

    @torch.no_grad()
    def evaluate(self) -> Tensor:
        self.module.eval()
        logits: Tensor = self.module(*self.inputs, generator=None)
        return logits
