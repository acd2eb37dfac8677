"""Rows of other processes, as far as they are needed, and operators that look at them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from djgnn.graph.operator import SparseOperator
from djgnn.training.distributed.collectives import swap
from djgnn.training.distributed.group import Group
from djgnn.training.distributed.shard import Shard


@dataclass(frozen=True, eq=False)
class Plan:
    """Which of its rows a process gives to each other one, and how many it takes.

    What it takes comes in the order it was asked for, own rows included.

    Shapes:
        rows ``[sum(give)]``, counted from the first own row.
    """

    group: Group
    rows: Tensor
    give: list[int]
    take: list[int]
    what: str

    @classmethod
    def of(cls, group: Group, shard: Shard, needed: Tensor, what: str, factor: int = 1) -> Plan:
        """Ask every process for the rows that are needed of it.

        Args:
            group: The processes.
            shard: Whose rows are whose.
            needed: Which rows, ascending.
            what: What they are, for the count of the traffic.
            factor: Rows per node.

        Shapes:
            needed ``[m]``.
        """
        take = shard.counts(needed, factor)
        counts = torch.tensor(take, device=needed.device)
        one = [1] * group.size
        give = swap(group, counts, one, one, "plan").tolist()
        asked = swap(group, needed, take, give, "plan")
        return cls(group, asked - factor * shard.first, give, take, what)

    def fetch(self, own: Tensor) -> Tensor:
        """The rows that were asked for; their gradients go back to their owners and are summed.

        Shapes:
            own ``[own rows, w]``, result ``[m, w]``.
        """
        out: Tensor = _Fetch.apply(own, self)  # type: ignore[no-untyped-call]
        return out


class _Fetch(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, own: Tensor, plan: Plan) -> Tensor:
        ctx.plan, ctx.size = plan, own.shape[0]
        given = own.index_select(0, plan.rows)
        return swap(plan.group, given, plan.give, plan.take, plan.what)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        plan, grad = ctx.plan, grads[0]
        back = swap(plan.group, grad, plan.take, plan.give, plan.what)
        return grad.new_zeros(ctx.size, grad.shape[1]).index_add_(0, plan.rows, back), None


@dataclass(frozen=True, eq=False)
class HaloOperator:
    """Own rows of a constant matrix, times rows that live on all processes.

    The columns are those nodes that the rows look at, in their order in the graph.

    Shapes:
        operator ``[rows, m]``, nodes ``[m]``; ``self @ own`` takes ``[own rows, w]``.
    """

    operator: SparseOperator
    nodes: Tensor
    plan: Plan

    @classmethod
    def of(
        cls,
        group: Group,
        shard: Shard,
        matrix: sp.csr_array,
        what: str,
        dtype: torch.dtype,
        device: torch.device | str,
        nodes: Tensor | None = None,
    ) -> HaloOperator:
        """Hold some rows; every process must call this at the same time.

        Args:
            group: The processes.
            shard: Whose nodes are whose.
            matrix: The rows.
            what: What they are multiplied with, for the count of the traffic.
            dtype: Precision of the values.
            device: Where they live.
            nodes: The node of each column; column j is node j by default.
        """
        matrix = sp.csr_array(matrix)
        used, columns = np.unique(matrix.indices, return_inverse=True)
        parts = (matrix.data, columns.reshape(-1), matrix.indptr)
        compact = sp.csr_array(parts, shape=(matrix.shape[0], used.size))
        column = torch.from_numpy(used.astype(np.int64)).to(device)
        seen = column if nodes is None else nodes[column]
        plan = Plan.of(group, shard, seen, what)
        return cls(SparseOperator.from_scipy(compact, dtype, device), seen, plan)

    def __matmul__(self, own: Tensor) -> Tensor:
        return self.operator @ self.plan.fetch(own)
