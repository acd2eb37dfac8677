"""Exchanges that gradients find their way back through.

Every process computes a part of one loss. A value that is the same on all processes stands for one
value, and its gradient is the same on all; what a process adds to it gets back its own share.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from djgnn.training.distributed.group import Group, watched


def swap(group: Group, rows: Tensor, give: Sequence[int], take: Sequence[int], what: str) -> Tensor:
    """Give rows to every process and take rows from every process, no gradient.

    Args:
        group: The processes.
        rows: First those for process 0, then those for process 1, and so on.
        give: How many for each.
        take: How many each has for this one.
        what: What they are, for the count of the traffic.

    Shapes:
        rows ``[sum(give), ...]``, result ``[sum(take), ...]``.
    """
    taken = rows.new_empty(sum(take), *rows.shape[1:])
    with watched():
        dist.all_to_all_single(taken, rows.contiguous(), list(take), list(give))
    width = rows[:1].numel() if rows.shape[0] else 0
    sent = sum(give) - give[group.rank]
    group.traffic.count(what, sent * width * rows.element_size())
    return taken


def gather(group: Group, own: Tensor, sizes: Sequence[int], what: str) -> Tensor:
    """The rows of all processes, no gradient.

    Shapes:
        own ``[sizes[rank], w]``, result ``[sum(sizes), w]``.
    """
    copies = own.repeat(group.size, *[1] * (own.dim() - 1))
    return swap(group, copies, [own.shape[0]] * group.size, sizes, what)


def gather_inputs(group: Group, own: Tensor, sizes: Sequence[int], what: str) -> Tensor:
    """The rows of all processes, from which each goes on to compute its own part.

    On the way back the gradients of all processes for a row are summed by its owner, in order of
    the processes.
    """
    out: Tensor = _GatherInputs.apply(own, group, sizes, what)  # type: ignore[no-untyped-call]
    return out


def gather_results(group: Group, own: Tensor, sizes: Sequence[int], what: str) -> Tensor:
    """The rows of all processes, from which all go on to compute the same.

    On the way back every process has the whole gradient already and takes its own rows of it.
    """
    out: Tensor = _GatherResults.apply(own, group, sizes, what)  # type: ignore[no-untyped-call]
    return out


def owned(whole: Tensor, first: int, last: int) -> Tensor:
    """What :func:`gather_inputs` gave, for a computation that is the same on all processes.

    On the way back every process keeps the gradient of its own rows, so that each counts once.

    Args:
        whole: The rows of all processes.
        first: The first own row.
        last: One beyond the last.
    """
    out: Tensor = _Owned.apply(whole, first, last)  # type: ignore[no-untyped-call]
    return out


def reduce_gradients(group: Group, parameters: Iterable[Tensor]) -> None:
    """Sum the gradients of all processes, in one message."""
    grads = [p.grad for p in parameters if p.grad is not None]
    if not grads:
        return
    flat = torch.cat([grad.reshape(-1) for grad in grads])
    with watched():
        dist.all_reduce(flat)
    # A ring sends every part once to be summed and once as the sum.
    rest = flat.numel() - flat.numel() // group.size
    group.traffic.count("gradients", 2 * rest * flat.element_size())
    begin = 0
    for grad in grads:
        grad.copy_(flat[begin : begin + grad.numel()].view_as(grad))
        begin += grad.numel()


class _GatherInputs(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, own: Tensor, group: Group, sizes: Sequence[int], what: str) -> Tensor:
        ctx.group, ctx.sizes, ctx.what = group, sizes, what
        return gather(group, own, sizes, what)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        group, grad = ctx.group, grads[0]
        own = ctx.sizes[group.rank]
        back = swap(group, grad, ctx.sizes, [own] * group.size, ctx.what)
        return back.view(group.size, own, *grad.shape[1:]).sum(dim=0), None, None, None


class _GatherResults(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, own: Tensor, group: Group, sizes: Sequence[int], what: str) -> Tensor:
        ctx.begin, ctx.size = sum(sizes[: group.rank]), own.shape[0]
        return gather(group, own, sizes, what)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        return grads[0][ctx.begin : ctx.begin + ctx.size], None, None, None


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
