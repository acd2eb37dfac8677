"""MLP: features alone, no graph."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from djgnn.baselines.config import BaselineConfig
from djgnn.graph import Graph
from djgnn.graph.operator import SparseOperator
from djgnn.model.branches import glorot
from djgnn.model.dropout import relu_dropout
from djgnn.training.inputs import num_features


class MLP(nn.Module):
    r"""A multi-layer perceptron on the features, :math:`H' = \mathrm{ReLU}(H W + b)`.

    Args:
        channels: Widths from input to output.
        dropout: Before every layer but the first.

    Shapes:
        x ``[n, F]``, logits ``[n, classes]``; the graph is ignored.
    """

    sparse_features = True

    def __init__(self, channels: list[int], dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = dropout
        self.weights = nn.ParameterList(torch.empty(a, b) for a, b in pairwise(channels))
        self.biases = nn.ParameterList(torch.empty(b) for b in channels[1:])
        self.reset_parameters()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Glorot; biases zero."""
        for weight, bias in zip(self.weights, self.biases, strict=True):
            glorot(weight, weight.shape[0], weight.shape[1], generator)
            nn.init.zeros_(bias)

    def forward(
        self,
        x: Tensor | SparseOperator,
        edge_index: Any = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Logits."""
        h: Tensor = x @ self.weights[0] + self.biases[0]
        for weight, bias in zip(self.weights[1:], self.biases[1:], strict=True):
            h = relu_dropout(h, self.dropout, self.training, generator) @ weight + bias
        return h


def build(config: BaselineConfig, graph: Graph) -> MLP:
    """An MLP for a graph."""
    hidden = [config.hidden_channels] * (config.num_layers - 1)
    return MLP([num_features(graph), *hidden, graph.num_classes], config.dropout)
