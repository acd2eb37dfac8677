"""ACMII-GCN++ (Luan et al., 2022): adaptive channel mixing."""

from dataclasses import dataclass
from typing import ClassVar

import scipy.sparse as sp
import torch
from torch import Generator, Tensor, nn

from djgnn.baselines.base import Baseline, Linear, Matrix, Options, uniform
from djgnn.baselines.matrices import operator, row_scale
from djgnn.checking import Count, Rate
from djgnn.model.dropout import drop


@dataclass(frozen=True)
class ACMIIOptions(Options):
    """Options of an ACMII-GCN++."""

    hidden_channels: Count = 64  #: Width of the hidden layer.
    dropout: Rate = 0.5  #: On the features and before the second layer.
    structure: bool = False  #: A fourth channel from the rows of the adjacency.
    residual: bool = True  #: Add a map of the features before the second layer (the ``++``).
    layer_norm: bool = False  #: Normalise the channels for the mixing weights.


class ACMIILayer(nn.Module):
    r"""Channels that every node mixes for itself, non-linear before they are filtered,

    .. math::
        H_L = P\,\sigma(H W_L), \; H_H = (I - P)\,\sigma(H W_H), \; H_I = \sigma(H W_I), \;
        H_A = \sigma(A W_A),

        H' = s \sum_c \mathrm{diag}(\alpha_c) H_c, \quad
        \alpha = \mathrm{softmax}\bigl(\mathrm{sigmoid}([H_c a_c]_c)\, M / C\bigr),

    for C channels and :math:`P = D^{-1}(A + I)`; s = 3 without and 1 with the channel of A, as
    published.

    Shapes:
        hw ``[n, 3 * width]``, low_pass and adjacency ``[n, n]``, result ``[n, width]``.
    """

    def __init__(
        self, num_nodes: int, in_channels: int, out_channels: int, options: ACMIIOptions
    ) -> None:
        super().__init__()
        channels = 4 if options.structure else 3
        self.linear = Linear(in_channels, 3 * out_channels, False, "fan_out", blocks=3)
        rows = (num_nodes, out_channels)
        self.rows = nn.Parameter(torch.empty(rows)) if options.structure else None
        self.vectors = nn.Parameter(torch.empty(channels, out_channels))
        self.mixing = nn.Parameter(torch.empty(channels, channels))
        norms = channels if options.layer_norm else 0
        self.norms = nn.ModuleList(nn.LayerNorm(out_channels) for _ in range(norms))

    def init_weights(self, generator: Generator | None = None) -> None:
        """Uniform, with the published bounds."""
        if self.rows is not None:
            uniform(self.rows, self.rows.shape[1], generator)
        uniform(self.vectors, 1, generator)
        uniform(self.mixing, len(self.mixing), generator)

    def forward(self, hw: Tensor, low_pass: Matrix, adjacency: Matrix) -> Tensor:
        """Filter and mix the channels of `hw`, the result of `linear`."""
        low, high, own = hw.relu().chunk(3, dim=1)
        low, smooth = (low_pass @ torch.cat([low, high], dim=1)).chunk(2, dim=1)
        parts = [low, high - smooth, own]
        if self.rows is not None:
            parts.append((adjacency @ self.rows).relu())
        channels = seen = torch.stack(parts)
        if len(self.norms):
            seen = torch.stack([norm(c) for norm, c in zip(self.norms, channels, strict=True)])
        logits = torch.einsum("cnw,cw->nc", seen, self.vectors).sigmoid() @ self.mixing
        alpha = (logits / len(channels)).softmax(dim=1).t()[:, :, None]
        return (3.0 if self.rows is None else 1.0) * (alpha * channels).sum(dim=0)


class ACMIIGCN(Baseline):
    r"""Two layers of adaptive channel mixing (:class:`ACMIILayer`) and a residual of the features,
    :math:`Y = \mathrm{ACM}(\mathrm{ReLU}(\mathrm{ACM}(X)) + \mathrm{ReLU}(X W + b))`.

    Sitao Luan, Chenqing Hua, Qincheng Lu, Jiaqi Zhu, Mingde Zhao, Shuyuan Zhang, Xiao-Wen Chang,
    Doina Precup: Revisiting Heterophily For Graph Neural Networks. NeurIPS 2022.
    """

    options: ACMIIOptions
    training_defaults: ClassVar = {"epochs": 5000, "patience": 200}
    node_parameters = ("first.rows", "second.rows")

    def _make_layers(self, in_channels: int, out_channels: int) -> None:
        o, n, wide = self.options, self.num_nodes, self.options.hidden_channels
        self.first = ACMIILayer(n, in_channels, wide, o)
        self.second = ACMIILayer(n, wide, out_channels, o)
        self.residual = Linear(in_channels, wide, init="fan_in") if o.residual else None

    def prepare(self, adjacency: sp.csr_array, like: Matrix) -> tuple[Matrix, ...]:
        """The low pass filter D^-1 (A + I), and A."""
        looped = adjacency + sp.eye_array(adjacency.shape[0])
        return operator(row_scale(looped), like), operator(adjacency, like)

    def forward(self, x: Matrix, edge_index: Tensor, generator: Generator | None = None) -> Tensor:
        """Logits."""
        p, filters = self.options.dropout, self.constants(x, edge_index)
        h = self.first(self.first.linear(x, p, generator), *filters).relu()
        h = drop(h, p, self.training, generator)
        if self.residual is not None:
            own = self.residual(x, p, generator).relu()
            h = h + drop(own, p, self.training, generator)
        logits: Tensor = self.second(self.second.linear(h), *filters)
        return logits
