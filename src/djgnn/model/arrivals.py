"""New nodes without retraining: placed by the stored pump, ranked against the stored U."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from djgnn.filters.table import FilterTable, safe_norm
from djgnn.graph.arrivals import Arrivals
from djgnn.graph.operator import SparseOperator
from djgnn.jumps import arrival_ranks, twin_classes
from djgnn.model.djgnn import DJGNN
from djgnn.model.operators import GraphOperators, RowOperators
from djgnn.model.outputs import Encoding


@dataclass(frozen=True, eq=False)
class Memory:
    r"""A trained model with the graph it was trained on: what new nodes are compared with.

    Known nodes never see new ones: the graph that both live in has the adjacency
    :math:`\begin{pmatrix} A & 0 \\ R & S \end{pmatrix}`, where R leads from new to known nodes and
    S among the new ones. So what is said of known nodes does not move.
    """

    module: DJGNN
    x: Tensor | SparseOperator
    operators: GraphOperators

    @cached_property
    def encoding(self) -> Encoding:
        """The first half of a pass over the known nodes."""
        self.module.eval()
        with torch.no_grad():
            return self.module.encode(self.x, self.operators).detach()

    @cached_property
    def first_layer(self) -> Tensor:
        """X W_1 of the homophilic branch."""
        branch = self.module.homophilic
        with torch.no_grad():
            return self.x @ branch.weights[0] if branch is not None else torch.empty(0)

    @cached_property
    def root(self) -> Tensor:
        """1 / sqrt(degree) of the known nodes in the homophilic branch."""
        diagonal = torch.from_numpy(self.operators.homophilic.to_scipy().diagonal())
        return diagonal.sqrt()  # the diagonal is 1 before it is divided by the degree

    @torch.no_grad()
    def logits(self, new: Arrivals, x: Tensor | SparseOperator) -> Tensor:
        """Logits of new nodes.

        Args:
            new: Their edges.
            x: Their features, on the model's device.

        Shapes:
            x ``[m, F]``, result ``[m, classes]``.

        Raises:
            ValueError: If the model has no f(A) that could place a new node.
        """
        encoding, rows = self.extend(new, x)
        return self.module.decode(encoding, rows)

    @torch.no_grad()
    def extend(self, new: Arrivals, x: Tensor | SparseOperator) -> tuple[Encoding, RowOperators]:
        """Encoding of known and new nodes together, and the rows of the new ones."""
        module, known = self.module, self.encoding
        if module.config.source != "adjacency":
            raise ValueError("a model of f(I) cannot place new nodes; train with source=adjacency")
        module.eval()
        n = self.operators.num_nodes
        row = _rows(new, module.config.pump_adjacency)[:, :n]
        adjacency = self._operator(row)
        u = torch.cat([known.pump.u.detach(), self._positions(row, adjacency)])
        xw = torch.cat([known.jumps, module.jumps.encode(x)])
        first, homophilic = known.homophilic, None
        if module.homophilic is not None and first is not None:
            homophilic = self._operator(self._normalized(new))
            own = torch.cat([self.first_layer, x @ module.homophilic.weights[0]])
            first = torch.cat([first, homophilic @ own + module.homophilic.biases[0]])
        index = n + torch.arange(new.num_nodes, device=u.device)
        pump = type(known.pump)(u, known.pump.trace_ratio, known.pump.orthogonality)
        encoding = Encoding(pump, self._table(u, n), xw, first)
        return encoding, RowOperators(index, adjacency, homophilic or adjacency)

    def _operator(self, matrix: sp.csr_array) -> SparseOperator:
        held = self.operators.adjacency
        return SparseOperator.from_scipy(matrix, held.dtype, held.device)

    def _positions(self, row: sp.csr_array, adjacency: SparseOperator) -> Tensor:
        """u = tanh(a W + b); a node with the row of a known one stands exactly where that does."""
        pump = self.module.pump
        u = torch.tanh(adjacency @ pump.weight.t().contiguous() + pump.bias)
        n = self.operators.num_nodes
        whole = sp.vstack([self.operators.adjacency.to_scipy(), row.astype(np.float32)])
        twins = twin_classes(sp.csr_array(whole))
        first = twins.representative[twins.class_of[n:]].to(u.device)
        stored = self.encoding.pump.u
        return torch.where((first < n)[:, None], stored[first.clamp_max(n - 1)], u)

    def _table(self, u: Tensor, n: int) -> FilterTable:
        """The stored filters, and below them those of the new nodes."""
        table, module = self.encoding.table, self.module
        ranks = arrival_ranks(u[n:], u[:n], self.operators.twins, module.num_ranks)
        distance = safe_norm(u[n:, None, :] - u[ranks])
        weight = torch.exp(-module.scale(self.operators) * distance)
        if module.frozen and bool((table.weight == 1).all()):
            weight = torch.ones_like(weight)
        index = torch.cat([table.index, ranks])
        return FilterTable(index, torch.cat([table.weight, weight]), table.branches)

    def _normalized(self, new: Arrivals) -> sp.csr_array:
        """Rows of the new nodes in the normalised adjacency with self loops."""
        row = sp.csr_array(_rows(new, self.module.config.homophilic_adjacency))
        m, n = new.num_nodes, self.operators.num_nodes
        own = sp.csr_array((np.ones(m), (np.arange(m), n + np.arange(m))), shape=row.shape)
        looped = row - row.multiply(own) + own
        degree = np.maximum(np.asarray(looped.sum(axis=1)).reshape(-1), 1)
        root = np.concatenate([self.root.numpy(), 1 / np.sqrt(degree)])
        return sp.csr_array(sp.diags_array(root[n:]) @ looped @ sp.diags_array(root))


def _rows(new: Arrivals, treatment: str) -> sp.csr_array:
    """Rows of the new nodes over known and new ones, ``[m, n + m]``."""
    known, among = new.outgoing, new.among
    if treatment == "symmetric":
        known = known.maximum(new.incoming)
        among = among.maximum(sp.csr_array(among.T))
    return sp.csr_array(sp.hstack([known, among], format="csr"))
