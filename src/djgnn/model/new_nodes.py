"""New nodes without retraining: placed by the stored pump, ranked against the stored U."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from djgnn.filters import FilterTable, aggregate
from djgnn.filters.table import safe_norm
from djgnn.graph.new_nodes import Arrivals
from djgnn.graph.operator import SparseOperator
from djgnn.jumps import arrival_ranks, twin_classes
from djgnn.model.djgnn import DJGNN
from djgnn.model.experts import DJExperts, ExpertOperators
from djgnn.model.operators import GraphOperators, mean_normalize
from djgnn.model.views import Encoding, Features, GraphView, View, scaled_degrees
from djgnn.pump import DiffusionPump, PumpOutput

MAKERS = 4
"""Threads that make operators, and tables."""
_making = Lock()  # they may be wanted while they are made


@dataclass(frozen=True, eq=False)
class Memory:
    r"""A trained model with the graph it was trained on: what new nodes are compared with.

    Known nodes never see new ones: the graph that both live in has the adjacency
    :math:`\begin{pmatrix} A & 0 \\ R & S \end{pmatrix}`, where R leads from new to known nodes and
    S among the new ones. So the values of known nodes do not change.
    """

    module: DJGNN
    x: Features
    operators: GraphOperators
    _products: dict[int, Tensor] = field(default_factory=dict, repr=False)

    @property
    def view(self) -> GraphView:
        """All known nodes."""
        return self.module.view(self.x, self.operators)

    @cached_property
    def encoding(self) -> Encoding:
        """The first half of a pass over the known nodes."""
        self.module.eval()
        with torch.no_grad():
            return self.module.encode(self.view).detach()

    @cached_property
    def root(self) -> Tensor:
        """1 / sqrt(degree) of the known nodes in the normalised adjacency of a GCN."""
        diagonal = torch.from_numpy(self.operators.homophilic.diagonal)
        return diagonal.sqrt()  # the diagonal is 1 before it is divided by the degree

    def product(self, weight: Tensor) -> Tensor:
        """X W of the known nodes, kept for the next new nodes."""
        if id(weight) not in self._products:
            self._products[id(weight)] = self.x @ weight
        return self._products[id(weight)]

    @torch.no_grad()
    def logits(self, new: Arrivals, x: Features) -> Tensor:
        """Logits of new nodes.

        Args:
            new: Their edges.
            x: Their features, on the model's device.

        Shapes:
            x ``[m, F]``, result ``[m, classes]``.

        Raises:
            ValueError: If the model has no f(A) that could place a new node.
        """
        if self.module.pump is not None and self.module.config.source != "adjacency":
            raise ValueError("a model of f(I) cannot place new nodes; train with source=adjacency")
        self.module.eval()
        view = ArrivalView(self, new, x)
        return self.module.decode(view.encode(), view)


@dataclass(frozen=True, eq=False)
class ExpertMemory:
    """A trained mixture with the graph it was trained on."""

    module: DJExperts
    x: Features
    operators: ExpertOperators

    @cached_property
    def used(self) -> tuple[str, ...]:
        """The experts that have any part in an answer."""
        parts = zip(self.module.names, self.module.influence()[:, 0, 0].tolist(), strict=True)
        return tuple(name for name, part in parts if part)

    @property
    def networks(self) -> dict[str, Memory]:
        """The networks among them, with their operators."""
        with _making:
            return self._networks

    @cached_property
    def _networks(self) -> dict[str, Memory]:
        module, inputs = self.module, (self.x, self.operators)

        def made(name: str) -> Memory:
            network: Any = module.experts[name]
            return Memory(network, *module.inputs_of(name, inputs))

        names = [name for name in self.used if name in module.configs]
        # Matrices that differ in direction are made at the same time.
        with ThreadPoolExecutor(min(MAKERS, torch.get_num_threads())) as pool:
            return dict(zip(names, pool.map(made, names), strict=True))

    @torch.no_grad()
    def logits(self, new: Arrivals, x: Features) -> Tensor:
        """Logarithms of the mixture's probabilities of new nodes, see :meth:`Memory.logits`."""
        blank = self.module.weights.new_zeros(new.num_nodes, self.module.out_channels)
        with ThreadPoolExecutor(1) as beside:
            # On a GPU networks leave the CPU to tables.
            ahead = beside.submit(self._tables, new, x) if blank.is_cuda else None
            found = {name: network.logits(new, x) for name, network in self.networks.items()}
            found |= self._tables(new, x) if ahead is None else ahead.result()
        return self.module.combine([found.get(name, blank) for name in self.module.names])

    def _tables(self, new: Arrivals, x: Features) -> dict[str, Tensor]:
        """Logits of the experts on a table, of several at the same time beside a GPU."""
        module, inputs = self.module, (self.x, self.operators)

        @torch.no_grad()  # of a thread, too
        def said(name: str) -> Tensor:
            expert: Any = module.experts[name]
            found: Tensor = expert.arriving(*module.inputs_of(name, inputs), new, x)
            return found

        names = [name for name in self.used if name not in module.configs]
        at_once = min(MAKERS, torch.get_num_threads()) if module.weights.is_cuda else 1
        with ThreadPoolExecutor(at_once) as pool:
            return dict(zip(names, pool.map(said, names), strict=True))


def remember(
    module: DJGNN | DJExperts, x: Features, operators: GraphOperators | ExpertOperators
) -> Memory | ExpertMemory:
    """What classifies new nodes, of a network or of a mixture."""
    made: Any = ExpertMemory if isinstance(module, DJExperts) else Memory
    found: Memory | ExpertMemory = made(module, x, operators)
    return found


@dataclass(frozen=True, eq=False)
class ArrivalView(View):
    """New nodes as rows; as sources the new ones are computed, the known ones are stored.

    Args:
        known: The model and its graph.
        new: Edges of the new nodes.
        features: Their features.

    Shapes:
        features ``[m, F]``.
    """

    known: Memory
    new: Arrivals
    features: Features

    def encode(self) -> Encoding:
        """The first half of a pass: stored values of known nodes, then those of the new ones."""
        stored, own = self.known.encoding.parts, self.known.module.encode(self)
        parts = {name: torch.cat([stored[name], part]) for name, part in own.parts.items()}
        return Encoding(own.pump, own.table, parts)

    @cached_property
    def adjacency(self) -> SparseOperator:
        """Rows of A over the known nodes."""
        rows = _rows(self.new, self.known.module.config.pump_adjacency)
        return self._operator(rows[:, : self.known.operators.num_nodes])

    @property
    def source_rows(self) -> SparseOperator:
        """Those of the new nodes: what the known ones have of theirs is stored."""
        return self.adjacency

    @cached_property
    def degrees(self) -> Tensor:
        """Of the new nodes, in edges with known ones."""
        known = self.known.operators.degree
        return scaled_degrees((self.adjacency @ torch.ones_like(known)[:, None])[:, 0], known)

    def _once(self, *key: Any, make: Callable[[], Any]) -> Any:
        """What experts that see the same edges share."""
        held = self.known.operators.adjacency
        place = (*key, held.dtype, held.device)
        if place not in self.new.made:
            self.new.made[place] = make()
        return self.new.made[place]

    @cached_property
    def _homophilic(self) -> SparseOperator:
        """Rows of the normalised adjacency, over known and new nodes."""
        config = self.known.module.config
        seen, mean = config.homophilic_adjacency, config.treatment()["mean"]
        found: SparseOperator = self._once(
            "homophilic", seen, mean, make=lambda: self._normalized(_rows(self.new, seen), mean)
        )
        return found

    def _normalized(self, row: sp.csr_array, mean: bool) -> SparseOperator:
        if mean:
            return self._operator(mean_normalize(row))
        m, n = self.new.num_nodes, self.known.operators.num_nodes
        own = sp.csr_array((np.ones(m), (np.arange(m), n + np.arange(m))), shape=row.shape)
        looped = row - row.multiply(own) + own
        degree = np.maximum(np.asarray(looped.sum(axis=1)).reshape(-1), 1)
        root = np.concatenate([self.known.root.numpy(), 1 / np.sqrt(degree)])
        return self._operator(
            sp.csr_array(sp.diags_array(root[n:]) @ looped @ sp.diags_array(root))
        )

    def _operator(self, matrix: sp.csr_array) -> SparseOperator:
        held = self.known.operators.adjacency
        return SparseOperator.from_scipy(matrix, held.dtype, held.device)

    def positions(self, pump: DiffusionPump) -> PumpOutput:
        """u = tanh(a W + b); a node with the row of a known one gets exactly its position."""
        stored, operators = self.known.encoding.pump, self.known.operators
        u = torch.tanh(self.adjacency @ pump.weight.t().contiguous() + pump.bias)
        n, seen = operators.num_nodes, self.known.module.config.pump_adjacency
        first = self._once("first", seen, make=self._first)
        u = torch.where((first < n)[:, None], stored.u[first.clamp_max(n - 1)], u)
        return PumpOutput(
            torch.cat([stored.u.detach(), u]), stored.trace_ratio, stored.orthogonality
        )

    def _first(self) -> Tensor:
        """Of every new node the first one with the same row of A, ``[m]``."""
        held, row = self.known.operators.adjacency, self.adjacency.to_scipy().astype(np.float32)
        twins = twin_classes(sp.csr_array(sp.vstack([held.to_scipy(), row])))
        return twins.representative[twins.class_of[held.shape[0] :]].to(held.device)

    def filters(self, model: DJGNN, u: Tensor) -> FilterTable:
        """The stored filters, and below them those of the new nodes."""
        table, operators = self.known.encoding.table, self.known.operators
        n = operators.num_nodes
        ranks = arrival_ranks(u[n:], u[:n], operators.twins, model.num_ranks)
        distance = safe_norm(u[n:, None, :] - u[ranks])
        weight = torch.exp(-model.scale(operators.volume) * distance)
        if model.fixed_filters is not None and bool((table.weight == 1).all()):
            weight = torch.ones_like(weight)
        index = torch.cat([table.index, ranks])
        return FilterTable(index, torch.cat([table.weight, weight]), table.branches)

    def aggregate(self, table: FilterTable, h: Tensor, shared: bool = False) -> Tensor:
        """From known and new nodes to the new ones."""
        return aggregate(table, h, self._index(h), shared)

    def hop(self, weight: Tensor, bias: Tensor, further: int = 0) -> Tensor:
        """Of the new nodes; those of the known ones are stored."""
        xw = torch.cat([self.known.product(weight), self.features @ weight])
        return (self._homophilic @ xw).add_(bias)

    def hops(self, weight: Tensor, width: int) -> Tensor:
        """Of the new nodes; those of the known ones are computed again for it."""
        xw = torch.cat([self.known.product(weight), self.features @ weight])
        return self.spread_blocks(xw, width)[self.known.operators.num_nodes :]

    def hop_rows(self, h: Tensor) -> Tensor:
        """The new nodes come last."""
        return h.index_select(0, self._index(h))

    def propagate(self, h: Tensor) -> Tensor:
        """From known and new nodes to the new ones."""
        return self._homophilic @ h

    def spread(self, h: Tensor) -> Tensor:
        """The known nodes among themselves, and from both to the new ones."""
        n = self.known.operators.num_nodes
        return torch.cat([self.known.operators.homophilic @ h[:n], self._homophilic @ h])

    def _index(self, h: Tensor) -> Tensor:
        return torch.arange(self.known.operators.num_nodes, h.shape[0], device=h.device)


def _rows(new: Arrivals, treatment: str) -> sp.csr_array:
    """Rows of the new nodes over known and new ones, ``[m, n + m]``."""
    known, among = new.outgoing, new.among
    if treatment == "transposed":
        known, among = new.incoming, sp.csr_array(among.T)
    if treatment == "symmetric":
        known = known.maximum(new.incoming)
        among = among.maximum(sp.csr_array(among.T))
    return sp.csr_array(sp.hstack([known, among], format="csr")).astype(np.float64)
