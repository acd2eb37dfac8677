"""GraphSAGE (Hamilton, Ying and Leskovec, 2017) with mean aggregation, full batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import scipy.sparse as sp
import torch
from torch import Tensor, nn

from djgnn.baselines.base import Baseline, operator, row_scale
from djgnn.baselines.config import BaselineConfig
from djgnn.baselines.drawing import Linear
from djgnn.baselines.options import Options as BaseOptions
from djgnn.baselines.options import count, rate
from djgnn.graph import Graph
from djgnn.graph.operator import SparseOperator
from djgnn.model.dropout import relu_dropout
from djgnn.training.inputs import num_features


@dataclass(frozen=True)
class Options(BaseOptions):
    """Options of a GraphSAGE.

    Args:
        hidden_channels: Width of the hidden layers.
        num_layers: Number of layers.
        dropout: Before every layer but the first.
    """

    hidden_channels: int = count(64)
    num_layers: int = count(2)
    dropout: float = rate(0.5)


class SAGELayer(nn.Module):
    r"""One layer, :math:`H_i W_r + \mathrm{mean}_{j \in N(i)} H_j W_n + b`.

    It equals PyG's ``SAGEConv``, which would copy all features of every edge's speaker; here the
    features are narrowed first.

    Shapes:
        h ``[n, in_channels]``, result ``[n, out_channels]``.
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.own = Linear(in_channels, out_channels, bias=False, init="fan_in")
        self.near = Linear(in_channels, out_channels, init="fan_in")

    def forward(self, h: Any, mean: SparseOperator) -> Tensor:
        """One layer; `mean` averages over those a node hears."""
        narrow = mean @ (h @ self.near.weight)
        result: Tensor = self.own(h) + narrow + self.near.bias
        return result


class GraphSAGE(Baseline):
    """Mean aggregation (:class:`SAGELayer`) with ReLU between the layers.

    William L. Hamilton, Rex Ying, Jure Leskovec: Inductive Representation Learning on Large Graphs.
    NeurIPS 2017.

    Args:
        channels: Widths from input to output.
        dropout: Before every layer but the first.

    Shapes:
        x ``[n, F]``, edge_index ``[2, E]``, logits ``[n, classes]``.
    """

    def __init__(self, channels: Sequence[int], dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = dropout
        self.layers = nn.ModuleList(SAGELayer(a, b) for a, b in pairwise(channels))
        self.reset_parameters()

    def prepare(self, adjacency: sp.csr_array, like: Tensor | SparseOperator) -> SparseOperator:
        """The average over those a node hears."""
        return operator(row_scale(adjacency), like)

    def forward(
        self,
        x: Tensor | SparseOperator,
        edge_index: Tensor,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Logits."""
        mean = self.constants(x, edge_index)
        first, *rest = self.layers
        h: Tensor = first(x, mean)
        for layer in rest:
            h = layer(relu_dropout(h, self.dropout, self.training, generator), mean)
        return h


def build(config: BaselineConfig, graph: Graph) -> GraphSAGE:
    """A GraphSAGE for a graph."""
    o = Options(**config.options)
    hidden = [o.hidden_channels] * (o.num_layers - 1)
    return GraphSAGE([num_features(graph), *hidden, graph.num_classes], o.dropout)
