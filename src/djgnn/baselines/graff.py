"""GRAFF (Di Giovanni et al., 2022): a gradient flow of an energy."""

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from msgspec import Meta
from torch import Generator, Tensor, nn

from djgnn.baselines.base import Baseline, Linear, Matrix, Options
from djgnn.checking import Count, NonNegative, Rate
from djgnn.model.dropout import drop


@dataclass(frozen=True)
class GRAFFOptions(Options):
    """Options of a GRAFF."""

    hidden_channels: Count = 64  #: Width of the flow.
    time: NonNegative = 2.0  #: Length of the flow.
    #: Length of a step; the last one may be shorter.
    step: Annotated[float, Meta(ge=0.01, le=1e300, description="a number of at least 0.01")] = 0.5
    #: The symmetric W: ``"diagonal"``, ``"dominant"`` (a free symmetric matrix whose diagonal is in
    #: proportion to its rows), or ``"sum"`` (half of M plus its transpose).
    weights: Literal["diagonal", "dominant", "sum"] = "diagonal"
    omega: bool = True  #: Whether there is a diagonal Omega.
    add_source: bool = True  #: Whether the start is added at every step.
    residual_encoder: bool = False  #: Two residual layers after the encoder.
    #: Standardise every step over the nodes, also in evaluation by the nodes given.
    batch_norm: bool = False
    dropout: Rate = 0.3  #: In the encoder and before the classifier.
    input_dropout: Rate = 0.4  #: On the features.


class SymmetricWeights(nn.Module):
    r"""A symmetric matrix: diagonal, dominant, or free.

    Dominant: :math:`W = S + \mathrm{diag}(q_i \sum_j |S_{ij}| + r_i)` for a symmetric S with an
    empty diagonal.

    Shapes:
        result ``[channels, channels]``.
    """

    def __init__(self, channels: int, style: str) -> None:
        super().__init__()
        self.channels, self.style = channels, style
        if style != "diagonal":
            self.weight = nn.Parameter(torch.empty(channels, channels))
        if style != "sum":
            self.shift = nn.Parameter(torch.empty(channels))
        if style == "dominant":
            self.slope = nn.Parameter(torch.empty(channels))

    def init_weights(self, generator: Generator | None = None) -> None:
        """The matrix Glorot, the diagonals uniform in -1..1."""
        for name, part in self.named_parameters():
            bound = 1.0 if name != "weight" else math.sqrt(3 / self.channels)
            nn.init.uniform_(part, -bound, bound, generator=generator)

    def forward(self) -> Tensor:
        """The matrix."""
        if self.style == "diagonal":
            return torch.diag(self.shift)
        even = (self.weight + self.weight.t()) / 2
        if self.style == "sum":
            return even
        even = even - torch.diag(even.diagonal())
        return even + torch.diag(self.slope * even.abs().sum(dim=1) + self.shift)


class GRAFF(Baseline):
    r"""Descent along an energy, with weights shared by all steps,

    .. math::
        H \leftarrow H + \tau\, (\bar A H W - H \Omega + \beta H_0), \quad W = W^\top, \;
        \Omega \text{ diagonal},

    for a symmetric normalised adjacency :math:`\bar A`. The direction is minus half the gradient of

    .. math::
        E(H) = \langle H, H\Omega \rangle - \langle H, \bar A H W \rangle
        - 2\beta \langle H, H_0 \rangle.

    No gradient of the loss flows through :math:`H_0`, as published.

    Francesco Di Giovanni, James Rowbottom, Benjamin P. Chamberlain, Thomas Markovich, Michael M.
    Bronstein: Graph Neural Networks as Gradient Flows (Understanding convolution on graphs via
    energies). TMLR 2023 (arXiv:2206.10991).
    """

    options: GRAFFOptions
    training_defaults: ClassVar = {"epochs": 150, "patience": None}
    loops = "removed"

    def _make_layers(self, in_channels: int, out_channels: int) -> None:
        o, wide = self.options, self.options.hidden_channels
        self.encoder = Linear(in_channels, wide, init="fan_in")
        deeper = 2 if o.residual_encoder else 0
        self.residuals = nn.ModuleList(Linear(wide, wide, init="fan_in") for _ in range(deeper))
        self.mixing = SymmetricWeights(wide, o.weights)
        self.omega = SymmetricWeights(wide, "diagonal") if o.omega else None
        self.beta = nn.Parameter(torch.zeros(())) if o.add_source else None
        self.decoder = Linear(wide, out_channels, init="fan_in")

    def init_weights(self, generator: Generator) -> None:
        """The source starts with weight 0."""
        if self.beta is not None:
            nn.init.zeros_(self.beta)

    def encode(self, x: Matrix, generator: Generator | None) -> Tensor:
        """Where the flow starts."""
        o = self.options
        h = self.encoder(x, o.input_dropout, generator)
        for number, layer in enumerate(self.residuals):
            h = h if number else drop(h, o.dropout, self.training, generator)
            h = drop(h + layer(h.relu()), o.dropout, self.training, generator)
        return h

    def slope(self, h: Tensor, start: Tensor, p: Matrix) -> Tensor:
        """The direction of a step."""
        narrow = h * self.mixing.shift if self.options.weights == "diagonal" else h @ self.mixing()
        result: Tensor = p @ narrow
        if self.omega is not None:
            result = result - h * self.omega.shift
        if self.beta is not None:
            result = result + self.beta * start.detach()
        if self.options.batch_norm:
            mean, variance = result.mean(dim=0), result.var(dim=0, unbiased=False)
            result = (result - mean) / (variance + 1e-5).sqrt()
        return result

    def forward(self, x: Matrix, edge_index: Tensor, generator: Generator | None = None) -> Tensor:
        """Logits."""
        o, p = self.options, self.constants(x, edge_index)
        h = start = self.encode(x, generator)
        for number in range(max(1, math.ceil(o.time / o.step - 1e-9))):
            length = min(o.step, o.time - number * o.step)
            h = h + length * self.slope(h, start, p)
        return self.decoder(h.relu(), o.dropout, generator)
