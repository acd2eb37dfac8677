"""The hop branch: features of a node, of its neighbours, of theirs, side by side."""

from typing import Self

import torch
from torch import Generator, Tensor, nn

from djgnn.graph.operator import SparseOperator
from djgnn.model.branches.base import Branch, glorot
from djgnn.model.config import ModelConfig
from djgnn.model.dropout import relu_dropout
from djgnn.model.operators import GraphOperators
from djgnn.model.views import Encoding, View


class HopBranch(Branch):
    r"""One layer over every hop, :math:`\Vert_j \mathrm{ReLU}(\hat A^j X W_j + b_j)`.

    Without hops it is a layer over the features alone.

    Args:
        in_channels: Number of features F.
        hidden_channels: Width of each hop.
        num_hops: Hops beside the node itself, 0 or more.
        dropout: On the embedding.

    Shapes:
        encode ``[sources, (num_hops + 1) * hidden_channels]``, output the same of the rows.

    Example:
        >>> HopBranch(3, 8, num_hops=2).labels
        ('hop0', 'hop1', 'hop2')
    """

    name = "hops"

    def __init__(
        self, in_channels: int, hidden_channels: int, num_hops: int, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.hidden_channels, self.num_hops, self.dropout = hidden_channels, num_hops, dropout
        self.whole = num_hops > 0
        width = (num_hops + 1) * hidden_channels
        self.weight = nn.Parameter(torch.empty(in_channels, width))
        self.bias = nn.Parameter(torch.empty(width))
        self.reset_parameters()

    @classmethod
    def build(cls, config: ModelConfig, in_channels: int, num_nodes: int) -> Self | None:
        """The branch of a number of ``hops``."""
        if config.hops is None:
            return None
        return cls(in_channels, config.hidden_channels, config.hops, config.dropout)

    @property
    def labels(self) -> tuple[str, ...]:
        """``hop0`` (the node itself), ``hop1``, ..."""
        return tuple(f"hop{j}" for j in range(self.num_hops + 1))

    def reset_parameters(self, generator: Generator | None = None) -> None:
        """Glorot for each hop alone; biases zero."""
        glorot(self.weight, self.weight.shape[0], self.hidden_channels, generator)
        nn.init.zeros_(self.bias)

    def encode(self, view: View) -> Tensor:
        """X W of all hops, side by side."""
        return view.features @ self.weight

    def forward(self, encoding: Encoding, view: View, generator: Generator | None = None) -> Tensor:
        """Block j goes j hops; then bias, ReLU and dropout."""
        rows = view.hop_blocks(encoding.parts[self.name], self.hidden_channels).add_(self.bias)
        return relu_dropout(rows, self.dropout, self.training, generator, view.windows[1])

    def matrix(self, operators: GraphOperators) -> SparseOperator | None:
        """The normalised adjacency, where there are hops."""
        return operators.homophilic if self.num_hops else None
