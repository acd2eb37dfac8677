"""A pass over a batch of nodes: what it needs of the graph is computed, nothing else.

The lists of a batch name its neighbours in U, and their lists those whose distances make up the
row sums of the normalisation. So the positions of two levels of lists are computed again, with
gradients, from rows of A; X W for one level. Nothing is sampled: a batch of all nodes is the
model's own pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from djgnn.filters import FilterTable, aggregate_rows, filter_table
from djgnn.filters.table import safe_norm
from djgnn.graph.operator import SparseOperator, distinct, take_rows
from djgnn.jumps import JumpHierarchy
from djgnn.model.djgnn import DJGNN
from djgnn.model.hops import HomophilicRows, feature_rows
from djgnn.model.operators import GraphOperators
from djgnn.model.outputs import Encoding
from djgnn.model.recompute import recompute
from djgnn.pump import PumpOutput
from djgnn.pump.pump import pump

Positions = Callable[[Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Tables:
    """What batches look up about all nodes, at one state of the weights.

    Shapes:
        pump.u and pull ``[n, p]`` (the gradient of the pump loss at each position), hierarchy
        ``[m, R]``.
    """

    pump: PumpOutput
    pull: Tensor
    hierarchy: JumpHierarchy

    @property
    def pump_loss(self) -> Tensor:
        """Trace ratio plus orthogonality, of all nodes."""
        return self.pump.trace_ratio + self.pump.orthogonality


class BatchedDJGNN:
    """Passes of a DJ-GNN over some of the nodes, in memory that depends on their number.

    What grows with the graph are the matrices, X, one hop of it, and tables of a few columns.

    Args:
        module: The model.
        x: Features of all nodes.
        operators: The graph.
    """

    def __init__(
        self, module: DJGNN, x: Tensor | SparseOperator, operators: GraphOperators
    ) -> None:
        self.module, self.operators = module, operators
        self.x = module.as_features(x)
        branch = module.homophilic
        self.homophilic = (
            None if branch is None else HomophilicRows(branch, operators.homophilic, self.x)
        )

    def tables(self) -> Tables:
        """The tables at the current weights: O(|E| p), and one search."""
        own, operators = self.module.pump, self.operators
        adjacency = operators.adjacency if own.source == "adjacency" else None
        with torch.no_grad():
            u = pump(adjacency, own.weight, own.bias)
        with torch.enable_grad():
            losses = own.losses(u.requires_grad_(), operators.adjacency, operators.degree)
            (pull,) = torch.autograd.grad(losses.trace_ratio + losses.orthogonality, u)
        u = u.detach()
        held = PumpOutput(u, losses.trace_ratio.detach(), losses.orthogonality.detach())
        return Tables(held, pull, self.module.ranks.search(u, operators.twins))

    def logits(
        self, nodes: Tensor, tables: Tables, generator: torch.Generator | None = None
    ) -> Tensor:
        """Logits of some nodes, with the gradients of everything they depend on.

        Args:
            nodes: Which nodes.
            tables: For the rank lists.
            generator: Source of dropout's randomness.

        Shapes:
            nodes ``[b]``, result ``[b, classes]``.
        """

        def run() -> Tensor:
            jumps = self._jumps(nodes, tables, self.positions, generator)
            near = None if self.homophilic is None else self.homophilic(nodes, generator)
            return self._classify(nodes, jumps, near, generator)

        return recompute(run, generator) if self.module.config.recompute else run()

    @torch.no_grad()
    def evaluate(self, tables: Tables, batch_size: int) -> Tensor:
        """Logits of all nodes without dropout, batch by batch; positions are looked up."""
        self.module.eval()
        own, u = self.homophilic, tables.pump.u
        summands = None if own is None else own.summands(batch_size)
        found = []
        whole = torch.arange(self.operators.num_nodes, device=u.device)
        for nodes in torch.split(whole, batch_size):
            jumps = self._jumps(nodes, tables, lambda some: u.index_select(0, some))
            near = None if own is None else own.evaluate(nodes, summands)
            found.append(self._classify(nodes, jumps, near))
        return torch.cat(found)

    def positions(self, nodes: Tensor) -> Tensor:
        """U of some nodes from their rows of A, ``[b, p]``."""
        own = self.module.pump
        if own.source != "adjacency":
            return torch.tanh(own.weight.t().index_select(0, nodes) + own.bias)
        return pump(take_rows(self.operators.adjacency, nodes), own.weight, own.bias)

    @torch.no_grad()
    def encoding(self, tables: Tables) -> Encoding:
        """The tables as a whole pass would hand them on, for those who look at U and the filters.

        X W and the first homophilic layer, which no batch knows of all nodes, are empty.
        """
        module = self.module
        scale = module.scale(self.operators)
        table = module.fixed_filters or filter_table(
            tables.pump.u, tables.hierarchy, module.branches, scale
        )
        return Encoding(tables.pump, table, tables.pump.u.new_empty(0), None)

    def _jumps(
        self,
        nodes: Tensor,
        tables: Tables,
        positions: Positions,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Embeddings of the jump branches."""
        jumps, count = self.module.jumps, nodes.numel()
        lists = self._lists(nodes, tables)
        listed = torch.cat([nodes, lists.reshape(-1)])
        needed, place = distinct(listed, self.operators.num_nodes)
        table = self._filters(needed, tables, positions)
        xw = jumps.encode(feature_rows(self.x, needed))
        near = place[count:].view_as(lists)
        return jumps.activate(aggregate_rows(table, needed, place[:count], near, xw), generator)

    def _lists(self, nodes: Tensor, tables: Tables) -> Tensor:
        """The rank lists of some nodes, ``[b, R]``."""
        fixed, hierarchy = self.module.fixed_filters, tables.hierarchy
        if fixed is not None:
            return fixed.index.index_select(0, nodes)
        return hierarchy.ranks.index_select(0, hierarchy.twins.class_of.index_select(0, nodes))

    def _filters(self, nodes: Tensor, tables: Tables, positions: Positions) -> FilterTable:
        """The filters of some nodes; distances are taken between twin classes, as ever."""
        fixed, branches = self.module.fixed_filters, self.module.branches
        index = self._lists(nodes, tables)
        if fixed is not None:
            return FilterTable(index, fixed.weight.index_select(0, nodes), branches)
        twins, ranks = tables.hierarchy.twins, tables.hierarchy.ranks
        classes, back = distinct(twins.class_of.index_select(0, nodes), twins.num_classes)
        near = twins.class_of[ranks.index_select(0, classes)]
        both = torch.cat([classes, near.reshape(-1)])
        needed, place = distinct(both, twins.num_classes)
        points = positions(twins.members.index_select(0, twins.start.index_select(0, needed)))
        found, count = points.index_select(0, place), classes.numel()
        theirs = found[count:].view(*near.shape, points.shape[1])
        distance = safe_norm(found[:count, None, :] - theirs)
        weight = torch.exp(-self.module.scale(self.operators) * distance)
        return FilterTable(index, weight.index_select(0, back), branches)

    def _classify(
        self,
        nodes: Tensor,
        jumps: Tensor,
        near: Tensor | None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        parts = [jumps] if near is None else [jumps, near]
        structure = self.module.structure
        if structure is not None:
            parts.append(structure(take_rows(self.operators.adjacency, nodes), generator))
        logits: Tensor = self.module.mixture(parts)
        return logits
