"""PairNorm (Zhao and Akoglu, 2020): a deep GCN that cannot collapse, on PyG's layers."""

from dataclasses import dataclass

from torch import Generator, Tensor

from djgnn.baselines.base import Baseline, Matrix, Options, gcn_layers, layer_sizes
from djgnn.checking import Count, NonNegative, Rate


@dataclass(frozen=True)
class PairNormOptions(Options):
    """Options of a GCN with PairNorm."""

    hidden_channels: Count = 64  #: Width of the hidden layers.
    num_layers: Count = 2  #: Number of convolutions.
    scale: NonNegative = 1.0  #: Root of the mean squared row norm after a normalisation.
    individually: bool = False  #: PN-SI: every row gets the same norm.
    dropout: Rate = 0.6  #: Before every layer.


class PairNormGCN(Baseline):
    r"""Graph convolutions whose results are centred and scaled,

    .. math::
        \tilde H = \hat P H W + b, \quad \bar H_i = \tilde H_i - \tfrac1n \sum_j \tilde H_j, \quad
        H'_i = \mathrm{ReLU}\Bigl(s \bar H_i / \sqrt{\tfrac1n \sum_j \Vert \bar H_j \Vert^2}\Bigr).

    Lingxiao Zhao, Leman Akoglu: PairNorm: Tackling Oversmoothing in GNNs. ICLR 2020.
    """

    options: PairNormOptions

    def _make_layers(self, in_channels: int, out_channels: int) -> None:
        from torch_geometric.nn import PairNorm

        o = self.options
        self.norm = PairNorm(o.scale, o.individually, eps=1e-6)
        sizes = layer_sizes(in_channels, o.hidden_channels, out_channels, o.num_layers)
        self.maps, self.layers = gcn_layers(sizes)

    def forward(self, x: Matrix, edge_index: Tensor, generator: Generator | None = None) -> Tensor:
        """Logits."""
        p = self.options.dropout
        first, *rest = zip(self.maps, self.layers, strict=True)
        h: Tensor = first[1](first[0](x, p, generator), edge_index)
        for linear, layer in rest:
            h = layer(linear(self.norm(h).relu(), p, generator), edge_index)
        return h
