"""CGNN (Xhonneux, Qu and Tang, 2020): a continuous graph neural network."""

import math
from dataclasses import dataclass
from typing import Annotated

import scipy.sparse as sp
import torch
from msgspec import Meta
from torch import Generator, Tensor, nn

from djgnn.baselines.base import Baseline, Linear, Matrix, Options
from djgnn.baselines.matrices import operator, symmetric_scale, without_loops
from djgnn.checking import Count, NonNegative, Number, Rate


@dataclass(frozen=True)
class CGNNOptions(Options):
    """Options of a CGNN."""

    hidden_channels: Count = 16  #: Width of the flow.
    time: NonNegative = 12.1  #: Length of the flow.
    #: Longest step of the solver.
    step: Annotated[float, Meta(ge=0.01, le=1e300, description="a number of at least 0.01")] = 1.0
    alpha: Number = 0.918  #: Initial logit of every node's rate.
    self_weight: NonNegative = 1.0  #: Weight of the self loops that are added.
    dropout: Rate = 0.0  #: Before the classifier.
    input_dropout: Rate = 0.5  #: On the features.


class CGNN(Baseline):
    r"""A linear flow from the encoded features,

    .. math::
        \dot H = \tfrac12 \mathrm{sigmoid}(\alpha) \circ (\hat P - I) H + H_0, \quad
        H(0) = H_0 = X W + b, \quad Y = \mathrm{ReLU}(H(T)) W_o + b_o,

    with a rate for each node and no gradient through the source term, as published. Solved by the
    classical Runge-Kutta method with fixed steps: the eigenvalues lie between -1 and 0, far inside
    its region of stability.

    Louis-Pascal A. C. Xhonneux, Meng Qu, Jian Tang: Continuous Graph Neural Networks. ICML 2020.
    """

    options: CGNNOptions
    node_parameters = ("alpha",)

    def _make_layers(self, in_channels: int, out_channels: int) -> None:
        self.encoder = Linear(in_channels, self.options.hidden_channels, init="fan_in")
        self.decoder = Linear(self.options.hidden_channels, out_channels, init="fan_in")
        self.alpha = nn.Parameter(torch.empty(self.num_nodes))

    def init_weights(self, generator: Generator) -> None:
        """Every rate starts alike."""
        nn.init.constant_(self.alpha, self.options.alpha)

    def prepare(self, adjacency: sp.csr_array, like: Matrix) -> Matrix:
        """The normalised adjacency with weighted loops."""
        n = adjacency.shape[0]
        looped = without_loops(adjacency) + self.options.self_weight * sp.eye_array(n)
        return operator(symmetric_scale(looped), like)

    def flow(self, start: Tensor, p: Matrix) -> Tensor:
        """H(T) from H(0)."""
        rate, source = 0.5 * self.alpha.sigmoid()[:, None], start.detach()

        def slope(h: Tensor) -> Tensor:
            return rate * (p @ h - h) + source

        steps = max(1, math.ceil(self.options.time / self.options.step))
        t, h = self.options.time / steps, start
        for _ in range(steps):
            a = slope(h)
            b = slope(h + t / 2 * a)
            c = slope(h + t / 2 * b)
            d = slope(h + t * c)
            h = h + t / 6 * (a + 2 * b + 2 * c + d)
        return h

    def forward(self, x: Matrix, edge_index: Tensor, generator: Generator | None = None) -> Tensor:
        """Logits."""
        start = self.encoder(x, self.options.input_dropout, generator)
        h = self.flow(start, self.constants(x, edge_index)).relu()
        return self.decoder(h, self.options.dropout, generator)
