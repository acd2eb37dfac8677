"""The labels that a run may learn from and select on; those of the test nodes stay behind."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from djgnn.errors import InputError
from djgnn.graph import Graph, Split

Indices = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class Targets:
    """What a run may learn from (train) and select on (val); the test nodes come without labels.

    Example:
        >>> from djgnn.graph import heterophilic_sbm, random_splits
        >>> graph = random_splits(heterophilic_sbm(160), num_splits=1)
        >>> targets = Targets.of(graph, graph.split(0))
        >>> bool((graph.y[targets.nodes[0]] == targets.labels[0]).all())
        True
    """

    train: Tensor
    train_y: Tensor
    val: Tensor
    val_y: Tensor
    test: Tensor
    metric: str
    class_weight: Tensor | None = None

    @cached_property
    def nodes(self) -> tuple[Indices, Indices, Indices]:
        """Training, validation and test nodes, off the GPU."""
        return self.train.cpu().numpy(), self.val.cpu().numpy(), self.test.cpu().numpy()

    @cached_property
    def labels(self) -> tuple[Indices, Indices]:
        """Labels of training and validation nodes, off the GPU."""
        return self.train_y.cpu().numpy(), self.val_y.cpu().numpy()

    @classmethod
    def of(
        cls,
        graph: Graph,
        split: Split,
        device: torch.device | str = "cpu",
        class_weight: str | Sequence[float] | None = None,
    ) -> Self:
        """Take the labels of one split out of a graph.

        Args:
            graph: The graph.
            split: Which nodes.
            device: Where training happens.
            class_weight: Factor of each class in the loss; ``"balanced"`` makes all classes weigh
                the same together.

        Raises:
            InputError: If there is not one weight per class.
        """
        y = graph.labels
        parts = (np.flatnonzero(mask) for mask in (split.train, split.val, split.test))
        train, val, test = (torch.from_numpy(part).to(device) for part in parts)
        train_y, val_y = (torch.from_numpy(y[m]).to(device) for m in (split.train, split.val))
        weight = _class_weight(class_weight, y[split.train], graph.num_classes)
        factors = None if weight is None else torch.tensor(weight, device=device)
        return cls(train, train_y, val, val_y, test, graph.metric, factors)


def _class_weight(
    given: str | Sequence[float] | None, train_y: np.ndarray[Any, Any], num_classes: int
) -> np.ndarray[Any, np.dtype[np.float32]] | None:
    if given is None:
        return None
    if given == "balanced":
        count = np.bincount(train_y, minlength=num_classes)
        present = max(int((count > 0).sum()), 1)
        return (train_y.size / (present * np.maximum(count, 1))).astype(np.float32)
    weight = np.asarray(given, dtype=np.float32)
    if weight.shape != (num_classes,) or not (np.isfinite(weight) & (weight >= 0)).all():
        raise InputError(
            f"class_weight: must be 'balanced' or one number of zero or more for each of the "
            f"{num_classes} classes (got {given!r})"
        )
    return weight
