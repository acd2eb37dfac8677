"""Two branches as somebody would add them, see the recipe in docs/architecture.md."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from djgnn.model.branches import Branch
from djgnn.model.dropout import relu_dropout


class _OneLayer(Branch):
    def __init__(self, in_channels: int, hidden_channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(in_channels, hidden_channels))
        self.bias = nn.Parameter(torch.zeros(hidden_channels))

    @classmethod
    def build(cls, config: Any, in_channels: int, num_nodes: int) -> Branch:
        return cls(in_channels, config.hidden_channels)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        nn.init.normal_(self.weight, generator=generator)
        nn.init.zeros_(self.bias)


class SmoothedBranch(_OneLayer):
    """One hop of the features, ReLU(A X W + b)."""

    name = "smoothed"

    def encode(self, view: Any) -> Tensor:
        return view.hop(self.weight, self.bias)

    def forward(self, encoding: Any, view: Any, generator: Any = None) -> Tensor:
        h = view.hop_rows(encoding.parts[self.name])
        return relu_dropout(h, 0.0, self.training, generator, view.windows[1])

    def matrix(self, operators: Any) -> Any:
        return operators.homophilic


class FeatureBranch(_OneLayer):
    """The features of the node alone, ReLU(X W + b)."""

    name = "alone"

    def encode(self, view: Any) -> Tensor:
        return view.features @ self.weight

    def forward(self, encoding: Any, view: Any, generator: Any = None) -> Tensor:
        h = view.own_rows(encoding.parts[self.name]).add_(self.bias)
        return relu_dropout(h, 0.0, self.training, generator, view.windows[1])


OWN = [SmoothedBranch, FeatureBranch]
