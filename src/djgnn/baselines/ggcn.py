"""GGCN (Yan et al., 2022), on sparse edges."""

import math
from dataclasses import dataclass
from typing import Annotated

import scipy.sparse as sp
import torch
import torch.nn.functional as F
from msgspec import Meta
from torch import Generator, Tensor, nn

from djgnn.baselines.base import Baseline, Linear, Matrix, Options
from djgnn.baselines.matrices import symmetric_scale, with_loops
from djgnn.checking import Count, NonNegative, Rate
from djgnn.model.dropout import drop


@dataclass(frozen=True)
class GGCNOptions(Options):
    """Options of a GGCN."""

    hidden_channels: Count = 32  #: Width of the hidden layers.
    #: Number of layers.
    num_layers: Annotated[int, Meta(ge=2, description="a whole number of at least 2")] = 2
    decay_rate: NonNegative = 1.0  #: The eta of the residual's decay.
    exponent: NonNegative = 3.0  #: How fast it decays with the layer.
    dropout: Rate = 0.5  #: On the features and before every layer.


class GGCNLayer(nn.Module):
    r"""Signed messages of corrected weight,

    .. math::
        F = H W + b, \quad
        S_{ij} = \cos(F_i, F_j)\, \hat P_{ij}\, \mathrm{softplus}(d_0 r_{ij} + d_1), \quad
        r_{ij} = \hat P_{ii} / \hat P_{ij} - 1,

        H' = \mathrm{softplus}(s)(c_0 S^+ F + c_1 S^- F + c_2 F), \quad c = \mathrm{softmax}(\cdot),

    with the positive and the negative part of S.

    Shapes:
        F ``[n, width]``; target, source, weight and ratio ``[E]``; result ``[n, width]``.
    """

    def __init__(self) -> None:
        super().__init__()
        self.degree = nn.Parameter(torch.zeros(2))
        self.parts = nn.Parameter(torch.zeros(3))
        self.scale = nn.Parameter(torch.zeros(1))

    def init_weights(self, generator: Generator | None = None) -> None:
        """The published start: 0.5 and 0, equal parts, scale 2."""
        self.degree.copy_(torch.tensor([0.5, 0.0]))
        nn.init.zeros_(self.parts)
        nn.init.constant_(self.scale, 2.0)

    def forward(
        self, f: Tensor, target: Tensor, source: Tensor, weight: Tensor, ratio: Tensor
    ) -> Tensor:
        r"""Aggregate F over edges with weights :math:`\hat P_{ij}` and ratios :math:`r_{ij}`."""
        unit = F.normalize(f, dim=1, eps=1e-9)
        cosine = (unit[target] * unit[source]).sum(dim=1)
        signed = cosine * weight * F.softplus(self.degree[0] * ratio + self.degree[1])
        c = self.parts.softmax(dim=0)
        mixed = c[0] * signed.relu() - c[1] * (-signed).relu()
        near = torch.zeros_like(f).index_add(0, target, mixed[:, None] * f[source])
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
    """

    options: GGCNOptions

    def _make_layers(self, in_channels: int, out_channels: int) -> None:
        o, wide = self.options, self.options.hidden_channels
        # The residual's first term and the first layer see the same dropped features.
        self.encoder = Linear(in_channels, 2 * wide, init="fan_in")
        outputs = [wide] * (o.num_layers - 2) + [out_channels]
        self.weights = nn.ModuleList(Linear(wide, b, init="fan_in") for b in outputs)
        self.layers = nn.ModuleList(GGCNLayer() for _ in range(o.num_layers))

    def prepare(self, adjacency: sp.csr_array, like: Matrix) -> tuple[Tensor, ...]:
        """Target, source, normalised weight and ratio of degrees of each edge without loops."""
        p = sp.coo_array(symmetric_scale(with_loops(adjacency)))
        apart = p.coords[0] != p.coords[1]
        target, source, weight = p.coords[0][apart], p.coords[1][apart], p.data[apart]
        ratio = p.diagonal()[target] / weight - 1
        ends = (torch.from_numpy(end).to(like.device).long() for end in (target, source))
        values = (torch.from_numpy(v).to(like.device, like.dtype) for v in (weight, ratio))
        return *ends, *values

    def forward(self, x: Matrix, edge_index: Tensor, generator: Generator | None = None) -> Tensor:
        """Logits."""
        o, edges = self.options, self.constants(x, edge_index)
        kept, first = self.encoder(x, o.dropout, generator).chunk(2, dim=1)
        kept = F.elu(kept)
        h: Tensor = self.layers[0](first, *edges)
        for number, (linear, layer) in enumerate(zip(self.weights, self.layers[1:], strict=True)):
            share = math.log(o.decay_rate / (number + 2) ** o.exponent + 1) if number else 1.0
            kept = kept + share * drop(F.elu(h), o.dropout, self.training, generator)
            h = layer(linear(kept), *edges)
        return h
