"""Aggregation on a GPU: one kernel forth, one back, nothing of the width of the messages stored.

The plain version is :func:`djgnn.filters.aggregate.weighted_sum` with `embedding_bag`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

ROWS = 32


def triton_sum(
    value: Tensor, h: Tensor, index: Tensor, starts: Tensor, branch_of: Tensor
) -> Tensor:
    """Row i, block b of the result sums ``value[i, e] * h[index[i, e]]`` over the entries e of b.

    The gradient of h is summed by atomic additions: its last bits depend on their order.

    Args:
        value: Coefficient of each entry.
        h: One block of columns per branch, side by side.
        index: Row of each entry in h cut into blocks, node * branches + branch.
        starts: Where the entries of each branch begin, and the end of the last.
        branch_of: Branch of each entry.

    Shapes:
        value, index ``[m, E]``, h ``[n, branches * hidden]``, starts ``[branches + 1]``, branch_of
        ``[E]``, result ``[m, branches * hidden]``.
    """
    out: Tensor = _TritonSum.apply(value, h, index, starts, branch_of)  # type: ignore[no-untyped-call]
    return out


class _TritonSum(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, value: Tensor, h: Tensor, index: Tensor, starts: Tensor, branch_of: Tensor
    ) -> Tensor:
        from djgnn.filters.triton_kernels import forward_kernel

        value, h, index = value.contiguous(), h.contiguous(), index.contiguous()
        branches = starts.numel() - 1
        (rows, entries), hidden = value.shape, h.shape[1] // branches
        out = h.new_empty(rows, h.shape[1])
        width = _width(hidden)
        grid = (-(-rows // ROWS), branches, -(-hidden // width))
        forward_kernel[grid](
            h, index, value, starts, out, rows, hidden, entries, branches, ROWS=ROWS, WIDTH=width
        )
        ctx.save_for_backward(value, h, index, branch_of)
        ctx.branches = branches
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None, None, None]:
        from djgnn.filters.triton_kernels import backward_kernel

        value, h, index, branch_of = ctx.saved_tensors
        (rows, entries), hidden = value.shape, h.shape[1] // ctx.branches
        wants_value, wants_h = ctx.needs_input_grad[:2]
        to_value = torch.empty_like(value) if wants_value else value
        to_h = torch.zeros_like(h) if wants_h else h
        width = _width(hidden)
        backward_kernel[(-(-rows // ROWS), entries)](
            h, index, value, branch_of, grads[0].contiguous(), to_value, to_h,
            rows, hidden, entries, ctx.branches,
            ROWS=ROWS, WIDTH=width, BLOCKS=-(-hidden // width),
            VALUES=wants_value, ROWS_TOO=wants_h,
        )  # fmt: skip
        return to_value if wants_value else None, to_h if wants_h else None, None, None, None


def _width(hidden: int) -> int:
    """Columns of a program: a power of two, at most 128."""
    return min(1 << max(hidden - 1, 0).bit_length(), 128)
