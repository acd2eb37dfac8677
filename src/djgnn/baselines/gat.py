"""GAT (Velickovic et al., 2018), on PyG's layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import torch.nn.functional as F
from torch import Generator, Tensor, nn
from torch_geometric.nn import GATConv

from djgnn.baselines.base import Baseline, Linear, Matrix, Options, without_linear
from djgnn.checking import Count, Rate
from djgnn.model.dropout import drop


@dataclass(frozen=True)
class GATOptions(Options):
    """Options of a GAT."""

    hidden_channels: Count = 8  #: Width of each head.
    num_layers: Count = 2  #: Number of layers.
    heads: Count = 8  #: Heads of every layer but the last, which has one.
    dropout: Rate = 0.6  #: On the input of every layer.
    attention_dropout: Rate = 0.6  #: On the attention.


class Attention(GATConv):  # type: ignore[misc]
    """PyG's layer with dropout on the attention from a given generator."""

    def __init__(self, *sizes: int, attention_dropout: float, **options: Any) -> None:
        super().__init__(*sizes, **options)
        self.attention_dropout = attention_dropout
        self.generator: Generator | None = None

    def edge_update(
        self,
        alpha_j: Tensor,
        alpha_i: Tensor | None,
        edge_attr: Tensor | None,
        index: Tensor,
        ptr: Tensor | None,
        dim_size: int | None,
    ) -> Tensor:
        """The share of each message among those of its target, with dropout."""
        alpha = super().edge_update(alpha_j, alpha_i, edge_attr, index, ptr, dim_size)
        return drop(alpha, self.attention_dropout, self.training, self.generator)


class GAT(Baseline):
    r"""Graph attention,

    .. math::
        H'_i = \Vert_h \mathrm{ELU}\Bigl(\sum_{j \in N(i) \cup i} \alpha^h_{ij} W^h H_j\Bigr),
        \quad \alpha^h_{ij} = \mathrm{softmax}_j\,\mathrm{LeakyReLU}(a^\top [W H_i \Vert W H_j]).

    Petar Velickovic, Guillem Cucurull, Arantxa Casanova, Adriana Romero, Pietro Lio, Yoshua Bengio:
    Graph Attention Networks. ICLR 2018.
    """

    options: GATOptions
    capturable = False  # PyG's layer counts the loops it removes, at every pass

    def _make_layers(self, in_channels: int, out_channels: int) -> None:
        o = self.options
        self.maps, self.layers = nn.ModuleList(), nn.ModuleList()
        for layer in range(o.num_layers):
            last = layer == o.num_layers - 1
            heads, wide = (1, out_channels) if last else (o.heads, o.hidden_channels)
            sizes = (o.hidden_channels * o.heads if layer else in_channels, wide)
            self.maps.append(Linear(sizes[0], heads * wide, bias=False))
            self.layers.append(
                without_linear(
                    Attention, *sizes, heads=heads, attention_dropout=o.attention_dropout
                )
            )

    def forward(self, x: Matrix, edge_index: Tensor, generator: Generator | None = None) -> Tensor:
        """Logits."""
        h: Any = x
        for number, (linear, layer) in enumerate(zip(self.maps, self.layers, strict=True)):
            h = linear(F.elu(h) if number else h, self.options.dropout, generator)
            layer.generator = generator  # type: ignore[assignment]
            h = layer(h, edge_index)
            layer.generator = None  # type: ignore[assignment]
        return cast(Tensor, h)
