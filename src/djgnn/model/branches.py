"""The branches: jumps, the homophilic one, the structure one."""

from __future__ import annotations

import math
from typing import Protocol

import torch
from torch import Tensor, nn

from djgnn.filters import FilterTable, aggregate
from djgnn.graph.operator import SparseOperator
from djgnn.model.dropout import Window, keep_mask, keep_share, relu_dropout


class Multiplier(Protocol):
    """What multiplies dense rows: a sparse matrix, held whole or in parts."""

    def __matmul__(self, dense: Tensor) -> Tensor:
        """The product."""


class JumpBranches(nn.Module):
    r"""All jump branches, :math:`H^k = \mathrm{ReLU}(\hat J^k X W^k + b^k)`, in one product.

    Args:
        in_channels: Number of features F.
        hidden_channels: Width of each branch.
        num_branches: Number of filters.
        dropout: On the embeddings.

    Shapes:
        x ``[n, F]``, output ``[n, num_branches * hidden_channels]``.
    """

    def __init__(
        self, in_channels: int, hidden_channels: int, num_branches: int, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.hidden_channels, self.dropout = hidden_channels, dropout
        self.weight = nn.Parameter(torch.empty(in_channels, num_branches * hidden_channels))
        self.bias = nn.Parameter(torch.empty(num_branches * hidden_channels))
        self.reset_parameters()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Glorot for each branch alone; biases zero."""
        glorot(self.weight, self.weight.shape[0], self.hidden_channels, generator)
        nn.init.zeros_(self.bias)

    def encode(self, x: Tensor | SparseOperator) -> Tensor:
        """X W of all branches, side by side."""
        return x @ self.weight

    def forward(
        self,
        xw: Tensor,
        table: FilterTable,
        rows: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Embeddings of all branches, side by side, of all nodes or of some rows."""
        return self.activate(aggregate(table, xw, rows), generator)

    def activate(
        self,
        h: Tensor,
        generator: torch.Generator | None = None,
        window: Window | None = None,
    ) -> Tensor:
        """Bias, ReLU and dropout of what was aggregated, in place."""
        return relu_dropout(h.add_(self.bias), self.dropout, self.training, generator, window)

    def __repr__(self) -> str:
        rows, columns = self.weight.shape
        width = self.hidden_channels
        return f"{type(self).__name__}({rows}, {columns // width} x {width})"


class HomophilicBranch(nn.Module):
    r"""A GCN of one or two layers on the graph itself.

    .. math::
        H = \mathrm{ReLU}(\hat A\, \mathrm{ReLU}(\hat A X W_1 + b_1) W_2 + b_2)

    Args:
        in_channels: Number of features F.
        hidden_channels: Width.
        num_layers: 2 as the published code has it; 1 is the paper's formula.
        dropout: On the output of each layer.

    Shapes:
        x ``[n, F]``, output ``[n, hidden_channels]``.
    """

    def __init__(
        self, in_channels: int, hidden_channels: int, num_layers: int = 2, dropout: float = 0.0
    ) -> None:
        super().__init__()
        if num_layers not in (1, 2):
            raise ValueError(f"hb_layers must be 1 or 2 (got {num_layers})")
        self.dropout = dropout
        sizes = (in_channels, hidden_channels)[:num_layers]
        self.weights = nn.ParameterList(torch.empty(size, hidden_channels) for size in sizes)
        self.biases = nn.ParameterList(torch.empty(hidden_channels) for _ in sizes)
        self.reset_parameters()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Glorot; biases zero."""
        for weight, bias in zip(self.weights, self.biases, strict=True):
            glorot(weight, weight.shape[0], weight.shape[1], generator)
            nn.init.zeros_(bias)

    def encode(self, x: Tensor | SparseOperator, operator: Multiplier) -> Tensor:
        """The first layer before its activation."""
        h: Tensor = (operator @ (x @ self.weights[0])).add_(self.biases[0])
        return h

    def encode_hop(self, hop: Tensor | SparseOperator) -> Tensor:
        """The same from rows of A X, where that product is at hand."""
        h: Tensor = (hop @ self.weights[0]).add_(self.biases[0])
        return h

    def forward(
        self,
        encoded: Tensor,
        operator: Multiplier,
        rows: Tensor | None = None,
        generator: torch.Generator | None = None,
        windows: tuple[Window | None, Window | None] = (None, None),
    ) -> Tensor:
        """Embedding of the homophilic branch.

        Args:
            encoded: What :meth:`encode` gave.
            operator: The normalised adjacency, or some rows of it.
            rows: Which rows; all by default.
            generator: Source of dropout's randomness.
            windows: Of what larger tensors `encoded` and the result are parts; of none by default.
        """
        before, after = windows
        if len(self.weights) == 1:
            h = encoded.clone() if rows is None else encoded.index_select(0, rows)
            return relu_dropout(h, self.dropout, self.training, generator, after)
        return self.second(self.hidden(encoded, generator, before), operator, generator, after)

    def hidden(
        self,
        encoded: Tensor,
        generator: torch.Generator | None = None,
        window: Window | None = None,
    ) -> Tensor:
        """What the second layer sums over neighbours, from the first before its activation."""
        h = relu_dropout(encoded.clone(), self.dropout, self.training, generator, window)
        summands: Tensor = h @ self.weights[1]
        return summands

    def second(
        self,
        hidden: Tensor,
        operator: Multiplier,
        generator: torch.Generator | None = None,
        window: Window | None = None,
    ) -> Tensor:
        """The second layer, of the rows of `operator`."""
        h = (operator @ hidden).add_(self.biases[1])
        return relu_dropout(h, self.dropout, self.training, generator, window)


class StructureBranch(nn.Module):
    r"""Rows of A as features, :math:`\mathrm{ReLU}(A V + c)`.

    It has n x hidden free weights and can learn the training nodes by heart. Training compares
    the model with and without it (``structure_gate``); two more guards are there, off by default:
    whole nodes dropped from the rows of A, and a weight decay of its own
    (:meth:`djgnn.model.DJGNN.parameter_groups`).

    Args:
        num_nodes: Number of nodes n.
        hidden_channels: Width.
        dropout: On the embedding.
        node_dropout: Share of the nodes hidden from the rows of A at each step.

    Shapes:
        output ``[n, hidden_channels]``.
    """

    def __init__(
        self,
        num_nodes: int,
        hidden_channels: int,
        dropout: float = 0.0,
        node_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.dropout, self.node_dropout = dropout, node_dropout
        self.weight = nn.Parameter(torch.empty(num_nodes, hidden_channels))
        self.bias = nn.Parameter(torch.empty(hidden_channels))
        self.reset_parameters()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Uniform in +-1/sqrt(n), as a linear layer over rows of A."""
        bound = 1 / math.sqrt(self.weight.shape[0])
        nn.init.uniform_(self.weight, -bound, bound, generator=generator)
        nn.init.uniform_(self.bias, -bound, bound, generator=generator)

    def forward(
        self,
        adjacency: SparseOperator,
        generator: torch.Generator | None = None,
        window: Window | None = None,
    ) -> Tensor:
        """Embedding of the structure branch, of all nodes or of some rows of A."""
        weight: Tensor = self.weight
        share = keep_share(self.node_dropout)
        if self.training and share < 1:
            weight = weight * (keep_mask(weight[:, :1], share, generator) / share)
        h = (adjacency @ weight).add_(self.bias)
        return relu_dropout(h, self.dropout, self.training, generator, window)

    def __repr__(self) -> str:
        rows, columns = self.weight.shape
        return f"{type(self).__name__}({rows}, {columns}, node_dropout={self.node_dropout})"


def glorot(
    weight: Tensor, fan_in: int, fan_out: int, generator: torch.Generator | None = None
) -> None:
    """Uniform in +-sqrt(6 / (fan_in + fan_out)), in place."""
    bound = math.sqrt(6 / max(fan_in + fan_out, 1))
    nn.init.uniform_(weight, -bound, bound, generator=generator)
