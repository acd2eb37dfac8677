"""The mix branch: two layers, each of which sees several hops side by side."""

from typing import Self

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from djgnn.graph.operator import SparseOperator
from djgnn.model.branches.base import Branch, glorot
from djgnn.model.config import ModelConfig
from djgnn.model.dropout import relu_dropout
from djgnn.model.operators import GraphOperators
from djgnn.model.products import product
from djgnn.model.views import Encoding, View


class MixBranch(Branch):
    r"""Two layers over every hop, with layer normalisation over all hops together,

    .. math::
        H = \mathrm{ReLU}(\mathrm{norm}(\Vert_j\, \hat A^j X W_j + b)), \quad
        H' = \mathrm{ReLU}(\mathrm{norm}(\Vert_j\, \hat A^j H V_j + c)).

    These are the layers of MixHop (Abu-El-Haija et al., 2019), which has batch normalisation.

    Args:
        in_channels: Number of features F.
        hidden_channels: Width of each hop.
        num_hops: Hops beside the node itself, 1 or more.
        dropout: On the output of each layer.

    Shapes:
        encode ``[sources, (num_hops + 1) * hidden_channels]`` (the first layer before its norm),
        output the same of the rows.

    Example:
        >>> MixBranch(3, 8, num_hops=2).labels
        ('mix0', 'mix1', 'mix2')
    """

    name = "mix"
    whole = True
    patient = True

    def __init__(
        self, in_channels: int, hidden_channels: int, num_hops: int, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.hidden_channels, self.num_hops, self.dropout = hidden_channels, num_hops, dropout
        width = (num_hops + 1) * hidden_channels
        self.weights = nn.ParameterList(torch.empty(size, width) for size in (in_channels, width))
        self.biases = nn.ParameterList(torch.empty(width) for _ in self.weights)
        self.norms = nn.Parameter(torch.empty(2, 2, width))
        self.reset_parameters()

    @classmethod
    def build(cls, config: ModelConfig, in_channels: int, num_nodes: int) -> Self | None:
        """The branch of a number of ``mix`` hops."""
        sizes = (config.hidden_channels, config.mix, config.dropout)
        return cls(in_channels, *sizes) if config.mix else None

    def rates(self, many: bool) -> tuple[float, float]:
        """Slower: its loss falls further than at the usual rate, in more epochs."""
        return 0.3, 1.0

    @property
    def labels(self) -> tuple[str, ...]:
        """``mix0`` (the node itself), ``mix1``, ..., by the hops of the second layer."""
        return tuple(f"mix{j}" for j in range(self.num_hops + 1))

    def reset_parameters(self, generator: Generator | None = None) -> None:
        """Glorot for each hop alone; biases zero; norms the identity."""
        for weight, bias in zip(self.weights, self.biases, strict=True):
            glorot(weight, weight.shape[0], self.hidden_channels, generator)
            nn.init.zeros_(bias)
        with torch.no_grad():
            self.norms[:, 0], self.norms[:, 1] = 1, 0

    def encode(self, view: View) -> Tensor:
        """The first layer before its norm."""
        return view.hops(self.weights[0], self.hidden_channels).add_(self.biases[0])

    def forward(self, encoding: Encoding, view: View, generator: Generator | None = None) -> Tensor:
        """Norm and activation of the first layer, and the second."""
        h, how = encoding.parts[self.name], (self.dropout, self.training, generator)
        size, (before, after) = h.shape[1:], view.windows
        h = relu_dropout(F.layer_norm(h, size, *self.norms[0]), *how, before)
        h = view.hop_blocks(product(h, self.weights[1]), self.hidden_channels).add_(self.biases[1])
        return relu_dropout(F.layer_norm(h, size, *self.norms[1]), *how, after)

    def matrix(self, operators: GraphOperators) -> SparseOperator:
        """The normalised adjacency."""
        return operators.homophilic
