"""FSGNN (Maurya, Liu and Murata, 2021)."""

from dataclasses import dataclass
from typing import Any

import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from djgnn.baselines.base import Baseline, Linear, Matrix, Options, uniform
from djgnn.baselines.matrices import operator, symmetric_scale
from djgnn.checking import Count, Natural, NonNegative, Rate


@dataclass(frozen=True)
class FSGNNOptions(Options):
    """Options of an FSGNN."""

    hidden_channels: Count = 64  #: Width of each hop.
    num_hops: Natural = 3  #: Largest power K.
    hop_norm: bool = True  #: Give every row of every hop the norm 1.
    dropout: Rate = 0.5  #: Before the classifier.
    attention_lr: NonNegative = 0.02  #: Learning rate of the hops' weights.
    attention_weight_decay: NonNegative = 5e-4  #: Their decay.
    #: Decay of the classifier; the hops' maps have the training's.
    output_weight_decay: NonNegative = 5e-4


class FSGNN(Baseline):
    r"""Hops with and without self loops, each with its own map and a softly selected weight,

    .. math::
        Y = \mathrm{ReLU}\bigl(\Vert_{m} a_m \mathrm{rownorm}(B_m X W_m + b_m)\bigr) W_o + b_o,
        \quad B \in \{I, \bar A^k, \hat P^k : k \le K\}, \quad a = \mathrm{softmax}(\cdot),

    where :math:`\bar A` and :math:`\hat P` are the normalised adjacencies without and with loops.

    Sunil Kumar Maurya, Xin Liu, Tsuyoshi Murata: Improving Graph Neural Networks with Simple
    Architecture Design. 2021 (arXiv:2105.07634).

    The powers act on X W_m, which is narrow, instead of on X; the product is the same.
    """

    options: FSGNNOptions

    def _make_layers(self, in_channels: int, out_channels: int) -> None:
        hops = 2 * self.options.num_hops + 1
        wide = hops * self.options.hidden_channels
        self.weight = nn.Parameter(torch.empty(in_channels, wide))
        self.bias = nn.Parameter(torch.empty(wide))
        self.attention = nn.Parameter(torch.empty(hops))
        self.decoder = Linear(wide, out_channels, init="fan_in")

    def init_weights(self, generator: Generator) -> None:
        """The maps of the hops; the hops start with equal weights."""
        uniform(self.weight, self.weight.shape[0], generator)
        uniform(self.bias, self.weight.shape[0], generator)
        nn.init.ones_(self.attention)

    def prepare(self, adjacency: sp.csr_array, like: Matrix) -> tuple[Matrix, ...]:
        """The normalised adjacency without and with an added loop at every node."""
        looped = adjacency + sp.eye_array(adjacency.shape[0])
        return operator(symmetric_scale(adjacency), like), operator(symmetric_scale(looped), like)

    def parameter_groups(self, weight_decay: float) -> list[dict[str, Any]]:
        """Maps, classifier and hop weights, each with its own decay."""
        o = self.options
        own = {"weight_decay": o.attention_weight_decay, "lr": o.attention_lr}
        return [
            {"params": [self.weight, self.bias], "weight_decay": weight_decay},
            {"params": list(self.decoder.parameters()), "weight_decay": o.output_weight_decay},
            {"params": [self.attention], **own},
        ]

    def forward(self, x: Matrix, edge_index: Tensor, generator: Generator | None = None) -> Tensor:
        """Logits. The hops stand side by side: X, then 1..K without loops, then 1..K with them."""
        o, wide = self.options, self.options.hidden_channels
        own, *chains = torch.split(x @ self.weight, [wide, *[o.num_hops * wide] * 2], dim=1)
        parts = [own]
        for power, rest in zip(self.constants(x, edge_index), chains, strict=True):
            for _ in range(o.num_hops):
                rest = power @ rest
                parts.append(rest[:, :wide])
                rest = rest[:, wide:]
        h = (torch.cat(parts, dim=1) + self.bias).view(x.shape[0], -1, wide)
        h = F.normalize(h, dim=2) if o.hop_norm else h
        h = (self.attention.softmax(dim=0)[:, None] * h).flatten(1).relu()
        return self.decoder(h, o.dropout, generator)
