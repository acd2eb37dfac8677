"""The two kinds of pass of an epoch: with gradients on the training nodes, without on all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from djgnn.errors import InputError
from djgnn.jumps import JumpHierarchy
from djgnn.jumps.ranks import check_finite
from djgnn.model import DJGNN
from djgnn.model.outputs import Encoding
from djgnn.training.distributed import ShardedPasses, ShardOperators, whole_encoding
from djgnn.training.graphed import Captured, can_be_captured
from djgnn.training.minibatch import BatchPasses


class Passes(Protocol):
    """What the training loop asks of a model."""

    def train(self, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
        """Logits of the training nodes, with dropout, and a further loss."""

    def evaluate(self) -> Tensor:
        """Logits of all nodes, without dropout or gradients."""

    def reduce(self) -> None:
        """Sum the gradients of all processes that have a part in them."""


def two_phase(
    module: nn.Module, inputs: tuple[Any, Any], train: Tensor, batch_size: int | None = None
) -> Passes | BatchPasses:
    """The cheapest passes for a module.

    Args:
        module: Any model of the training loop.
        inputs: x and structure.
        train: Indices of the training nodes.
        batch_size: Nodes of a mini-batch; ``None``, or as many as there are: no batches.

    Raises:
        InputError: If batches are asked of a model that has none.
    """
    if batch_size is not None and not isinstance(module, DJGNN):
        raise InputError(
            "batch_size: only the DJ-GNN is trained in mini-batches; leave it away for "
            f"{type(module).__name__} (got {batch_size})"
        )
    if isinstance(module, DJGNN):
        if isinstance(inputs[1], ShardOperators):
            if batch_size is not None:
                raise InputError(
                    "batch_size: several processes share out the rows already; leave it away, or "
                    f"start one process (got {batch_size})"
                )
            return ShardedPasses(module, inputs, train)
        if batch_size is not None and batch_size < module.num_nodes:
            return BatchPasses(module, inputs, train, batch_size)
        if can_be_captured(module, inputs[1]):
            return _CapturedPasses(module, inputs, train)
        return _SharedPasses(module, inputs, train)
    if train.is_cuda and getattr(module, "capturable", False):
        return _CapturedPlainPasses(module, inputs, train)
    return _PlainPasses(module, inputs, train)


@torch.no_grad()
def encode_all(module: DJGNN, inputs: tuple[Any, Any]) -> Encoding:
    """Positions and filters of all nodes, however they are shared out; without gradients."""
    if isinstance(inputs[1], ShardOperators):
        return whole_encoding(module, inputs)
    return module.encode(*inputs)


class _Captures:
    """Steps of the optimiser that are captured and replayed."""

    _steps: Captured | None = None

    def repeat(
        self,
        run: Callable[[], tuple[Tensor, Tensor]],
        optimizer: torch.optim.Optimizer,
        generator: torch.Generator | None,
    ) -> tuple[Tensor, Tensor]:
        """One step of the optimiser, as `run` does it."""
        if self._steps is None or self._steps.optimizer is not optimizer:
            self._steps = Captured(generator, optimizer)
        self.before_step()
        loss, pump_loss = self._steps(run)
        return loss, pump_loss

    def before_step(self) -> None:
        """What a step needs that is no part of it."""


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

    def reduce(self) -> None:
        """One process has it all."""


class _CapturedPasses(_Captures, _SharedPasses):
    """A DJ-GNN's passes over a small graph on a GPU, each one launch.

    A step takes the rank lists of the evaluation before it, which saw the same U, from a place
    that both graphs know. The rest of the first half is done twice: sharing it would cost more.
    """

    def __init__(self, module: DJGNN, inputs: tuple[Any, Any], train: Tensor) -> None:
        super().__init__(module, inputs, train)
        self._evaluation, self._ranking = Captured(), Captured()
        m = self.operators.twins.num_classes
        self._ranks = self.rows.index.new_empty(m, module.num_ranks)
        self._ranked: tuple[int, ...] | None = None

    def before_step(self) -> None:
        """Rank lists, where no evaluation has left any since the last step, or weights were set."""
        if self._ranked != self._weights():
            self._keep(*self._ranking(self._rank))
        self._ranked = None

    def train(self, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
        self.module.train()
        lists = JumpHierarchy(self._ranks, self.operators.twins)
        encoding = self.module.encode(self.x, self.operators, lists)
        return self.module.decode(encoding, self.rows, generator), encoding.pump_loss

    def evaluate(self) -> Tensor:
        logits, u, ranks = self._evaluation(self._evaluate)
        check_finite(u)
        self._keep(u, ranks)
        return logits.clone()

    def _keep(self, u: Tensor, ranks: Tensor) -> None:
        """Leave rank lists to the step that comes next."""
        self._ranks.copy_(ranks)
        self._ranked = self._weights()

    @torch.no_grad()
    def _evaluate(self) -> tuple[Tensor, Tensor, Tensor]:
        self.module.eval()
        # Replays write into the tensors of the encoding that was captured: it is always the last.
        self.encoding = encoding = self.module.encode(self.x, self.operators)
        logits = self.module.decode(encoding, self.operators)
        index = encoding.table.index[self.operators.twins.representative]
        return logits, encoding.pump.u, index

    @torch.no_grad()
    def _rank(self) -> tuple[Tensor, Tensor]:
        u = self.module.pump(self.operators.adjacency, self.operators.degree).u
        return u, self.module.ranks(u, self.operators).ranks

    def _weights(self) -> tuple[int, ...]:
        """Changes with the weights of the pump, but for the steps of a CUDA graph."""
        return tuple(weight._version for weight in self.module.pump.parameters())


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

    def reduce(self) -> None:
        """One process has it all."""


class _CapturedPlainPasses(_Captures, _PlainPasses):
    """Two whole passes on a GPU, each one launch."""

    def __init__(self, module: nn.Module, inputs: tuple[Any, Any], train: Tensor) -> None:
        super().__init__(module, inputs, train)
        self._evaluation = Captured()

    def evaluate(self) -> Tensor:
        return self._evaluation(lambda: (super(_CapturedPlainPasses, self).evaluate(),))[0].clone()
