"""LINKX (Lim et al., 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import scipy.sparse as sp
import torch
from torch import Tensor, nn

from djgnn.baselines.base import Baseline, operator
from djgnn.baselines.config import BaselineConfig
from djgnn.baselines.drawing import Linear, drop
from djgnn.baselines.options import Options as BaseOptions
from djgnn.baselines.options import count, rate
from djgnn.graph import Graph
from djgnn.graph.operator import SparseOperator
from djgnn.training.inputs import num_features

TRAINING = {"epochs": 500, "weight_decay": 1e-3, "patience": None}


@dataclass(frozen=True)
class Options(BaseOptions):
    """Options of a LINKX.

    Args:
        hidden_channels: Width of all layers.
        num_layers: Layers of the last perceptron.
        adjacency_layers: Layers of the adjacency's perceptron.
        feature_layers: Layers of the features' perceptron.
        dropout: In the last perceptron.
        structure: Whether there is an adjacency part at all.
    """

    hidden_channels: int = count(64)
    num_layers: int = count(2)
    adjacency_layers: int = count(1)
    feature_layers: int = count(1)
    dropout: float = rate(0.5)
    structure: bool = True


class Perceptron(nn.Module):
    """A perceptron with ReLU, batch normalisation and dropout between its layers.

    Shapes:
        x ``[n, in_channels]``, result ``[n, out_channels]``.
    """

    def __init__(
        self, in_channels: int, hidden: int, out_channels: int, num_layers: int, dropout: float
    ) -> None:
        super().__init__()
        widths = [in_channels, *[hidden] * (num_layers - 1), out_channels]
        self.dropout = dropout
        self.layers = nn.ModuleList(Linear(a, b, init="fan_in") for a, b in pairwise(widths))
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for width in widths[1:-1])

    def forward(self, x: Any, generator: torch.Generator | None = None) -> Tensor:
        """Apply it."""
        first, *rest = self.layers
        h: Tensor = first(x)
        for norm, layer in zip(self.norms, rest, strict=True):
            h = layer(drop(norm(h.relu()), self.dropout, self.training, generator))
        return h


class LINKX(Baseline):
    r"""Rows of the adjacency and features, apart and then together,

    .. math::
        h_A = \mathrm{MLP}_A(A), \quad h_X = \mathrm{MLP}_X(X), \quad
        Y = \mathrm{MLP}_f(\mathrm{ReLU}(W [h_A \Vert h_X] + h_A + h_X)).

    Derek Lim, Felix Hohne, Xiuyu Li, Sijia Linda Huang, Vaishnavi Gupta, Omkar Bhalerao, Ser-Nam
    Lim: Large Scale Learning on Non-Homophilous Graphs. NeurIPS 2021. Trained with AdamW.

    Args:
        num_nodes: Number of nodes; the first layer of MLP_A has a row for each.
        in_channels: Number of features.
        out_channels: Number of classes.
        options: Widths and depths.

    Shapes:
        x ``[n, F]``, edge_index ``[2, E]``, logits ``[n, classes]``.
    """

    node_parameters = ("edges.layers.0.weight",)

    def __init__(
        self, num_nodes: int, in_channels: int, out_channels: int, options: Options
    ) -> None:
        super().__init__()
        o, wide = options, options.hidden_channels
        self.structure = o.structure
        if o.structure:
            self.edges = Perceptron(num_nodes, wide, wide, o.adjacency_layers, 0.0)
            self.join = Linear(2 * wide, wide, init="fan_in")
        self.nodes = Perceptron(in_channels, wide, wide, o.feature_layers, 0.0)
        self.head = Perceptron(wide, wide, out_channels, o.num_layers, o.dropout)
        self.reset_parameters()

    def prepare(self, adjacency: sp.csr_array, like: Tensor | SparseOperator) -> SparseOperator:
        """The adjacency itself."""
        return operator(adjacency, like)

    def parameter_groups(
        self, weight_decay: float, structure_weight_decay: float
    ) -> list[dict[str, Any]]:
        """All weights, decayed apart from the gradient as AdamW does."""
        parts = list(self.parameters())
        return [{"params": parts, "weight_decay": weight_decay, "decoupled_weight_decay": True}]

    def forward(
        self,
        x: Tensor | SparseOperator,
        edge_index: Tensor,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Logits."""
        h: Tensor = self.nodes(x)
        if self.structure:
            rows = self.edges(self.constants(x, edge_index))
            h = self.join(torch.cat([rows, h], dim=1)) + rows + h
        logits: Tensor = self.head(h.relu(), generator)
        return logits


def build(config: BaselineConfig, graph: Graph) -> LINKX:
    """A LINKX for a graph."""
    o = Options(**config.options)
    return LINKX(graph.num_nodes, num_features(graph), graph.num_classes, o)
