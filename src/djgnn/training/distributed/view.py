"""The rows of one process: values of other nodes come from their processes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from djgnn.filters import FilterTable
from djgnn.filters.aggregate import looped_entries, normalize_entries, sum_entries
from djgnn.filters.table import rank_weights
from djgnn.graph import Graph
from djgnn.graph.operator import SparseOperator
from djgnn.jumps import TwinClasses
from djgnn.model import DJGNN, DJExperts
from djgnn.model.dropout import Window
from djgnn.model.operators import Parts, WholeGraph
from djgnn.model.views import Encoding, Features, View, Windows, scaled_degrees
from djgnn.pump import DiffusionPump, PumpOutput
from djgnn.pump.pump import gram_orthogonality, pump, ratio_of
from djgnn.training.config import RunConfig
from djgnn.training.distributed.exchange import (
    HaloOperator,
    Plan,
    gather,
    gather_inputs,
    gather_results,
    owned,
    reduce_gradients,
)
from djgnn.training.distributed.group import Group
from djgnn.training.distributed.shard import Shard
from djgnn.training.inputs import blank_djgnn, dense_or_sparse, feature_matrix


@dataclass(frozen=True, eq=False)
class ShardOperators:
    """Constant parts of the rows of one process, and where the other rows are.

    Shapes:
        adjacency ``[own, n]``, degree ``[n]``, volume scalar, homophilic ``[own, own + seen]``;
        classes ``[m]`` (twin classes of the own nodes), place ``[own]`` (of each node in them).
    """

    group: Group
    shard: Shard
    adjacency: SparseOperator
    degree: Tensor
    volume: Tensor
    homophilic: HaloOperator
    twins: TwinClasses
    classes: Tensor
    place: Tensor

    @property
    def num_nodes(self) -> int:
        """Number of nodes n of the graph."""
        return self.shard.num_nodes

    def view(self, features: Features) -> ShardView:
        """All own rows; every process must call this at the same time."""
        return ShardView.of(features, self)


@dataclass(frozen=True, eq=False)
class ShardView(View):
    """A view whose sources are the nodes of one process.

    Every process must make the same calls at the same time.

    Args:
        features: X of the own nodes.
        operators: The own rows of the graph.
        index: The rows, counted from the first own node.
        first: Place of the first row among the rows of all processes.
        sizes: How many rows each process has.
        adjacency: The rows of A.
        homophilic: The rows of the normalised adjacency.

    Shapes:
        features ``[own, F]``, index ``[m]``, adjacency ``[m, n]``, homophilic ``[m, seen]``.
    """

    features: Features
    operators: ShardOperators
    index: Tensor
    first: int
    sizes: list[int]
    adjacency: SparseOperator
    homophilic: HaloOperator

    @classmethod
    def of(cls, features: Features, operators: ShardOperators) -> ShardView:
        """All own nodes."""
        shard = operators.shard
        own = torch.arange(shard.last - shard.first, device=operators.degree.device)
        matrices = (operators.adjacency, operators.homophilic)
        return cls(features, operators, own, shard.first, shard.sizes, *matrices)

    def rows(self, index: Tensor) -> ShardView:
        """The own ones among some nodes.

        Args:
            index: Ascending, the same on every process.
        """
        operators, shard = self.operators, self.operators.shard
        sizes = shard.counts(index)
        begin = sum(sizes[: shard.rank])
        own = index[begin : begin + sizes[shard.rank]] - shard.first
        chosen = own.cpu().numpy()
        near, halo = operators.adjacency, operators.homophilic
        some, kind = halo.operator.to_scipy()[chosen], (near.dtype, near.device)
        return replace(
            self,
            index=own,
            first=begin,
            sizes=sizes,
            adjacency=SparseOperator.from_scipy(near.to_scipy()[chosen], *kind),
            homophilic=HaloOperator.of(shard, some, *kind, halo.nodes),
        )

    @property
    def windows(self) -> Windows:
        """Sources are parts of all nodes, rows of the rows of all processes."""
        shard = self.operators.shard
        return Window(shard.first, shard.num_nodes), Window(self.first, sum(self.sizes))

    def positions(self, pump_: DiffusionPump) -> PumpOutput:
        """Each process computes its own; all get all of them."""
        operators, shard, group = self.operators, self.operators.shard, self.operators.group
        if pump_.source == "adjacency":
            own = pump(operators.adjacency, pump_.weight, pump_.bias)
        else:
            own = pump(None, pump_.weight[:, shard.first : shard.last], pump_.bias)
        u = gather_inputs(group, own, shard.sizes)
        # All processes sum over all nodes, so that the losses have the bits that one process gives
        # them, and gradients of U are added up in its order.
        rows = (shard.first, shard.last)
        energy = (operators.degree * owned(u, *rows).square().sum(dim=1)).sum()
        spread = gather_results(group, operators.adjacency @ u, shard.sizes)
        affinity = (owned(u, *rows) * spread).sum()
        gram = owned(u, *rows).t() @ owned(u, *rows)
        return PumpOutput(u, ratio_of(energy, affinity), gram_orthogonality(gram))

    def filters(self, model: DJGNN, u: Tensor) -> FilterTable:
        """Of the own nodes, ranked among all nodes."""
        if model.fixed_filters is not None:
            return model.fixed_filters
        mine = self.operators
        ranks = model.ranks(u, mine.twins, mine.classes)
        weight = rank_weights(u, mine.twins, ranks, model.scale(mine.volume), mine.classes)
        return FilterTable(ranks[mine.place], weight.index_select(0, mine.place), model.branches)

    @property
    def source_rows(self) -> SparseOperator:
        """The own rows of A."""
        return self.operators.adjacency

    @property
    def degrees(self) -> Tensor:
        """Of the own nodes."""
        shard, degree = self.operators.shard, self.operators.degree
        return scaled_degrees(degree[shard.first : shard.last], degree)

    def aggregate(self, table: FilterTable, h: Tensor) -> Tensor:
        """As :func:`djgnn.filters.aggregate`, with the rows of X W that other processes have.

        X W is cut into one row per node and branch; of these only those are fetched that an entry
        of a filter names, each once.
        """
        branches, count = table.branches, table.num_branches
        position, value, root = looped_entries(table, self.operators.shard.first)
        position, value = (part.index_select(0, self.index) for part in (position, value))
        needed, index = torch.unique(position, return_inverse=True)
        # The last is asked for again until whole rows of all branches are full.
        needed = torch.cat([needed, needed[-1:].expand(-needed.numel() % count)])
        plan = Plan.of(self.operators.shard, needed, count)
        near = plan.fetch(h.reshape(-1, h.shape[1] // count)).view(-1, h.shape[1])
        roots = plan.fetch(root.reshape(-1, 1)).view(-1)
        theirs = roots.index_select(0, index.reshape(-1)).view_as(value)
        value = normalize_entries(branches, value, root.index_select(0, self.index), theirs)
        return sum_entries(branches, index, value, near)

    def hop(self, weight: Tensor, bias: Tensor, further: int = 0) -> Tensor:
        """Of the own nodes, whatever is asked for: evaluation and training share it."""
        return (self.operators.homophilic @ (self.features @ weight)).add_(bias)

    def hop_rows(self, h: Tensor) -> Tensor:
        """Chosen by index."""
        return h.index_select(0, self.index)

    def propagate(self, h: Tensor) -> Tensor:
        """One product, with the rows of h that other processes have."""
        return self.homophilic @ h

    def spread(self, h: Tensor) -> Tensor:
        """One product of all own rows."""
        return self.operators.homophilic @ h

    def gather(self, logits: Tensor) -> Tensor:
        """Logits of the rows of all processes."""
        return gather_results(self.operators.group, logits, self.sizes)

    def reduce(self, parameters: Iterable[Tensor]) -> None:
        """Sum the gradients of all processes."""
        reduce_gradients(parameters)

    def whole(self, encoding: Encoding) -> Encoding:
        """The filters of all nodes; what branches encoded stays that of the own ones."""
        table, shard = encoding.table, self.operators.shard
        if not table.branches:
            return encoding
        index, weight = (gather(part.detach(), shard.sizes) for part in (table.index, table.weight))
        return replace(encoding, table=FilterTable(index, weight, table.branches))


class ShardParts(Parts):
    """Parts of the rows of one process; every process must ask for the same at the same time.

    Args:
        adjacency: A as given, whole.
        group: The processes.
        shard: Whose nodes are whose.
        dtype: Precision of the values.
        device: Where the rows will live.
        features: X of all nodes, of which the first process computes the plain experts.
    """

    shares = False

    def __init__(
        self,
        adjacency: Any,
        group: Group,
        shard: Shard,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
        features: Any = None,
    ) -> None:
        super().__init__(adjacency, dtype, device)
        self._group, self._shard, self._features = group, shard, features
        self._own = slice(shard.first, shard.last)

    def whole(self) -> WholeGraph:
        """All rows, and what the first process does with them is shared."""
        return replace(super().whole(), features=self._features, shared=self._group.shared)

    def held(self, matrix: sp.csr_array) -> SparseOperator:
        """The own rows."""
        return super().held(matrix[self._own])

    def spreading(self, matrix: sp.csr_array) -> HaloOperator:
        """The own rows, to be multiplied by values that live on all processes."""
        return HaloOperator.of(self._shard, matrix[self._own], *self._kind)

    def operators(  # type: ignore[override]
        self,
        pump_adjacency: str = "given",
        homophilic_adjacency: str = "given",
        mean: bool = False,
        twins: bool = True,
    ) -> ShardOperators:
        """See :func:`djgnn.model.graph_operators`."""
        whole = super().operators(pump_adjacency, homophilic_adjacency, mean, twins)

        def own() -> list[Tensor]:
            mine = whole.twins.class_of[self._own]
            return list(torch.unique(mine, return_inverse=True))

        classes, place = self._once(("own", whole.twins), own)
        return ShardOperators(
            group=self._group,
            shard=self._shard,
            adjacency=whole.adjacency,
            degree=whole.degree,
            volume=whole.volume,
            homophilic=cast(HaloOperator, whole.homophilic),
            twins=whole.twins,
            classes=classes,
            place=place,
        )


def shard_djgnn(
    config: RunConfig, graph: Graph, group: Group, device: torch.device | str = "cpu"
) -> tuple[DJGNN | DJExperts, tuple[Any, Any]]:
    """A DJ-GNN for a graph, and this process's rows of its inputs.

    The graph is read whole by every process; what is kept for training are its own rows.

    Raises:
        InputError: If the configuration asks for more jumps than the graph has nodes.
    """
    module = blank_djgnn(config, graph).to(device)
    edges = np.diff(graph.adjacency.indptr)
    shard = Shard.balanced(edges, group.size, group.rank)
    whole = feature_matrix(graph)
    parts = ShardParts(graph.adjacency, group, shard, device=device, features=whole)
    x = dense_or_sparse(whole[shard.first : shard.last], device)
    return module, (x, module.operators(parts))
