"""CGNN (Xhonneux, Qu and Tang, 2020): a continuous graph neural network."""

from __future__ import annotations

import math
from dataclasses import dataclass

import scipy.sparse as sp
import torch
from torch import Tensor, nn

from djgnn.baselines.base import Baseline, operator, symmetric_scale, without_loops
from djgnn.baselines.config import BaselineConfig
from djgnn.baselines.drawing import Linear
from djgnn.baselines.options import Options as BaseOptions
from djgnn.baselines.options import count, option, rate
from djgnn.graph import Graph
from djgnn.graph.operator import SparseOperator
from djgnn.training.inputs import num_features


@dataclass(frozen=True)
class Options(BaseOptions):
    """Options of a CGNN.

    Args:
        hidden_channels: Width of the flow.
        time: How long it flows.
        step: Longest step of the solver.
        alpha: Where the logit of every node's rate starts.
        self_weight: Weight of the self loops that are added.
        dropout: Before the classifier.
        input_dropout: On the features.
    """

    hidden_channels: int = count(16)
    time: float = option(12.1, least=0.0)
    step: float = option(1.0, least=0.01)
    alpha: float = option(0.918)
    self_weight: float = option(1.0, least=0.0)
    dropout: float = rate(0.0)
    input_dropout: float = rate(0.5)


class CGNN(Baseline):
    r"""A linear flow from the encoded features,

    .. math::
        \dot H = \tfrac12 \mathrm{sigmoid}(\alpha) \circ (\hat P - I) H + H_0, \quad
        H(0) = H_0 = X W + b, \quad Y = \mathrm{ReLU}(H(T)) W_o + b_o,

    with a rate for each node and no gradient through the source term, as published. Solved by the
    classical Runge-Kutta method with fixed steps: the eigenvalues lie between -1 and 0, far inside
    its region of stability.

    Louis-Pascal A. C. Xhonneux, Meng Qu, Jian Tang: Continuous Graph Neural Networks. ICML 2020.

    Args:
        num_nodes: Number of nodes.
        in_channels: Number of features.
        out_channels: Number of classes.
        options: Width, time and rates.

    Shapes:
        x ``[n, F]``, edge_index ``[2, E]``, logits ``[n, classes]``.
    """

    node_parameters = ("alpha",)

    def __init__(
        self, num_nodes: int, in_channels: int, out_channels: int, options: Options
    ) -> None:
        super().__init__()
        self.options = o = options
        self.encoder = Linear(in_channels, o.hidden_channels, init="fan_in")
        self.decoder = Linear(o.hidden_channels, out_channels, init="fan_in")
        self.alpha = nn.Parameter(torch.empty(num_nodes))
        self.reset_parameters()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the encoder and the classifier; every rate starts alike."""
        super().reset_parameters(generator)
        nn.init.constant_(self.alpha, self.options.alpha)

    def prepare(self, adjacency: sp.csr_array, like: Tensor | SparseOperator) -> SparseOperator:
        """The normalised adjacency with weighted loops."""
        n = adjacency.shape[0]
        looped = without_loops(adjacency) + self.options.self_weight * sp.eye_array(n)
        return operator(symmetric_scale(looped), like)

    def flow(self, start: Tensor, p: SparseOperator) -> Tensor:
        """H(T) from H(0)."""
        rate_ = 0.5 * self.alpha.sigmoid()[:, None]
        source = start.detach()

        def slope(h: Tensor) -> Tensor:
            return rate_ * (p @ h - h) + source

        steps = max(1, math.ceil(self.options.time / self.options.step))
        t, h = self.options.time / steps, start
        for _ in range(steps):
            a = slope(h)
            b = slope(h + t / 2 * a)
            c = slope(h + t / 2 * b)
            d = slope(h + t * c)
            h = h + t / 6 * (a + 2 * b + 2 * c + d)
        return h

    def forward(
        self,
        x: Tensor | SparseOperator,
        edge_index: Tensor,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Logits."""
        start = self.encoder(x, self.options.input_dropout, generator)
        h = self.flow(start, self.constants(x, edge_index)).relu()
        logits: Tensor = self.decoder(h, self.options.dropout, generator)
        return logits


def build(config: BaselineConfig, graph: Graph) -> CGNN:
    """A CGNN for a graph."""
    o = Options(**config.options)
    return CGNN(graph.num_nodes, num_features(graph), graph.num_classes, o)
