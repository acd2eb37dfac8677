"""What the model needs of a graph, computed once: operators, degrees, twin classes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from djgnn.graph.operator import SparseOperator
from djgnn.jumps import TwinClasses, single_classes, twin_classes
from djgnn.model.views import GraphView
from djgnn.spectral import symmetrize

ADJACENCIES = ("given", "symmetric")


@dataclass(frozen=True, eq=False)
class GraphOperators:
    """Constant parts of a graph, on one device and in one precision.

    Shapes:
        adjacency, homophilic ``[n, n]``; degree ``[n]``; volume scalar.
    """

    adjacency: SparseOperator
    degree: Tensor
    volume: Tensor
    homophilic: SparseOperator
    twins: TwinClasses

    @property
    def num_nodes(self) -> int:
        """Number of nodes n."""
        return self.adjacency.shape[0]

    def view(self, features: Tensor | SparseOperator) -> GraphView:
        """All rows, see :mod:`djgnn.model.views`."""
        return GraphView.of(features, self)

    def __repr__(self) -> str:
        return f"GraphOperators({self.adjacency}, {self.twins})"


def graph_operators(
    adjacency: sp.sparray,
    *,
    pump_adjacency: str = "given",
    homophilic_adjacency: str = "given",
    twins: bool = True,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> GraphOperators:
    """Prepare a graph for the model.

    Args:
        adjacency: A as given.
        pump_adjacency: ``"given"`` or ``"symmetric"``: what the pump and the structure branch see.
        homophilic_adjacency: The same for the homophilic branch.
        twins: Look for nodes with equal rows; off for the f(I) ablation, where none exist.
        dtype: Precision of the values.
        device: Where they live.
    """
    own = treat(adjacency, pump_adjacency)
    degree = np.asarray(own.sum(axis=1)).reshape(-1)
    classes = twin_classes(own) if twins else single_classes(own.shape[0])
    return GraphOperators(
        adjacency=SparseOperator.from_scipy(own, dtype, device),
        degree=torch.from_numpy(degree).to(device=device, dtype=dtype),
        volume=torch.tensor(float(degree.sum()), dtype=dtype, device=device),
        homophilic=SparseOperator.from_scipy(
            gcn_normalize(treat(adjacency, homophilic_adjacency)), dtype, device
        ),
        twins=classes.to(device),
    )


def treat(adjacency: sp.sparray, treatment: str) -> sp.csr_array:
    """The adjacency as given, or the larger of A and its transpose (the union, for 0/1 edges).

    Raises:
        ValueError: For an unknown treatment.
    """
    if treatment not in ADJACENCIES:
        raise ValueError(f"adjacency must be one of {', '.join(ADJACENCIES)} (got '{treatment}')")
    given = sp.csr_array(adjacency).astype(np.float64)
    return symmetrize(given) if treatment == "symmetric" else given


def gcn_normalize(adjacency: sp.sparray) -> sp.csr_array:
    r"""Diagonal set to 1, then :math:`D^{-1/2} A D^{-1/2}` with row sums D, at least 1."""
    n = adjacency.shape[0]
    looped = adjacency - sp.diags_array(adjacency.diagonal()) + sp.eye_array(n)
    looped = sp.csr_array(looped)
    root = 1 / np.sqrt(np.maximum(np.asarray(looped.sum(axis=1)).reshape(-1), 1))
    # Scaling the entries gives the bits of two products with diagonal matrices, four times faster.
    own = np.repeat(root, np.diff(looped.indptr))
    values = own * looped.data * root[looped.indices]
    return sp.csr_array((values, looped.indices, looped.indptr), shape=looped.shape)


def adjacency_matrix(
    edge_index: Tensor, num_nodes: int, edge_weight: Tensor | None = None
) -> sp.csr_array:
    """A from PyG's edge list; parallel edges are summed.

    Raises:
        ValueError: If an edge names a node that does not exist, or weights ask for a gradient.
    """
    if edge_weight is not None and edge_weight.requires_grad:
        raise ValueError(
            "edge_weight must be constant, no gradient reaches it; pass edge_weight.detach()"
        )
    if edge_index.numel() and (edge_index.min() < 0 or edge_index.max() >= num_nodes):
        raise ValueError(
            f"edge_index must hold nodes between 0 and {num_nodes - 1} "
            f"(got {int(edge_index.min())} to {int(edge_index.max())})"
        )
    source, target = edge_index.cpu().numpy()
    weight = np.ones(source.size) if edge_weight is None else edge_weight.cpu().numpy()
    return sp.csr_array(sp.coo_array((weight, (source, target)), shape=(num_nodes, num_nodes)))
