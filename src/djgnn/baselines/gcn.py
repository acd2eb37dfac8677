"""GCN (Kipf and Welling, 2017), on PyG's layer."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from djgnn.baselines.config import BaselineConfig
from djgnn.graph import Graph
from djgnn.model.branches import glorot
from djgnn.model.dropout import relu_dropout
from djgnn.training.inputs import num_features


class GCN(nn.Module):
    r"""Graph convolutions, :math:`H' = \mathrm{ReLU}(\hat D^{-1/2} \hat A \hat D^{-1/2} H W + b)`.

    Args:
        channels: Widths from input to output.
        dropout: Before every layer but the first.

    Shapes:
        x ``[n, F]``, edge_index ``[2, E]``, logits ``[n, classes]``.
    """

    sparse_features = False

    def __init__(self, channels: list[int], dropout: float = 0.0) -> None:
        super().__init__()
        from torch_geometric.nn import GCNConv

        self.dropout = dropout
        self.layers = nn.ModuleList(GCNConv(a, b, cached=True) for a, b in pairwise(channels))

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Glorot; biases zero; PyG's cached normalisation forgotten."""
        layer: Any
        for layer in self.layers:
            layer.reset_parameters()
            glorot(layer.lin.weight, layer.in_channels, layer.out_channels, generator)
            nn.init.zeros_(layer.bias)

    def forward(
        self, x: Tensor, edge_index: Tensor, generator: torch.Generator | None = None
    ) -> Tensor:
        """Logits."""
        first, *rest = self.layers
        h: Tensor = first(x, edge_index)
        for layer in rest:
            h = layer(relu_dropout(h, self.dropout, self.training, generator), edge_index)
        return h


def build(config: BaselineConfig, graph: Graph) -> GCN:
    """A GCN for a graph."""
    hidden = [config.hidden_channels] * (config.num_layers - 1)
    return GCN([num_features(graph), *hidden, graph.num_classes], config.dropout)
