"""The rows of one process: values of other nodes come from their processes."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self, cast

import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from djgnn.filters import FilterTable
from djgnn.filters.aggregate import looped_entries, normalize_entries, sum_entries
from djgnn.filters.table import rank_weights
from djgnn.graph import Graph
from djgnn.graph.operator import SparseOperator
from djgnn.jumps import TwinClasses
from djgnn.model import DJGNN, DJExperts
from djgnn.model.dropout import Window
from djgnn.model.hop_products import FeatureHops
from djgnn.model.operators import Parts, WholeGraph
from djgnn.model.views import Encoding, Features, SourceView, Windows, scaled_degrees
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
    recomputed,
    reduce_gradients,
)
from djgnn.training.distributed.group import Group
from djgnn.training.distributed.rows import OwnRows, own_rows
from djgnn.training.distributed.shard import Shard
from djgnn.training.inputs import Facts, blank_djgnn, dense_or_sparse, feature_matrix


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

    def view(self, features: Features) -> "ShardView":
        """All own rows; every process must call this at the same time."""
        shard = self.shard
        own = torch.arange(shard.last - shard.first, device=self.degree.device)
        matrices = (self.adjacency, self.homophilic)
        return ShardView(features, self, own, shard.first, shard.sizes, *matrices)


@dataclass(frozen=True, eq=False)
class ShardView(SourceView):
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
    reached: FeatureHops = field(default_factory=FeatureHops)

    @property
    def bounds(self) -> tuple[int, ...]:
        """The first node of every process, and the number of all."""
        return self.operators.shard.bounds

    def rows(self, index: Tensor) -> Self:
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

    def aggregate(self, table: FilterTable, h: Tensor, shared: bool = False) -> Tensor:
        """As :func:`djgnn.filters.aggregate`, with the rows of h that other processes have.

        Of every branch only those rows are fetched that an entry of its filter names, each once,
        and once more for the gradient: all branches together would be most of the graph.
        """
        count, shard = table.num_branches, self.operators.shard
        position, value, root = looped_entries(table, shard.first)
        node = position.div_(count, rounding_mode="floor").index_select(0, self.index)
        value = value.index_select(0, self.index)
        sizes = [1 + len(ranks) for ranks in table.branches]
        columns = (torch.split(node, sizes, dim=1), torch.split(value, sizes, dim=1))
        blocks = (h,) * count if shared else torch.chunk(h, count, dim=1)
        parts = (*columns, torch.split(root, 1, dim=1), blocks)
        found = (
            recomputed(partial(self._aggregate_one, tuple(range(1, size)), near), value, root, rows)
            for size, near, value, root, rows in zip(sizes, *parts, strict=True)
        )
        if torch.is_grad_enabled():
            return torch.cat(list(found), dim=1)
        # Without a copy of all of them.
        out = h.new_empty(len(value), count * blocks[0].shape[1])
        for place, part in zip(torch.chunk(out, count, dim=1), found, strict=True):
            place.copy_(part)
        return out

    def _aggregate_one(
        self, ranks: tuple[int, ...], node: Tensor, value: Tensor, root: Tensor, h: Tensor
    ) -> Tensor:
        """One branch, whose entries lead to these nodes."""
        needed, index = torch.unique(node, return_inverse=True)
        plan = Plan.of(self.operators.shard, needed)
        theirs = plan.fetch(root).view(-1).index_select(0, index.view(-1)).view_as(value)
        value = normalize_entries((ranks,), value, root.index_select(0, self.index), theirs)
        return sum_entries((ranks,), index, value, plan.fetch(h))

    def hop_rows(self, h: Tensor) -> Tensor:
        """Chosen by index."""
        return h.index_select(0, self.index)

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
        rows: The own rows.
        group: The processes.
        dtype: Precision of the values.
        device: Where the rows will live.
        whole: All of the graph, on the first process, which computes with it for all.
    """

    shares = False

    def __init__(
        self,
        rows: OwnRows,
        group: Group,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
        whole: WholeGraph | None = None,
    ) -> None:
        super().__init__(None if whole is None else whole.adjacency, dtype, device)
        self._rows, self._group, self._shard, self._whole = rows, group, rows.shard, whole
        self.first = rows.shard.first

    def treated(self, treatment: str) -> sp.csr_array:
        """The own rows."""
        return self._rows.treated(treatment)

    def of_all(self, values: NDArray[Any]) -> NDArray[Any]:
        """Gathered from all processes."""
        return gather(torch.from_numpy(values), self._shard.sizes).numpy()

    def whole(self) -> WholeGraph:
        """What the first process does with all rows is shared."""
        return replace(self._whole or WholeGraph(None), shared=self._group.shared)

    def spreading(self, matrix: sp.csr_array) -> HaloOperator:
        """Rows as an operator, to be multiplied by values that live on all processes."""
        return HaloOperator.of(self._shard, matrix, *self._kind)

    def twins(self, treatment: str, look: bool) -> TwinClasses:
        """Found by the first process."""

        def make() -> TwinClasses:
            found = self._group.shared(lambda: Parts(self._given).twins(treatment, look))
            return found.to(self._kind[1])

        return self._once(("shared twins", look and treatment), make)

    def operators(  # type: ignore[override]
        self,
        pump_adjacency: str = "given",
        homophilic_adjacency: str = "given",
        mean: bool = False,
        twins: bool = True,
    ) -> ShardOperators:
        """See :func:`djgnn.model.graph_operators`."""
        if self._whole is not None:
            self._whole.made.clear()  # of tables, which are not kept beside networks
        whole = super().operators(pump_adjacency, homophilic_adjacency, mean, twins)

        def own() -> list[Tensor]:
            mine = whole.twins.class_of[self._shard.first : self._shard.last]
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

    The first process hands out the rows of its graph; those of the others need none.

    Raises:
        InputError: If the configuration asks for more jumps than the graph has nodes.
    """
    facts = group.shared(lambda: Facts.of(graph))
    module = blank_djgnn(config, facts).to(device)
    whole = WholeGraph(graph.adjacency, feature_matrix(graph)) if group.first else None
    rows = OwnRows.of(group, None if whole is None else whole.adjacency, facts.directed)
    x = own_rows(group, rows.shard, None if whole is None else whole.features)
    parts = ShardParts(rows, group, device=device, whole=whole)
    return module, (dense_or_sparse(x, device), module.operators(parts))
