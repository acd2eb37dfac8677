"""GPR-GNN (Chien et al., 2021)."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor, nn

from djgnn.baselines.base import Baseline, Linear, Matrix, Options
from djgnn.checking import Count, Rate, Share
from djgnn.model.dropout import drop


@dataclass(frozen=True)
class GPRGNNOptions(Options):
    """Options of a GPR-GNN."""

    hidden_channels: Count = 64  #: Width of the hidden layer.
    num_hops: Count = 10  #: Largest power K.
    alpha: Share = 0.1  #: Restart probability of the PageRank that the weights start as.
    dropout: Rate = 0.5  #: On the features and the hidden layer.
    propagation_dropout: Rate = 0.5  #: On the input of the propagation.


class GPRGNN(Baseline):
    r"""Learned weights for the powers of the adjacency,

    .. math::
        Z = \sum_{k=0}^K \gamma_k \hat P^k H_0, \quad H_0 = \mathrm{MLP}(X),

    that start as :math:`\gamma_k = \alpha (1-\alpha)^k`, :math:`\gamma_K = (1-\alpha)^K`. They do
    not decay.

    Eli Chien, Jianhao Peng, Pan Li, Olgica Milenkovic: Adaptive Universal Generalized PageRank
    Graph Neural Network. ICLR 2021.
    """

    options: GPRGNNOptions

    def _make_layers(self, in_channels: int, out_channels: int) -> None:
        self.encoder = Linear(in_channels, self.options.hidden_channels, init="fan_in")
        self.decoder = Linear(self.options.hidden_channels, out_channels, init="fan_in")
        self.gamma = nn.Parameter(torch.empty(self.options.num_hops + 1))

    @torch.no_grad()
    def init_weights(self, generator: Generator) -> None:
        """Gamma starts as a PageRank."""
        a, hops = self.options.alpha, self.options.num_hops
        weights = [a * (1 - a) ** k for k in range(hops)] + [(1 - a) ** hops]
        self.gamma.copy_(torch.tensor(weights))

    def parameter_groups(self, weight_decay: float) -> list[dict[str, Any]]:
        """The perceptron decays, gamma does not."""
        rest = [*self.encoder.parameters(), *self.decoder.parameters()]
        return [
            {"params": rest, "weight_decay": weight_decay},
            {"params": [self.gamma], "weight_decay": 0.0},
        ]

    def forward(self, x: Matrix, edge_index: Tensor, generator: Generator | None = None) -> Tensor:
        """Logits."""
        o, p = self.options, self.constants(x, edge_index)
        h = self.decoder(self.encoder(x, o.dropout, generator).relu(), o.dropout, generator)
        h = drop(h, o.propagation_dropout, self.training, generator)
        total = self.gamma[0] * h
        for weight in self.gamma[1:]:
            h = p @ h
            total = total + weight * h
        return total
