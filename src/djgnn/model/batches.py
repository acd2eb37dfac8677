"""Mini-batches: a view that computes what the nodes of a batch need of the graph, nothing else.

The lists of a batch name its neighbours in U, and their lists those whose distances make up the
row sums of the normalisation. So the positions of two levels of lists are computed again, with
gradients, from rows of A; X W for one level. Nothing is sampled: a batch of all nodes is the
model's own pass.
"""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from functools import cached_property

import scipy.sparse as sp
import torch
from torch import Generator, Tensor

from djgnn.filters import FilterTable, aggregate_rows, filter_table
from djgnn.filters.table import safe_norm
from djgnn.graph.operator import SparseOperator, columns_of, distinct, take_rows
from djgnn.jumps import JumpHierarchy
from djgnn.model.djgnn import DJGNN
from djgnn.model.operators import GraphOperators
from djgnn.model.views import Encoding, Features, View
from djgnn.pump import DiffusionPump, PumpOutput
from djgnn.pump.pump import pump

# Above this share of entries a dense matrix is the smaller one: an entry of a sparse one is stored
# with its column.
DENSE_SHARE = 0.5


@dataclass(frozen=True, eq=False)
class Tables:
    """What batches look up about all nodes, at one state of the weights.

    Shapes:
        pump.u and gradient ``[n, p]`` (of the pump loss at each position), hierarchy ``[m, R]``.
    """

    pump: PumpOutput
    gradient: Tensor
    hierarchy: JumpHierarchy


class BatchedDJGNN:
    """Passes of a DJ-GNN over some of the nodes, in memory that depends on their number.

    What grows with the graph are the matrices, X, one hop of it, and tables of a few columns.

    Args:
        module: The model.
        x: Features of all nodes.
        operators: The graph.
    """

    def __init__(self, module: DJGNN, x: Features, operators: GraphOperators) -> None:
        if module.pump is None or not module.in_batches:
            raise ValueError("batches are for jumps, homophilic and structure branch; run it whole")
        self.module, self.operators, self.pump = module, operators, module.pump
        self.x = module.as_features(x)

    @cached_property
    def hop(self) -> Features:
        """The normalised adjacency times X, which has no weights in it."""
        return hop_features(self.operators.homophilic, self.x)

    def tables(self) -> Tables:
        """The tables at the current weights: O(|E| p), and one search."""
        own, operators = self.pump, self.operators
        adjacency = operators.adjacency if own.source == "adjacency" else None
        with torch.no_grad():
            u = pump(adjacency, own.weight, own.bias)
        with torch.enable_grad():
            losses = own.losses(u.requires_grad_(), operators.adjacency, operators.degree)
            (gradient,) = torch.autograd.grad(losses.loss, u)
        u = u.detach()
        held = PumpOutput(u, losses.trace_ratio.detach(), losses.orthogonality.detach())
        ranks = self.module.ranks.search(u, operators.twins)
        return Tables(held, gradient, JumpHierarchy(ranks, operators.twins))

    def logits(self, nodes: Tensor, tables: Tables, generator: Generator | None = None) -> Tensor:
        """Logits of some nodes, with the gradients of everything they depend on.

        Args:
            nodes: Which nodes.
            tables: For the rank lists.
            generator: Source of dropout's randomness.

        Shapes:
            nodes ``[b]``, result ``[b, classes]``.
        """
        view = BatchView(self, nodes, tables)
        return self.module.decode(self.module.encode(view), view, generator)

    @torch.no_grad()
    def evaluate(self, tables: Tables, batch_size: int) -> Tensor:
        """Logits of all nodes without dropout, batch by batch; positions are looked up."""
        module = self.module.eval()
        whole = torch.arange(self.operators.num_nodes, device=tables.pump.u.device)
        views = self._views(whole, tables, batch_size)
        return torch.cat([module.decode(module.encode(view), view) for view in views])

    @torch.no_grad()
    def added(self, nodes: Tensor, tables: Tables, batch_size: int) -> Iterator[Tensor]:
        """:meth:`DJGNN.added` of some nodes without dropout, batch by batch."""
        module = self.module.eval()
        for view in self._views(nodes, tables, batch_size):
            yield module.added(view)

    def _views(self, nodes: Tensor, tables: Tables, batch_size: int) -> Iterator["BatchView"]:
        shared: dict[Hashable, Tensor] = {}
        return (BatchView(self, some, tables, shared) for some in torch.split(nodes, batch_size))

    def positions(self, nodes: Tensor) -> Tensor:
        """U of some nodes from their rows of A, ``[b, p]``."""
        own = self.pump
        if own.source != "adjacency":
            return torch.tanh(own.weight.t().index_select(0, nodes) + own.bias)
        return pump(take_rows(self.operators.adjacency, nodes), own.weight, own.bias)

    @torch.no_grad()
    def encoding(self, tables: Tables) -> Encoding:
        """U and the filters of all nodes; of the branches nothing, as no batch knows all nodes."""
        module = self.module
        scale = module.scale(self.operators.volume)
        table = module.fixed_filters or filter_table(
            tables.pump.u, tables.hierarchy, module.branches, scale
        )
        return Encoding(tables.pump, table, {})


@dataclass(frozen=True, eq=False)
class BatchView(View):
    """The nodes of a batch.

    Args:
        graph: The model and its graph.
        nodes: The rows.
        tables: Rank lists of all nodes; without gradients their positions too.
        shared: Values of all nodes that the batches of one evaluation share; ``None`` in training,
            where a batch computes what it needs.

    Shapes:
        nodes ``[b]``.
    """

    graph: BatchedDJGNN
    nodes: Tensor
    tables: Tables
    shared: dict[Hashable, Tensor] | None = None

    @cached_property
    def _near(self) -> tuple[Tensor, Tensor, Tensor]:
        """The sources (batch and lists), places of the batch among them, and of its lists."""
        count, lists = self.nodes.numel(), self._lists(self.nodes)
        listed = torch.cat([self.nodes, lists.reshape(-1)])
        sources, place = distinct(listed, self.graph.operators.num_nodes)
        return sources, place[:count], place[count:].view_as(lists)

    @cached_property
    def _around(self) -> tuple[Tensor, SparseOperator]:
        """The neighbours in the graph, and the normalised adjacency from them to the batch."""
        rows = take_rows(self.graph.operators.homophilic, self.nodes)
        return columns_of(rows) if self.shared is None else (self.nodes, rows)

    @property
    def features(self) -> Features:
        """X of batch and lists."""
        return feature_rows(self.graph.x, self._near[0])

    @property
    def adjacency(self) -> SparseOperator:
        """Rows of A."""
        return take_rows(self.graph.operators.adjacency, self.nodes)

    @property
    def source_rows(self) -> SparseOperator:
        """Rows of A of batch and lists."""
        return take_rows(self.graph.operators.adjacency, self._near[0])

    def positions(self, pump: DiffusionPump) -> PumpOutput:
        """Those of the tables."""
        return self.tables.pump

    def filters(self, model: DJGNN, u: Tensor) -> FilterTable:
        """Of batch and lists; distances are taken between twin classes."""
        sources, fixed = self._near[0], model.fixed_filters
        index = self._lists(sources)
        if fixed is not None:
            return FilterTable(index, fixed.weight.index_select(0, sources), model.branches)
        twins, ranks = self.tables.hierarchy.twins, self.tables.hierarchy.ranks
        classes, back = distinct(twins.class_of.index_select(0, sources), twins.num_classes)
        near = twins.class_of[ranks.index_select(0, classes)]
        both = torch.cat([classes, near.reshape(-1)])
        needed, place = distinct(both, twins.num_classes)
        members = twins.members.index_select(0, twins.start.index_select(0, needed))
        known = self.shared is not None
        points = u.index_select(0, members) if known else self.graph.positions(members)
        found, count = points.index_select(0, place), classes.numel()
        theirs = found[count:].view(*near.shape, points.shape[1])
        distance = safe_norm(found[:count, None, :] - theirs)
        weight = torch.exp(-model.scale(self.graph.operators.volume) * distance)
        return FilterTable(index, weight.index_select(0, back), model.branches)

    def aggregate(self, table: FilterTable, h: Tensor, shared: bool = False) -> Tensor:
        """From batch and lists to the batch."""
        return aggregate_rows(table, *self._near, h, shared)

    def own_rows(self, h: Tensor) -> Tensor:
        """The batch, out of batch and lists."""
        return h.index_select(0, self._near[1])

    def hop(self, weight: Tensor, bias: Tensor, further: int = 0) -> Tensor:
        """From the hop of X; of all nodes, once, where an evaluation shares it."""
        if further and self.shared is not None:
            rows = torch.arange(self.graph.operators.num_nodes, device=self.nodes.device)
            return self.inner(
                ("hop", id(weight)), rows, lambda nodes: self._hop(nodes, weight, bias)
            )
        return self._hop(self._around[0] if further else self.nodes, weight, bias)

    def _hop(self, nodes: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return (feature_rows(self.graph.hop, nodes) @ weight).add_(bias)

    def hop_rows(self, h: Tensor) -> Tensor:
        """The batch itself."""
        return h

    def inner(self, key: Hashable, h: Tensor, compute: Callable[[Tensor], Tensor]) -> Tensor:
        """In blocks of the batch's size, and once, in an evaluation."""
        if self.shared is None:
            return compute(h)
        if key not in self.shared:
            parts = torch.split(h, max(self.nodes.numel(), 1))
            self.shared[key] = torch.cat([compute(part) for part in parts])
        return self.shared[key]

    def propagate(self, h: Tensor) -> Tensor:
        """From the neighbours to the batch."""
        return self._around[1] @ h

    def _lists(self, nodes: Tensor) -> Tensor:
        """The rank lists of some nodes, ``[b, R]``."""
        fixed, hierarchy = self.graph.module.fixed_filters, self.tables.hierarchy
        if fixed is not None:
            return fixed.index.index_select(0, nodes)
        return hierarchy.ranks.index_select(0, hierarchy.twins.class_of.index_select(0, nodes))


def hop_features(operator: SparseOperator, x: Features) -> Features:
    """The product of an operator and features, sparse where that is the smaller.

    Shapes:
        operator ``[n, n]``, x and result ``[n, F]``.
    """
    if isinstance(x, Tensor):
        with torch.no_grad():
            return operator @ x
    found = sp.csr_array(operator.to_scipy() @ x.to_scipy())
    if found.nnz < DENSE_SHARE * found.shape[0] * found.shape[1]:
        return SparseOperator.from_scipy(found, x.dtype, x.device, backward=False)
    return torch.from_numpy(found.toarray()).to(device=x.device, dtype=x.dtype)


def feature_rows(x: Features, nodes: Tensor) -> Features:
    """Rows of dense or sparse features."""
    return x.index_select(0, nodes) if isinstance(x, Tensor) else take_rows(x, nodes)
