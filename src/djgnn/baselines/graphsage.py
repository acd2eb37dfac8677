"""GraphSAGE (Hamilton, Ying and Leskovec, 2017) with mean aggregation, full batch."""

from dataclasses import dataclass

from torch import Generator, Tensor, nn

from djgnn.baselines.base import Baseline, Linear, Matrix, Options, layer_sizes
from djgnn.checking import Count, Rate
from djgnn.model.dropout import relu_dropout


@dataclass(frozen=True)
class GraphSAGEOptions(Options):
    """Options of a GraphSAGE."""

    hidden_channels: Count = 64  #: Width of the hidden layers.
    num_layers: Count = 2  #: Number of layers.
    dropout: Rate = 0.5  #: Before every layer but the first.


class SAGELayer(nn.Module):
    r"""One layer, :math:`H_i W_r + \mathrm{mean}_{j \in N(i)} H_j W_n + b`.

    It equals PyG's ``SAGEConv``, which would copy all features of every edge's source; here the
    linear map comes before the aggregation.

    Shapes:
        h ``[n, in_channels]``, result ``[n, out_channels]``.
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.own = Linear(in_channels, out_channels, bias=False, init="fan_in")
        self.near = Linear(in_channels, out_channels, init="fan_in")

    def forward(self, h: Matrix, mean: Matrix) -> Tensor:
        """One layer; `mean` averages over the neighbours."""
        near = mean @ (h @ self.near.weight)
        result: Tensor = self.own(h) + near + self.near.bias
        return result


class GraphSAGE(Baseline):
    """Mean aggregation (:class:`SAGELayer`) with ReLU between the layers.

    William L. Hamilton, Rex Ying, Jure Leskovec: Inductive Representation Learning on Large Graphs.
    NeurIPS 2017.
    """

    options: GraphSAGEOptions
    loops, scaling = "given", "row"  # the mean over the neighbours

    def _make_layers(self, in_channels: int, out_channels: int) -> None:
        o = self.options
        sizes = layer_sizes(in_channels, o.hidden_channels, out_channels, o.num_layers)
        self.layers = nn.ModuleList(SAGELayer(a, b) for a, b in sizes)

    def forward(self, x: Matrix, edge_index: Tensor, generator: Generator | None = None) -> Tensor:
        """Logits."""
        mean, (first, *rest) = self.constants(x, edge_index), self.layers
        h: Tensor = first(x, mean)
        for layer in rest:
            h = layer(relu_dropout(h, self.options.dropout, self.training, generator), mean)
        return h
