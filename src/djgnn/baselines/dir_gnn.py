"""Dir-GNN (Rossi et al., 2023): both directions of every edge, with weights of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from djgnn.baselines.base import Baseline, operator
from djgnn.baselines.config import BaselineConfig
from djgnn.baselines.drawing import Linear, drop
from djgnn.baselines.options import ADJACENCIES, count, option, rate
from djgnn.baselines.options import Options as BaseOptions
from djgnn.graph import Graph
from djgnn.graph.operator import SparseOperator
from djgnn.training.inputs import num_features


@dataclass(frozen=True)
class Options(BaseOptions):
    """Options of a Dir-GNN.

    Args:
        hidden_channels: Width of every layer.
        num_layers: Number of layers.
        alpha: Share of those a node points at; the others point at it.
        jumping: How the layers are joined, ``"max"`` or ``"cat"``.
        row_norm: Give every row of every layer the norm 1.
        dropout: After every layer.
    """

    adjacency: str = option("given", choices=ADJACENCIES)
    hidden_channels: int = count(64)
    num_layers: int = count(3)
    alpha: float = option(0.5, least=0.0, most=1.0)
    jumping: str = option("max", choices=("max", "cat"))
    row_norm: bool = True
    dropout: float = rate(0.0)


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

    Args:
        in_channels: Number of features.
        out_channels: Number of classes.
        options: Width, depth, alpha and rates.

    Shapes:
        x ``[n, F]``, edge_index ``[2, E]``, logits ``[n, classes]``.
    """

    def __init__(self, in_channels: int, out_channels: int, options: Options) -> None:
        super().__init__()
        self.options = o = options
        wide = o.hidden_channels
        self.layers = nn.ModuleList(
            Linear(wide if layer else in_channels, 2 * wide, init="fan_in")
            for layer in range(o.num_layers)
        )
        joined = wide * o.num_layers if o.jumping == "cat" else wide
        self.decoder = Linear(joined, out_channels, init="fan_in")
        self.reset_parameters()

    def prepare(
        self, adjacency: sp.csr_array, like: Tensor | SparseOperator
    ) -> tuple[SparseOperator, SparseOperator]:
        """The normalised adjacency and its transpose."""
        both = []
        for axis in (1, 0):
            degree = np.asarray(adjacency.sum(axis=axis), dtype=np.float64).reshape(-1)
            both.append(sp.diags_array(1 / np.sqrt(np.maximum(degree, 1))))
        matrix = sp.csr_array(both[0] @ adjacency @ both[1])
        return operator(matrix, like), operator(sp.csr_array(matrix.T), like)

    def forward(
        self,
        x: Tensor | SparseOperator,
        edge_index: Tensor,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Logits."""
        o, (along, against) = self.options, self.constants(x, edge_index)
        h: Any = x
        seen = []
        layer: Any
        for layer in self.layers:
            to, back = (h @ layer.weight).chunk(2, dim=1)
            bias_to, bias_back = layer.bias.chunk(2)
            mixed = o.alpha * (along @ to + bias_to) + (1 - o.alpha) * (against @ back + bias_back)
            h = drop(mixed.relu(), o.dropout, self.training, generator)
            h = F.normalize(h, dim=1) if o.row_norm else h
            seen.append(h)
        joined = torch.cat(seen, dim=1) if o.jumping == "cat" else torch.stack(seen).amax(dim=0)
        logits: Tensor = self.decoder(joined)
        return logits


def build(config: BaselineConfig, graph: Graph) -> DirGNN:
    """A Dir-GNN for a graph."""
    return DirGNN(num_features(graph), graph.num_classes, Options(**config.options))
