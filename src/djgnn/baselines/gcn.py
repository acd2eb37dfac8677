"""GCN (Kipf and Welling, 2017), on PyG's layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from djgnn.baselines.base import Baseline
from djgnn.baselines.config import BaselineConfig
from djgnn.baselines.drawing import Linear, without_map
from djgnn.baselines.options import Options as BaseOptions
from djgnn.baselines.options import count, rate
from djgnn.graph import Graph
from djgnn.graph.operator import SparseOperator
from djgnn.model.dropout import relu_dropout
from djgnn.training.inputs import num_features


@dataclass(frozen=True)
class Options(BaseOptions):
    """Options of a GCN.

    Args:
        hidden_channels: Width of the hidden layers.
        num_layers: Number of layers.
        dropout: Before every layer but the first.
        input_dropout: On the features.
    """

    hidden_channels: int = count(64)
    num_layers: int = count(2)
    dropout: float = rate(0.5)
    input_dropout: float = rate(0.0)


class GCN(Baseline):
    r"""Graph convolutions, :math:`H' = \mathrm{ReLU}(\hat D^{-1/2} \hat A \hat D^{-1/2} H W + b)`.

    Thomas N. Kipf, Max Welling: Semi-Supervised Classification with Graph Convolutional Networks.
    ICLR 2017.

    Args:
        channels: Widths from input to output.
        dropout: Before every layer but the first.
        input_dropout: Before the first.

    Shapes:
        x ``[n, F]``, edge_index ``[2, E]``, logits ``[n, classes]``.
    """

    def __init__(
        self, channels: Sequence[int], dropout: float = 0.0, input_dropout: float = 0.0
    ) -> None:
        super().__init__()
        from torch_geometric.nn import GCNConv

        self.dropout, self.input_dropout = dropout, input_dropout
        sizes = list(pairwise(channels))
        self.maps = nn.ModuleList(Linear(a, b, bias=False) for a, b in sizes)
        self.layers = nn.ModuleList(without_map(GCNConv, a, b, cached=True) for a, b in sizes)
        self.reset_parameters()

    def forward(
        self,
        x: Tensor | SparseOperator,
        edge_index: Tensor,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Logits."""
        first, *rest = zip(self.maps, self.layers, strict=True)
        h: Tensor = first[1](first[0](x, self.input_dropout, generator), edge_index)
        for linear, layer in rest:
            h = relu_dropout(h, self.dropout, self.training, generator)
            h = layer(linear(h), edge_index)
        return h


def build(config: BaselineConfig, graph: Graph) -> GCN:
    """A GCN for a graph."""
    o = Options(**config.options)
    hidden = [o.hidden_channels] * (o.num_layers - 1)
    widths = [num_features(graph), *hidden, graph.num_classes]
    return GCN(widths, o.dropout, o.input_dropout)
