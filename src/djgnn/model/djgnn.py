"""The Diffusion-Jump GNN: pump, jumps, filters, branches and their convex mixture."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from djgnn.filters import FilterTable, branch_ranks, filter_table
from djgnn.graph.operator import SparseOperator
from djgnn.jumps import JumpHierarchy
from djgnn.model.branches import HomophilicBranch, JumpBranches, StructureBranch
from djgnn.model.config import ModelConfig
from djgnn.model.held_ranks import HeldRanks
from djgnn.model.mixture import ConvexMixture
from djgnn.model.operators import (
    GraphOperators,
    HasVolume,
    RowOperators,
    adjacency_matrix,
    graph_operators,
)
from djgnn.model.outputs import DJOutput, Encoding
from djgnn.model.recompute import recompute
from djgnn.pump import DiffusionPump


class DJGNN(nn.Module):
    r"""Diffusion-Jump GNN for node classification.

    .. math::
        U = \tanh(A W + b), \quad J^k = \Pi^k \cdot e^{-s \mathcal D(U)}, \quad
        H = \Vert_k\, \alpha_k\, \mathrm{ReLU}(\hat J^k X W^k + b^k), \quad
        \text{logits} = \mathrm{classifier}(H)

    with the homophilic and the structure branch concatenated to H and
    :math:`\alpha = \mathrm{softmax}` over all branches. No n x n tensor is ever made.

    Args:
        in_channels: Number of node features F.
        hidden_channels: Width of every branch.
        out_channels: Number of classes.
        num_nodes: Number of nodes n; the pump reads rows of A.
        num_jumps: Number of jumps K.
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

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_nodes: int,
        num_jumps: int = 5,
        config: ModelConfig | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        given = {"hidden_channels": hidden_channels, "num_jumps": num_jumps, **options}
        self.config = (config or ModelConfig()).replace(**given)
        c = self.config
        needed = c.num_jumps - (c.support == "author")
        if needed > num_nodes:
            raise ValueError(
                f"num_jumps={c.num_jumps} needs {needed} ranks but the graph has only "
                f"{num_nodes} nodes; use fewer jumps"
            )
        self.branches = branch_ranks(c.support, c.num_jumps)
        self.num_ranks = max((max(ranks, default=0) for ranks in self.branches), default=0)
        self.in_channels, self.out_channels, self.num_nodes = in_channels, out_channels, num_nodes
        self.pump = DiffusionPump(num_nodes, c.num_centers, c.source, c.trace_form)
        self.log_scale = nn.Parameter(torch.zeros(())) if c.scale == "learned" else None
        h = c.hidden_channels
        self.jumps = JumpBranches(in_channels, h, len(self.branches), c.dropout)
        self.homophilic = (
            HomophilicBranch(in_channels, h, c.hb_layers, c.dropout) if c.homophilic else None
        )
        self.structure = (
            StructureBranch(num_nodes, h, c.dropout, c.structure_dropout) if c.structure else None
        )
        self.mixture = ConvexMixture(len(self.branch_names), h, out_channels, c.classifier_layers)
        self._operators: tuple[tuple[Tensor | None, ...], list[int], GraphOperators] | None = None
        self._features: tuple[Tensor, int, SparseOperator] | None = None
        self._frozen: FilterTable | None = None
        self.ranks = HeldRanks(c, self.num_ranks)
        self.reset_parameters()

    @property
    def branch_names(self) -> tuple[str, ...]:
        """Names of the branches in the order of alpha."""
        names = [f"jump{k}" for k in range(len(self.branches))]
        names += ["homophilic"] if self.homophilic is not None else []
        return (*names, *(["structure"] if self.structure is not None else []))

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw all weights anew, forget every cache, and set a frozen pump free."""
        self.pump.requires_grad_(True)
        for part in (self.pump, self.jumps, self.homophilic, self.structure, self.mixture):
            if part is not None:
                part.reset_parameters(generator)
        if self.log_scale is not None:
            nn.init.zeros_(self.log_scale)
        self._operators = self._features = self._frozen = None
        self.ranks.forget()

    def __getstate__(self) -> dict[str, Any]:
        """What a copy or a pickle takes along: everything but the caches."""
        return {**self.__dict__, "_operators": None, "_features": None}

    def forward(
        self,
        x: Tensor | SparseOperator,
        edge_index: Tensor | GraphOperators,
        edge_weight: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Logits and the pump loss.

        Args:
            x: Node features.
            edge_index: Edges, or operators made by :meth:`prepare`.
            edge_weight: Weight of each edge, 1 if absent.
            generator: Source of dropout's randomness.
        """
        operators = self._as_operators(edge_index, edge_weight)
        encoding = self.encode(x, operators)
        return self.decode(encoding, operators, generator), encoding.pump_loss

    def run(
        self,
        x: Tensor | SparseOperator,
        edge_index: Tensor | GraphOperators,
        edge_weight: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> DJOutput:
        """One pass with everything it computed on the way."""
        operators = self._as_operators(edge_index, edge_weight)
        encoding = self.encode(x, operators)
        embeddings = self._embed(encoding, operators, None, generator)
        return DJOutput(
            self.mixture(embeddings), encoding.pump, encoding.table, embeddings, self.mixture.alpha
        )

    def encode(
        self,
        x: Tensor | SparseOperator,
        operators: GraphOperators,
        hierarchy: JumpHierarchy | None = None,
    ) -> Encoding:
        """The first half of a pass: everything before the first random number.

        Training and evaluation of the same weights share it.

        Args:
            x: Node features.
            operators: The graph.
            hierarchy: Rank lists of the positions where they are known; searched by default.
        """
        features = self.as_features(x)
        positions = self.pump(operators.adjacency, operators.degree)
        return Encoding(
            pump=positions,
            table=self._frozen or self._table(positions.u, operators, hierarchy),
            jumps=self.jumps.encode(features),
            homophilic=None
            if self.homophilic is None
            else self.homophilic.encode(features, operators.homophilic),
        )

    def decode(
        self,
        encoding: Encoding,
        operators: GraphOperators | RowOperators,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """The second half of a pass: logits of all nodes, or of the rows of `operators`."""
        rows = operators.index if isinstance(operators, RowOperators) else None

        def run() -> Tensor:
            logits: Tensor = self.mixture(self._embed(encoding, operators, rows, generator))
            return logits

        return recompute(run, generator) if self.config.recompute else run()

    def _embed(
        self,
        encoding: Encoding,
        operators: GraphOperators | RowOperators,
        rows: Tensor | None,
        generator: torch.Generator | None,
    ) -> tuple[Tensor, ...]:
        parts = [self.jumps(encoding.jumps, encoding.table, rows, generator)]
        if self.homophilic is not None:
            first = encoding.homophilic
            parts.append(self.homophilic(first, operators.homophilic, rows, generator))
        if self.structure is not None:
            parts.append(self.structure(operators.adjacency, generator))
        return tuple(parts)

    def _table(
        self, u: Tensor, operators: GraphOperators, hierarchy: JumpHierarchy | None = None
    ) -> FilterTable:
        lists = hierarchy or self.ranks(u, operators)
        return filter_table(u, lists, self.branches, self.scale(operators))

    def scale(self, operators: HasVolume) -> Tensor | float:
        """The factor s of the distances: 1, 1/vol, or learned."""
        if self.log_scale is not None:
            return self.log_scale.exp()
        if self.config.scale == "volume":
            return 1 / operators.volume.clamp_min(torch.finfo(operators.volume.dtype).tiny)
        return 1.0

    @torch.no_grad()
    def freeze_pump(self, operators: GraphOperators, weighted: bool = False) -> FilterTable:
        """Fix the filters at the current positions: the paper's decoupled mode for large graphs.

        Args:
            operators: The graph.
            weighted: Keep the coefficients exp(-s d); the published code sets them to 1.
        """
        u = self.pump(operators.adjacency, operators.degree).u
        return self.fix_filters(self._table(u, operators), weighted)

    def fix_filters(self, table: FilterTable, weighted: bool = False) -> FilterTable:
        """Take these filters from now on, see :meth:`freeze_pump`."""
        weight = table.weight if weighted else torch.ones_like(table.weight)
        self._frozen = FilterTable(table.index, weight, table.branches)
        self.pump.requires_grad_(False)
        return self._frozen

    @property
    def fixed_filters(self) -> FilterTable | None:
        """The filters of :meth:`fix_filters`, if there are any."""
        return self._frozen

    @property
    def frozen(self) -> bool:
        """Whether the filters were fixed by :meth:`freeze_pump`."""
        return self._frozen is not None

    def without_structure(self) -> DJGNN:
        """A new model of the same shape on the same device, without the structure branch."""
        c = self.config.replace(structure=False)
        sizes = (self.in_channels, c.hidden_channels, self.out_channels, self.num_nodes)
        return DJGNN(*sizes, c.num_jumps, config=c).to(self.pump.weight)

    def prepare(self, edge_index: Tensor, edge_weight: Tensor | None = None) -> GraphOperators:
        """Operators of a graph in this model's precision, on its device."""
        weight = self.pump.weight
        return graph_operators(
            adjacency_matrix(edge_index, self.num_nodes, edge_weight),
            **self.config.treatment(),
            dtype=weight.dtype,
            device=weight.device,
        )

    def parameter_groups(
        self, weight_decay: float, structure_weight_decay: float
    ) -> list[dict[str, Any]]:
        """Parameters for an optimiser: the structure branch decays on its own."""
        own = [] if self.structure is None else list(self.structure.parameters())
        held = {id(p) for p in own}
        rest = [p for p in self.parameters() if id(p) not in held]
        groups: list[dict[str, Any]] = [{"params": rest, "weight_decay": weight_decay}]
        if own:
            groups.append({"params": own, "weight_decay": structure_weight_decay})
        return groups

    def _as_operators(
        self, edge_index: Tensor | GraphOperators, edge_weight: Tensor | None
    ) -> GraphOperators:
        if isinstance(edge_index, GraphOperators):
            return edge_index
        held, weight = self._operators, self.pump.weight
        given = (edge_index, edge_weight)
        versions = [part._version for part in given if part is not None]
        fits = (
            held is not None
            and all(old is new for old, new in zip(held[0], given, strict=True))
            and held[1] == versions
            and (held[2].degree.dtype, held[2].degree.device) == (weight.dtype, weight.device)
        )
        if held is None or not fits:
            self._operators = held = (given, versions, self.prepare(edge_index, edge_weight))
        return held[2]

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
