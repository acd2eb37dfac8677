"""MLP: features alone, no graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from djgnn.baselines.base import Baseline
from djgnn.baselines.config import BaselineConfig
from djgnn.baselines.drawing import Linear, drop
from djgnn.baselines.options import Options as BaseOptions
from djgnn.baselines.options import count, option, rate
from djgnn.graph import Graph
from djgnn.graph.operator import SparseOperator
from djgnn.model.dropout import relu_dropout
from djgnn.training.inputs import num_features


@dataclass(frozen=True)
class Options(BaseOptions):
    """Options of an MLP.

    Args:
        hidden_channels: Width of the hidden layers.
        num_layers: Number of layers.
        dropout: Before every layer but the first.
        input_dropout: On the features.
        activation: ``"relu"`` or ``"elu"``.
    """

    hidden_channels: int = count(64)
    num_layers: int = count(2)
    dropout: float = rate(0.5)
    input_dropout: float = rate(0.0)
    activation: str = option("relu", choices=("relu", "elu"))


class MLP(Baseline):
    r"""A multi-layer perceptron on the features, :math:`H' = \sigma(H W + b)`.

    Args:
        channels: Widths from input to output.
        dropout: Before every layer but the first.
        input_dropout: Before the first.
        activation: The function sigma, ``"relu"`` or ``"elu"``.

    Shapes:
        x ``[n, F]``, logits ``[n, classes]``; the graph is ignored.
    """

    def __init__(
        self,
        channels: Sequence[int],
        dropout: float = 0.0,
        input_dropout: float = 0.0,
        activation: str = "relu",
    ) -> None:
        super().__init__()
        self.dropout, self.input_dropout = dropout, input_dropout
        self.activation = activation
        self.layers = nn.ModuleList(Linear(a, b) for a, b in pairwise(channels))
        self.reset_parameters()

    def forward(
        self,
        x: Tensor | SparseOperator,
        edge_index: Any = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Logits."""
        first, *rest = self.layers
        h: Tensor = first(x, self.input_dropout, generator)
        for layer in rest:
            h = layer(self._activate(h, generator))
        return h

    def _activate(self, h: Tensor, generator: torch.Generator | None) -> Tensor:
        if self.activation == "elu":
            return drop(F.elu(h), self.dropout, self.training, generator)
        return relu_dropout(h, self.dropout, self.training, generator)


def build(config: BaselineConfig, graph: Graph) -> MLP:
    """An MLP for a graph."""
    o = Options(**config.options)
    hidden = [o.hidden_channels] * (o.num_layers - 1)
    widths = [num_features(graph), *hidden, graph.num_classes]
    return MLP(widths, o.dropout, o.input_dropout, o.activation)
