"""Geom-GCN (Pei et al., 2020), with embeddings computed here."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from djgnn.baselines.base import Baseline, operator, without_loops
from djgnn.baselines.config import BaselineConfig
from djgnn.baselines.drawing import Linear, drop
from djgnn.baselines.latent_space import EMBEDDINGS, embed, latent_neighbours, quadrant
from djgnn.baselines.options import Options as BaseOptions
from djgnn.baselines.options import count, option, rate
from djgnn.graph import Graph
from djgnn.graph.operator import SparseOperator
from djgnn.training.inputs import num_features

RELATIONS = 9


@dataclass(frozen=True)
class Options(BaseOptions):
    """Options of a Geom-GCN.

    Args:
        hidden_channels: Width of each relation in the hidden layer.
        embedding: The latent space, ``"isomap"``, ``"spectral"`` or ``"poincare"``.
        dropout: Before both layers.
    """

    hidden_channels: int = count(32)
    embedding: str = option("isomap", choices=EMBEDDINGS)
    dropout: float = rate(0.5)


class GeomGCN(Baseline):
    r"""Neighbours in the graph and in a latent space, sorted by where they lie,

    .. math::
        H' = \mathrm{ReLU}\bigl(\Vert_{r} D^{-1/2} A_r D^{-1/2} H W_r\bigr), \quad
        Y = \tfrac19 \sum_r D^{-1/2} A_r D^{-1/2} H' W'_r,

    over nine relations r: the four quadrants of the plane in which a neighbour of the graph lies,
    the same four for neighbours of the latent space, and the node itself. D counts all of them.

    Hongbin Pei, Bingzhe Wei, Kevin Chen-Chuan Chang, Yu Lei, Bo Yang: Geom-GCN: Geometric Graph
    Convolutional Networks. ICLR 2020.

    Args:
        in_channels: Number of features.
        out_channels: Number of classes.
        options: Width, latent space and rates.

    Shapes:
        x ``[n, F]``, edge_index ``[2, E]``, logits ``[n, classes]``.
    """

    def __init__(self, in_channels: int, out_channels: int, options: Options) -> None:
        super().__init__()
        self.options = o = options
        wide = RELATIONS * o.hidden_channels
        self.first = Linear(in_channels, wide, bias=False, blocks=RELATIONS)
        self.second = Linear(wide, RELATIONS * out_channels, bias=False, blocks=RELATIONS)
        self.reset_parameters()

    def prepare(
        self, adjacency: sp.csr_array, like: Tensor | SparseOperator
    ) -> tuple[SparseOperator, ...]:
        """The nine normalised relations."""
        points = embed(adjacency, self.options.embedding)
        return tuple(operator(r, like) for r in relations(adjacency, points))

    def forward(
        self,
        x: Tensor | SparseOperator,
        edge_index: Tensor,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Logits."""
        o, parts = self.options, self.constants(x, edge_index)
        h = self.first(x, o.dropout, generator).chunk(RELATIONS, dim=1)
        hidden = torch.cat([r @ block for r, block in zip(parts, h, strict=True)], dim=1).relu()
        h = self.second(drop(hidden, o.dropout, self.training, generator)).chunk(RELATIONS, dim=1)
        return torch.stack([r @ block for r, block in zip(parts, h, strict=True)]).mean(dim=0)


def relations(
    adjacency: sp.csr_array, points: np.ndarray[tuple[int, int], np.dtype[np.float64]]
) -> list[sp.csr_array]:
    """The nine relations, normalised by the degrees of all together.

    Args:
        adjacency: Whom a node hears.
        points: Where the nodes lie.

    Shapes:
        adjacency ``[n, n]``, points ``[n, 2]``.
    """
    n = adjacency.shape[0]
    made = []
    for near in (without_loops(adjacency), latent_neighbours(points, adjacency.nnz / max(n, 1))):
        row, column = sp.coo_array(near).coords
        where = quadrant(points[row], points[column])
        for q in range(4):
            chosen = where == q
            ends = (row[chosen], column[chosen])
            made.append(sp.csr_array((np.ones(ends[0].size), ends), shape=(n, n)))
    made.append(sp.csr_array(sp.eye_array(n)))
    degree = sum(np.asarray(r.sum(axis=1)).reshape(-1) for r in made)
    root = sp.diags_array(1 / np.sqrt(degree))
    return [sp.csr_array(root @ r @ root) for r in made]


def build(config: BaselineConfig, graph: Graph) -> GeomGCN:
    """A Geom-GCN for a graph."""
    return GeomGCN(num_features(graph), graph.num_classes, Options(**config.options))
