"""What a mixture is compared with and does not have itself: boosted trees that see no edge."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from djgnn.graph import Graph
from djgnn.model import DJExperts
from djgnn.model.experts import kind_of, member
from djgnn.model.trees import FeatureTrees
from djgnn.training.config import TrainConfig
from djgnn.training.decoupled import prepare
from djgnn.training.expert import rates_of
from djgnn.training.inputs import seeded
from djgnn.training.loop import Fitted, fit
from djgnn.training.targets import Targets

LEAST_WEIGHT = 0.1
"""Of boosting in the mixture: with less than that its trees are not what is ahead."""


def feature_trees(
    module: DJExperts,
    inputs: tuple[Any, Any],
    graph: Graph,
    folds: Sequence[Targets],
    fitted: Fitted,
    config: TrainConfig,
    seed: int,
) -> Tensor | None:
    """Logits of boosted trees on features alone, where boosting has weight in the mixture.

    Without them trees that find in the features what a perceptron misses would count for the graph.
    As with the mixture, nodes of a fold are answered by trees that did not learn from them.

    Args:
        module: The mixture.
        inputs: What it was trained on.
        graph: The graph; without edges or features there is nothing to compare.
        folds: Labels, of every fold.
        fitted: What became of it.
        config: How to train.
        seed: Of the trees.

    Returns:
        ``[n, classes]``, of several folds NaN where a node is in none; ``None`` without need.
    """
    weight = sum(each.weight for each in fitted.experts if kind_of(each.name) == "boosting")
    if weight < LEAST_WEIGHT or fitted.interrupted:
        return None
    x, whole = module.inputs_of(member("boosting", 0, module.folds), inputs)
    if not whole.shared(lambda: bool(graph.num_features and graph.num_edges)):
        return None
    device, found = fitted.logits.device, torch.full_like(fitted.logits, torch.nan)
    for targets in folds:
        trees = FeatureTrees(module.in_channels, found.shape[1], found.shape[0]).to(device)
        prepare(trees, (x, whole), config, seed)
        rates = rates_of(trees, config, targets.train.numel())
        answer = fit(trees, (x, whole), targets, rates, seeded(seed, device))
        if module.folds == 1:
            return answer.logits
        found[targets.val] = answer.held
    return found
