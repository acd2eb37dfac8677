"""The structure branch: rows of A as features."""

import math
from typing import Self

import torch
from torch import Generator, Tensor, nn

from djgnn.graph.operator import SparseOperator
from djgnn.model.branches.base import Branch
from djgnn.model.config import ModelConfig
from djgnn.model.dropout import relu_dropout
from djgnn.model.operators import GraphOperators
from djgnn.model.views import Encoding, View


class StructureBranch(Branch):
    r"""Rows of A as features, :math:`\mathrm{ReLU}(A V + c)`.

    It has n x hidden free weights and can memorise the training nodes, so beside other branches
    it can starve them; as an expert it cannot (:mod:`djgnn.model.experts`).

    Args:
        num_nodes: Number of nodes n.
        hidden_channels: Width.
        dropout: On the embedding.

    Shapes:
        output ``[rows, hidden_channels]``.

    Example:
        >>> StructureBranch(6, 8).labels
        ('structure',)
    """

    name = "structure"

    def __init__(self, num_nodes: int, hidden_channels: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = dropout
        self.weight = nn.Parameter(torch.empty(num_nodes, hidden_channels))
        self.bias = nn.Parameter(torch.empty(hidden_channels))
        self.reset_parameters()

    @classmethod
    def build(cls, config: ModelConfig, in_channels: int, num_nodes: int) -> Self | None:
        """The branch of ``structure=True``."""
        return cls(num_nodes, config.hidden_channels, config.dropout) if config.structure else None

    def reset_parameters(self, generator: Generator | None = None) -> None:
        """Uniform in +-1/sqrt(n), as a linear layer over rows of A."""
        bound = 1 / math.sqrt(self.weight.shape[0])
        nn.init.uniform_(self.weight, -bound, bound, generator=generator)
        nn.init.uniform_(self.bias, -bound, bound, generator=generator)

    def encode(self, view: View) -> Tensor:
        """Nothing: rows of A are all that it reads."""
        return self.weight.new_empty(0)

    def forward(self, encoding: Encoding, view: View, generator: Generator | None = None) -> Tensor:
        """One product with rows of A."""
        h = (view.adjacency @ self.weight).add_(self.bias)
        return relu_dropout(h, self.dropout, self.training, generator, view.windows[1])

    def matrix(self, operators: GraphOperators) -> SparseOperator:
        """The adjacency as the pump sees it."""
        return operators.adjacency

    def __repr__(self) -> str:
        rows, columns = self.weight.shape
        return f"{type(self).__name__}({rows}, {columns})"
