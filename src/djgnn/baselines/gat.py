"""GAT (Velickovic et al., 2018), on PyG's layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn import GATConv

from djgnn.baselines.base import Baseline
from djgnn.baselines.config import BaselineConfig
from djgnn.baselines.drawing import Linear, drop, without_map
from djgnn.baselines.options import Options as BaseOptions
from djgnn.baselines.options import count, rate
from djgnn.graph import Graph
from djgnn.graph.operator import SparseOperator
from djgnn.training.inputs import num_features


@dataclass(frozen=True)
class Options(BaseOptions):
    """Options of a GAT.

    Args:
        hidden_channels: Width of each head.
        num_layers: Number of layers.
        heads: Heads of every layer but the last, which has one.
        dropout: On the input of every layer.
        attention_dropout: On the attention.
    """

    hidden_channels: int = count(8)
    num_layers: int = count(2)
    heads: int = count(8)
    dropout: float = rate(0.6)
    attention_dropout: float = rate(0.6)


class Attention(GATConv):  # type: ignore[misc]
    """PyG's layer, whose attention is dropped with a given generator."""

    def __init__(self, *sizes: int, attention_dropout: float, **options: Any) -> None:
        super().__init__(*sizes, **options)
        self.attention_dropout = attention_dropout
        self.generator: torch.Generator | None = None

    def edge_update(
        self,
        alpha_j: Tensor,
        alpha_i: Tensor | None,
        edge_attr: Tensor | None,
        index: Tensor,
        ptr: Tensor | None,
        dim_size: int | None,
    ) -> Tensor:
        """The share of each message among those its hearer gets, some of them dropped."""
        alpha = super().edge_update(alpha_j, alpha_i, edge_attr, index, ptr, dim_size)
        return drop(alpha, self.attention_dropout, self.training, self.generator)


class GAT(Baseline):
    r"""Graph attention,

    .. math::
        H'_i = \Vert_h \mathrm{ELU}\Bigl(\sum_{j \in N(i) \cup i} \alpha^h_{ij} W^h H_j\Bigr),
        \quad \alpha^h_{ij} = \mathrm{softmax}_j\,\mathrm{LeakyReLU}(a^\top [W H_i \Vert W H_j]).

    Petar Velickovic, Guillem Cucurull, Arantxa Casanova, Adriana Romero, Pietro Lio, Yoshua Bengio:
    Graph Attention Networks. ICLR 2018.

    Args:
        in_channels: Number of features.
        out_channels: Number of classes.
        options: Widths and rates.

    Shapes:
        x ``[n, F]``, edge_index ``[2, E]``, logits ``[n, classes]``.
    """

    capturable = False  # PyG's layer counts the loops it takes out, at every pass

    def __init__(self, in_channels: int, out_channels: int, options: Options) -> None:
        super().__init__()
        o = options
        self.dropout = o.dropout
        wide = o.hidden_channels * o.heads
        self.maps, self.layers = nn.ModuleList(), nn.ModuleList()
        for layer in range(o.num_layers):
            last = layer == o.num_layers - 1
            sizes = (wide if layer else in_channels, out_channels if last else o.hidden_channels)
            heads = 1 if last else o.heads
            self.maps.append(Linear(sizes[0], heads * sizes[1], bias=False))
            self.layers.append(
                without_map(Attention, *sizes, heads=heads, attention_dropout=o.attention_dropout)
            )
        self.reset_parameters()

    def forward(
        self,
        x: Tensor | SparseOperator,
        edge_index: Tensor,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Logits."""
        layer: Any
        h: Any = x
        for number, (linear, layer) in enumerate(zip(self.maps, self.layers, strict=True)):
            layer.generator = generator
            h = layer(linear(F.elu(h) if number else h, self.dropout, generator), edge_index)
            layer.generator = None
        logits: Tensor = h
        return logits


def build(config: BaselineConfig, graph: Graph) -> GAT:
    """A GAT for a graph."""
    return GAT(num_features(graph), graph.num_classes, Options(**config.options))
