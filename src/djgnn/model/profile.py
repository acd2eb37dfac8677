"""The profile of a node as an expert: its features, its place in the graph in numbers, and the
classes of its labelled neighbours, each in a layer of its own."""

import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
import torch
from torch import Generator, Tensor, nn

from djgnn.graph.operator import SparseOperator, row_entries, take_rows
from djgnn.model.config import ModelConfig
from djgnn.model.dropout import Chosen, multiply, relu_dropout
from djgnn.model.node_statistics import (
    EVERY,
    Floats,
    Rows,
    Surroundings,
    inverse,
    label_shares,
    some,
    surroundings,
)
from djgnn.model.operators import WholeGraph, mean_normalize
from djgnn.model.products import product
from djgnn.model.table_experts import TableExpert

TINY = float(np.finfo(np.float32).tiny)
FARTHEST = 10.0
"""Standard deviations from the mean at which a column ends."""
Blocks = tuple[Tensor | SparseOperator, Tensor, Tensor]
Parts = tuple[Chosen, ...]


class Profile(TableExpert):
    r"""One layer over each of three descriptions of a node, then a linear classifier.

    .. math::
        \text{logits} = W\, [\mathrm{ReLU}(X W_1 + b_1) \Vert \mathrm{ReLU}(S W_2 + b_2)
        \Vert \mathrm{ReLU}(Y W_3 + b_3)] + b

    with the features X, the numbers S of :func:`neighbourhood_numbers` and the classes Y of
    labelled neighbours (:func:`djgnn.model.node_statistics.label_shares`, of the training nodes'
    labels, never a node's own). S and Y are standardised.

    Args:
        in_channels: Number of node features F.
        out_channels: Number of classes.
        num_nodes: Number of nodes n.
        directed: Whether edges have a direction.
        hidden_channels: Width of each layer.
        dropout: On X, S and Y, and on the embeddings.

    Shapes:
        centre and spread ``[columns of S and Y]``.
    """

    centre: Tensor
    spread: Tensor

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        num_nodes: int,
        directed: bool = True,
        hidden_channels: int = 64,
        dropout: float = 0.5,
    ) -> None:
        super().__init__(in_channels, out_channels, num_nodes, directed)
        ways = 2 if directed else 1
        self.widths = (in_channels, *(_NUMBERS[directed], (ways + 1) * (out_channels + 1)))
        self.dropout = dropout
        self.weights = nn.ParameterList(torch.empty(w, hidden_channels) for w in self.widths)
        self.biases = nn.ParameterList(torch.empty(hidden_channels) for _ in self.widths)
        self.head = nn.Parameter(torch.empty(len(self.widths) * hidden_channels, out_channels))
        self.bias = nn.Parameter(torch.empty(out_channels))
        self.register_buffer("centre", torch.zeros(sum(self.widths[1:])))
        self.register_buffer("spread", torch.ones(sum(self.widths[1:])))
        self.reset_parameters()

    @classmethod
    def build(cls, config: ModelConfig, *sizes: Any) -> Self:
        """Of the width and dropout of the model."""
        in_channels, out_channels, num_nodes, directed = sizes
        own = (config.hidden_channels, config.dropout)
        return cls(in_channels, out_channels, num_nodes, directed, *own)

    def reset_parameters(self, generator: Generator | None = None) -> None:
        """Uniform in one over the root of the inputs; no label."""
        super().reset_parameters()
        for weight, bias in ((self.head, self.bias), *zip(self.weights, self.biases, strict=True)):
            bound = 1 / math.sqrt(max(weight.shape[0], 1))
            for part in (weight, bias):
                nn.init.uniform_(part, -bound, bound, generator=generator)
        self.centre.zero_()
        self.spread.fill_(1)

    def ranges(self) -> dict[str, tuple[float, float]]:
        """Spreads are positive."""
        return {**super().ranges(), "spread": (TINY, math.inf)}

    def columns(self, near: Surroundings, rows: Rows = EVERY) -> Floats:
        """S and Y of some nodes side by side, before they are standardised."""
        numbers = neighbourhood_numbers(near, self.directed, rows)
        known = self.known_labels(near.both.shape[0])
        shares = label_shares(near, known, self.prior.double().cpu().numpy(), self.directed, rows)
        return np.column_stack([numbers, *shares])

    @torch.no_grad()
    def observe(self, near: Surroundings) -> Floats:
        """Learn how the columns of S and Y are standardised, after :meth:`learn`; gives them."""
        found = self.columns(near)
        spread = found.std(axis=0)
        spread[spread < 1e-6] = 1
        self.centre.copy_(torch.from_numpy(found.mean(axis=0)))
        self.spread.copy_(torch.from_numpy(spread))
        return found

    def blocks(self, x: Any, columns: Floats) -> Blocks:
        """X, S and Y of all nodes, known and later, on the device of the expert."""
        like = self.bias
        if sp.issparse(x):
            x = SparseOperator.from_scipy(sp.csr_array(x), like.dtype, like.device)
        elif not isinstance(x, Tensor | SparseOperator):
            x = torch.tensor(np.asarray(x), dtype=like.dtype, device=like.device)
        found = torch.from_numpy(columns).to(like.device, like.dtype)
        found = ((found - self.centre) / self.spread).clamp(-FARTHEST, FARTHEST)
        width = self.widths[1]
        return x, found[:, :width].contiguous(), found[:, width:].contiguous()

    def of_nodes(self, blocks: Blocks, index: Tensor) -> tuple[Blocks, Parts]:
        """The blocks of some nodes, and what each and the embeddings are of those of all nodes."""
        x, s, y = blocks
        own = of_x = Chosen(index, s.shape[0])
        if isinstance(x, SparseOperator):
            of_x = Chosen(row_entries(x, index)[1], x.matrix.values().numel())
            x = take_rows(x, index, backward=True)
        else:
            x = x.index_select(0, index)
        return (x, s.index_select(0, index), y.index_select(0, index)), (of_x, own, own, own)

    def decide(
        self,
        blocks: Blocks,
        generator: Generator | None = None,
        parts: Parts | tuple[None, ...] = (None,) * 4,
    ) -> Tensor:
        """Logits of the rows of the blocks, ``[rows, classes]``; `parts` come from `of_nodes`."""
        how = (self.dropout, self.training, generator)
        layers = zip(blocks, self.weights, parts[:3], strict=True)
        h = torch.cat([multiply(block, w, *how, part) for block, w, part in layers], dim=1)
        h = relu_dropout(h.add_(torch.cat(list(self.biases))), *how, parts[3])
        return product(h, self.head) + self.bias

    def forward(
        self, x: Any, graph: WholeGraph, generator: Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """Logits of all nodes; there is no pump loss."""
        own = x if graph.features is None else graph.features
        blocks = self.blocks(own, self.columns(surroundings(graph)))
        return self.decide(blocks, generator), self.bias.new_zeros(())

    def later_logits(self, x: Any, near: Surroundings) -> Tensor:
        """Of the nodes after the known ones."""
        rows = slice(self.num_nodes, None)
        return self.decide(self.blocks(x[rows], self.columns(near, rows)))


REACHES, STEPS = (0.5, 0.85, 0.97), 30
"""Shares of influence that are passed on at each step, and how many steps."""
_NUMBERS = {True: 10 + len(REACHES), False: 5 + len(REACHES)}


def neighbourhood_numbers(near: Surroundings, directed: bool, rows: Rows = EVERY) -> Floats:
    """A node's place in the graph: degrees of it and its neighbours, and influence, in logarithms.

    The numbers of neighbours and, where edges have a direction, of targets, sources and edges that
    go both ways; the means of the first three over the neighbours; of the neighbours' numbers of
    neighbours the standard deviation, the maximum, and the mean one step further; logarithms of
    PageRank that reaches near and far. Of some nodes, all by default.

    Shapes:
        result ``[rows, 8]``, for directed graphs ``[rows, 13]``.
    """
    ways = near.ways(True) if directed else ()
    counts = [_log_count(way) for way in (near.both, *ways)]
    mean = mean_normalize(_ones(near.both))
    first, mean = mean @ counts[0], some(mean, rows)
    around = [first[rows], *(mean @ count for count in counts[1:])]
    square = mean @ counts[0] ** 2 - around[0] ** 2
    linked = np.flatnonzero(np.diff(mean.indptr))
    most = np.zeros(mean.shape[0])
    if linked.size:
        most[linked] = np.maximum.reduceat(counts[0][mean.indices], mean.indptr[linked])
    own = [count[rows] for count in counts]
    if directed:
        out, back = (_ones(some(way, rows)) for way in ways)
        own.append(_log_count(sp.csr_array(out.multiply(back))))
    found = [*own, *around, np.sqrt(np.maximum(square, 0)), most, mean @ first]
    return np.column_stack(found + [each[rows] for each in influence(near, REACHES)])


def influence(near: Surroundings, reaches: Sequence[float]) -> list[Floats]:
    r"""The logarithm of PageRank, :math:`r_i = 1 - \beta + \beta \sum_{j \to i} r_j / d_j`.

    Args:
        near: Who is near whom; of known nodes the number d of targets counts no later ones.
        reaches: The shares :math:`\beta` that are passed on.

    Shapes:
        results ``[n]``.
    """
    targets = np.maximum(np.diff(near.outgoing.indptr), 1).astype(np.float64)
    back = near.incoming
    share = sp.csr_array((inverse(targets)[back.indices], back.indices, back.indptr), back.shape)
    multiply, reach = near.times(share), torch.tensor(reaches, dtype=torch.float64)
    reach = reach.to(near.device)
    ranks = reach.new_ones(share.shape[0], len(reaches))
    for _ in range(STEPS):
        ranks = 1 - reach + reach * multiply(ranks)
    return list(np.log(ranks.cpu().numpy()).T)


def _ones(matrix: sp.csr_array) -> sp.csr_array:
    rows = sp.csr_array(matrix, copy=True)
    rows.data[:] = 1
    return rows


def _log_count(matrix: sp.csr_array) -> Floats:
    return np.asarray(np.log1p(np.diff(matrix.indptr)), dtype=np.float64)
