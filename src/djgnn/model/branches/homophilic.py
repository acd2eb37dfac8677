"""The homophilic branch: a GCN on the graph itself."""

from typing import Self

import torch
from torch import Generator, Tensor, nn

from djgnn.graph.operator import SparseOperator
from djgnn.model.branches.base import Branch, glorot
from djgnn.model.config import ModelConfig
from djgnn.model.dropout import relu_dropout
from djgnn.model.operators import GraphOperators
from djgnn.model.products import product
from djgnn.model.views import Encoding, View


class HomophilicBranch(Branch):
    r"""A GCN of one or two layers on the graph itself.

    .. math::
        H = \mathrm{ReLU}(\hat A\, \mathrm{ReLU}(\hat A X W_1 + b_1) W_2 + b_2)

    Args:
        in_channels: Number of features F.
        hidden_channels: Width.
        num_layers: 2 as the published code has it; 1 is the paper's formula.
        dropout: On the output of each layer.

    Shapes:
        encode ``[sources, hidden_channels]`` (the first layer before its activation), output
        ``[rows, hidden_channels]``.

    Example:
        >>> HomophilicBranch(3, 8).labels
        ('homophilic',)
    """

    name = "homophilic"

    def __init__(
        self, in_channels: int, hidden_channels: int, num_layers: int = 2, dropout: float = 0.0
    ) -> None:
        super().__init__()
        if num_layers not in (1, 2):
            raise ValueError(f"hb_layers must be 1 or 2 (got {num_layers})")
        self.dropout = dropout
        sizes = (in_channels, hidden_channels)[:num_layers]
        self.weights = nn.ParameterList(torch.empty(size, hidden_channels) for size in sizes)
        self.biases = nn.ParameterList(torch.empty(hidden_channels) for _ in sizes)
        self.reset_parameters()

    @classmethod
    def build(cls, config: ModelConfig, in_channels: int, num_nodes: int) -> Self | None:
        """The branch of ``homophilic=True``."""
        sizes = (config.hidden_channels, config.hb_layers)
        return cls(in_channels, *sizes, config.dropout) if config.homophilic else None

    def rates(self, many: bool) -> tuple[float, float]:
        """More decay where there are few nodes."""
        return 1.0, 1.0 if many else 4.0

    def reset_parameters(self, generator: Generator | None = None) -> None:
        """Glorot; biases zero."""
        for weight, bias in zip(self.weights, self.biases, strict=True):
            glorot(weight, weight.shape[0], weight.shape[1], generator)
            nn.init.zeros_(bias)

    def encode(self, view: View) -> Tensor:
        """The first layer before its activation."""
        return view.hop(self.weights[0], self.biases[0], further=len(self.weights) - 1)

    def forward(self, encoding: Encoding, view: View, generator: Generator | None = None) -> Tensor:
        """Activation of the first layer, and the second."""
        first, (before, after) = encoding.parts[self.name], view.windows
        if len(self.weights) == 1:
            h = view.hop_rows(first)
            return relu_dropout(h, self.dropout, self.training, generator, after)

        def summands(h: Tensor) -> Tensor:
            h = relu_dropout(h.clone(), self.dropout, self.training, generator, before)
            return product(h, self.weights[1])

        h = view.propagate(view.inner(self.name, first, summands)).add_(self.biases[1])
        return relu_dropout(h, self.dropout, self.training, generator, after)

    def matrix(self, operators: GraphOperators) -> SparseOperator:
        """The normalised adjacency."""
        return operators.homophilic
