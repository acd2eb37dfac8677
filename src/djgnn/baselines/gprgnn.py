"""GPR-GNN (Chien et al., 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import scipy.sparse as sp
import torch
from torch import Tensor, nn

from djgnn.baselines.base import Baseline, operator, symmetric_scale, with_loops
from djgnn.baselines.config import BaselineConfig
from djgnn.baselines.drawing import Linear, drop
from djgnn.baselines.options import Options as BaseOptions
from djgnn.baselines.options import count, option, rate
from djgnn.graph import Graph
from djgnn.graph.operator import SparseOperator
from djgnn.training.inputs import num_features


@dataclass(frozen=True)
class Options(BaseOptions):
    """Options of a GPR-GNN.

    Args:
        hidden_channels: Width of the hidden layer.
        num_hops: Largest power K.
        alpha: Restart probability of the PageRank that the weights start as.
        dropout: On the features and the hidden layer.
        propagation_dropout: On what is propagated.
    """

    hidden_channels: int = count(64)
    num_hops: int = count(10)
    alpha: float = option(0.1, least=0.0, most=1.0)
    dropout: float = rate(0.5)
    propagation_dropout: float = rate(0.5)


class GPRGNN(Baseline):
    r"""Learned weights for the powers of the adjacency,

    .. math::
        Z = \sum_{k=0}^K \gamma_k \hat P^k H_0, \quad H_0 = \mathrm{MLP}(X),

    that start as :math:`\gamma_k = \alpha (1-\alpha)^k`, :math:`\gamma_K = (1-\alpha)^K`. They do
    not decay.

    Eli Chien, Jianhao Peng, Pan Li, Olgica Milenkovic: Adaptive Universal Generalized PageRank
    Graph Neural Network. ICLR 2021.

    Args:
        in_channels: Number of features.
        out_channels: Number of classes.
        options: Hops, alpha and rates.

    Shapes:
        x ``[n, F]``, edge_index ``[2, E]``, logits ``[n, classes]``.
    """

    def __init__(self, in_channels: int, out_channels: int, options: Options) -> None:
        super().__init__()
        self.options = o = options
        self.encoder = Linear(in_channels, o.hidden_channels, init="fan_in")
        self.decoder = Linear(o.hidden_channels, out_channels, init="fan_in")
        self.gamma = nn.Parameter(torch.empty(o.num_hops + 1))
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the perceptron; gamma starts as a PageRank."""
        super().reset_parameters(generator)
        a, hops = self.options.alpha, self.options.num_hops
        weights = [a * (1 - a) ** k for k in range(hops)] + [(1 - a) ** hops]
        self.gamma.copy_(torch.tensor(weights))

    def prepare(self, adjacency: sp.csr_array, like: Tensor | SparseOperator) -> SparseOperator:
        """The normalised adjacency with loops."""
        return operator(symmetric_scale(with_loops(adjacency)), like)

    def parameter_groups(
        self, weight_decay: float, structure_weight_decay: float
    ) -> list[dict[str, Any]]:
        """The perceptron decays, gamma does not."""
        rest = [*self.encoder.parameters(), *self.decoder.parameters()]
        return [
            {"params": rest, "weight_decay": weight_decay},
            {"params": [self.gamma], "weight_decay": 0.0},
        ]

    def forward(
        self,
        x: Tensor | SparseOperator,
        edge_index: Tensor,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Logits."""
        o, p = self.options, self.constants(x, edge_index)
        h = self.decoder(self.encoder(x, o.dropout, generator).relu(), o.dropout, generator)
        h = drop(h, o.propagation_dropout, self.training, generator)
        total: Tensor = self.gamma[0] * h
        for weight in self.gamma[1:]:
            h = p @ h
            total = total + weight * h
        return total


def build(config: BaselineConfig, graph: Graph) -> GPRGNN:
    """A GPR-GNN for a graph."""
    return GPRGNN(num_features(graph), graph.num_classes, Options(**config.options))
