"""The diffusion branch: one layer, then a learned sum over many hops."""

from typing import Self

import torch
from torch import Generator, Tensor, nn

from djgnn.graph.operator import SparseOperator, row_sizes
from djgnn.model.branches.base import Branch, glorot
from djgnn.model.config import ModelConfig
from djgnn.model.dropout import relu_dropout
from djgnn.model.operators import GraphOperators
from djgnn.model.views import Encoding, View

RESTART = 0.1
"""The hops begin with the weights of a walk that returns to its start with this probability."""


class DiffusionBranch(Branch):
    r"""Hidden states summed over hops,
    :math:`\sum_k \gamma_k \hat A^k\, \mathrm{ReLU}(\bar X W + b)`.

    The rows of :math:`\bar X` are those of X divided by the sums of their absolute values. The
    weights :math:`\gamma` are learned (Chien et al., GPR-GNN, 2021): alternating signs let it take
    the difference from the neighbours as well as their mean.

    Args:
        in_channels: Number of features F.
        hidden_channels: Width.
        num_hops: Number of hops.
        dropout: On the hidden states.

    Shapes:
        encode ``[sources, hidden_channels]``, output ``[rows, hidden_channels]``.

    Example:
        >>> DiffusionBranch(3, 8, num_hops=10).labels
        ('diffusion',)
    """

    name = "diffusion"
    whole = True

    def __init__(
        self, in_channels: int, hidden_channels: int, num_hops: int, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.num_hops, self.dropout = num_hops, dropout
        self.weight = nn.Parameter(torch.empty(in_channels, hidden_channels))
        self.bias = nn.Parameter(torch.empty(hidden_channels))
        self.gamma = nn.Parameter(torch.empty(num_hops + 1))
        self.reset_parameters()

    @classmethod
    def build(cls, config: ModelConfig, in_channels: int, num_nodes: int) -> Self | None:
        """The branch of a number of ``diffusion`` hops."""
        sizes = (config.hidden_channels, config.diffusion, config.dropout)
        return cls(in_channels, *sizes) if config.diffusion else None

    def rates(self, many: bool) -> tuple[float, float]:
        """A higher learning rate, as its features are small."""
        return 3.0, 1.0

    def reset_parameters(self, generator: Generator | None = None) -> None:
        """Glorot, biases zero; hops as a walk with restart weighs them."""
        glorot(self.weight, self.weight.shape[0], self.weight.shape[1], generator)
        nn.init.zeros_(self.bias)
        if self.gamma.is_meta:  # without values, arithmetic imports torch's compiler: 3 s
            return
        with torch.no_grad():
            hops = torch.arange(self.num_hops + 1, dtype=self.gamma.dtype)
            self.gamma.copy_((1 - RESTART) ** hops).mul_(RESTART)
            self.gamma[-1] /= RESTART

    def encode(self, view: View) -> Tensor:
        """The layer before its activation."""
        h: Tensor = (view.features @ self.weight) / row_sizes(view.features) + self.bias
        return h

    def forward(self, encoding: Encoding, view: View, generator: Generator | None = None) -> Tensor:
        """Activation, then one product per hop."""
        h = encoding.parts[self.name].clone()
        h = relu_dropout(h, self.dropout, self.training, generator, view.windows[0])
        return view.hop_sum(h, self.gamma)

    def matrix(self, operators: GraphOperators) -> SparseOperator:
        """The normalised adjacency."""
        return operators.homophilic
