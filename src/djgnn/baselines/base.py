"""What the baselines have in common: a base class, and the constants of a graph kept with it."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from djgnn.baselines.drawing import draw
from djgnn.graph.operator import SparseOperator


class Baseline(nn.Module):
    """A model of the tables: ``module(x, edge_index) -> logits``.

    `edge_index` is PyG's: messages flow from its first row to its second. What a model needs of
    the graph is computed by :meth:`prepare` at the first pass and kept with the edges it came
    from.
    """

    sparse_features: ClassVar[bool] = True
    node_parameters: ClassVar[tuple[str, ...]] = ()
    """Names of parameters with a row for each node: renumbering the nodes renumbers them too."""
    capturable: bool = True
    """Whether a pass looks at no value on a GPU, so that it can be one launch (a CUDA graph)."""

    def __init__(self) -> None:
        super().__init__()
        self._prepared: tuple[Any, Tensor, int, Any] | None = None

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw all weights anew; without a generator, those of seed 0."""
        draw(self, generator or torch.Generator().manual_seed(0))

    def prepare(self, adjacency: sp.csr_array, like: Tensor | SparseOperator) -> Any:
        """Constants of a graph, in the precision and on the device of `like`.

        Args:
            adjacency: 0/1 matrix S whose row i has the nodes that node i hears.
            like: The features; what is made of a graph may depend on them.
        """
        raise NotImplementedError

    def constants(self, x: Tensor | SparseOperator, edge_index: Tensor) -> Any:
        """What :meth:`prepare` made of these edges, now or before."""
        held = self._prepared
        if (
            held is None
            or not (held[0] is x and held[1] is edge_index)
            or held[2] != edge_index._version
        ):
            made = self.prepare(hearing(edge_index, x.shape[0]), x)
            self._prepared = held = (x, edge_index, edge_index._version, made)
        return held[3]


def hearing(edge_index: Tensor, num_nodes: int) -> sp.csr_array:
    """The 0/1 matrix S with S[i, j] = 1 where messages flow from j to i.

    Example:
        >>> hearing(torch.tensor([[0], [1]]), 2).toarray().tolist()
        [[0.0, 0.0], [1.0, 0.0]]
    """
    source, target = edge_index.cpu().numpy()
    ones = np.ones(source.size, dtype=np.float64)
    matrix = sp.csr_array(sp.coo_array((ones, (target, source)), shape=(num_nodes, num_nodes)))
    matrix.sum_duplicates()
    matrix.data[:] = 1
    return matrix


def operator(matrix: sp.sparray, like: Tensor | SparseOperator) -> SparseOperator:
    """A constant matrix in the precision and on the device of `like`."""
    return SparseOperator.from_scipy(matrix, like.dtype, like.device)


def with_loops(matrix: sp.sparray) -> sp.csr_array:
    """The matrix with its diagonal set to 1."""
    bare = sp.csr_array(matrix)
    return sp.csr_array(bare - sp.diags_array(bare.diagonal()) + sp.eye_array(bare.shape[0]))


def without_loops(matrix: sp.sparray) -> sp.csr_array:
    """The matrix with an empty diagonal."""
    bare = sp.csr_array(matrix)
    bare = sp.csr_array(bare - sp.diags_array(bare.diagonal()))
    bare.eliminate_zeros()
    return bare


def symmetric_scale(matrix: sp.sparray) -> sp.csr_array:
    r""":math:`D^{-1/2} S D^{-1/2}` with the row sums D; empty rows stay empty."""
    root = sp.diags_array(np.sqrt(_inverse(matrix)))
    return sp.csr_array(root @ sp.csr_array(matrix) @ root)


def row_scale(matrix: sp.sparray) -> sp.csr_array:
    r""":math:`D^{-1} S` with the row sums D; empty rows stay empty."""
    return sp.csr_array(sp.diags_array(_inverse(matrix)) @ sp.csr_array(matrix))


def _inverse(matrix: sp.sparray) -> np.ndarray[Any, np.dtype[np.float64]]:
    degree = np.asarray(matrix.sum(axis=1), dtype=np.float64).reshape(-1)
    return np.divide(1.0, degree, out=np.zeros_like(degree), where=degree > 0)
