"""Plain convolutions with what makes them strong today: residuals, normalisation, dropout."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import scipy.sparse as sp
import torch
from torch import Tensor, nn

from djgnn.baselines.base import Baseline, operator, row_scale
from djgnn.baselines.drawing import Linear, drop
from djgnn.baselines.options import Options as BaseOptions
from djgnn.baselines.options import count, option, rate
from djgnn.graph.operator import SparseOperator

NORMS = ("none", "layer", "batch")


@dataclass(frozen=True)
class TunedOptions(BaseOptions):
    """Options of a tuned convolution.

    Args:
        hidden_channels: Width of every layer.
        num_layers: Number of convolutions.
        dropout: After the encoder and after every layer.
        norm: Normalisation after every convolution: ``"none"``, ``"layer"`` or ``"batch"``.
        residual: A linear map beside every convolution.
        jumping: The classifier sees the sum of all layers instead of the last.
    """

    hidden_channels: int = count(128)
    num_layers: int = count(3)
    dropout: float = rate(0.5)
    norm: str = option("layer", choices=NORMS)
    residual: bool = True
    jumping: bool = False


class Tuned(Baseline):
    r"""A message-passing network with the usual additions,

    .. math::
        H_0 = X W + b, \quad
        H_{l+1} = \mathrm{dropout}(\mathrm{ReLU}(\mathrm{norm}(\mathrm{conv}(H_l) + H_l R_l))),
        \quad Y = H_L W_o + b_o.

    Yuankai Luo, Lei Shi, Xiao-Ming Wu: Classic GNNs are Strong Baselines: Reassessing GNNs for Node
    Classification. NeurIPS 2024.

    Args:
        in_channels: Number of features.
        out_channels: Number of classes.
        options: Width, depth and additions.
        convolution: Makes a layer from the width of its input and of its output.

    Shapes:
        x ``[n, F]``, edge_index ``[2, E]``, logits ``[n, classes]``.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        options: TunedOptions,
        convolution: Callable[[int, int], nn.Module],
    ) -> None:
        super().__init__()
        self.options = o = options
        wide, depth = o.hidden_channels, range(o.num_layers)
        self.encoder = Linear(in_channels, wide, init="fan_in")
        self.layers = nn.ModuleList(convolution(wide, wide) for _ in depth)
        self.residuals = nn.ModuleList(
            Linear(wide, wide, init="fan_in") for _ in depth if o.residual
        )
        kind = nn.LayerNorm if o.norm == "layer" else nn.BatchNorm1d
        self.norms = nn.ModuleList(kind(wide) for _ in depth if o.norm != "none")
        self.decoder = Linear(wide, out_channels, init="fan_in")
        self.reset_parameters()

    def prepare(self, adjacency: sp.csr_array, like: Tensor | SparseOperator) -> SparseOperator:
        """The average over those a node hears."""
        return operator(row_scale(adjacency), like)

    def edges(self, x: Tensor | SparseOperator, edge_index: Tensor) -> Tensor | SparseOperator:
        """What the convolutions take: PyG's take the edges themselves."""
        return edge_index

    def forward(
        self,
        x: Tensor | SparseOperator,
        edge_index: Tensor,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Logits."""
        o, edges = self.options, self.edges(x, edge_index)
        h: Tensor = drop(self.encoder(x), o.dropout, self.training, generator)
        total = torch.zeros_like(h)
        for number, layer in enumerate(self.layers):
            near = layer(h, edges)
            near = near + self.residuals[number](h) if o.residual else near
            near = self.norms[number](near) if o.norm != "none" else near
            h = drop(near.relu(), o.dropout, self.training, generator)
            total = total + h
        logits: Tensor = self.decoder(total if o.jumping else h)
        return logits
