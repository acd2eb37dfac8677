"""A pass of the DJ-GNN over the rows of one process: :class:`djgnn.model.DJGNN`, stage by stage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from djgnn.filters import FilterTable
from djgnn.filters.aggregate import looped_entries, normalize_entries, sum_entries
from djgnn.model import DJGNN
from djgnn.model.dropout import Window
from djgnn.model.outputs import Encoding
from djgnn.model.recompute import recompute
from djgnn.pump import PumpOutput
from djgnn.pump.pump import gram_orthogonality, pump, ratio_of
from djgnn.training.distributed.collectives import gather_inputs, gather_results, owned
from djgnn.training.distributed.halo import Plan
from djgnn.training.distributed.operators import ShardOperators, ShardRows
from djgnn.training.distributed.ranks import OwnRanks


def positions(module: DJGNN, operators: ShardOperators) -> PumpOutput:
    """Positions of all nodes, each computed by its owner, and the losses on them."""
    part, shard, group = module.pump, operators.shard, operators.group
    if part.source == "adjacency":
        own = pump(operators.adjacency, part.weight, part.bias)
    else:
        own = pump(None, part.weight[:, shard.first : shard.last], part.bias)
    u = gather_inputs(group, own, shard.sizes, "positions")
    # All processes sum over all nodes, so that the losses have the bits that one process gives
    # them, and gradients of U are added up in its order.
    rows = (shard.first, shard.last)
    energy = (operators.degree * owned(u, *rows).square().sum(dim=1)).sum()
    spread = gather_results(group, operators.adjacency @ u, shard.sizes, "positions")
    affinity = (owned(u, *rows) * spread).sum()
    gram = owned(u, *rows).t() @ owned(u, *rows)
    return PumpOutput(
        u=u,
        trace_ratio=ratio_of(energy, affinity, part.form),
        orthogonality=gram_orthogonality(gram),
    )


def encode(module: DJGNN, x: Any, operators: ShardOperators, ranks: OwnRanks) -> Encoding:
    """The first half of a pass: positions of all nodes, everything else of the own ones."""
    pumped, branch = positions(module, operators), module.homophilic
    return Encoding(
        pump=pumped,
        table=module.fixed_filters or ranks.table(pumped.u),
        jumps=module.jumps.encode(x),
        homophilic=None if branch is None else branch.encode(x, operators.homophilic),
    )


def decode(
    module: DJGNN,
    encoding: Encoding,
    operators: ShardOperators,
    rows: ShardRows,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Logits of some own rows, ``[rows, classes]``."""
    jumps = _Jumps.of(encoding.table, operators, rows)
    shard = Window(operators.shard.first, operators.num_nodes)
    window = Window(rows.first, rows.total)

    def run() -> Tensor:
        parts = [module.jumps.activate(jumps.aggregate(encoding.jumps), generator, window)]
        if module.homophilic is not None and encoding.homophilic is not None:
            windows, index = (shard, window), rows.index
            first, operator = encoding.homophilic, rows.homophilic
            parts.append(module.homophilic(first, operator, index, generator, windows))
        if module.structure is not None:
            parts.append(module.structure(rows.adjacency, generator, window))
        logits: Tensor = module.mixture(parts)
        return logits

    return recompute(run, generator) if module.config.recompute else run()


@dataclass(frozen=True, eq=False)
class _Jumps:
    """The filters of some rows, and which rows of X W they look at.

    X W is cut into one row per node and branch; of these only those are fetched that an entry of
    a filter names, each once.

    Shapes:
        root ``[own, branches]``, value, index ``[rows, E]`` (of each entry among the fetched).
    """

    branches: tuple[tuple[int, ...], ...]
    rows: Tensor
    root: Tensor
    value: Tensor
    index: Tensor
    plan: Plan

    @classmethod
    def of(cls, table: FilterTable, operators: ShardOperators, rows: ShardRows) -> _Jumps:
        shard, branches = operators.shard, table.num_branches
        position, value, root = looped_entries(table, shard.first)
        position, value = (part.index_select(0, rows.index) for part in (position, value))
        needed, index = torch.unique(position, return_inverse=True)
        # The last is asked for again until whole rows of all branches are full.
        needed = torch.cat([needed, needed[-1:].expand(-needed.numel() % branches)])
        plan = Plan.of(operators.group, shard, needed, "jumps", branches)
        return cls(table.branches, rows.index, root, value, index, plan)

    def aggregate(self, xw: Tensor) -> Tensor:
        """The same as :func:`djgnn.filters.aggregate`, of these rows."""
        count = len(self.branches)
        h = self.plan.fetch(xw.reshape(-1, xw.shape[1] // count)).view(-1, xw.shape[1])
        roots = self.plan.fetch(self.root.reshape(-1, 1)).view(-1)
        theirs = roots.index_select(0, self.index.reshape(-1)).view_as(self.value)
        own = self.root.index_select(0, self.rows)
        value = normalize_entries(self.branches, self.value, own, theirs)
        return sum_entries(self.branches, self.index, value, h)
