"""The homophilic branch over some nodes: one hop computed once for all, the other in full."""

from __future__ import annotations

import scipy.sparse as sp
import torch
from torch import Tensor

from djgnn.graph.operator import SparseOperator, columns_of, take_rows
from djgnn.model.branches import HomophilicBranch

# Above this share of entries a dense matrix is the smaller one: an entry of a sparse one is stored
# with its column.
DENSE_SHARE = 0.5


class HomophilicRows:
    r"""Rows of a :class:`djgnn.model.branches.HomophilicBranch`.

    :math:`\hat A X` has no weights in it and is computed once. The second layer sums over all
    neighbours of a node: none is left out, so a batch needs the first layer of all of them.

    Args:
        branch: The branch.
        operator: The normalised adjacency.
        x: Features of all nodes.
    """

    def __init__(
        self, branch: HomophilicBranch, operator: SparseOperator, x: Tensor | SparseOperator
    ) -> None:
        self.branch, self.operator = branch, operator
        self.hop = hop_features(operator, x)

    def __call__(self, nodes: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Embedding of some nodes, ``[b, hidden]``."""
        if len(self.branch.weights) == 1:
            encoded = self.branch.encode_hop(feature_rows(self.hop, nodes))
            out: Tensor = self.branch(encoded, self.operator, None, generator)
            return out
        around, rows = columns_of(take_rows(self.operator, nodes))
        encoded = self.branch.encode_hop(feature_rows(self.hop, around))
        return self.branch.second(self.branch.hidden(encoded, generator), rows, generator)

    @torch.no_grad()
    def evaluate(self, nodes: Tensor, summands: Tensor | None) -> Tensor:
        """The same without dropout, from :meth:`summands`, which many batches share."""
        if summands is None:
            return self(nodes)
        return self.branch.second(summands, take_rows(self.operator, nodes))

    @torch.no_grad()
    def summands(self, batch_size: int) -> Tensor | None:
        """What the second layer sums, of all nodes: ``[n, hidden]``; nothing for one layer."""
        if len(self.branch.weights) == 1:
            return None
        branch, n = self.branch, self.operator.shape[0]
        out: Tensor = branch.weights[1].new_empty(n, branch.weights[1].shape[1])
        for nodes in torch.split(torch.arange(n, device=out.device), batch_size):
            encoded = branch.encode_hop(feature_rows(self.hop, nodes))
            out[nodes] = branch.hidden(encoded)
        return out


def hop_features(operator: SparseOperator, x: Tensor | SparseOperator) -> Tensor | SparseOperator:
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


def feature_rows(x: Tensor | SparseOperator, nodes: Tensor) -> Tensor | SparseOperator:
    """Rows of dense or sparse features."""
    return x.index_select(0, nodes) if isinstance(x, Tensor) else take_rows(x, nodes)
