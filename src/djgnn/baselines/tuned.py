"""GCN, GAT and GraphSAGE with residuals, normalisation and dropout, which make them strong."""

from dataclasses import dataclass
from typing import Literal, cast

import torch
from torch import Generator, Tensor, nn

from djgnn.baselines.base import Baseline, Linear, Matrix, Options, uninitialized
from djgnn.baselines.graphsage import SAGELayer
from djgnn.checking import Count, Rate
from djgnn.model.dropout import drop


@dataclass(frozen=True)
class TunedOptions(Options):
    """Options of a tuned network."""

    hidden_channels: Count = 128  #: Width of every layer.
    num_layers: Count = 3  #: Number of convolutions.
    dropout: Rate = 0.5  #: After the encoder and after every layer.
    norm: Literal["none", "layer", "batch"] = "layer"  #: Normalisation after every convolution.
    residual: bool = True  #: A linear map beside every convolution.
    jumping: bool = False  #: The classifier sees the sum of all layers instead of the last.


@dataclass(frozen=True)
class TunedGATOptions(TunedOptions):
    """Options of a tuned GAT."""

    heads: Count = 4  #: Attention heads, which share the width.

    def __post_init__(self) -> None:
        super().__post_init__()
        wide, heads = self.hidden_channels, self.heads
        if wide % heads:
            raise ValueError(f"hidden_channels must be a multiple of {heads=} (got {wide})")


class Tuned(Baseline):
    r"""A message-passing network with the usual additions,

    .. math::
        H_0 = X W + b, \quad
        H_{l+1} = \mathrm{dropout}(\mathrm{ReLU}(\mathrm{norm}(\mathrm{conv}(H_l) + H_l R_l))),
        \quad Y = H_L W_o + b_o.

    Yuankai Luo, Lei Shi, Xiao-Ming Wu: Classic GNNs are Strong Baselines: Reassessing GNNs for Node
    Classification. NeurIPS 2024.
    """

    options: TunedOptions

    def convolution(self, width: int) -> nn.Module:
        """One layer, from `width` channels to as many."""
        raise NotImplementedError

    def convolution_edges(self, x: Matrix, edge_index: Tensor) -> Matrix:
        """The second argument of the convolutions: PyG's take the edges themselves."""
        return edge_index

    def _make_layers(self, in_channels: int, out_channels: int) -> None:
        o, depth = self.options, range(self.options.num_layers)
        wide = o.hidden_channels
        self.encoder = Linear(in_channels, wide, init="fan_in")
        self.layers = nn.ModuleList(self.convolution(wide) for _ in depth)
        self.residuals = nn.ModuleList(
            Linear(wide, wide, init="fan_in") for _ in depth if o.residual
        )
        kind = nn.LayerNorm if o.norm == "layer" else nn.BatchNorm1d
        self.norms = nn.ModuleList(kind(wide) for _ in depth if o.norm != "none")
        self.decoder = Linear(wide, out_channels, init="fan_in")

    def forward(self, x: Matrix, edge_index: Tensor, generator: Generator | None = None) -> Tensor:
        """Logits."""
        o, edges = self.options, self.convolution_edges(x, edge_index)
        h = drop(self.encoder(x), o.dropout, self.training, generator)
        total = torch.zeros_like(h)
        for number, layer in enumerate(self.layers):
            near = layer(h, edges)
            near = near + self.residuals[number](h) if o.residual else near
            near = self.norms[number](near) if o.norm != "none" else near
            h = drop(near.relu(), o.dropout, self.training, generator)
            total = total + h
        return self.decoder(total if o.jumping else h)


class TunedGCN(Tuned):
    """A tuned network with the convolution of :class:`djgnn.baselines.gcn.GCN`."""

    def convolution(self, width: int) -> nn.Module:
        """PyG's layer."""
        from torch_geometric.nn import GCNConv

        return cast(nn.Module, uninitialized(GCNConv, width, width, cached=True))


class TunedGAT(Tuned):
    """A tuned network with the attention of :class:`djgnn.baselines.gat.GAT`."""

    options: TunedGATOptions
    capturable = False  # see GAT

    def convolution(self, width: int) -> nn.Module:
        """PyG's layer; the heads share the width."""
        from torch_geometric.nn import GATConv

        heads = self.options.heads
        return cast(nn.Module, uninitialized(GATConv, width, width // heads, heads=heads))


class TunedSAGE(Tuned):
    """A tuned network with the layers of :class:`djgnn.baselines.graphsage.GraphSAGE`."""

    loops, scaling = "given", "row"  # the mean over the neighbours

    def convolution(self, width: int) -> nn.Module:
        """Mean aggregation."""
        return SAGELayer(width, width)

    def convolution_edges(self, x: Matrix, edge_index: Tensor) -> Matrix:
        """The mean over the neighbours."""
        return cast(Matrix, self.constants(x, edge_index))
