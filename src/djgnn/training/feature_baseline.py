"""What a mixture is compared with and does not have itself: boosted trees that see no edge."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from djgnn.graph import Graph
from djgnn.model import DJExperts
from djgnn.model.experts import kind_of, member
from djgnn.model.trees import FeatureTrees
from djgnn.training.config import TrainConfig
from djgnn.training.decoupled import prepare
from djgnn.training.expert_training import rates_of
from djgnn.training.inputs import seeded
from djgnn.training.loop import Fitted, fit
from djgnn.training.progress import Hooks
from djgnn.training.targets import Targets

LEAST_WEIGHT = 0.1
"""Of boosting in the mixture: with less than that its trees are not what is ahead."""


@dataclass(eq=False)
class FeatureReference:
    """Boosted trees on features alone, for a mixture in which boosting has weight.

    Without them trees that find in the features what a perceptron misses would count for the graph.
    As with the mixture, nodes of a fold are answered by trees that did not learn from them.

    Args:
        module: The mixture.
        inputs: What it is trained on.
        graph: The graph; without edges or features there is nothing to compare.
        folds: Labels, of every fold.
        config: How to train.
        seed: Of the trees.
    """

    module: DJExperts
    inputs: tuple[Any, Any]
    graph: Graph
    folds: Sequence[Targets]
    config: TrainConfig
    seed: int
    _known: Tensor | None = None

    def train(self, stop: Callable[[], bool] | None = None) -> None:
        """Train the trees, if the mixture has boosting; ahead of time it may be for nothing."""
        name = member("boosting", 0, self.module.folds)
        if self._known is not None or name not in self.module.names:
            return
        x, whole = self.module.inputs_of(name, self.inputs)
        if not whole.shared(lambda: bool(self.graph.num_features and self.graph.num_edges)):
            return
        device, hooks = self.folds[0].train.device, Hooks(stop=stop)
        classes, nodes = self.module.out_channels, self.graph.num_nodes
        sizes, found = (self.module.in_channels, classes, nodes), None
        for targets in self.folds:
            trees = FeatureTrees(*sizes).to(device)
            prepare(trees, (x, whole), self.config, self.seed)
            rates = rates_of(trees, self.config, targets.train.numel())
            own = (targets, rates, seeded(self.seed, device), hooks)
            answer = fit(trees, (x, whole), *own)
            if answer.interrupted:
                return
            if self.module.folds == 1:
                found = answer.logits
                break
            if found is None:
                found = torch.full((nodes, classes), torch.nan, device=device)
            found[targets.val] = answer.held
        self._known = found

    def logits(self, fitted: Fitted) -> Tensor | None:
        """Of all nodes, trained by now or now.

        Returns:
            ``[n, classes]``, of several folds NaN where a node is in none; ``None`` without need.
        """
        weight = sum(each.weight for each in fitted.experts if kind_of(each.name) == "boosting")
        if weight < LEAST_WEIGHT or fitted.interrupted:
            return None
        self.train()
        return self._known
