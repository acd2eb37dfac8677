"""MLP: features alone, no graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from djgnn.baselines.base import Baseline
from djgnn.baselines.config import BaselineConfig
from djgnn.baselines.drawing import Linear
from djgnn.baselines.options import Options as BaseOptions
from djgnn.baselines.options import count, rate
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
    """

    hidden_channels: int = count(64)
    num_layers: int = count(2)
    dropout: float = rate(0.5)
    input_dropout: float = rate(0.0)


class MLP(Baseline):
    r"""A multi-layer perceptron on the features, :math:`H' = \mathrm{ReLU}(H W + b)`.

    Args:
        channels: Widths from input to output.
        dropout: Before every layer but the first.
        input_dropout: Before the first.

    Shapes:
        x ``[n, F]``, logits ``[n, classes]``; the graph is ignored.
    """

    def __init__(
        self, channels: Sequence[int], dropout: float = 0.0, input_dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.dropout, self.input_dropout = dropout, input_dropout
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
            h = layer(relu_dropout(h, self.dropout, self.training, generator))
        return h


def build(config: BaselineConfig, graph: Graph) -> MLP:
    """An MLP for a graph."""
    o = Options(**config.options)
    hidden = [o.hidden_channels] * (o.num_layers - 1)
    widths = [num_features(graph), *hidden, graph.num_classes]
    return MLP(widths, o.dropout, o.input_dropout)
