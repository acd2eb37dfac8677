"""GCNII (Chen et al., 2020)."""

from __future__ import annotations

import math
from dataclasses import dataclass

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
    """Options of a GCNII.

    Args:
        hidden_channels: Width of every layer.
        num_layers: Number of convolutions.
        alpha: Share of the first representation in every layer.
        lam: The lambda that sets how fast the layers turn into the identity.
        variant: GCNII*: own weights for the first representation.
        dropout: On the features, before every convolution and before the classifier.
    """

    hidden_channels: int = count(64)
    num_layers: int = count(16)
    alpha: float = option(0.5, least=0.0, most=1.0)
    lam: float = option(0.5, least=0.0)
    variant: bool = False
    dropout: float = rate(0.5)


class GCNII(Baseline):
    r"""Deep convolutions that keep the first representation and stay near the identity,

    .. math::
        H_{l+1} = \mathrm{ReLU}\bigl(((1-\alpha) \hat P H_l + \alpha H_0)
        ((1-\beta_l) I + \beta_l W_l)\bigr), \quad \beta_l = \log(\lambda / l + 1),

    with :math:`H_0 = \mathrm{ReLU}(X W + b)` and
    :math:`\hat P = \hat D^{-1/2} \hat A \hat D^{-1/2}`. The variant has weights of its own for
    :math:`\hat P H_l` and :math:`H_0`.

    Ming Chen, Zhewei Wei, Zengfeng Huang, Bolin Ding, Yaliang Li: Simple and Deep Graph
    Convolutional Networks. ICML 2020.

    Args:
        in_channels: Number of features.
        out_channels: Number of classes.
        options: Depth, alpha, lambda, variant and rates.

    Shapes:
        x ``[n, F]``, edge_index ``[2, E]``, logits ``[n, classes]``.
    """

    def __init__(self, in_channels: int, out_channels: int, options: Options) -> None:
        super().__init__()
        self.options = o = options
        wide = o.hidden_channels
        self.encoder = Linear(in_channels, wide, init="fan_in")
        self.decoder = Linear(wide, out_channels, init="fan_in")
        self.layers = nn.ModuleList(
            Linear(2 * wide if o.variant else wide, wide, bias=False, init="fan_out")
            for _ in range(o.num_layers)
        )
        self.reset_parameters()

    def prepare(self, adjacency: sp.csr_array, like: Tensor | SparseOperator) -> SparseOperator:
        """The normalised adjacency with loops."""
        return operator(symmetric_scale(with_loops(adjacency)), like)

    def forward(
        self,
        x: Tensor | SparseOperator,
        edge_index: Tensor,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Logits."""
        o, p = self.options, self.constants(x, edge_index)
        h = first = self.encoder(x, o.dropout, generator).relu()
        for number, layer in enumerate(self.layers, start=1):
            beta = math.log(o.lam / number + 1)
            near = p @ drop(h, o.dropout, self.training, generator)
            mixed = (1 - o.alpha) * near + o.alpha * first
            seen = torch.cat([near, first], dim=1) if o.variant else mixed
            h = ((1 - beta) * mixed + beta * layer(seen)).relu()
        logits: Tensor = self.decoder(h, o.dropout, generator)
        return logits


def build(config: BaselineConfig, graph: Graph) -> GCNII:
    """A GCNII for a graph."""
    return GCNII(num_features(graph), graph.num_classes, Options(**config.options))
