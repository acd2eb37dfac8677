"""The deep branch: many layers of propagation with residuals."""

from typing import Self

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from djgnn.graph.operator import SparseOperator
from djgnn.model.branches.base import Branch, glorot
from djgnn.model.config import ModelConfig
from djgnn.model.dropout import relu_dropout
from djgnn.model.operators import GraphOperators
from djgnn.model.views import Encoding, View

DROPOUT = 0.2
"""After every layer: ten layers with the rate of a single one would leave nothing to learn from."""


class DeepBranch(Branch):
    r"""A residual network that takes the mean of the neighbours in every layer,

    .. math::
        H_0 = \mathrm{ReLU}([X \Vert d] W + b), \quad Z_l = \mathrm{norm}(H_l), \quad
        H_{l+1} = H_l + \mathrm{ReLU}(Z_l V_l + M Z_l W_l + b_l),

    with layer normalisation, also of the last layer; d are the degrees.

    Args:
        in_channels: Number of features F.
        hidden_channels: Width of every layer.
        num_layers: Layers that see neighbours.
        dropout: After every layer.

    Shapes:
        encode ``[sources, hidden_channels]`` (the first layer), output ``[rows, hidden_channels]``.

    Example:
        >>> DeepBranch(3, 8, num_layers=15).labels
        ('deep',)
    """

    name = "deep"
    whole = True
    patient = True

    def __init__(
        self, in_channels: int, hidden_channels: int, num_layers: int, dropout: float = DROPOUT
    ) -> None:
        super().__init__()
        self.num_layers, self.dropout, width = num_layers, dropout, hidden_channels
        self.weight = nn.Parameter(torch.empty(in_channels + 1, width))
        self.bias = nn.Parameter(torch.empty(width))
        self.layers = nn.Parameter(torch.empty(num_layers, width, 2 * width))
        self.biases = nn.Parameter(torch.empty(num_layers, width))
        self.norms = nn.Parameter(torch.empty(num_layers + 1, 2, width))
        self.reset_parameters()

    @classmethod
    def build(cls, config: ModelConfig, in_channels: int, num_nodes: int) -> Self | None:
        """The branch of a number of ``deep`` layers."""
        rate = min(config.dropout, DROPOUT)
        sizes = (config.hidden_channels, config.deep, rate)
        return cls(in_channels, *sizes) if config.deep else None

    def rates(self, many: bool) -> tuple[float, float]:
        """Slower for many nodes, or layers forget their input; for few, more decay."""
        return (0.3, 1.0) if many else (1.0, 10.0)

    def reset_parameters(self, generator: Generator | None = None) -> None:
        """Layers uniform in +-1/sqrt(fan in), the first Glorot; norms the identity."""
        width = self.weight.shape[1]
        glorot(self.weight, self.weight.shape[0], width, generator)
        nn.init.zeros_(self.bias)
        bound = (2 * width) ** -0.5
        nn.init.uniform_(self.layers, -bound, bound, generator=generator)
        nn.init.uniform_(self.biases, -bound, bound, generator=generator)
        with torch.no_grad():
            self.norms[:, 0], self.norms[:, 1] = 1, 0

    def encode(self, view: View) -> Tensor:
        """The first layer before its activation."""
        h: Tensor = view.features @ self.weight[:-1] + view.degrees * self.weight[-1] + self.bias
        return h

    def forward(self, encoding: Encoding, view: View, generator: Generator | None = None) -> Tensor:
        """All layers over all sources, then the rows."""
        width, how = self.weight.shape[1], (self.dropout, self.training, generator, view.windows[0])
        h = relu_dropout(encoding.parts[self.name].clone(), *how)
        for layer, bias, norm in zip(self.layers, self.biases, self.norms[:-1], strict=True):
            h = view.residual(h, norm, layer, bias, how)
        return F.layer_norm(view.own_rows(h), (width,), *self.norms[-1])

    def matrix(self, operators: GraphOperators) -> SparseOperator:
        """The mean over the neighbours."""
        return operators.homophilic
