"""GCN (Kipf and Welling, 2017), on PyG's layer."""

from dataclasses import dataclass

from torch import Generator, Tensor

from djgnn.baselines.base import Baseline, Matrix, Options, gcn_layers, layer_sizes
from djgnn.checking import Count, Rate
from djgnn.model.dropout import relu_dropout


@dataclass(frozen=True)
class GCNOptions(Options):
    """Options of a GCN."""

    hidden_channels: Count = 64  #: Width of the hidden layers.
    num_layers: Count = 2  #: Number of layers.
    dropout: Rate = 0.5  #: Before every layer but the first.
    input_dropout: Rate = 0.0  #: On the features.


class GCN(Baseline):
    r"""Graph convolutions, :math:`H' = \mathrm{ReLU}(\hat D^{-1/2} \hat A \hat D^{-1/2} H W + b)`.

    Thomas N. Kipf, Max Welling: Semi-Supervised Classification with Graph Convolutional Networks.
    ICLR 2017.
    """

    options: GCNOptions

    def _make_layers(self, in_channels: int, out_channels: int) -> None:
        o = self.options
        sizes = layer_sizes(in_channels, o.hidden_channels, out_channels, o.num_layers)
        self.maps, self.layers = gcn_layers(sizes)

    def forward(self, x: Matrix, edge_index: Tensor, generator: Generator | None = None) -> Tensor:
        """Logits."""
        o = self.options
        first, *rest = zip(self.maps, self.layers, strict=True)
        h: Tensor = first[1](first[0](x, o.input_dropout, generator), edge_index)
        for linear, layer in rest:
            h = layer(linear(relu_dropout(h, o.dropout, self.training, generator)), edge_index)
        return h
