"""MixHop (Abu-El-Haija et al., 2019)."""

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
from djgnn.baselines.options import count, rate
from djgnn.graph import Graph
from djgnn.graph.operator import SparseOperator
from djgnn.training.inputs import num_features


@dataclass(frozen=True)
class Options(BaseOptions):
    """Options of a MixHop.

    Args:
        hidden_channels: Width of each power of a layer.
        num_layers: Number of mixing layers.
        max_power: Largest power of the adjacency; a layer has all from 0 on.
        batch_norm: Normalise between the layers.
        dropout: Before every layer but the first.
    """

    hidden_channels: int = count(32)
    num_layers: int = count(2)
    max_power: int = count(2, least=0)
    batch_norm: bool = True
    dropout: float = rate(0.5)


class MixHop(Baseline):
    r"""Several powers of the adjacency side by side,
    :math:`H' = \Vert_{p=0}^{P} \hat P^p H W_p`, with ReLU between the layers and a linear
    classifier on the last one.

    Sami Abu-El-Haija, Bryan Perozzi, Amol Kapoor, Nazanin Alipourfard, Kristina Lerman, Hrayr
    Harutyunyan, Greg Ver Steeg, Aram Galstyan: MixHop: Higher-Order Graph Convolutional
    Architectures via Sparsified Neighborhood Mixing. ICML 2019.

    A layer equals PyG's ``MixHopConv``; here the features are narrowed before they are propagated.

    Args:
        in_channels: Number of features.
        out_channels: Number of classes.
        options: Widths, powers and rates.

    Shapes:
        x ``[n, F]``, edge_index ``[2, E]``, logits ``[n, classes]``.
    """

    def __init__(self, in_channels: int, out_channels: int, options: Options) -> None:
        super().__init__()
        self.options = o = options
        wide = o.hidden_channels * (o.max_power + 1)
        self.layers = nn.ModuleList(
            Linear(wide if layer else in_channels, wide, blocks=o.max_power + 1)
            for layer in range(o.num_layers)
        )
        norms = o.num_layers if o.batch_norm else 0
        self.norms = nn.ModuleList(nn.BatchNorm1d(wide) for _ in range(norms))
        self.decoder = Linear(wide, out_channels, init="fan_in")
        self.reset_parameters()

    def prepare(self, adjacency: sp.csr_array, like: Tensor | SparseOperator) -> SparseOperator:
        """The normalised adjacency with loops."""
        return operator(symmetric_scale(with_loops(adjacency)), like)

    def mix(self, layer: int, h: Tensor | SparseOperator, p: SparseOperator) -> Tensor:
        """One layer: the blocks of columns, each under its own power."""
        part: Any = self.layers[layer]
        width = self.options.hidden_channels
        blocks = list(torch.split(h @ part.weight, width, dim=1))
        for power in range(1, self.options.max_power + 1):
            wide = p @ torch.cat(blocks[power:], dim=1)
            blocks[power:] = torch.split(wide, width, dim=1)
        mixed: Tensor = torch.cat(blocks, dim=1) + part.bias
        return mixed

    def forward(
        self,
        x: Tensor | SparseOperator,
        edge_index: Tensor,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Logits."""
        p = self.constants(x, edge_index)
        h: Tensor | SparseOperator = x
        for layer in range(self.options.num_layers):
            mixed = self.mix(layer, h, p)
            if self.options.batch_norm:
                mixed = self.norms[layer](mixed)
            h = drop(mixed.relu(), self.options.dropout, self.training, generator)
        logits: Tensor = self.decoder(h)
        return logits


def build(config: BaselineConfig, graph: Graph) -> MixHop:
    """A MixHop for a graph."""
    return MixHop(num_features(graph), graph.num_classes, Options(**config.options))
