"""The deep branch: many layers of propagation with residuals."""

from collections.abc import Iterator
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from djgnn.graph.operator import SparseOperator
from djgnn.model.branches.base import Branch, glorot
from djgnn.model.config import ModelConfig
from djgnn.model.dropout import add_relu_dropout, relu_dropout
from djgnn.model.norm import layer_norm
from djgnn.model.operators import GraphOperators
from djgnn.model.products import crossed, times
from djgnn.model.views import Encoding, View

DROPOUT = 0.2
"""After every layer: ten layers with the rate of a single one would leave nothing to learn from."""
ROWS = 1 << 15
"""Of a block on a CPU; graphs that have no more are computed whole."""


class DeepBranch(Branch):
    r"""A residual network that takes the mean of the neighbours in every layer,

    .. math::
        H_0 = \mathrm{ReLU}([X \Vert d] W + b), \quad Z_l = \mathrm{norm}(H_l), \quad
        H_{l+1} = H_l + \mathrm{ReLU}(Z_l V_l + M Z_l W_l + b_l),

    with layer normalisation, also of the last layer; d are the degrees.

    Args:
        in_channels: Number of features F.
        hidden_channels: Width of every layer.
        num_layers: Layers that see neighbours.
        dropout: After every layer.

    Shapes:
        encode ``[sources, hidden_channels]`` (the first layer), output ``[rows, hidden_channels]``.

    Example:
        >>> DeepBranch(3, 8, num_layers=15).labels
        ('deep',)
    """

    name = "deep"
    whole = True
    patient = True

    def __init__(
        self, in_channels: int, hidden_channels: int, num_layers: int, dropout: float = DROPOUT
    ) -> None:
        super().__init__()
        self.num_layers, self.dropout, width = num_layers, dropout, hidden_channels
        self.weight = nn.Parameter(torch.empty(in_channels + 1, width))
        self.bias = nn.Parameter(torch.empty(width))
        self.layers = nn.Parameter(torch.empty(num_layers, width, 2 * width))
        self.biases = nn.Parameter(torch.empty(num_layers, width))
        self.norms = nn.Parameter(torch.empty(num_layers + 1, 2, width))
        self.reset_parameters()

    @classmethod
    def build(cls, config: ModelConfig, in_channels: int, num_nodes: int) -> Self | None:
        """The branch of a number of ``deep`` layers."""
        rate = min(config.dropout, DROPOUT)
        sizes = (config.hidden_channels, config.deep, rate)
        return cls(in_channels, *sizes) if config.deep else None

    def rates(self, many: bool) -> tuple[float, float]:
        """Slower for many nodes, or layers forget their input; for few, more decay."""
        return (0.3, 1.0) if many else (1.0, 10.0)

    def reset_parameters(self, generator: Generator | None = None) -> None:
        """Layers uniform in +-1/sqrt(fan in), the first Glorot; norms the identity."""
        width = self.weight.shape[1]
        glorot(self.weight, self.weight.shape[0], width, generator)
        nn.init.zeros_(self.bias)
        bound = (2 * width) ** -0.5
        nn.init.uniform_(self.layers, -bound, bound, generator=generator)
        nn.init.uniform_(self.biases, -bound, bound, generator=generator)
        with torch.no_grad():
            self.norms[:, 0], self.norms[:, 1] = 1, 0

    def encode(self, view: View) -> Tensor:
        """The first layer before its activation."""
        h: Tensor = view.features @ self.weight[:-1] + view.degrees * self.weight[-1] + self.bias
        return h

    def forward(self, encoding: Encoding, view: View, generator: Generator | None = None) -> Tensor:
        """All layers over all sources, then the rows."""
        width, how = self.weight.shape[1], (self.dropout, self.training, generator, view.windows[0])
        h = relu_dropout(encoding.parts[self.name].clone(), *how)
        for layer, bias, norm in zip(self.layers, self.biases, self.norms[:-1], strict=True):
            # Two products of one width: memory for tables of one size is found again.
            both = (layer[:, :width], layer[:, width:])
            own, near = _NormProducts.apply(h, *norm, bias, *both)  # type: ignore[no-untyped-call]
            h = add_relu_dropout(h, own.add_(view.spread(near)), *how)
        return F.layer_norm(view.own_rows(h), (width,), *self.norms[-1])

    def matrix(self, operators: GraphOperators) -> SparseOperator:
        """The mean over the neighbours."""
        return operators.homophilic


class _NormProducts(torch.autograd.Function):
    """Z V + b and Z W of the normalised rows Z of h; Z is computed again for the backward pass.

    On a CPU block by block: whole tables in between would be new memory at every layer.
    """

    @staticmethod
    def forward(
        ctx: Any, h: Tensor, scale: Tensor, shift: Tensor, bias: Tensor, v: Tensor, w: Tensor
    ) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(h, scale, shift, v, w)
        own, near = torch.empty_like(h), torch.empty_like(h)
        for part, to_own, to_near in _blocks(h, own, near):
            z = layer_norm(part, scale, shift)[0]
            found = times(z, v, bias), times(z, w)
            if part.shape == h.shape:  # all at once
                return found
            to_own.copy_(found[0])
            to_near.copy_(found[1])
        return own, near

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:
        h, scale, shift, v, w = ctx.saved_tensors
        size, to_h, sums = h.shape[1:], torch.empty_like(h), list[list[Tensor]]()
        for part, own, near, into in _blocks(h, *grads, to_h):
            z, mean, inverse = layer_norm(part, scale, shift)
            to_v, to_w = crossed(z, own, near)
            to_z = times(own, v.t()).add_(times(near, w.t()))
            found = torch.ops.aten.native_layer_norm_backward(
                to_z, part, size, mean, inverse, scale, shift, [True] * 3
            )
            if part.shape == h.shape:  # all at once
                to_h = found[0]
            else:
                into.copy_(found[0])
            sums.append([*found[1:], own.sum(dim=0), to_v, to_w])
        return to_h, *(sum(each[1:], each[0]) for each in zip(*sums, strict=True))


def _blocks(*tables: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """The same rows of several tables, some at a time on a CPU."""
    size = ROWS if tables[0].device.type == "cpu" else max(1, tables[0].shape[0])
    return zip(*(torch.split(table, size) for table in tables), strict=True)
