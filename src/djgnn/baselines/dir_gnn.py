"""Dir-GNN (Rossi et al., 2023): both directions of every edge, with weights of their own."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from djgnn.baselines.base import Adjacency, Baseline, Linear, Matrix, Options
from djgnn.baselines.matrices import operator
from djgnn.checking import Count, Rate, Share
from djgnn.model.dropout import drop


@dataclass(frozen=True)
class DirGNNOptions(Options):
    """Options of a Dir-GNN."""

    adjacency: Adjacency = "given"
    hidden_channels: Count = 64  #: Width of every layer.
    num_layers: Count = 3  #: Number of layers.
    alpha: Share = 0.5  #: Weight of messages along `adjacency`; those against it have the rest.
    jumping: Literal["max", "cat"] = "max"  #: How the layers are joined.
    row_norm: bool = True  #: Give every row of every layer the norm 1.
    dropout: Rate = 0.0  #: After every layer.


class DirGNN(Baseline):
    r"""Two convolutions per layer, along the edges and against them,

    .. math::
        H' = \mathrm{ReLU}\bigl(\alpha (B H W_\to + b_\to)
        + (1-\alpha)(B^\top H W_\leftarrow + b_\leftarrow)\bigr), \quad
        B = D_{out}^{-1/2} A D_{in}^{-1/2},

    joined over the layers by a maximum or a concatenation.

    Emanuele Rossi, Bertrand Charpentier, Francesco Di Giovanni, Fabrizio Frasca, Stephan
    Guennemann, Michael M. Bronstein: Edge Directionality Improves Learning on Heterophilic Graphs.
    LoG 2023.
    """

    options: DirGNNOptions

    def _make_layers(self, in_channels: int, out_channels: int) -> None:
        o, wide = self.options, self.options.hidden_channels
        sizes = [in_channels, *[wide] * (o.num_layers - 1)]
        self.layers = nn.ModuleList(Linear(a, 2 * wide, init="fan_in") for a in sizes)
        joined = wide * o.num_layers if o.jumping == "cat" else wide
        self.decoder = Linear(joined, out_channels, init="fan_in")

    def prepare(self, adjacency: sp.csr_array, like: Matrix) -> tuple[Matrix, ...]:
        """The normalised adjacency and its transpose."""
        both = []
        for axis in (1, 0):
            degree = np.asarray(adjacency.sum(axis=axis), dtype=np.float64).reshape(-1)
            both.append(sp.diags_array(1 / np.sqrt(np.maximum(degree, 1))))
        matrix = sp.csr_array(both[0] @ adjacency @ both[1])
        return operator(matrix, like), operator(sp.csr_array(matrix.T), like)

    def forward(self, x: Matrix, edge_index: Tensor, generator: Generator | None = None) -> Tensor:
        """Logits."""
        o, (along, against) = self.options, self.constants(x, edge_index)
        layer: Any
        h: Any = x
        outputs = []
        for layer in self.layers:
            to, back = (h @ layer.weight).chunk(2, dim=1)
            bias_to, bias_back = layer.bias.chunk(2)
            mixed = o.alpha * (along @ to + bias_to) + (1 - o.alpha) * (against @ back + bias_back)
            h = drop(mixed.relu(), o.dropout, self.training, generator)
            h = F.normalize(h, dim=1) if o.row_norm else h
            outputs.append(h)
        if o.jumping == "cat":
            return self.decoder(torch.cat(outputs, dim=1))
        return self.decoder(torch.stack(outputs).amax(dim=0))
