"""The Diffusion-Jump GNN: pump, jumps, filters, branches and their convex mixture."""

from typing import Any, cast

import torch
from torch import Generator, Tensor, nn

from djgnn.filters import FilterTable, branch_ranks
from djgnn.graph.operator import SparseOperator
from djgnn.model.branch_mixture import ConvexMixture
from djgnn.model.branches import (
    BRANCHES,
    Branch,
    HomophilicBranch,
    JumpBranches,
    StructureBranch,
)
from djgnn.model.config import ModelConfig
from djgnn.model.operators import EdgeMemory, GraphOperators, Parts, adjacency_matrix
from djgnn.model.rank_memory import RankMemory
from djgnn.model.views import DJOutput, Encoding, GraphView, View
from djgnn.pump import DiffusionPump, PumpOutput


class DJGNN(nn.Module):
    r"""Diffusion-Jump GNN for node classification.

    .. math::
        U = \tanh(A W + b), \quad J^k = \Pi^k \cdot e^{-s \mathcal D(U)}, \quad
        H = \Vert_k\, \alpha_k\, \mathrm{ReLU}(\hat J^k X W^k + b^k), \quad
        \text{logits} = \mathrm{classifier}(H)

    with the other branches (:mod:`djgnn.model.branches`) concatenated to H and
    :math:`\alpha = \mathrm{softmax}` over all of them. No n x n tensor is ever made.

    Args:
        in_channels: Number of node features F.
        hidden_channels: Width of every branch.
        out_channels: Number of classes.
        num_nodes: Number of nodes n; the pump reads rows of A.
        num_jumps: Number of jumps K, or ``"auto"``.
        config: Any other option, see :class:`djgnn.model.ModelConfig`; its `hidden_channels` and
            `num_jumps` give way to the arguments.
        **options: Fields of the configuration to replace, such as ``support="author"``.

    Shapes:
        x ``[n, F]`` (dense, `torch.sparse`, or a `SparseOperator`), edge_index ``[2, E]``;
        output logits ``[n, classes]`` and the pump loss, a scalar.

    Raises:
        ValueError: For an unknown option, or more jumps than nodes.

    Example:
        >>> x, edge_index = torch.rand(6, 3), torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])
        >>> logits, pump_loss = DJGNN(3, 8, 2, num_nodes=6, num_jumps=2)(x, edge_index)
        >>> logits.shape
        torch.Size([6, 2])
    """

    jumps: JumpBranches | None
    homophilic: HomophilicBranch | None
    structure: StructureBranch | None

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_nodes: int,
        num_jumps: int | str = 5,
        config: ModelConfig | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        given = {"hidden_channels": hidden_channels, "num_jumps": num_jumps, **options}
        self.config = (config or ModelConfig()).replace(**given)
        c = self.config
        self.branches = branch_ranks(c.support, c.num_jumps, num_nodes) if c.jumps else ()
        self.num_ranks = max((max(ranks, default=0) for ranks in self.branches), default=0)
        self.in_channels, self.out_channels, self.num_nodes = in_channels, out_channels, num_nodes
        self.pump = DiffusionPump(num_nodes, c.num_centers, c.source) if c.jumps else None
        learned = c.jumps and c.scale == "learned"
        self.log_scale = nn.Parameter(torch.zeros(())) if learned else None
        for kind in BRANCHES:
            self.add_module(kind.name, kind.build(c, in_channels, num_nodes))
        self._kinds = tuple(kind.name for kind in BRANCHES)
        h = c.hidden_channels
        self.mixture = ConvexMixture(len(self.branch_names), h, out_channels, c.classifier_layers)
        self._prepared = EdgeMemory()
        self._features: tuple[Tensor, int, SparseOperator] | None = None
        self._fixed: FilterTable | None = None
        self.ranks = RankMemory(c.engine, self.num_ranks)

    @property
    def parts(self) -> tuple[Branch, ...]:
        """The branches that this model has, in the order of `djgnn.model.branches.BRANCHES`."""
        found = (getattr(self, name) for name in self._kinds)
        return tuple(branch for branch in found if branch is not None)

    @property
    def branch_names(self) -> tuple[str, ...]:
        """Names of the branches in the order of alpha, one per block of the mixture."""
        return tuple(label for branch in self.parts for label in branch.labels)

    def reset_parameters(self, generator: Generator | None = None) -> None:
        """Initialise all weights, clear every cache, and unfreeze the pump."""
        if self.pump is not None:
            self.pump.requires_grad_(True)
            self.pump.reset_parameters(generator)
        for branch in self.parts:
            branch.reset_parameters(generator)
        self.mixture.reset_parameters(generator)
        if self.log_scale is not None:
            nn.init.zeros_(self.log_scale)
        self._features = self._fixed = None
        self._prepared = EdgeMemory()
        self.ranks.forget()

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles leave the caches out."""
        return {**self.__dict__, "_features": None}

    def forward(
        self,
        x: Tensor | SparseOperator,
        edge_index: Tensor | GraphOperators,
        edge_weight: Tensor | None = None,
        generator: Generator | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Logits and the pump loss.

        Args:
            x: Node features.
            edge_index: Edges, or operators made by :meth:`prepare`.
            edge_weight: Weight of each edge, 1 if absent.
            generator: Source of dropout's randomness.
        """
        view = self.view(x, edge_index, edge_weight)
        encoding = self.encode(view)
        return self.decode(encoding, view, generator), encoding.pump.loss

    def run(
        self,
        x: Tensor | SparseOperator,
        edge_index: Tensor | GraphOperators,
        edge_weight: Tensor | None = None,
        generator: Generator | None = None,
    ) -> DJOutput:
        """One pass with everything it computed on the way."""
        view = self.view(x, edge_index, edge_weight)
        encoding = self.encode(view)
        embeddings = tuple(branch(encoding, view, generator) for branch in self.parts)
        logits: Tensor = self.mixture(embeddings)
        return DJOutput(logits, encoding.pump, encoding.table, embeddings, self.mixture.alpha)

    def view(
        self,
        x: Tensor | SparseOperator,
        edge_index: Tensor | GraphOperators,
        edge_weight: Tensor | None = None,
    ) -> GraphView:
        """All rows of a graph, see :mod:`djgnn.model.views`."""
        self._check_size(x, self.num_nodes if isinstance(edge_index, Tensor) else x.shape[0])
        if isinstance(edge_index, Tensor):
            edge_index = self._prepared(edge_index, edge_weight, self._kind, self.prepare)
        operators = cast(GraphOperators, edge_index)
        return operators.view(self.as_features(x))

    def _check_size(self, x: Tensor | SparseOperator, rows: int) -> None:
        """Refuse features of another graph than the model was made for.

        Raises:
            ValueError: If there is not a row for each node, or not as many columns as channels.
        """
        if tuple(x.shape) != (rows, self.in_channels):
            raise ValueError(
                f"x must have the shape [{self.num_nodes}, {self.in_channels}]: a model belongs to "
                "one graph, whose num_nodes and in_channels it was made with; make one for this "
                f"graph (got {list(x.shape)})"
            )

    def encode(self, view: View) -> Encoding:
        """The first half of a pass: everything before dropout.

        Training and evaluation of the same weights share it.
        """
        pump, table = self.places(view)
        return Encoding(pump, table, {branch.name: branch.encode(view) for branch in self.parts})

    def places(self, view: View) -> tuple[PumpOutput, FilterTable]:
        """Positions of all nodes, and the filters; without jumps both are empty."""
        if self.pump is None:
            zero = self.mixture.alpha_logits.new_zeros(())
            none = zero.new_empty(self.num_nodes, 0)
            return PumpOutput(none, zero, zero), FilterTable(none.long(), none, ())
        pump = view.positions(self.pump)
        return pump, view.filters(self, pump.u)

    def decode(self, encoding: Encoding, view: View, generator: Generator | None = None) -> Tensor:
        """The second half of a pass: logits of the rows of a view."""
        # One after the other: no embedding is kept longer than it is needed.
        logits: Tensor = self.mixture(branch(encoding, view, generator) for branch in self.parts)
        return logits

    def added(self, view: View) -> Tensor:
        """What every branch adds to the first layer of the mixture, see `ConvexMixture.added`."""
        encoding = self.encode(view)
        return self.mixture.added([branch(encoding, view) for branch in self.parts])

    @property
    def in_batches(self) -> bool:
        """Whether it is computed in mini-batches where these are asked for, or always whole."""
        return self.pump is not None and not any(branch.whole for branch in self.parts)

    def scale(self, volume: Tensor) -> Tensor | float:
        """The factor s of the distances, of a graph of this volume: 1, 1/vol, or learned."""
        if self.log_scale is not None:
            return self.log_scale.exp()
        if self.config.scale == "volume":
            return 1 / volume.clamp_min(torch.finfo(volume.dtype).tiny)
        return 1.0

    @torch.no_grad()
    def freeze_pump(self, view: View, weighted: bool = False) -> FilterTable:
        """Fix the filters at the current positions: the paper's decoupled mode for large graphs.

        Args:
            view: The graph.
            weighted: Keep the coefficients exp(-s d); the published code sets them to 1.
        """
        if self.pump is None:
            raise ValueError("a model without jumps has no pump that could be fixed")
        self._fixed = None
        table = view.filters(self, view.positions(self.pump).u)
        weight = table.weight if weighted else torch.ones_like(table.weight)
        self._fixed = FilterTable(table.index, weight, table.branches)
        self.pump.requires_grad_(False)
        return self._fixed

    @property
    def fixed_filters(self) -> FilterTable | None:
        """The filters of :meth:`freeze_pump`, if there are any."""
        return self._fixed

    def prepare(self, edge_index: Tensor, edge_weight: Tensor | None = None) -> GraphOperators:
        """Operators of a graph in this model's precision, on its device."""
        adjacency = adjacency_matrix(edge_index, self.num_nodes, edge_weight)
        return self.operators(Parts(adjacency, *self._kind))

    def operators(self, parts: Parts) -> GraphOperators:
        """The operators, from the parts of a graph or of a process."""
        return parts.operators(**self.config.treatment())

    @property
    def _kind(self) -> tuple[torch.dtype, torch.device]:
        weight = self.mixture.alpha_logits
        return weight.dtype, weight.device

    def as_features(self, x: Tensor | SparseOperator) -> Tensor | SparseOperator:
        """Features as the branches take them: `torch.sparse` ones with their transpose."""
        if isinstance(x, SparseOperator) or x.layout == torch.strided:
            return x
        held = self._features
        if held is None or held[0] is not x or held[1] != x._version:
            self._features = held = (x, x._version, SparseOperator.from_torch(x))
        return held[2]

    def __repr__(self) -> str:
        c = self.config
        return (
            f"{type(self).__name__}({self.in_channels}, {c.hidden_channels}, {self.out_channels}, "
            f"num_nodes={self.num_nodes}, num_jumps={c.num_jumps}, support={c.support!r})"
        )
