"""FSGNN (Maurya, Liu and Murata, 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from djgnn.baselines.base import Baseline, operator, symmetric_scale
from djgnn.baselines.config import BaselineConfig
from djgnn.baselines.drawing import Linear, drop, uniform
from djgnn.baselines.options import Options as BaseOptions
from djgnn.baselines.options import count, option, rate
from djgnn.graph import Graph
from djgnn.graph.operator import SparseOperator
from djgnn.training.inputs import num_features


@dataclass(frozen=True)
class Options(BaseOptions):
    """Options of an FSGNN.

    Args:
        hidden_channels: Width of each hop.
        num_hops: Largest power K.
        hop_norm: Give every row of every hop the norm 1.
        dropout: Before the classifier.
        attention_lr: Learning rate of the hops' weights.
        attention_weight_decay: Their decay.
        output_weight_decay: Decay of the classifier; the hops' maps have the training's.
    """

    hidden_channels: int = count(64)
    num_hops: int = count(3, least=0)
    hop_norm: bool = True
    dropout: float = rate(0.5)
    attention_lr: float = option(0.02, least=0.0)
    attention_weight_decay: float = option(5e-4, least=0.0)
    output_weight_decay: float = option(5e-4, least=0.0)


class FSGNN(Baseline):
    r"""Hops with and without self loops, each with its own map and a softly selected weight,

    .. math::
        Y = \mathrm{ReLU}\bigl(\Vert_{m} a_m \mathrm{rownorm}(B_m X W_m + b_m)\bigr) W_o + b_o,
        \quad B \in \{I, \bar A^k, \hat P^k : k \le K\}, \quad a = \mathrm{softmax}(\cdot),

    where :math:`\bar A` and :math:`\hat P` are the normalised adjacencies without and with loops.

    Sunil Kumar Maurya, Xin Liu, Tsuyoshi Murata: Improving Graph Neural Networks with Simple
    Architecture Design. 2021 (arXiv:2105.07634).

    The powers act on X W_m, which is narrow, instead of on X; the product is the same.

    Args:
        in_channels: Number of features.
        out_channels: Number of classes.
        options: Hops, width, rates, and rates of learning and decay.

    Shapes:
        x ``[n, F]``, edge_index ``[2, E]``, logits ``[n, classes]``.
    """

    def __init__(self, in_channels: int, out_channels: int, options: Options) -> None:
        super().__init__()
        self.options = o = options
        wide = (2 * o.num_hops + 1) * o.hidden_channels
        self.weight = nn.Parameter(torch.empty(in_channels, wide))
        self.bias = nn.Parameter(torch.empty(wide))
        self.attention = nn.Parameter(torch.empty(2 * o.num_hops + 1))
        self.decoder = Linear(wide, out_channels, init="fan_in")
        self.reset_parameters()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw all maps; the hops start with equal weights."""
        source = generator or torch.Generator().manual_seed(0)
        super().reset_parameters(source)
        uniform(self.weight, self.weight.shape[0], source)
        uniform(self.bias, self.weight.shape[0], source)
        nn.init.ones_(self.attention)

    def prepare(
        self, adjacency: sp.csr_array, like: Tensor | SparseOperator
    ) -> tuple[SparseOperator, SparseOperator]:
        """The normalised adjacency without and with an added loop at every node."""
        looped = adjacency + sp.eye_array(adjacency.shape[0])
        return operator(symmetric_scale(adjacency), like), operator(symmetric_scale(looped), like)

    def parameter_groups(
        self, weight_decay: float, structure_weight_decay: float
    ) -> list[dict[str, Any]]:
        """Maps, classifier and hop weights, each with its own decay."""
        o = self.options
        own = {"weight_decay": o.attention_weight_decay, "lr": o.attention_lr}
        return [
            {"params": [self.weight, self.bias], "weight_decay": weight_decay},
            {"params": list(self.decoder.parameters()), "weight_decay": o.output_weight_decay},
            {"params": [self.attention], **own},
        ]

    def hops(
        self, x: Tensor | SparseOperator, pair: tuple[SparseOperator, SparseOperator]
    ) -> Tensor:
        """All hops side by side: X, then 1..K without loops, then 1..K with them."""
        o = self.options
        narrow = x @ self.weight
        own, *chains = torch.split(
            narrow, [o.hidden_channels, *[o.num_hops * o.hidden_channels] * 2], dim=1
        )
        parts = [own]
        for power, chain in zip(pair, chains, strict=True):
            rest = chain
            for _ in range(o.num_hops):
                rest = power @ rest
                done, rest = rest[:, : o.hidden_channels], rest[:, o.hidden_channels :]
                parts.append(done)
        return torch.cat(parts, dim=1) + self.bias

    def forward(
        self,
        x: Tensor | SparseOperator,
        edge_index: Tensor,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Logits."""
        o = self.options
        h = self.hops(x, self.constants(x, edge_index))
        h = h.view(len(h), -1, o.hidden_channels)
        h = F.normalize(h, dim=2) if o.hop_norm else h
        h = (self.attention.softmax(dim=0)[:, None] * h).flatten(1).relu()
        logits: Tensor = self.decoder(drop(h, o.dropout, self.training, generator))
        return logits


def build(config: BaselineConfig, graph: Graph) -> FSGNN:
    """An FSGNN for a graph."""
    return FSGNN(num_features(graph), graph.num_classes, Options(**config.options))
