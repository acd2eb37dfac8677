"""PairNorm (Zhao and Akoglu, 2020): a deep GCN that cannot collapse, on PyG's layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from djgnn.baselines.base import Baseline
from djgnn.baselines.config import BaselineConfig
from djgnn.baselines.drawing import Linear, without_map
from djgnn.baselines.options import Options as BaseOptions
from djgnn.baselines.options import count, option, rate
from djgnn.graph import Graph
from djgnn.graph.operator import SparseOperator
from djgnn.training.inputs import num_features


@dataclass(frozen=True)
class Options(BaseOptions):
    """Options of a GCN with PairNorm.

    Args:
        hidden_channels: Width of the hidden layers.
        num_layers: Number of convolutions.
        scale: Root of the mean squared row norm after a normalisation.
        individually: PN-SI: every row gets the same norm.
        dropout: Before every layer.
    """

    hidden_channels: int = count(64)
    num_layers: int = count(2)
    scale: float = option(1.0, least=0.0)
    individually: bool = False
    dropout: float = rate(0.6)


class PairNormGCN(Baseline):
    r"""Graph convolutions whose results are centred and scaled,

    .. math::
        \tilde H = \hat P H W + b, \quad \bar H_i = \tilde H_i - \tfrac1n \sum_j \tilde H_j, \quad
        H'_i = \mathrm{ReLU}\Bigl(s \bar H_i / \sqrt{\tfrac1n \sum_j \Vert \bar H_j \Vert^2}\Bigr).

    Lingxiao Zhao, Leman Akoglu: PairNorm: Tackling Oversmoothing in GNNs. ICLR 2020.

    Args:
        channels: Widths from input to output.
        options: Scale and rates.

    Shapes:
        x ``[n, F]``, edge_index ``[2, E]``, logits ``[n, classes]``.
    """

    def __init__(self, channels: Sequence[int], options: Options) -> None:
        super().__init__()
        from torch_geometric.nn import GCNConv, PairNorm

        self.dropout = options.dropout
        self.norm = PairNorm(options.scale, options.individually, eps=1e-6)
        sizes = list(pairwise(channels))
        self.maps = nn.ModuleList(Linear(a, b, bias=False) for a, b in sizes)
        self.layers = nn.ModuleList(without_map(GCNConv, a, b, cached=True) for a, b in sizes)
        self.reset_parameters()

    def forward(
        self,
        x: Tensor | SparseOperator,
        edge_index: Tensor,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Logits."""
        first, *rest = zip(self.maps, self.layers, strict=True)
        h: Tensor = first[1](first[0](x, self.dropout, generator), edge_index)
        for linear, layer in rest:
            h = layer(linear(self.norm(h).relu(), self.dropout, generator), edge_index)
        return h


def build(config: BaselineConfig, graph: Graph) -> PairNormGCN:
    """A GCN with PairNorm for a graph."""
    o = Options(**config.options)
    hidden = [o.hidden_channels] * (o.num_layers - 1)
    return PairNormGCN([num_features(graph), *hidden, graph.num_classes], o)
