"""LINKX (Lim et al., 2021)."""

from dataclasses import dataclass
from typing import Any, ClassVar, cast

import torch
from torch import Generator, Tensor, nn

from djgnn.baselines.base import Baseline, Linear, Matrix, Options, layer_sizes
from djgnn.checking import Count, Rate
from djgnn.model.dropout import drop


@dataclass(frozen=True)
class LINKXOptions(Options):
    """Options of a LINKX."""

    hidden_channels: Count = 64  #: Width of all layers.
    num_layers: Count = 2  #: Layers of the last perceptron.
    adjacency_layers: Count = 1  #: Layers of the adjacency's perceptron.
    feature_layers: Count = 1  #: Layers of the features' perceptron.
    dropout: Rate = 0.5  #: In the last perceptron.
    structure: bool = True  #: Whether there is an adjacency part at all.


class Perceptron(nn.Module):
    """A perceptron with ReLU, batch normalisation and dropout between its layers.

    Shapes:
        x ``[n, in_channels]``, result ``[n, out_channels]``.
    """

    def __init__(
        self, in_channels: int, hidden: int, out_channels: int, num_layers: int, dropout: float
    ) -> None:
        super().__init__()
        self.dropout = dropout
        sizes = layer_sizes(in_channels, hidden, out_channels, num_layers)
        self.layers = nn.ModuleList(Linear(a, b, init="fan_in") for a, b in sizes)
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for _, width in sizes[:-1])

    def forward(self, x: Matrix, generator: Generator | None = None) -> Tensor:
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

    The first layer of :math:`\mathrm{MLP}_A` has a row for each node.

    Derek Lim, Felix Hohne, Xiuyu Li, Sijia Linda Huang, Vaishnavi Gupta, Omkar Bhalerao, Ser-Nam
    Lim: Large Scale Learning on Non-Homophilous Graphs. NeurIPS 2021. Trained with AdamW.
    """

    options: LINKXOptions
    training_defaults: ClassVar = {"epochs": 500, "weight_decay": 1e-3, "patience": None}
    loops, scaling = "given", "none"
    node_parameters = ("edges.layers.0.weight",)

    def _make_layers(self, in_channels: int, out_channels: int) -> None:
        o, wide = self.options, self.options.hidden_channels
        if o.structure:
            self.edges = Perceptron(self.num_nodes, wide, wide, o.adjacency_layers, 0.0)
            self.join = Linear(2 * wide, wide, init="fan_in")
        self.nodes = Perceptron(in_channels, wide, wide, o.feature_layers, 0.0)
        self.head = Perceptron(wide, wide, out_channels, o.num_layers, o.dropout)

    def parameter_groups(self, weight_decay: float) -> list[dict[str, Any]]:
        """All weights, decayed apart from the gradient as AdamW does."""
        parts = list(self.parameters())
        return [{"params": parts, "weight_decay": weight_decay, "decoupled_weight_decay": True}]

    def forward(self, x: Matrix, edge_index: Tensor, generator: Generator | None = None) -> Tensor:
        """Logits."""
        h: Tensor = self.nodes(x)
        if self.options.structure:
            rows = self.edges(self.constants(x, edge_index))
            h = self.join(torch.cat([rows, h], dim=1)) + rows + h
        return cast(Tensor, self.head(h.relu(), generator))
