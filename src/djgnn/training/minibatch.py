r"""Mini-batches: an epoch sees every node once, in memory that depends on the size of a batch.

With C batches :math:`B_c` that part the nodes, the loss of a batch is

.. math::
    L_c = C \sum_{i \in B_c \cap T} \frac{w_i}{\sum_T w}\, \ell_i + \lambda P, \qquad
    \nabla P \approx C \sum_{i \in B_c} \Bigl(\frac{\partial P}{\partial U_i}\Bigr)^\top \nabla u_i

for the training nodes T, their cross-entropies and the pump loss P of all nodes. The derivative of
P at every position is a table of n x p numbers, so rows of A are enough for a batch. At equal
weights the mean of the losses of an epoch is the loss of all nodes, and so is that of its
gradients, exactly. So an epoch ends with one step along that mean, which is the step of all nodes.
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from djgnn.model import DJGNN
from djgnn.model.batches import BatchedDJGNN, Tables
from djgnn.model.views import Encoding
from djgnn.training.config import TrainConfig
from djgnn.training.optimizer import Adam
from djgnn.training.targets import Targets


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

    The tables (U, ranks, gradient of the pump loss) are made for every evaluation and serve the
    update after it.

    Args:
        module: The model.
        inputs: x and operators.
        targets: Training nodes and their labels.
        config: Most nodes of a batch, and the weight of the pump loss.
    """

    def __init__(
        self, module: DJGNN, inputs: tuple[Any, Any], targets: Targets, config: TrainConfig
    ) -> None:
        self.module, self.targets, self.config = module, targets, config
        self.batched = BatchedDJGNN(module, *inputs)
        self.batch_size = config.batch_size or module.num_nodes
        other = torch.ones(module.num_nodes, dtype=torch.bool, device=targets.train.device)
        other[targets.train] = False
        self.other = other.nonzero().squeeze(1)
        self.count = -(-module.num_nodes // self.batch_size)
        self._tables: Tables | None = None

    def batches(self, generator: Generator | None = None) -> list[Batch]:
        """Partition the nodes at random; every batch gets its share of the training nodes."""
        places, others = (
            torch.randperm(part.numel(), generator=generator, device=part.device)
            for part in (self.targets.train, self.other)
        )
        found = []
        for c in range(self.count):
            mine = places[c :: self.count]
            rest = self.other[others[(c - places.numel()) % self.count :: self.count]]
            found.append(Batch(mine, torch.cat([self.targets.train[mine], rest])))
        return found

    def tables(self) -> Tables:
        """Tables of the current weights."""
        if self._tables is None:
            self._tables = self.batched.tables()
        return self._tables

    def losses(self, batch: Batch, generator: Generator | None = None) -> tuple[Tensor, Tensor]:
        """Loss of a batch, and the pump loss that is in it."""
        self.module.train()
        tables, targets = self.tables(), self.targets
        loss = pump_loss = tables.pump.loss
        if self.batched.pump.weight.requires_grad:
            gradient = tables.gradient.index_select(0, batch.nodes)
            moved = self.count * (self.batched.positions(batch.nodes) * gradient).sum()
            loss = pump_loss + (moved - moved.detach())  # its value, the batch's gradient
        loss = self.config.pump_weight * loss
        if batch.places.numel():
            y, weight = targets.train_y[batch.places], targets.class_weight
            logits = self.batched.logits(targets.train[batch.places], tables, generator)
            total = targets.train.numel() if weight is None else weight[targets.train_y].sum()
            smooth = self.config.label_smoothing or 0.0
            summed = F.cross_entropy(logits, y, weight, reduction="sum", label_smoothing=smooth)
            loss = loss + self.count / total * summed
        return loss, pump_loss

    def update(self, optimizer: Adam, generator: Generator | None) -> tuple[Tensor, Tensor]:
        """One step along the mean gradient of all batches; the means of both losses."""
        means, batches = [], self.batches(generator)
        for batch in batches:
            loss, pump_loss = self.losses(batch, generator)
            if loss.requires_grad:
                (loss / len(batches)).backward()  # type: ignore[no-untyped-call]
            means.append(torch.stack([loss.detach(), pump_loss]))
        optimizer.step()
        optimizer.zero_grad()
        if self.batched.pump.weight.requires_grad:  # a frozen pump moves no node
            self._tables = None
        loss, pump_loss = torch.stack(means).mean(dim=0)
        return loss, pump_loss

    def evaluate(self) -> Tensor:
        """Logits of all nodes, without dropout or gradients."""
        return self.batched.evaluate(self.tables(), self.batch_size)

    def added(self, nodes: Tensor) -> Tensor:
        """See :meth:`djgnn.training.passes.ViewPasses.added`; batch by batch."""
        return torch.cat([*self.batched.added(nodes, self.tables(), self.batch_size)])

    @property
    def encoding(self) -> Encoding | None:
        """U and the filters of the last evaluation."""
        return None if self._tables is None else self.batched.encoding(self._tables)
