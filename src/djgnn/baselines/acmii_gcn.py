"""ACMII-GCN++ (Luan et al., 2022): adaptive channel mixing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import scipy.sparse as sp
import torch
from torch import Tensor, nn

from djgnn.baselines.base import Baseline, operator, row_scale
from djgnn.baselines.config import BaselineConfig
from djgnn.baselines.drawing import Linear, drop, uniform
from djgnn.baselines.options import Options as BaseOptions
from djgnn.baselines.options import count, rate
from djgnn.graph import Graph
from djgnn.graph.operator import SparseOperator
from djgnn.training.inputs import num_features

TRAINING = {"epochs": 5000, "patience": 200}


@dataclass(frozen=True)
class Options(BaseOptions):
    """Options of an ACMII-GCN++.

    Args:
        hidden_channels: Width of the hidden layer.
        dropout: On the features and before the second layer.
        structure: A fourth channel from the rows of the adjacency.
        residual: Add a map of the features before the second layer (the ``++``).
        layer_norm: Normalise the channels for the mixing weights.
    """

    hidden_channels: int = count(64)
    dropout: float = rate(0.5)
    structure: bool = False
    residual: bool = True
    layer_norm: bool = False


@dataclass(frozen=True, eq=False)
class Filters:
    """The low pass filter D^-1 (A + I), and A itself."""

    low: SparseOperator
    adjacency: SparseOperator


class ACMIILayer(nn.Module):
    r"""Channels that every node mixes for itself, non-linear before they are filtered,

    .. math::
        H_L = P\,\sigma(H W_L), \; H_H = (I - P)\,\sigma(H W_H), \; H_I = \sigma(H W_I), \;
        H_A = \sigma(A W_A),

        H' = s \sum_c \mathrm{diag}(\alpha_c) H_c, \quad
        \alpha = \mathrm{softmax}\bigl(\mathrm{sigmoid}([H_c a_c]_c)\, M / C\bigr),

    for C channels; s = 3 without and 1 with the channel of A, as published.

    Shapes:
        h ``[n, in_channels]``, result ``[n, out_channels]``.
    """

    def __init__(
        self, num_nodes: int, in_channels: int, out_channels: int, options: Options
    ) -> None:
        super().__init__()
        self.out_channels = out_channels
        count_ = 4 if options.structure else 3
        self.linear = Linear(in_channels, 3 * out_channels, False, "fan_out", blocks=3)
        self.rows = (
            nn.Parameter(torch.empty(num_nodes, out_channels)) if options.structure else None
        )
        self.vectors = nn.Parameter(torch.empty(count_, out_channels))
        self.mixing = nn.Parameter(torch.empty(count_, count_))
        norms = count_ if options.layer_norm else 0
        self.norms = nn.ModuleList(nn.LayerNorm(out_channels) for _ in range(norms))

    def draw(self, generator: torch.Generator | None = None) -> None:
        """Uniform, with the published bounds."""
        if self.rows is not None:
            uniform(self.rows, self.out_channels, generator)
        uniform(self.vectors, 1, generator)
        uniform(self.mixing, len(self.mixing), generator)

    def alpha(self, channels: Tensor) -> Tensor:
        """The mixing weights of every node, ``[channels, n, 1]``."""
        seen = channels
        if len(self.norms):
            seen = torch.stack([norm(c) for norm, c in zip(self.norms, channels, strict=True)])
        logits = torch.einsum("cnw,cw->nc", seen, self.vectors).sigmoid() @ self.mixing
        return (logits / len(channels)).softmax(dim=1).t()[:, :, None]

    def forward(self, h: Any, filters: Filters, dropout: float, generator: Any) -> Tensor:
        """Filter and mix."""
        low, high, own = self.linear(h, dropout, generator).relu().chunk(3, dim=1)
        smooth = filters.low @ torch.cat([low, high], dim=1)
        low, gone = smooth.chunk(2, dim=1)
        channels = [low, high - gone, own]
        if self.rows is not None:
            channels.append((filters.adjacency @ self.rows).relu())
        stacked = torch.stack(channels)
        scale = 3.0 if self.rows is None else 1.0
        return scale * (self.alpha(stacked) * stacked).sum(dim=0)


class ACMIIGCN(Baseline):
    r"""Two layers of adaptive channel mixing (:class:`ACMIILayer`) and a residual of the features,
    :math:`Y = \mathrm{ACM}(\mathrm{ReLU}(\mathrm{ACM}(X)) + \mathrm{ReLU}(X W + b))`.

    Sitao Luan, Chenqing Hua, Qincheng Lu, Jiaqi Zhu, Mingde Zhao, Shuyuan Zhang, Xiao-Wen Chang,
    Doina Precup: Revisiting Heterophily For Graph Neural Networks. NeurIPS 2022.

    Args:
        num_nodes: Number of nodes; the channel of A has a row of weights for each.
        in_channels: Number of features.
        out_channels: Number of classes.
        options: Width, channels and rates.

    Shapes:
        x ``[n, F]``, edge_index ``[2, E]``, logits ``[n, classes]``.
    """

    node_parameters = ("first.rows", "second.rows")

    def __init__(
        self, num_nodes: int, in_channels: int, out_channels: int, options: Options
    ) -> None:
        super().__init__()
        self.options = o = options
        self.first = ACMIILayer(num_nodes, in_channels, o.hidden_channels, o)
        self.second = ACMIILayer(num_nodes, o.hidden_channels, out_channels, o)
        self.residual = (
            Linear(in_channels, o.hidden_channels, init="fan_in") if o.residual else None
        )
        self.reset_parameters()

    def prepare(self, adjacency: sp.csr_array, like: Tensor | SparseOperator) -> Filters:
        """The low pass filter and the adjacency."""
        looped = adjacency + sp.eye_array(adjacency.shape[0])
        return Filters(operator(row_scale(looped), like), operator(adjacency, like))

    def forward(
        self,
        x: Tensor | SparseOperator,
        edge_index: Tensor,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Logits."""
        p, filters = self.options.dropout, self.constants(x, edge_index)
        h = drop(self.first(x, filters, p, generator).relu(), p, self.training, generator)
        if self.residual is not None:
            own = self.residual(x, p, generator).relu()
            h = h + drop(own, p, self.training, generator)
        logits: Tensor = self.second(h, filters, 0.0, None)
        return logits


def build(config: BaselineConfig, graph: Graph) -> ACMIIGCN:
    """An ACMII-GCN++ for a graph."""
    o = Options(**config.options)
    return ACMIIGCN(graph.num_nodes, num_features(graph), graph.num_classes, o)
