"""GCNII (Chen et al., 2020)."""

import math
from dataclasses import dataclass

import torch
from torch import Generator, Tensor, nn

from djgnn.baselines.base import Baseline, Linear, Matrix, Options
from djgnn.checking import Count, NonNegative, Rate, Share
from djgnn.model.dropout import drop


@dataclass(frozen=True)
class GCNIIOptions(Options):
    """Options of a GCNII."""

    hidden_channels: Count = 64  #: Width of every layer.
    num_layers: Count = 16  #: Number of convolutions.
    alpha: Share = 0.5  #: Share of the first representation in every layer.
    lam: NonNegative = 0.5  #: The lambda that sets how fast the layers turn into the identity.
    variant: bool = False  #: GCNII*: own weights for the first representation.
    dropout: Rate = 0.5  #: On the features, before every convolution and before the classifier.


class GCNII(Baseline):
    r"""Deep convolutions that keep the first representation and stay near the identity,

    .. math::
        H_{l+1} = \mathrm{ReLU}\bigl(((1-\alpha) \hat P H_l + \alpha H_0)
        ((1-\beta_l) I + \beta_l W_l)\bigr), \quad \beta_l = \log(\lambda / l + 1),

    with :math:`H_0 = \mathrm{ReLU}(X W + b)` and
    :math:`\hat P = \hat D^{-1/2} \hat A \hat D^{-1/2}`. The variant has weights of its own for
    :math:`\hat P H_l` and :math:`H_0`.

    Ming Chen, Zhewei Wei, Zengfeng Huang, Bolin Ding, Yaliang Li: Simple and Deep Graph
    Convolutional Networks. ICML 2020.
    """

    options: GCNIIOptions

    def _make_layers(self, in_channels: int, out_channels: int) -> None:
        o, wide = self.options, self.options.hidden_channels
        self.encoder = Linear(in_channels, wide, init="fan_in")
        self.decoder = Linear(wide, out_channels, init="fan_in")
        seen = 2 * wide if o.variant else wide
        layers = (Linear(seen, wide, bias=False, init="fan_out") for _ in range(o.num_layers))
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Matrix, edge_index: Tensor, generator: Generator | None = None) -> Tensor:
        """Logits."""
        o, p = self.options, self.constants(x, edge_index)
        h = first = self.encoder(x, o.dropout, generator).relu()
        for number, layer in enumerate(self.layers, start=1):
            beta = math.log(o.lam / number + 1)
            near = p @ drop(h, o.dropout, self.training, generator)
            mixed = (1 - o.alpha) * near + o.alpha * first
            seen = torch.cat([near, first], dim=1) if o.variant else mixed
            h = ((1 - beta) * mixed + beta * layer(seen)).relu()
        return self.decoder(h, o.dropout, generator)
