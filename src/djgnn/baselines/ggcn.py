"""GGCN (Yan et al., 2022), on sparse edges."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from djgnn.baselines.base import Baseline, symmetric_scale, with_loops
from djgnn.baselines.config import BaselineConfig
from djgnn.baselines.drawing import Linear, drop
from djgnn.baselines.options import Options as BaseOptions
from djgnn.baselines.options import count, option, rate
from djgnn.graph import Graph
from djgnn.graph.operator import SparseOperator
from djgnn.training.inputs import num_features


@dataclass(frozen=True)
class Options(BaseOptions):
    """Options of a GGCN.

    Args:
        hidden_channels: Width of the hidden layers.
        num_layers: Number of layers.
        decay_rate: The eta of the residual's decay.
        exponent: How fast it decays with the layer.
        dropout: On the features and before every layer.
    """

    hidden_channels: int = count(32)
    num_layers: int = count(2, least=2)
    decay_rate: float = option(1.0, least=0.0)
    exponent: float = option(3.0, least=0.0)
    dropout: float = rate(0.5)


@dataclass(frozen=True, eq=False)
class Edges:
    r"""Edges without loops: ends, :math:`\hat P_{ij}`, and how the degrees of the ends compare.

    Shapes:
        all ``[E]``.
    """

    hearer: Tensor
    speaker: Tensor
    weight: Tensor
    degree: Tensor


class GGCNLayer(nn.Module):
    r"""Signed messages of corrected weight,

    .. math::
        F = H W + b, \quad
        S_{ij} = \cos(F_i, F_j)\, \hat P_{ij}\, \mathrm{softplus}(d_0 r_{ij} + d_1), \quad
        r_{ij} = \hat P_{ii} / \hat P_{ij} - 1,

        H' = \mathrm{softplus}(s)(c_0 S^+ F + c_1 S^- F + c_2 F), \quad c = \mathrm{softmax}(\cdot),

    with the positive and the negative part of S.

    Shapes:
        F ``[n, width]``, result ``[n, width]``.
    """

    def __init__(self) -> None:
        super().__init__()
        self.degree = nn.Parameter(torch.zeros(2))
        self.parts = nn.Parameter(torch.zeros(3))
        self.scale = nn.Parameter(torch.zeros(1))

    def draw(self, generator: torch.Generator | None = None) -> None:
        """The published start: 0.5 and 0, equal parts, scale 2."""
        self.degree.copy_(torch.tensor([0.5, 0.0]))
        nn.init.zeros_(self.parts)
        nn.init.constant_(self.scale, 2.0)

    def forward(self, f: Tensor, edges: Edges) -> Tensor:
        """Aggregate F."""
        unit = F.normalize(f, dim=1, eps=1e-9)
        likeness = (unit[edges.hearer] * unit[edges.speaker]).sum(dim=1)
        correction = F.softplus(self.degree[0] * edges.degree + self.degree[1])
        signed = likeness * edges.weight * correction
        c = self.parts.softmax(dim=0)
        weight = c[0] * signed.relu() - c[1] * (-signed).relu()
        near = torch.zeros_like(f).index_add(0, edges.hearer, weight[:, None] * f[edges.speaker])
        return F.softplus(self.scale) * (near + c[2] * f)


class GGCN(Baseline):
    r"""Signed, degree-corrected convolutions (:class:`GGCNLayer`) with a decaying residual,

    .. math::
        R_1 = \mathrm{ELU}(X W) + \mathrm{ELU}(H_1), \quad
        R_l = R_{l-1} + \log(\eta / (l+1)^k + 1)\, \mathrm{ELU}(H_l), \quad
        H_{l+1} = \mathrm{GGCN}(R_l).

    Yujun Yan, Milad Hashemi, Kevin Swersky, Yaoqing Yang, Danai Koutra: Two Sides of the Same Coin:
    Heterophily and Oversmoothing in Graph Convolutional Neural Networks. ICDM 2022.

    Only edges have weights, so nothing is n x n; the published dense code gives the same values.

    Args:
        in_channels: Number of features.
        out_channels: Number of classes.
        options: Widths, decay and rates.

    Shapes:
        x ``[n, F]``, edge_index ``[2, E]``, logits ``[n, classes]``.
    """

    def __init__(self, in_channels: int, out_channels: int, options: Options) -> None:
        super().__init__()
        self.options = o = options
        wide = o.hidden_channels
        # The residual's first term and the first layer see the same dropped features.
        self.encoder = Linear(in_channels, 2 * wide, init="fan_in")
        outputs = [wide] * (o.num_layers - 2) + [out_channels]
        self.weights = nn.ModuleList(Linear(wide, b, init="fan_in") for b in outputs)
        self.layers = nn.ModuleList(GGCNLayer() for _ in range(o.num_layers))
        self.reset_parameters()

    def prepare(self, adjacency: sp.csr_array, like: Tensor | SparseOperator) -> Edges:
        """Normalised weights of the edges, and ratios of degrees."""
        p = sp.coo_array(symmetric_scale(with_loops(adjacency)))
        diagonal, (row, column) = p.diagonal(), p.coords
        apart = row != column
        hearer, speaker, weight = row[apart], column[apart], p.data[apart]
        parts: list[Any] = [hearer, speaker, weight, diagonal[hearer] / weight - 1]
        made = [torch.from_numpy(part).to(like.device) for part in parts]
        return Edges(
            *(part.long() for part in made[:2]), *(part.to(like.dtype) for part in made[2:])
        )

    def forward(
        self,
        x: Tensor | SparseOperator,
        edge_index: Tensor,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Logits."""
        o, edges = self.options, self.constants(x, edge_index)
        kept, first = self.encoder(x, o.dropout, generator).chunk(2, dim=1)
        kept = F.elu(kept)
        h: Tensor = self.layers[0](first, edges)
        for number, (linear, layer) in enumerate(zip(self.weights, self.layers[1:], strict=True)):
            share = math.log(o.decay_rate / (number + 2) ** o.exponent + 1) if number else 1.0
            kept = kept + share * drop(F.elu(h), o.dropout, self.training, generator)
            h = layer(linear(kept), edges)
        return h


def build(config: BaselineConfig, graph: Graph) -> GGCN:
    """A GGCN for a graph."""
    return GGCN(num_features(graph), graph.num_classes, Options(**config.options))
