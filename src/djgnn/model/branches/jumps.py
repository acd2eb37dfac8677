"""The jump branches: one structural filter each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from djgnn.filters import branch_ranks
from djgnn.model.branches.base import Branch, glorot
from djgnn.model.dropout import relu_dropout

if TYPE_CHECKING:
    from djgnn.model.config import ModelConfig
    from djgnn.model.views import Encoding, View


class JumpBranches(Branch):
    r"""All jump branches, :math:`H^k = \mathrm{ReLU}(\hat J^k X W^k + b^k)`, in one product.

    Args:
        in_channels: Number of features F.
        hidden_channels: Width of each branch.
        num_branches: Number of filters.
        dropout: On the embeddings.

    Shapes:
        encode ``[sources, num_branches * hidden_channels]`` (X W), output
        ``[rows, num_branches * hidden_channels]``.
    """

    name = "jumps"

    def __init__(
        self, in_channels: int, hidden_channels: int, num_branches: int, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.hidden_channels, self.num_branches = hidden_channels, num_branches
        self.dropout = dropout
        self.weight = nn.Parameter(torch.empty(in_channels, num_branches * hidden_channels))
        self.bias = nn.Parameter(torch.empty(num_branches * hidden_channels))
        self.reset_parameters()

    @classmethod
    def build(cls, config: ModelConfig, in_channels: int, num_nodes: int) -> JumpBranches:
        """The jump branches: every model has them."""
        count = len(branch_ranks(config.support, config.num_jumps))
        return cls(in_channels, config.hidden_channels, count, config.dropout)

    @property
    def labels(self) -> tuple[str, ...]:
        """``jump0``, ``jump1``, ..."""
        return tuple(f"jump{k}" for k in range(self.num_branches))

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Glorot for each branch alone; biases zero."""
        glorot(self.weight, self.weight.shape[0], self.hidden_channels, generator)
        nn.init.zeros_(self.bias)

    def encode(self, view: View) -> Tensor:
        """X W of all branches, side by side."""
        return view.features @ self.weight

    def forward(
        self, encoding: Encoding, view: View, generator: torch.Generator | None = None
    ) -> Tensor:
        """Aggregate through the filters; bias, ReLU and dropout in place."""
        h = view.aggregate(encoding.table, encoding.parts[self.name]).add_(self.bias)
        return relu_dropout(h, self.dropout, self.training, generator, view.windows[1])

    def __repr__(self) -> str:
        rows, width = self.weight.shape[0], self.hidden_channels
        return f"{type(self).__name__}({rows}, {self.num_branches} x {width})"
