"""MixHop (Abu-El-Haija et al., 2019)."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor, nn

from djgnn.baselines.base import Baseline, Linear, Matrix, Options
from djgnn.checking import Count, Natural, Rate
from djgnn.model.dropout import drop


@dataclass(frozen=True)
class MixHopOptions(Options):
    """Options of a MixHop."""

    hidden_channels: Count = 32  #: Width of each power of a layer.
    num_layers: Count = 2  #: Number of mixing layers.
    max_power: Natural = 2  #: Largest power of the adjacency; a layer has all from 0 on.
    batch_norm: bool = True  #: Normalise between the layers.
    dropout: Rate = 0.5  #: Before every layer but the first.


class MixHop(Baseline):
    r"""Several powers of the adjacency side by side,
    :math:`H' = \Vert_{p=0}^{P} \hat P^p H W_p`, with ReLU between the layers and a linear
    classifier on the last one.

    Sami Abu-El-Haija, Bryan Perozzi, Amol Kapoor, Nazanin Alipourfard, Kristina Lerman, Hrayr
    Harutyunyan, Greg Ver Steeg, Aram Galstyan: MixHop: Higher-Order Graph Convolutional
    Architectures via Sparsified Neighborhood Mixing. ICML 2019.

    A layer equals PyG's ``MixHopConv``; here the linear map comes before the propagation.
    """

    options: MixHopOptions

    def _make_layers(self, in_channels: int, out_channels: int) -> None:
        o, blocks = self.options, self.options.max_power + 1
        wide = o.hidden_channels * blocks
        sizes = [in_channels, *[wide] * (o.num_layers - 1)]
        self.layers = nn.ModuleList(Linear(a, wide, blocks=blocks) for a in sizes)
        self.norms = nn.ModuleList(nn.BatchNorm1d(wide) for _ in sizes if o.batch_norm)
        self.decoder = Linear(wide, out_channels, init="fan_in")

    def mix(self, layer: int, h: Matrix, p: Matrix) -> Tensor:
        """One layer: the blocks of columns, each under its own power."""
        part: Any = self.layers[layer]
        width = self.options.hidden_channels
        blocks = list(torch.split(h @ part.weight, width, dim=1))
        for power in range(1, self.options.max_power + 1):
            wide = p @ torch.cat(blocks[power:], dim=1)
            blocks[power:] = torch.split(wide, width, dim=1)
        mixed: Tensor = torch.cat(blocks, dim=1) + part.bias
        return mixed

    def forward(self, x: Matrix, edge_index: Tensor, generator: Generator | None = None) -> Tensor:
        """Logits."""
        o, p = self.options, self.constants(x, edge_index)
        h = x
        for layer in range(o.num_layers):
            mixed = self.mix(layer, h, p)
            mixed = self.norms[layer](mixed) if o.batch_norm else mixed
            h = drop(mixed.relu(), o.dropout, self.training, generator)
        return self.decoder(h)
