"""What the baselines have in common: options, linear maps, dropout, initial weights, a base class.

Every random number comes from an explicit generator.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Literal

import numpy as np
import scipy.sparse as sp
import torch
from torch import Generator, Tensor, nn

from djgnn.baselines.matrices import (
    operator,
    row_scale,
    symmetric_scale,
    with_loops,
    without_loops,
)
from djgnn.checking import check_fields
from djgnn.graph.operator import SparseOperator
from djgnn.model.branches.base import glorot
from djgnn.model.dropout import multiply

Matrix = Tensor | SparseOperator
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

    Example:
        >>> Options(adjacency="given").adjacency
        'given'
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
        held, version = self._prepared, edge_index._version
        if held is None or held[0] is not x or held[1] is not edge_index or held[2] != version:
            source, target = edge_index.cpu().numpy()
            entries = (np.ones(source.size), (target, source))
            matrix = sp.csr_array(sp.coo_array(entries, shape=(x.shape[0], x.shape[0])))
            matrix.sum_duplicates()
            matrix.data[:] = 1
            made = self.prepare(matrix, x)
            self._prepared = held = (x, edge_index, version, made)
        return held[3]


def layer_sizes(first: int, hidden: int, last: int, num_layers: int) -> list[tuple[int, int]]:
    """Width of the input and of the output of each layer.

    Example:
        >>> layer_sizes(9, 4, 2, 3)
        [(9, 4), (4, 4), (4, 2)]
    """
    return list(pairwise([first, *[hidden] * (num_layers - 1), last]))


class Linear(nn.Module):
    r"""A linear map, :math:`X W + b`, of dense or sparse features, with dropout on them.

    Args:
        in_channels: Columns of X.
        out_channels: Columns of the result.
        bias: Whether there is a b.
        init: ``"glorot"`` (bias zero), or uniform with bound one over the root of the inputs
            (``"fan_in"``, torch's own) or of the outputs (``"fan_out"``), bias alike.
        blocks: Number of maps side by side in W; each is initialised as if alone.

    Shapes:
        x ``[n, in_channels]``, result ``[n, out_channels]``.

    Example:
        >>> layer = Linear(3, 2)
        >>> layer.init_weights(Generator().manual_seed(0))
        >>> layer(torch.rand(5, 3)).shape
        torch.Size([5, 2])
    """

    __call__: Callable[..., Tensor]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        bias: bool = True,
        init: Literal["glorot", "fan_in", "fan_out"] = "glorot",
        blocks: int = 1,
    ) -> None:
        super().__init__()
        self.in_channels, self.out_channels = in_channels, out_channels
        self.init, self.blocks = init, blocks
        self.weight = nn.Parameter(torch.zeros(in_channels, out_channels))
        self.bias: Any = nn.Parameter(torch.zeros(out_channels)) if bias else None

    @torch.no_grad()
    def init_weights(self, generator: Generator | None = None) -> None:
        """Draw the weights from the generator."""
        fan_out = self.out_channels // self.blocks
        if self.init == "glorot":
            glorot(self.weight, self.in_channels, fan_out, generator)
            if self.bias is not None:
                nn.init.zeros_(self.bias)
            return
        fan = self.in_channels if self.init == "fan_in" else fan_out
        uniform(self.weight, fan, generator)
        if self.bias is not None:
            uniform(self.bias, fan, generator)

    def forward(
        self, x: Matrix, dropout: float = 0.0, generator: Generator | None = None
    ) -> Tensor:
        """The map; in training, with dropout on x."""
        product = multiply(x, self.weight, dropout, self.training, generator)
        return product if self.bias is None else product + self.bias

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.in_channels}, {self.out_channels})"


def uniform(weight: Tensor, fan: int, generator: Generator | None = None) -> None:
    """Uniform in +-1/sqrt(fan), in place."""
    bound = 1 / math.sqrt(max(fan, 1))
    nn.init.uniform_(weight, -bound, bound, generator=generator)


def uninitialized(kind: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Make a layer of torch or PyG without drawing weights from the global random state.

    :func:`init_layers` fills them.
    """
    with torch.device("meta"):
        layer: nn.Module = kind(*arguments, **options)
    return layer.to_empty(device="cpu")


def without_linear(kind: Callable[..., Any], *sizes: int, **options: Any) -> Any:
    """A PyG convolution without its linear map, which only passes messages.

    A :class:`Linear` before it takes sparse features, which PyG's own map cannot.
    """
    layer = uninitialized(kind, *sizes, **options)
    layer.lin = nn.Identity()
    return layer


def gcn_layers(sizes: list[tuple[int, int]]) -> tuple[nn.ModuleList, nn.ModuleList]:
    """The linear maps and the message passing of GCN layers."""
    from torch_geometric.nn import GCNConv

    maps = nn.ModuleList(Linear(a, b, bias=False) for a, b in sizes)
    return maps, nn.ModuleList(without_linear(GCNConv, a, b, cached=True) for a, b in sizes)


@torch.no_grad()
def init_layers(model: nn.Module, generator: Generator) -> None:
    """Draw the weights of all layers of a model, each as its own `reset_parameters` would.

    Our layers have a method ``init_weights``. Weights of PyG's convolutions and of their linear
    maps are Glorot over the last two axes, their biases zero; normalisations start at one and zero.
    """
    from torch_geometric.nn import MessagePassing
    from torch_geometric.nn.dense.linear import Linear as PygLinear

    part: Any
    for part in list(model.modules())[1:]:
        if hasattr(part, "init_weights"):
            part.init_weights(generator)
        elif isinstance(part, MessagePassing | PygLinear):
            for name in ("_cached_edge_index", "_cached_adj_t"):
                if hasattr(part, name):
                    setattr(part, name, None)
            for weight in part.parameters(recurse=False):
                if weight.dim() > 1:
                    glorot(weight, weight.shape[-2], weight.shape[-1], generator)
                else:
                    nn.init.zeros_(weight)
        elif not list(part.children()) and hasattr(part, "reset_parameters"):
            part.reset_parameters()  # normalisations: ones and zeros
