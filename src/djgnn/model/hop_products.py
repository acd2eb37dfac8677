"""Many hops in one piece, on a CPU: blocks of one width, and no table in between is copied.

The same sums as hop by hop with autograd, whose slices and chosen rows would each be a whole table
of zeros in the backward pass.
"""

from typing import Any, Protocol

import torch
from torch import Tensor

from djgnn.graph.operator import SparseOperator, csr_product


class HopBlocks(torch.autograd.Function):
    """Block j of the columns of h after j hops, of some rows, side by side.

    Shapes:
        h ``[n, blocks * width]``, every ``[n, n]``, last ``[rows, n]`` (the rows of `every` that
        are wanted), index ``[rows]``, result ``[rows, blocks * width]``.
    """

    @staticmethod
    def forward(
        ctx: Any,
        h: Tensor,
        every: SparseOperator,
        last: SparseOperator,
        index: Tensor | None,
        width: int,
    ) -> Tensor:
        """Block by block."""
        ctx.how = (every, last, index, width)
        out = h.new_empty(last.shape[0], h.shape[1])
        blocks = (torch.split(table, width, dim=1) for table in (h, out))
        for hops, (block, into) in enumerate(zip(*blocks, strict=True)):
            for _ in range(hops - 1):
                block = csr_product(every.matrix, block)
            into.copy_(csr_product(last.matrix, block) if hops else _chosen(block, index))
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None, None]:
        """As many hops back."""
        every, last, index, width = ctx.how
        to_h = grads[0].new_empty(every.shape[1], grads[0].shape[1])
        blocks = (torch.split(table, width, dim=1) for table in (grads[0], to_h))
        for hops, (block, into) in enumerate(zip(*blocks, strict=True)):
            grad = last.gradient(block) if hops else _spaced(block, index, len(to_h))
            for _ in range(hops - 1):
                grad = every.gradient(grad)
            into.copy_(grad)
        return to_h, None, None, None, None


class HopSum(torch.autograd.Function):
    """The sum over hops of h, each with its weight, of some rows; at least one hop.

    Shapes:
        h ``[n, width]``, weights ``[hops + 1]``, every, last and index as above, result
        ``[rows, width]``.
    """

    @staticmethod
    def forward(
        ctx: Any,
        h: Tensor,
        weights: Tensor,
        every: SparseOperator,
        last: SparseOperator,
        index: Tensor | None,
    ) -> Tensor:
        """Hop by hop."""
        (first, *factors, furthest), found = weights.tolist(), [_chosen(h, index)]
        total: Tensor = found[0] * first
        for factor in factors:
            h = csr_product(every.matrix, h)
            found = [*found, _chosen(h, index)] if ctx.needs_input_grad[1] else [_chosen(h, index)]
            total.add_(found[-1], alpha=factor)
        found.append(csr_product(last.matrix, h))
        ctx.save_for_backward(weights, *found)
        ctx.how = (every, last, index)
        return total.add_(found[-1], alpha=furthest)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor | None, None, None, None]:
        """All hops back together: what a hop adds joins what comes from further."""
        (weights, *found), (every, last, index) = ctx.saved_tensors, ctx.how
        grad, scratch = grads[0].contiguous(), torch.empty_like(found[0])
        to_weights = None
        if ctx.needs_input_grad[1]:
            to_weights = torch.stack([torch.mul(rows, grad, out=scratch).sum() for rows in found])
        own = _spaced(grad, index, every.shape[1])
        *factors, furthest = weights.tolist()
        to_h = last.gradient(grad).mul_(furthest)
        for hops in range(len(factors) - 1, -1, -1):
            to_h.add_(own, alpha=factors[hops])
            if hops:
                to_h = every.gradient(to_h)
        return to_h, to_weights, None, None, None


class Operator(Protocol):
    """A constant matrix."""

    def __matmul__(self, dense: Tensor) -> Tensor: ...


class FeatureHops:
    """Features after several hops, which no weights change: computed once for a view."""

    _found: tuple[Tensor, ...] = ()

    @torch.no_grad()
    def __call__(
        self, x: Tensor | SparseOperator, hops: int, operator: Operator
    ) -> tuple[Tensor, ...]:
        """``x, operator @ x, ...`` as dense tables, one for each hop and perhaps more."""
        found = self._found or (x if isinstance(x, Tensor) else x.to_dense(),)
        while len(found) <= hops:
            found = (*found, operator @ found[-1])
        self._found = found
        return found


def _chosen(h: Tensor, index: Tensor | None) -> Tensor:
    return h if index is None else h.index_select(0, index)


def _spaced(rows: Tensor, index: Tensor | None, n: int) -> Tensor:
    """Rows at their places among n; the others are zero."""
    return rows if index is None else rows.new_zeros(n, rows.shape[1]).index_copy_(0, index, rows)
