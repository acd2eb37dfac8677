"""Rows that processes exchange, with their gradients.

Every process computes a part of one loss. A value that is the same on all processes stands for one
value, and its gradient is the same on all; what a process adds to it gets back its own share.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
import torch
import torch.distributed as dist
from torch import Tensor

from djgnn.graph.operator import SparseOperator, csr_product
from djgnn.training.distributed.group import Group, watched
from djgnn.training.distributed.shard import Shard

COLUMNS = 64
"""Of values that neighbours have, how many are exchanged at a time."""
LARGE = 2**18
"""Entries of a gradient that has a message of its own: a copy of it would take memory."""


def swap(rows: Tensor, give: Sequence[int], take: Sequence[int]) -> Tensor:
    """Give rows to every process and take rows from every process, no gradient.

    Args:
        rows: First those for process 0, then those for process 1, and so on.
        give: How many for each.
        take: How many each has for this one.

    Shapes:
        rows ``[sum(give), ...]``, result ``[sum(take), ...]``.
    """
    taken = rows.new_empty(sum(take), *rows.shape[1:])
    with watched():
        dist.all_to_all_single(taken, rows.contiguous(), list(take), list(give))
    return taken


def gather(own: Tensor, sizes: Sequence[int]) -> Tensor:
    """The rows of all processes, no gradient.

    Shapes:
        own ``[sizes[rank], w]``, result ``[sum(sizes), w]``.
    """
    count = len(sizes)
    return swap(own.repeat(count, *[1] * (own.dim() - 1)), [own.shape[0]] * count, sizes)


def gather_inputs(group: Group, own: Tensor, sizes: Sequence[int]) -> Tensor:
    """The rows of all processes, from which each computes its own part.

    In the backward pass the gradients of all processes for a row are summed by its owner, in order
    of the processes.
    """
    out: Tensor = _GatherInputs.apply(own, group, sizes)  # type: ignore[no-untyped-call]
    return out


def gather_results(group: Group, own: Tensor, sizes: Sequence[int]) -> Tensor:
    """The rows of all processes, from which all compute the same.

    In the backward pass every process has the whole gradient already and takes its own rows of it.
    """
    out: Tensor = _GatherResults.apply(own, group, sizes)  # type: ignore[no-untyped-call]
    return out


def owned(whole: Tensor, first: int, last: int) -> Tensor:
    """What :func:`gather_inputs` gave, for a computation that is the same on all processes.

    In the backward pass every process keeps the gradient of its own rows, so that each counts once.

    Args:
        whole: The rows of all processes.
        first: The first own row.
        last: One beyond the last.
    """
    out: Tensor = _Owned.apply(whole, first, last)  # type: ignore[no-untyped-call]
    return out


def recomputed(work: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
    """The result of some work, which is done again for the gradient instead of being remembered.

    As `torch.utils.checkpoint`, which imports torch's compiler, 140 MiB in every process.
    """
    out: Tensor = _Recomputed.apply(work, *inputs)  # type: ignore[no-untyped-call]
    return out


def reduce_gradients(parameters: Iterable[Tensor]) -> None:
    """Sum the gradients of all processes: large ones in place, the others in one message."""
    grads = [p.grad for p in parameters if p.grad is not None]
    large = [grad for grad in grads if grad.numel() >= LARGE and grad.is_contiguous()]
    small = [grad for grad in grads if all(grad is not other for other in large)]
    flat = [torch.cat([grad.reshape(-1) for grad in small])] if small else []
    with watched():
        for grad in (*large, *flat):
            dist.all_reduce(grad)
    begin = 0
    for grad in small:
        grad.copy_(flat[0][begin : begin + grad.numel()].view_as(grad))
        begin += grad.numel()


class _Recomputed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, work: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
        ctx.work = work
        ctx.save_for_backward(*inputs)
        return work(*inputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        pairs = zip(ctx.saved_tensors, ctx.needs_input_grad[1:], strict=True)
        inputs = [each.detach().requires_grad_(wanted) for each, wanted in pairs]
        with torch.enable_grad():
            out = ctx.work(*inputs)
        found = iter(torch.autograd.grad(out, [i for i in inputs if i.requires_grad], grads))
        return None, *(next(found) if each.requires_grad else None for each in inputs)


class _GatherInputs(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, own: Tensor, group: Group, sizes: Sequence[int]) -> Tensor:
        ctx.group, ctx.sizes = group, sizes
        return gather(own, sizes)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        own, count = ctx.sizes[ctx.group.rank], ctx.group.size
        back = swap(grads[0], ctx.sizes, [own] * count)
        return back.view(count, own, *grads[0].shape[1:]).sum(dim=0), None, None


class _GatherResults(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, own: Tensor, group: Group, sizes: Sequence[int]) -> Tensor:
        ctx.begin, ctx.size = sum(sizes[: group.rank]), own.shape[0]
        return gather(own, sizes)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        return grads[0][ctx.begin : ctx.begin + ctx.size], None, None


class _Owned(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, whole: Tensor, first: int, last: int) -> Tensor:
        ctx.first, ctx.last = first, last
        return whole.view_as(whole)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        kept = torch.zeros_like(grads[0])
        kept[ctx.first : ctx.last] = grads[0][ctx.first : ctx.last]
        return kept, None, None


@dataclass(frozen=True, eq=False)
class Plan:
    """Which of its rows a process gives to each other one, and how many it takes.

    What it takes comes in the order it was asked for, own rows included.

    Shapes:
        rows ``[sum(give)]``, counted from the first own row.
    """

    rows: Tensor
    give: list[int]
    take: list[int]

    @classmethod
    def of(cls, shard: Shard, needed: Tensor, factor: int = 1) -> Self:
        """Ask every process for the rows that are needed of it.

        Args:
            shard: Which process has which rows.
            needed: Which rows, ascending.
            factor: Rows per node.

        Shapes:
            needed ``[m]``.
        """
        take = shard.counts(needed, factor)
        one = [1] * len(take)
        give = swap(torch.tensor(take, device=needed.device), one, one).tolist()
        return cls(swap(needed, take, give) - factor * shard.first, give, take)

    def fetch(self, own: Tensor) -> Tensor:
        """The rows that were asked for; their gradients are returned to their owners and summed.

        Shapes:
            own ``[own rows, w]``, result ``[m, w]``.
        """
        out: Tensor = _Fetch.apply(own, self)  # type: ignore[no-untyped-call]
        return out

    def taken(self, own: Tensor) -> Tensor:
        """As :meth:`fetch`, no gradient."""
        return swap(own.index_select(0, self.rows), self.give, self.take)

    def returned(self, grad: Tensor, size: int) -> Tensor:
        """The gradient of `size` own rows, from those of all rows that were asked for."""
        back = swap(grad, self.take, self.give)
        return grad.new_zeros(size, grad.shape[1]).index_add_(0, self.rows, back)


class _Fetch(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, own: Tensor, plan: Plan) -> Tensor:
        ctx.plan, ctx.size = plan, own.shape[0]
        return plan.taken(own)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return ctx.plan.returned(grads[0], ctx.size), None


class _HaloProduct(torch.autograd.Function):
    """A few columns at a time: most rows of a graph may be asked for, and are soon forgotten."""

    @staticmethod
    def forward(ctx: Any, own: Tensor, halo: "HaloOperator") -> Tensor:
        ctx.halo, ctx.size = halo, own.shape[0]
        columns = torch.split(own, COLUMNS, dim=1)
        return _beside([csr_product(halo.operator.matrix, halo.plan.taken(c)) for c in columns])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        operator, plan = ctx.halo.operator, ctx.halo.plan
        columns = torch.split(grads[0], COLUMNS, dim=1)
        return _beside([plan.returned(operator.gradient(c), ctx.size) for c in columns]), None


def _beside(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)


@dataclass(frozen=True, eq=False)
class HaloOperator:
    """Own rows of a constant matrix, times rows that live on all processes.

    The columns are those nodes that the rows have entries for, in their order in the graph.

    Shapes:
        operator ``[rows, m]``, nodes ``[m]``; ``self @ own`` takes ``[own rows, w]``.
    """

    operator: SparseOperator
    nodes: Tensor
    plan: Plan

    @classmethod
    def of(
        cls,
        shard: Shard,
        matrix: sp.csr_array,
        dtype: torch.dtype,
        device: torch.device | str,
        nodes: Tensor | None = None,
    ) -> Self:
        """Hold some rows; every process must call this at the same time.

        Args:
            shard: Which process has which nodes.
            matrix: The rows.
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
        operator = SparseOperator.from_scipy(compact, dtype, device)
        return cls(operator, seen, Plan.of(shard, seen))

    def __matmul__(self, own: Tensor) -> Tensor:
        out: Tensor = _HaloProduct.apply(own, self)  # type: ignore[no-untyped-call]
        return out
