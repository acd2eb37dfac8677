"""Passes of plain experts: an update learns from the labels of the training nodes, and no others.

Of several processes the first one does the work, has the expert, and gives the others its logits.
"""

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from djgnn.model.node_statistics import Floats
from djgnn.model.operators import WholeGraph, at_once
from djgnn.model.table_experts import PlainExpert
from djgnn.training.optimizer import Adam
from djgnn.training.targets import Targets


class StepPasses:
    """An epoch is a step of :meth:`PlainExpert.steps`; the optimiser has nothing to do.

    Args:
        module: The expert.
        inputs: Features and the whole graph.
        targets: Training nodes and their labels.
    """

    encoding = None

    def __init__(
        self, module: PlainExpert, inputs: tuple[Any, WholeGraph], targets: Targets
    ) -> None:
        self.module, self.targets = module, targets
        self.x, self.graph = inputs
        self._steps: Iterator[Floats | Tensor] | None = None
        self._logits = torch.empty(0)

    def update(self, optimizer: Adam, generator: Generator | None) -> tuple[Tensor, Tensor]:
        """The next step."""
        targets = self.targets
        seed = 0 if generator is None else generator.initial_seed()
        if self.graph.shared is at_once:
            self._logits = self._next(seed)
        else:
            logits: Tensor = self.graph.shared(lambda: self._next(seed).cpu())
            self._logits = logits.to(targets.train.device)
        loss = F.cross_entropy(self._logits[targets.train], targets.train_y, targets.class_weight)
        return loss, torch.zeros_like(loss)

    @torch.no_grad()
    def _next(self, seed: int) -> Tensor:
        """The logits after another step; after the last one they stay."""
        module, targets = self.module, self.targets
        if self._steps is None:
            module.learn(targets.train, targets.train_y, targets.class_weight)
            self._steps = module.steps(*module.whole(self.x, self.graph), seed)
        found = next(self._steps, None)
        return self._logits if found is None else module.logits(found)

    def evaluate(self) -> Tensor:
        """Logits of all nodes."""
        return self._logits
