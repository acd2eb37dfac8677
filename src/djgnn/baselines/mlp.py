"""MLP: features alone, no graph."""

from dataclasses import dataclass
from typing import Any, Literal

import torch.nn.functional as F
from torch import Generator, Tensor, nn

from djgnn.baselines.base import Baseline, Linear, Matrix, Options, layer_sizes
from djgnn.checking import Count, Rate
from djgnn.model.dropout import drop, relu_dropout


@dataclass(frozen=True)
class MLPOptions(Options):
    """Options of an MLP."""

    hidden_channels: Count = 64  #: Width of the hidden layers.
    num_layers: Count = 2  #: Number of layers.
    dropout: Rate = 0.5  #: Before every layer but the first.
    input_dropout: Rate = 0.0  #: On the features.
    activation: Literal["relu", "elu"] = "relu"  #: Between the layers.


class MLP(Baseline):
    r"""A multi-layer perceptron on the features, :math:`H' = \sigma(H W + b)`; it ignores edges."""

    options: MLPOptions

    def _make_layers(self, in_channels: int, out_channels: int) -> None:
        o = self.options
        sizes = layer_sizes(in_channels, o.hidden_channels, out_channels, o.num_layers)
        self.layers = nn.ModuleList(Linear(a, b) for a, b in sizes)

    def forward(
        self, x: Matrix, edge_index: Any = None, generator: Generator | None = None
    ) -> Tensor:
        """Logits."""
        o, (first, *rest) = self.options, self.layers
        h: Tensor = first(x, o.input_dropout, generator)
        for layer in rest:
            if o.activation == "elu":
                h = layer(drop(F.elu(h), o.dropout, self.training, generator))
            else:
                h = layer(relu_dropout(h, o.dropout, self.training, generator))
        return h
