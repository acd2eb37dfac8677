"""Aggregation through all filters at once, with gradients that are sparse products too.

The usual backward passes are slow on a CPU: at 5,201 nodes the gradient of `embedding_bag` takes
ten times, that of a `torch.sparse` tensor with learned values a thousand times as long as the
forward pass. Here both gradients are products again: one with the transposed table, one sampled at
its entries.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Tensor

from djgnn.filters.table import FilterTable
from djgnn.graph.operator import csr_product, csr_tensor, index_dtype
from djgnn.jumps.triton_search import uses_triton

# Rows of a program of the Triton kernels.
ROWS = 32


def aggregate(
    table: FilterTable, h: Tensor, rows: Tensor | None = None, shared: bool = False
) -> Tensor:
    r"""Apply :math:`\hat J^k = D_k^{-1/2} J^k D_k^{-1/2}` to block k of the columns of h.

    The diagonal of every filter is set to 1 first; :math:`D_k` holds the row sums, at least 1.

    Args:
        table: Support and coefficients.
        h: One block of columns per branch, side by side.
        rows: Nodes whose result is wanted; all by default.
        shared: h is one block, to which every filter is applied.

    Shapes:
        h ``[n, branches * hidden]``, or ``[n, hidden]`` if it is shared; result
        ``[rows, branches * hidden]``.

    Example:
        >>> from djgnn.filters import FilterTable
        >>> table = FilterTable(torch.tensor([[0, 1], [1, 0]]), torch.ones(2, 2), ((2,),))
        >>> aggregate(table, torch.tensor([[1.0], [3.0]])).round().tolist()  # half each
        [[2.0], [2.0]]
    """
    index, value = normalized_entries(table)
    if rows is not None:
        index, value = index.index_select(0, rows), value.index_select(0, rows)
    if shared:
        index = index.div(table.num_branches, rounding_mode="floor")
    return sum_entries(table.branches, index, value, h, shared)


def aggregate_rows(
    table: FilterTable, nodes: Tensor, own: Tensor, near: Tensor, h: Tensor, shared: bool = False
) -> Tensor:
    """Some rows of :func:`aggregate`, from the filters and features of the nodes they need.

    Args:
        table: The filters of `nodes`.
        nodes: The nodes whose result is wanted, and all nodes of their lists.
        own: Places among `nodes` of those whose result is wanted.
        near: Places among `nodes` of their lists.
        h: Rows of `nodes`.
        shared: As there.

    Shapes:
        table and nodes ``[m]``, own ``[r]``, near ``[r, R]``, h ``[m, branches * hidden]``, or
        ``[m, hidden]`` if it is shared, result ``[r, branches * hidden]``.

    Example:
        >>> from djgnn.filters import FilterTable
        >>> table = FilterTable(torch.tensor([[0, 1], [1, 0]]), torch.ones(2, 2), ((2,),))
        >>> nodes, h = torch.tensor([0, 1]), torch.tensor([[1.0], [3.0]])
        >>> aggregate_rows(table, nodes, torch.tensor([0]), torch.tensor([[0, 1]]), h).round()
        tensor([[2.]])
    """
    layout = _layout(table.branches, own.numel(), h.device)
    value, inverse_root = _looped_values(table, nodes[:, None], layout)
    place = torch.cat([own[:, None], near], dim=1).index_select(1, layout.rank)
    position = place * table.num_branches + layout.branch
    value = value.index_select(0, own)
    theirs = inverse_root.view(-1).index_select(0, position.view(-1)).view_as(value)
    value = normalize_entries(table.branches, value, inverse_root.index_select(0, own), theirs)
    return sum_entries(table.branches, place if shared else position, value, h, shared)


def normalized_entries(table: FilterTable) -> tuple[Tensor, Tensor]:
    """The entries of the normalised filters, row (node, branch) by row, the self loop first.

    Returns:
        Positions (node * branches + branch) and values, both ``[n, branches + kept ranks]``.
    """
    # 32-bit where all entries can be counted so.
    kind = _layout(table.branches, table.index.shape[0], table.index.device).indptr.dtype
    position, value, inverse_root = looped_entries(table, kind=kind)
    theirs = inverse_root.view(-1).index_select(0, position.view(-1)).view_as(value)
    return position, normalize_entries(table.branches, value, inverse_root, theirs)


def looped_entries(
    table: FilterTable, first: int = 0, kind: torch.dtype = torch.int64
) -> tuple[Tensor, Tensor, Tensor]:
    """The entries of the filters with their self loops, and 1 / sqrt of the row sums.

    Args:
        table: Filters of all nodes, or of successive ones.
        first: The node of its first row.
        kind: Type of the positions.

    Returns:
        Positions (node * branches + branch) and values, both ``[n, branches + kept ranks]``, and
        the roots ``[n, branches]``.
    """
    n = table.index.shape[0]
    layout = _layout(table.branches, n, table.index.device)
    itself = torch.arange(first, first + n, device=table.index.device)[:, None]
    value, inverse_root = _looped_values(table, itself, layout)
    node = torch.cat([itself, table.index], dim=1).to(kind).index_select(1, layout.rank)
    return node.mul_(table.num_branches).add_(layout.branch), value, inverse_root


def normalize_entries(
    branches: tuple[tuple[int, ...], ...], value: Tensor, inverse_root: Tensor, theirs: Tensor
) -> Tensor:
    """Entries times the roots of their own row and of the row they point at.

    Shapes:
        value, theirs, result ``[n, E]``, inverse_root ``[n, branches]``.
    """
    branch = _layout(branches, value.shape[0], value.device).branch
    # `index_select`, whose gradient is a plain scatter, not `embedding`, whose gradient sorts.
    return value * inverse_root.index_select(1, branch) * theirs


def sum_entries(
    branches: tuple[tuple[int, ...], ...],
    index: Tensor,
    value: Tensor,
    h: Tensor,
    shared: bool = False,
) -> Tensor:
    """Cut h into rows of one branch's width; sum ``value * h[index]`` over the entries of a branch.

    On a GPU the gradient of h is summed by atomic additions: its last bits depend on their order.

    Args:
        branches: Ranks of each branch, see :class:`djgnn.filters.FilterTable`.
        index: Row of each entry in h cut into rows, node * branches + branch.
        value: Coefficient of each entry.
        h: One block of columns per branch, side by side.
        shared: h is one block of columns for all branches, and `index` names its rows.

    Shapes:
        index, value ``[m, E]``, h ``[any, branches * hidden]`` or ``[any, hidden]``, result
        ``[m, branches * hidden]``.
    """
    layout = _layout(branches, index.shape[0], h.device)
    hidden = h.shape[1] if shared else h.shape[1] // len(branches)
    out: Tensor
    if uses_triton(h):
        out = _TritonSum.apply(value, h, index, layout.starts, layout.branch, hidden)  # type: ignore[no-untyped-call]
    elif h.device.type == "cpu":
        # It returns a tensor, not a view: an in-place operation on a view costs two copies.
        width = (hidden, len(branches) * hidden)
        out = _CSRSum.apply(value.reshape(-1), h, layout.indptr, index.reshape(-1), width)  # type: ignore[no-untyped-call]
    else:
        rows, starts = h.contiguous().view(-1, hidden), layout.indptr[:-1].to(index.dtype)
        flat, weights = index.reshape(-1), value.reshape(-1)
        out = F.embedding_bag(flat, rows, starts, mode="sum", per_sample_weights=weights)
        out = out.view(-1, len(branches) * hidden)
    return out


@dataclass(frozen=True, eq=False)
class _Layout:
    """Where the entries of the filters stand: the same at every step.

    Shapes:
        branch, rank ``[E]`` for E entries per node (rank 0 is the self loop), belongs
        ``[E, branches]``, indptr ``[n * branches + 1]``, starts ``[branches + 1]`` (of the
        entries of each branch among the E).
    """

    branch: Tensor
    rank: Tensor
    belongs: Tensor
    indptr: Tensor
    starts: Tensor


@lru_cache(maxsize=16)
@torch.inference_mode(mode=False)  # whoever comes first, training may be next
def _layout(branches: tuple[tuple[int, ...], ...], n: int, device: torch.device) -> _Layout:
    columns = [(b, r) for b, ranks in enumerate(branches) for r in (0, *ranks)]
    branch = torch.tensor([b for b, _ in columns])
    rank = torch.tensor([r for _, r in columns])
    sizes = torch.bincount(branch, minlength=len(branches))
    starts = torch.arange(n)[:, None] * len(columns) + torch.cumsum(sizes, 0) - sizes
    indptr = torch.cat([starts.reshape(-1), torch.tensor([n * len(columns)])])
    kind = torch.int32 if index_dtype(n * len(columns)) is np.int32 else torch.int64
    ends = torch.cat([sizes.new_zeros(1), torch.cumsum(sizes, 0)])
    parts = (branch, rank, F.one_hot(branch, len(branches)).double(), indptr.to(kind), ends)
    return _Layout(*(part.to(device) for part in parts))


def _looped_values(table: FilterTable, itself: Tensor, layout: _Layout) -> tuple[Tensor, Tensor]:
    """Entries of the filters with their diagonal set to 1, and 1 / sqrt of their row sums.

    Shapes:
        itself ``[m, 1]`` (the node of each row of the table), result ``[m, E]`` and
        ``[m, branches]``.
    """
    other = (table.index != itself).to(table.weight.dtype) * table.weight
    value = torch.cat([torch.ones_like(itself, dtype=other.dtype), other], dim=1)
    value = value.index_select(1, layout.rank)
    # The self loop alone makes every row sum at least 1.
    return value, (value @ layout.belongs.to(value.dtype)).rsqrt()


class _CSRSum(torch.autograd.Function):
    """CSR product on the CPU; its backward pass costs about as much as the forward pass."""

    @staticmethod
    def forward(
        ctx: Any, value: Tensor, h: Tensor, indptr: Tensor, index: Tensor, width: tuple[int, int]
    ) -> Tensor:
        h, (hidden, columns) = h.contiguous(), width
        rows = h.view(-1, hidden)
        shape = (indptr.numel() - 1, rows.shape[0])
        index = index.to(indptr.dtype)
        ctx.save_for_backward(value, h, indptr, index)
        ctx.hidden, ctx.shape = hidden, shape
        out = csr_product(csr_tensor(indptr, index, value, shape), rows)
        return out.view(-1, columns).data  # no longer a view

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None, None, None]:
        value, h, indptr, index = ctx.saved_tensors
        rows = h.view(-1, ctx.hidden)
        grad = grads[0].contiguous().view(-1, ctx.hidden)
        to_value = to_h = None
        if ctx.needs_input_grad[0]:
            # torch refuses a product with more entries than places: columns without any are added.
            columns = max(len(rows), -(-value.numel() // max(1, ctx.shape[0])))
            if columns > len(rows):
                rows = F.pad(rows, (0, 0, 0, columns - len(rows)))
            pattern = csr_tensor(indptr, index, torch.zeros_like(value), (ctx.shape[0], columns))
            to_value = torch.sparse.sampled_addmm(pattern, grad, rows.t(), beta=0.0).values()
        if ctx.needs_input_grad[1]:
            entries = tuple(part.numpy() for part in (value, index, indptr))
            turned = sp.csr_array(entries, shape=ctx.shape).tocsc()
            parts = (turned.indptr, turned.indices, turned.data)
            starts, sources, values = (torch.from_numpy(part) for part in parts)
            transposed = csr_tensor(starts, sources, values, ctx.shape[::-1])
            to_h = csr_product(transposed, grad).view_as(h)
        return to_value, to_h, None, None, None


class _TritonSum(torch.autograd.Function):
    """One kernel forward, one backward; messages are never stored."""

    @staticmethod
    def forward(
        ctx: Any,
        value: Tensor,
        h: Tensor,
        index: Tensor,
        starts: Tensor,
        branch_of: Tensor,
        hidden: int,
    ) -> Tensor:
        from djgnn.filters.triton_kernels import forward_kernel

        value, h, index = value.contiguous(), h.contiguous(), index.contiguous()
        (rows, entries), branches = value.shape, starts.numel() - 1
        out = h.new_empty(rows, branches * hidden)
        # Columns of a program: a power of two, at most 128.
        width = min(1 << max(hidden - 1, 0).bit_length(), 128)
        forward_kernel[(-(-rows // ROWS), branches, -(-hidden // width))](
            h, index, value, starts, out, rows, hidden, entries, branches, ROWS=ROWS, WIDTH=width
        )
        ctx.save_for_backward(value, h, index, branch_of)
        ctx.branches, ctx.hidden, ctx.width = branches, hidden, width
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        from djgnn.filters.triton_kernels import backward_kernel

        value, h, index, branch_of = ctx.saved_tensors
        (rows, entries), hidden = value.shape, ctx.hidden
        wants_value, wants_h = ctx.needs_input_grad[:2]
        to_value = torch.empty_like(value) if wants_value else value
        to_h = torch.zeros_like(h) if wants_h else h
        backward_kernel[(-(-rows // ROWS), entries)](
            h, index, value, branch_of, grads[0].contiguous(), to_value, to_h,
            rows, hidden, entries, ctx.branches,
            ROWS=ROWS, WIDTH=ctx.width, BLOCKS=-(-hidden // ctx.width),
            TO_VALUE=wants_value, TO_H=wants_h,
        )  # fmt: skip
        return to_value if wants_value else None, to_h if wants_h else None, *(None,) * 4
