"""What the baselines have in common: options, a base class, and matrices made from the edges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import scipy.sparse as sp
from torch import Generator, Tensor, nn

from djgnn.baselines.layers import Matrix, init_layers
from djgnn.checking import check_fields
from djgnn.graph.operator import SparseOperator

Adjacency = Literal["symmetric", "given", "transposed"]


@dataclass(frozen=True)
class Options:
    """Options of every baseline; each model's file adds its own.

    Args:
        adjacency: The neighbours from which a node receives messages: ``"given"`` the targets of
            its edges (A H), ``"transposed"`` the sources of edges to it, ``"symmetric"`` both.
        features: ``"raw"``, ``"row"`` (each row divided by its sum), or ``"identity"`` (one column
            per node instead of the given features).

    Raises:
        ValueError: For a value that is not allowed.
    """

    adjacency: Adjacency = "symmetric"
    features: Literal["raw", "row", "identity"] = "raw"

    def __post_init__(self) -> None:
        check_fields(self)


class Baseline(nn.Module):
    """A model of the tables: ``module(x, edge_index) -> logits``.

    A subclass annotates `options` with its own dataclass, makes its layers in ``_make_layers``
    and computes logits in ``forward``. Messages flow from the first row of `edge_index`, the
    sources, to the second, the targets, as in PyG. What the model needs of the graph is computed by
    :meth:`prepare` at the first pass and cached with the edges it came from.

    Args:
        options: The model's options.
        in_channels: Number of features F.
        out_channels: Number of classes.
        num_nodes: Number of nodes n, for parameters with a row per node.

    Shapes:
        x ``[n, F]``, edge_index ``[2, E]``, logits ``[n, classes]``.
    """

    options: Options
    #: Fields of the training configuration whose default differs for this model.
    training_defaults: ClassVar[dict[str, Any]] = {}
    #: Parameters with a row for each node: renumbering the nodes renumbers them too.
    node_parameters: ClassVar[tuple[str, ...]] = ()
    #: Whether a pass needs no host synchronisation, so that a CUDA graph can replay it.
    capturable: bool = True
    #: Self loops and scaling of the matrix that :meth:`prepare` makes.
    loops: ClassVar[Literal["set", "removed", "given"]] = "set"
    scaling: ClassVar[Literal["symmetric", "row", "none"]] = "symmetric"

    def __init__(
        self, options: Options, in_channels: int, out_channels: int, num_nodes: int
    ) -> None:
        super().__init__()
        self.options, self.num_nodes = options, num_nodes
        self._prepared: tuple[Any, Tensor, int, Any] | None = None
        self._make_layers(in_channels, out_channels)
        self.reset_parameters()

    def _make_layers(self, in_channels: int, out_channels: int) -> None:
        """Make layers and parameters; their values come from :meth:`reset_parameters`."""
        raise NotImplementedError

    def reset_parameters(self, generator: Generator | None = None) -> None:
        """Initialise all weights; without a generator, with seed 0."""
        source = generator or Generator().manual_seed(0)
        init_layers(self, source)
        self.init_weights(source)

    def init_weights(self, generator: Generator) -> None:
        """Initialise parameters that belong to the model itself, after those of its layers."""

    def prepare(self, adjacency: sp.csr_array, like: Matrix) -> Any:
        """Constants of a graph; if not overridden, S with the model's `loops` and `scaling`.

        Args:
            adjacency: 0/1 matrix S with S[i, j] = 1 where messages flow from j to i.
            like: The features: they give precision and device, and the constants may use them.
        """
        change = {"set": with_loops, "removed": without_loops, "given": sp.csr_array}[self.loops]
        scale = {"symmetric": symmetric_scale, "row": row_scale, "none": sp.csr_array}[self.scaling]
        return operator(scale(change(adjacency)), like)

    def constants(self, x: Matrix, edge_index: Tensor) -> Any:
        """The result of :meth:`prepare` for these edges, cached."""
        held = self._prepared
        if (
            held is None
            or not (held[0] is x and held[1] is edge_index)
            or held[2] != edge_index._version
        ):
            made = self.prepare(message_matrix(edge_index, x.shape[0]), x)
            self._prepared = held = (x, edge_index, edge_index._version, made)
        return held[3]


def message_matrix(edge_index: Tensor, num_nodes: int) -> sp.csr_array:
    """The 0/1 matrix S with S[i, j] = 1 where messages flow from j to i.

    Example:
        >>> import torch
        >>> message_matrix(torch.tensor([[0], [1]]), 2).toarray().tolist()
        [[0.0, 0.0], [1.0, 0.0]]
    """
    source, target = edge_index.cpu().numpy()
    ones = np.ones(source.size, dtype=np.float64)
    matrix = sp.csr_array(sp.coo_array((ones, (target, source)), shape=(num_nodes, num_nodes)))
    matrix.sum_duplicates()
    matrix.data[:] = 1
    return matrix


def operator(matrix: sp.sparray, like: Matrix) -> SparseOperator:
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
    root = sp.diags_array(np.sqrt(_inverse_degree(matrix)))
    return sp.csr_array(root @ sp.csr_array(matrix) @ root)


def row_scale(matrix: sp.sparray) -> sp.csr_array:
    r""":math:`D^{-1} S` with the row sums D: the mean over neighbours; empty rows stay empty."""
    return sp.csr_array(sp.diags_array(_inverse_degree(matrix)) @ sp.csr_array(matrix))


def _inverse_degree(matrix: sp.sparray) -> np.ndarray[Any, np.dtype[np.float64]]:
    degree = np.asarray(matrix.sum(axis=1), dtype=np.float64).reshape(-1)
    return np.divide(1.0, degree, out=np.zeros_like(degree), where=degree > 0)
