"""Views: which rows a pass computes, and where the values of other nodes come from.

The equations of the model are written once, in the branches and in :class:`djgnn.model.DJGNN`, for
the rows of a view. There are four kinds: a whole graph or some rows of it (here), a mini-batch
(:mod:`djgnn.model.batches`), new nodes beside known ones (:mod:`djgnn.model.new_nodes`), and the
rows of one process (:mod:`djgnn.training.distributed.view`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from djgnn.filters import FilterTable, aggregate, filter_table
from djgnn.graph.operator import SparseOperator, take_rows
from djgnn.jumps import JumpHierarchy
from djgnn.model.dropout import Dropping, Window, add_relu_dropout, keep_share
from djgnn.model.hop_products import FeatureHops, HopBlocks, HopSum, Operator
from djgnn.model.products import product
from djgnn.model.residual import NormProducts, ResidualLayer, in_one_piece
from djgnn.pump import DiffusionPump, PumpOutput

if TYPE_CHECKING:
    from djgnn.model.djgnn import DJGNN
    from djgnn.model.operators import GraphOperators

Features = Tensor | SparseOperator
Windows = tuple[Window | None, Window | None]
SAME_DEGREE = 1e-5
"""A deviation that is rounding alone."""


class Propagation(Protocol):
    """What hops need of a graph: its normalised adjacency."""

    @property
    def homophilic(self) -> Operator: ...  # noqa: D102


class View:
    """What a pass of the model asks for.

    *Rows* are the nodes whose logits are computed. *Sources* are the nodes whose values the rows
    need; what :meth:`djgnn.model.branches.Branch.encode` returns has one row per source.

    Attributes:
        features: X of the sources, ``[sources, F]``.
        adjacency: Rows of A as the pump sees it, ``[rows, n]``.
        source_rows: The same of the sources, ``[sources, n]``.
        degrees: Their degrees, see :func:`scaled_degrees`, ``[sources, 1]``.
    """

    if TYPE_CHECKING:  # attributes or properties of the subclasses

        @property
        def features(self) -> Features: ...  # noqa: D102
        @property
        def adjacency(self) -> SparseOperator: ...  # noqa: D102
        @property
        def source_rows(self) -> SparseOperator: ...  # noqa: D102
        @property
        def degrees(self) -> Tensor: ...  # noqa: D102

    @property
    def windows(self) -> Windows:
        """Where sources and rows are parts of larger tensors, which dropout must know."""
        return None, None

    def rows(self, index: Tensor) -> View:
        """Some of the rows, with the same sources; only of views of all nodes."""
        raise NotImplementedError

    def positions(self, pump: DiffusionPump) -> PumpOutput:
        """Positions of all nodes, and the losses of the pump."""
        raise NotImplementedError

    def filters(self, model: DJGNN, u: Tensor) -> FilterTable:
        """The filters of the sources."""
        raise NotImplementedError

    def dense_features(self) -> Tensor:
        """X of the sources with all its zeros, where it is narrow."""
        x = self.features
        return x if isinstance(x, Tensor) else x.to_dense()

    def aggregate(self, table: FilterTable, h: Tensor, shared: bool = False) -> Tensor:
        """Normalised filters times their blocks of h, or all times h: from sources to rows."""
        raise NotImplementedError

    def own_rows(self, h: Tensor) -> Tensor:
        """A copy of the rows of h, which was computed from :attr:`features`."""
        return self.hop_rows(h)

    def hop(self, weight: Tensor, bias: Tensor, further: int = 0) -> Tensor:
        """The normalised adjacency times X W, plus b, of the nodes that `further` hops need."""
        raise NotImplementedError

    def hop_rows(self, h: Tensor) -> Tensor:
        """A copy of the rows of h, which :meth:`hop` returned with ``further=0``."""
        raise NotImplementedError

    def inner(self, key: Hashable, h: Tensor, compute: Callable[[Tensor], Tensor]) -> Tensor:
        """New values of the sources from h, row by row; views of one evaluation may share them."""
        return compute(h)

    def propagate(self, h: Tensor) -> Tensor:
        """The normalised adjacency times h, values of the nodes that one further hop needs."""
        raise NotImplementedError

    def spread(self, h: Tensor) -> Tensor:
        """The normalised adjacency times h, from the sources to the sources.

        Mini-batches have no such step: their sources would be most of the graph.
        """
        raise NotImplementedError

    def hop_blocks(self, h: Tensor, width: int) -> Tensor:
        """Block j of the columns of h after j hops, of the rows, side by side."""
        found, last = [self.own_rows(h[:, :width])], h.shape[1] // width - 1
        for hop in range(1, last + 1):
            h = h[:, width:].contiguous()
            if hop < last:
                h = self.spread(h)
                found.append(self.own_rows(h[:, :width]))
            else:
                found.append(self.propagate(h))
        return torch.cat(found, dim=1)

    def hops(self, weight: Tensor, width: int) -> Tensor:
        """Block j of the columns of X W after j hops, of the sources, side by side."""
        return self.spread_blocks(self.features @ weight, width)

    def spread_blocks(self, h: Tensor, width: int) -> Tensor:
        """Block j of the columns of h after j hops, from the sources to the sources."""
        found = [h[:, :width]]
        while h.shape[1] > width:
            h = self.spread(h[:, width:].contiguous())
            found.append(h[:, :width])
        return torch.cat(found, dim=1)

    def hop_sum(self, h: Tensor, weights: Tensor) -> Tensor:
        """The sum over hops of h, from none on, each with its weight, of the rows."""
        total = weights[0] * self.own_rows(h)
        for weight in weights[1:-1]:
            h = self.spread(h)
            total = total + weight * self.own_rows(h)
        return total + weights[-1] * self.propagate(h)

    def residual(
        self, h: Tensor, norm: Tensor, layer: Tensor, bias: Tensor, how: Dropping
    ) -> Tensor:
        """A layer of :class:`djgnn.model.branches.DeepBranch`, from the sources to the sources."""
        width = h.shape[1]
        # Two products of one width: memory for tables of one size is found again.
        both = (layer[:, :width], layer[:, width:])
        own, near = NormProducts.apply(h, *norm, bias, *both)  # type: ignore[no-untyped-call]
        return add_relu_dropout(h, own.add_(self.spread(near)), *how)

    def gather(self, logits: Tensor) -> Tensor:
        """Logits of the rows of all processes, from those of this one."""
        return logits

    def reduce(self, parameters: Iterable[Tensor]) -> None:
        """Sum the gradients of all processes."""

    def whole(self, encoding: Encoding) -> Encoding:
        """An encoding with the filters of all nodes."""
        return encoding


def scaled_degrees(degree: Tensor, known: Tensor) -> Tensor:
    """Logarithms of degrees, less their mean over all known nodes, by their standard deviation.

    Where all known nodes have one degree, they are not divided.

    Shapes:
        degree ``[m]``, known ``[n]``, result ``[m, 1]``.
    """
    usual = known.abs().log1p()
    spread = usual.std(correction=0)
    spread = torch.where(spread > SAME_DEGREE, spread, torch.ones_like(spread))
    return ((degree.abs().log1p() - usual.mean()) / spread)[:, None]


@dataclass(frozen=True, eq=False)
class Encoding:
    """The first half of a pass: everything that is computed before dropout.

    Shapes:
        parts, by branch: what its `encode` gave, one row per source.
    """

    pump: PumpOutput
    table: FilterTable
    parts: dict[str, Tensor]

    def detach(self) -> Encoding:
        """The same values without gradients."""
        table = FilterTable(self.table.index, self.table.weight.detach(), self.table.branches)
        return Encoding(self.pump, table, {k: part.detach() for k, part in self.parts.items()})


@dataclass(frozen=True, eq=False)
class DJOutput:
    """Everything one pass computes.

    Shapes:
        logits ``[n, classes]``, embeddings of each branch ``[n, width]``, alpha ``[blocks]``.

    Example:
        >>> from djgnn.model import DJGNN
        >>> model = DJGNN(3, 8, 2, num_nodes=6, num_jumps=2)
        >>> output = model.run(torch.rand(6, 3), torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]]))
        >>> output.logits.shape, output.pump.u.shape
        (torch.Size([6, 2]), torch.Size([6, 5]))
    """

    logits: Tensor
    pump: PumpOutput
    table: FilterTable
    embeddings: tuple[Tensor, ...]
    alpha: Tensor

    @property
    def pump_loss(self) -> Tensor:
        """Trace ratio plus orthogonality."""
        return self.pump.loss


class SourceView(View):
    """A view with rows of the normalised adjacency for all its sources: of a graph, or a part."""

    if TYPE_CHECKING:

        @property
        def operators(self) -> Propagation: ...  # noqa: D102
        @property
        def homophilic(self) -> Operator: ...  # noqa: D102
        @property
        def reached(self) -> FeatureHops: ...  # noqa: D102
        @property
        def bounds(self) -> tuple[int, ...]: ...  # noqa: D102

    def in_parts(self, count: int, device: torch.device) -> list[View]:
        """The rows of a view of all nodes in so many parts, each with as many of every process."""
        pairs = pairwise(self.bounds)
        cuts = [[a + (b - a) * k // count for k in range(count + 1)] for a, b in pairs]
        parts = (
            torch.cat([torch.arange(own[k], own[k + 1], device=device) for own in cuts])
            for k in range(count)
        )
        return [self.rows(part) for part in parts]

    def dense_features(self) -> Tensor:
        """Made once."""
        return self.features if isinstance(self.features, Tensor) else self._reached(0)[0]

    def hop(self, weight: Tensor, bias: Tensor, further: int = 0) -> Tensor:
        """Of all sources, whatever is asked for: evaluation and training share it."""
        if self._narrow(weight.shape[1]):
            return product(self._reached(1)[1], weight).add_(bias)
        return (self.operators.homophilic @ (self.features @ weight)).add_(bias)

    def hops(self, weight: Tensor, width: int) -> Tensor:
        """Of narrow features, hops of the features times their weights."""
        if not self._narrow(width):
            return super().hops(weight, width)
        factors = torch.split(weight, width, dim=1)
        parts = zip(self._reached(len(factors) - 1), factors, strict=False)
        return torch.cat([product(x, each) for x, each in parts], dim=1)

    def propagate(self, h: Tensor) -> Tensor:
        """One product."""
        return self.homophilic @ h

    def spread(self, h: Tensor) -> Tensor:
        """One product of all rows."""
        return self.operators.homophilic @ h

    def _narrow(self, width: int) -> bool:
        """Whether hops of the features cost less than those of products with weights."""
        x = self.features
        return 0 < x.shape[1] <= width and not (isinstance(x, Tensor) and x.requires_grad)

    def _reached(self, hops: int) -> tuple[Tensor, ...]:
        """The features after 0, 1, ... hops."""
        return self.reached(self.features, hops, self.operators.homophilic)


@dataclass(frozen=True, eq=False)
class GraphView(SourceView):
    """A graph in one process: the sources are all nodes, the rows all of them or some.

    Args:
        features: X.
        operators: The graph.
        adjacency: The rows of A.
        homophilic: The rows of the normalised adjacency.
        index: Which rows; all by default.
        ranks: Rank lists of the twin classes where they are known; searched by default.
        reached: Hops of X; views of other rows share them.

    Shapes:
        features ``[n, F]``, adjacency and homophilic ``[rows, n]``, index ``[rows]``.
    """

    features: Features
    operators: GraphOperators
    adjacency: SparseOperator
    homophilic: SparseOperator
    index: Tensor | None = None
    ranks: Tensor | None = None
    reached: FeatureHops = field(default_factory=FeatureHops)

    @property
    def bounds(self) -> tuple[int, ...]:
        """All nodes are of one process."""
        return 0, self.operators.num_nodes

    def rows(self, index: Tensor) -> GraphView:
        """Some rows of the same graph, with the same sources."""
        whole = (self.operators.adjacency, self.operators.homophilic)
        adjacency, homophilic = (take_rows(each, index) for each in whole)
        return replace(self, index=index, adjacency=adjacency, homophilic=homophilic)

    def positions(self, pump: DiffusionPump) -> PumpOutput:
        """One product with A."""
        output: PumpOutput = pump(self.operators.adjacency, self.operators.degree)
        return output

    def filters(self, model: DJGNN, u: Tensor) -> FilterTable:
        """Fixed ones, or the rank lists of U with their coefficients."""
        if model.fixed_filters is not None:
            return model.fixed_filters
        twins = self.operators.twins
        ranks = model.ranks(u, twins) if self.ranks is None else self.ranks
        hierarchy = JumpHierarchy(ranks, twins)
        return filter_table(u, hierarchy, model.branches, model.scale(self.operators.volume))

    @property
    def source_rows(self) -> SparseOperator:
        """All rows of A."""
        return self.operators.adjacency

    @property
    def degrees(self) -> Tensor:
        """Of all nodes."""
        return scaled_degrees(self.operators.degree, self.operators.degree)

    def aggregate(self, table: FilterTable, h: Tensor, shared: bool = False) -> Tensor:
        """All filters at once."""
        return aggregate(table, h, self.index, shared)

    def hop_rows(self, h: Tensor) -> Tensor:
        """Chosen by index."""
        return h.clone() if self.index is None else h.index_select(0, self.index)

    def hop_blocks(self, h: Tensor, width: int) -> Tensor:
        """On a CPU in one piece."""
        if h.device.type != "cpu":
            return super().hop_blocks(h, width)
        how = (self.operators.homophilic, self.homophilic, self.index, width)
        found: Tensor = HopBlocks.apply(h, *how)  # type: ignore[no-untyped-call]
        return found

    def spread_blocks(self, h: Tensor, width: int) -> Tensor:
        """On a CPU in one piece."""
        if h.device.type != "cpu":
            return super().spread_blocks(h, width)
        every = self.operators.homophilic
        found: Tensor = HopBlocks.apply(h, every, every, None, width)  # type: ignore[no-untyped-call]
        return found

    def hop_sum(self, h: Tensor, weights: Tensor) -> Tensor:
        """On a CPU in one piece."""
        if h.device.type != "cpu":
            return super().hop_sum(h, weights)
        how = (self.operators.homophilic, self.homophilic, self.index)
        weights = weights if torch.is_grad_enabled() else weights.detach()
        found: Tensor = HopSum.apply(h, weights, *how)  # type: ignore[no-untyped-call]
        return found

    def residual(
        self, h: Tensor, norm: Tensor, layer: Tensor, bias: Tensor, how: Dropping
    ) -> Tensor:
        """On a GPU in one piece, of many rows."""
        if not in_one_piece(h):
            return super().residual(h, norm, layer, bias, how)
        rate, training, generator, _ = how
        given = (self.operators.homophilic, keep_share(rate) if training else 1.0, generator)
        found: Tensor = ResidualLayer.apply(h, norm, layer, bias, *given)  # type: ignore[no-untyped-call]
        return found
