"""Every random number of a baseline, drawn from an explicit generator: weights and dropout."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from djgnn.graph.operator import SparseOperator
from djgnn.model.branches import glorot
from djgnn.model.dropout import keep_mask, keep_share

INITS = ("glorot", "fan_in", "fan_out")


def drop(
    x: Tensor, p: float, training: bool = True, generator: torch.Generator | None = None
) -> Tensor:
    """Zero entries with probability p and divide the others by the share kept.

    Raises:
        ValueError: If p is not at least 0 and below 1.

    Example:
        >>> drop(torch.tensor([-1.0, 2.0]), 0.5, training=False)
        tensor([-1.,  2.])
    """
    share = keep_share(p)
    if not training or share == 1:
        return x
    return x * keep_mask(x, share, generator).mul_(1 / share)


class Linear(nn.Module):
    r"""A linear map, :math:`X W + b`, of dense or sparse features, with dropout on them.

    Args:
        in_channels: Columns of X.
        out_channels: Columns of the result.
        bias: Whether there is a b.
        init: ``"glorot"`` (bias zero), or uniform with bound one over the root of the inputs
            (``"fan_in"``, torch's own) or of the outputs (``"fan_out"``), bias alike.
        blocks: How many maps stand side by side in W; each is drawn as if alone.

    Shapes:
        x ``[n, in_channels]``, result ``[n, out_channels]``.

    Example:
        >>> layer = Linear(3, 2)
        >>> layer.draw(torch.Generator().manual_seed(0))
        >>> layer(torch.rand(5, 3)).shape
        torch.Size([5, 2])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        bias: bool = True,
        init: str = "glorot",
        blocks: int = 1,
    ) -> None:
        super().__init__()
        if init not in INITS:
            raise ValueError(f"init must be one of {', '.join(INITS)} (got '{init}')")
        self.in_channels, self.out_channels, self.init = in_channels, out_channels, init
        self.blocks = blocks
        self.weight = nn.Parameter(torch.zeros(in_channels, out_channels))
        self.bias = nn.Parameter(torch.zeros(out_channels)) if bias else None

    def draw(self, generator: torch.Generator | None = None) -> None:
        """Draw the weights anew."""
        fan_out = self.out_channels // self.blocks
        if self.init == "glorot":
            glorot(self.weight, self.in_channels, fan_out, generator)
            if self.bias is not None:
                nn.init.zeros_(self.bias)
            return
        fan = self.in_channels if self.init == "fan_in" else fan_out
        uniform(self.weight, fan, generator)
        if self.bias is not None:
            uniform(self.bias, fan, generator)

    def forward(
        self,
        x: Tensor | SparseOperator,
        dropout: float = 0.0,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """The map, of features dropped while training."""
        if isinstance(x, SparseOperator):
            product = sparse_dropout_product(x, self.weight, dropout, self.training, generator)
        else:
            product = drop(x, dropout, self.training, generator) @ self.weight
        return product if self.bias is None else product + self.bias

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.in_channels}, {self.out_channels})"


def sparse_dropout_product(
    x: SparseOperator,
    weight: Tensor,
    p: float,
    training: bool = True,
    generator: torch.Generator | None = None,
) -> Tensor:
    """``drop(x) @ weight`` for constant sparse x: only its entries are dropped, zeros stay zero."""
    share = keep_share(p)
    if not training or share == 1:
        return x @ weight
    values = x.matrix.values()
    kept = values * keep_mask(values, share, generator).mul_(1 / share)
    columns = x.matrix.col_indices()
    starts = x.matrix.crow_indices()[:-1].to(columns.dtype)
    return F.embedding_bag(columns, weight, starts, mode="sum", per_sample_weights=kept)


def uniform(weight: Tensor, fan: int, generator: torch.Generator | None = None) -> None:
    """Uniform in +-1/sqrt(fan), in place."""
    bound = 1 / math.sqrt(max(fan, 1))
    nn.init.uniform_(weight, -bound, bound, generator=generator)


def undrawn(kind: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Make a layer without drawing its weights: PyG's constructors would use the global state.

    The weights hold anything until :func:`draw` fills them.
    """
    with torch.device("meta"):
        layer: nn.Module = kind(*arguments, **options)
    return layer.to_empty(device="cpu")


def without_map(kind: Callable[..., Any], *sizes: int, **options: Any) -> Any:
    """A PyG convolution that only passes messages: its linear map is taken out.

    A :class:`Linear` before it takes sparse features, which PyG's own map cannot.
    """
    layer = undrawn(kind, *sizes, **options)
    layer.lin = nn.Identity()
    return layer


@torch.no_grad()
def draw(module: nn.Module, generator: torch.Generator | None = None) -> None:
    """Draw all weights of a module, each layer as its own `reset_parameters` would.

    Our layers have a method ``draw``; those of torch and PyG are recognised by what they hold:
    linear maps keep their initialiser, normalisations start at one and zero, other weights of a
    PyG layer are Glorot over their last two axes and its biases zero.
    """
    from torch_geometric.nn import MessagePassing
    from torch_geometric.nn.dense.linear import Linear as PygLinear

    part: Any
    for part in module.modules():
        if hasattr(part, "draw"):
            part.draw(generator)
        elif isinstance(part, nn.Linear | PygLinear):
            _draw_linear(part, generator)
        elif isinstance(part, MessagePassing):
            _forget(part)
            for weight in part.parameters(recurse=False):
                if weight.dim() > 1:
                    glorot(weight, weight.shape[-2], weight.shape[-1], generator)
                else:
                    nn.init.zeros_(weight)
        elif not list(part.children()) and hasattr(part, "reset_parameters"):
            part.reset_parameters()  # normalisations: ones and zeros


def _draw_linear(layer: Any, generator: torch.Generator | None) -> None:
    fan_out, fan_in = layer.weight.shape
    if getattr(layer, "weight_initializer", None) == "glorot":
        glorot(layer.weight, fan_in, fan_out, generator)
    else:
        uniform(layer.weight, fan_in, generator)
    if layer.bias is not None:
        if getattr(layer, "bias_initializer", None) == "zeros":
            nn.init.zeros_(layer.bias)
        else:
            uniform(layer.bias, fan_in, generator)


def _forget(layer: Any) -> None:
    """Drop PyG's cached normalisations."""
    for name in ("_cached_edge_index", "_cached_adj_t"):
        if hasattr(layer, name):
            setattr(layer, name, None)
