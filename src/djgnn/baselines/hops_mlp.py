"""A perceptron on hops that are aggregated beforehand ("fixed aggregation features", FAF)."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, cast

import numpy as np
import scipy.sparse as sp
import torch
from torch import Generator, Tensor, nn

from djgnn.baselines.base import Baseline, Linear, Matrix, Options, layer_sizes
from djgnn.baselines.matrices import operator, symmetric_scale, with_loops
from djgnn.checking import Count, Natural, Rate
from djgnn.model.dropout import multiply
from djgnn.model.table_experts import as_matrix

COLUMNS = 64
"""Columns that are gathered along all edges at a time."""
SPARSE = 0.1
"""A hop with a smaller share of entries than this is held as a sparse matrix."""


@dataclass(frozen=True)
class HopsMLPOptions(Options):
    """Options of a perceptron on hops."""

    hidden_channels: Count = 64  #: Width of the hidden layers.
    num_layers: Count = 2  #: Layers of the perceptron.
    num_hops: Natural = 2  #: Largest number of steps K.
    #: ``"mean"``, or ``"all"``: mean, sum, maximum and minimum.
    aggregations: Literal["mean", "all"] = "mean"
    #: Of hidden layers, and of the input: its rows (``"layer"``) or its columns are standardised.
    norm: Literal["none", "layer", "batch"] = "none"
    dropout: Rate = 0.5  #: Before every layer but the first.
    input_dropout: Rate = 0.0  #: On the input, or on X where powers act on X W.


class HopsMLP(Baseline):
    r"""A perceptron on the features and their aggregates over up to K steps, none of them learned,

    .. math::
        Y = \mathrm{MLP}\bigl(X \Vert_r \Vert_{k=1}^{K} H_{r,k}\bigr), \quad
        H_{r,k} = r(H_{r,k-1}), \quad H_{r,0} = X,

    where r takes a node and its neighbours together: the mean :math:`\hat P H` of a GCN, the sum,
    the maximum or the minimum.

    Celia Rubio-Madrigal, Rebekka Burkholz: Fixed Aggregation Features Can Rival GNNs. ICML 2026.

    Means that are not standardised are never computed: the powers act on X W, which is narrow.
    """

    options: HopsMLPOptions

    @property
    def linear(self) -> bool:
        """Whether the first layer sees nothing but powers of one matrix."""
        return (self.options.aggregations, self.options.norm) == ("mean", "none")

    def _make_layers(self, in_channels: int, out_channels: int) -> None:
        o = self.options
        parts = 1 + o.num_hops * (4 if o.aggregations == "all" else 1)
        sizes = layer_sizes(in_channels * parts, o.hidden_channels, out_channels, o.num_layers)
        self.layers = nn.ModuleList(Linear(a, b) for a, b in sizes)
        kind = nn.LayerNorm if o.norm == "layer" else nn.BatchNorm1d
        self.norms = nn.ModuleList(kind(wide) for _, wide in sizes[:-1] if o.norm != "none")

    def prepare(self, adjacency: sp.csr_array, like: Matrix) -> Any:
        """X and its aggregates, each as wide as X; or the matrix of the means."""
        if self.linear:
            return super().prepare(adjacency, like)
        o, near = self.options, with_loops(adjacency)
        rules: list[Callable[[Any], Any]] = [symmetric_scale(near).__matmul__]
        if o.aggregations == "all":
            extremes = (partial(_extreme, rule, near) for rule in (np.maximum, np.minimum))
            rules += [near.__matmul__, *extremes]
        x: Any = as_matrix(like)
        parts = [x]
        for rule in rules:
            h = x
            for _ in range(o.num_hops):
                h = rule(h)
                parts.append(h)
        if o.norm != "none":
            whole, axis = np.column_stack([_dense(part) for part in parts]), int(o.norm == "layer")
            spread = np.sqrt(whole.var(axis=axis, keepdims=True) + 1e-5)
            whole = (whole - whole.mean(axis=axis, keepdims=True)) / spread
            parts = np.split(whole, len(parts), axis=1)
        return tuple(_hold(part, like) for part in parts)

    def forward(self, x: Matrix, edge_index: Tensor, generator: Generator | None = None) -> Tensor:
        """Logits."""
        o, given = self.options, self.constants(x, edge_index)
        first: Any = self.layers[0]
        weights = first.weight.split(x.shape[1])
        drawn = (o.input_dropout, self.training, generator)
        if self.linear:  # by Horner's rule
            *lower, h = multiply(x, torch.cat(weights, dim=1), *drawn).chunk(len(weights), dim=1)
            for part in reversed(lower):
                h = part + given @ h
        else:
            pairs = zip(given, weights, strict=True)
            h = torch.stack([multiply(part, weight, *drawn) for part, weight in pairs]).sum(dim=0)
        h = h + first.bias
        for number, layer in enumerate(self.layers[1:]):
            h = self.norms[number](h) if o.norm != "none" else h
            h = layer(h.relu(), o.dropout, generator)
        return cast(Tensor, h)


def _extreme(rule: np.ufunc, near: sp.csr_array, h: Any) -> Any:
    """The maximum or minimum of each column over the neighbours of each node; no row is empty."""
    parts = []
    for begin in range(0, h.shape[1], COLUMNS):
        columns = _dense(h[:, begin : begin + COLUMNS])
        found = rule.reduceat(columns[near.indices], near.indptr[:-1])
        parts.append(sp.csr_array(found) if sp.issparse(h) else found)
    return sp.hstack(parts, format="csr") if sp.issparse(h) else np.column_stack(parts)


def _dense(part: Any) -> np.ndarray[Any, Any]:
    return np.asarray(part.toarray() if sp.issparse(part) else part)


def _hold(part: Any, like: Matrix) -> Matrix:
    """A part in the precision and on the device of the features, sparse where few entries are."""
    if np.count_nonzero(part.data if sp.issparse(part) else part) < SPARSE * np.prod(part.shape):
        return operator(sp.csr_array(part), like)
    return torch.from_numpy(_dense(part)).to(like.device, like.dtype)
