r"""Mini-batches: an epoch sees every node once, in memory that depends on the size of a batch.

With C batches :math:`B_c` that part the nodes, the loss of a batch is

.. math::
    L_c = C \sum_{i \in B_c \cap T} \frac{w_i}{\sum_T w}\, \ell_i + \lambda P, \qquad
    \nabla P \approx C \sum_{i \in B_c} \Bigl(\frac{\partial P}{\partial U_i}\Bigr)^\top \nabla u_i

for the training nodes T, their cross-entropies and the pump loss P of all nodes. The derivative of
P at every position is a table of n x p numbers, so rows of A are enough for a batch. At equal
weights the mean of the losses of an epoch is the loss of all nodes, and so is that of its
gradients, exactly. So an epoch ends with one step along that mean, which is the step of all nodes;
with ``step_per_batch`` every batch makes a step of its own instead.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from djgnn.model import DJGNN
from djgnn.model.batches import BatchedDJGNN, Tables
from djgnn.model.outputs import Encoding
from djgnn.training.config import TrainConfig

if TYPE_CHECKING:
    from djgnn.training.loop import Targets


@dataclass(frozen=True, eq=False)
class Batch:
    """Nodes of one step.

    Shapes:
        places ``[t]`` (of its training nodes in the list of all training nodes), nodes ``[b]``
        (all of its nodes).
    """

    places: Tensor
    nodes: Tensor


class BatchPasses:
    """A DJ-GNN's passes in batches.

    The tables (U, ranks, derivative of the pump loss) are made anew for every evaluation, and after
    `refresh_every` steps: with 1 a batch's gradient is an unbiased estimate of that of all nodes,
    with more the ranks and the pump's derivative lag behind.

    Args:
        module: The model.
        inputs: x and operators.
        train: Indices of the training nodes.
        batch_size: Most nodes of a batch.
    """

    def __init__(
        self, module: DJGNN, inputs: tuple[Any, Any], train: Tensor, batch_size: int
    ) -> None:
        self.module, self.batch_size = module, batch_size
        self.batched = BatchedDJGNN(module, *inputs)
        self.train = train
        other = torch.ones(module.num_nodes, dtype=torch.bool, device=train.device)
        other[train] = False
        self.other = other.nonzero().squeeze(1)
        self.count = -(-module.num_nodes // batch_size)
        self._tables: Tables | None = None
        self._age = 0  # steps since the tables were made

    def rate(self, config: TrainConfig) -> float:
        """The learning rate of a step; that of a step per batch is smaller by the root of C.

        Adam makes steps of equal length whatever the size of the gradient, so the noise of C
        steps adds up to the root of C (Malladi et al., NeurIPS 2022).
        """
        return config.lr / math.sqrt(self.count) if config.step_per_batch else config.lr

    def batches(self, generator: torch.Generator | None = None) -> list[Batch]:
        """Part the nodes at random; every batch gets its share of the training nodes."""
        places, others = (
            torch.randperm(part.numel(), generator=generator, device=part.device)
            for part in (self.train, self.other)
        )
        found = []
        for c in range(self.count):
            mine = places[c :: self.count]
            rest = self.other[others[(c - places.numel()) % self.count :: self.count]]
            found.append(Batch(mine, torch.cat([self.train[mine], rest])))
        return found

    def refresh(self) -> Tables:
        """Tables of the current weights."""
        self._tables, self._age = self.batched.tables(), 0
        return self._tables

    def losses(
        self,
        batch: Batch,
        tables: Tables,
        targets: Targets,
        config: TrainConfig,
        generator: torch.Generator | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Loss of a batch, and the pump loss that is in it."""
        self.module.train()
        loss = pump_loss = tables.pump_loss
        if self.module.pump.weight.requires_grad:
            pull = tables.pull.index_select(0, batch.nodes)
            moved = self.count * (self.batched.positions(batch.nodes) * pull).sum()
            loss = pump_loss + (moved - moved.detach())  # its value, the batch's gradient
        loss = config.pump_weight * loss
        if batch.places.numel():
            y, weight = targets.train_y[batch.places], targets.class_weight
            logits = self.batched.logits(targets.train[batch.places], tables, generator)
            total = targets.train.numel() if weight is None else weight[targets.train_y].sum()
            summed = F.cross_entropy(logits, y, weight, reduction="sum")
            loss = loss + self.count / total * summed
        return loss, pump_loss

    def evaluate(self) -> Tensor:
        """Logits of all nodes, without dropout or gradients."""
        held = self._tables
        tables = self.refresh() if held is None or self._age else held
        return self.batched.evaluate(tables, self.batch_size)

    def tables(self) -> Tables:
        """The tables for the next batch, made anew where they are due."""
        held, every = self._tables, self.module.config.refresh_every
        return self.refresh() if held is None or self._age >= every else held

    def stepped(self) -> None:
        """The optimiser moved the weights; a frozen pump stays, and so do the tables."""
        self._age += self.module.pump.weight.requires_grad

    @property
    def encoding(self) -> Encoding | None:
        """U and the filters of the last evaluation."""
        return None if self._tables is None else self.batched.encoding(self._tables)


def epoch(
    passes: BatchPasses,
    targets: Targets,
    config: TrainConfig,
    optimizer: torch.optim.Optimizer,
    generator: torch.Generator | None = None,
) -> tuple[Tensor, Tensor]:
    """One step along the mean of the batches, or one per batch; the means of both losses."""
    means, batches = [], passes.batches(generator)
    span = 1 if config.step_per_batch else len(batches)
    for place, batch in enumerate(batches, start=1):
        loss, pump_loss = passes.losses(batch, passes.tables(), targets, config, generator)
        if loss.requires_grad:
            (loss / span).backward()  # type: ignore[no-untyped-call]
        if place % span == 0:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            passes.stepped()
        means.append(torch.stack([loss.detach(), pump_loss]))
    loss, pump_loss = torch.stack(means).mean(dim=0)
    return loss, pump_loss
