"""Aggregation through all filters at once, and its plain dense version.

The obvious ways back are slow on a CPU: at 5,201 nodes the gradient of `embedding_bag` takes ten
times, that of a `torch.sparse` tensor with learned values a thousand times as long as the way
forth. Here both gradients are products again: one with the transposed table, one sampled at it.
"""

from __future__ import annotations

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
from djgnn.jumps.triton_search import triton_available


def aggregate(table: FilterTable, h: Tensor, rows: Tensor | None = None) -> Tensor:
    r"""Apply :math:`\hat J^k = D_k^{-1/2} J^k D_k^{-1/2}` to block k of the columns of h.

    The diagonal of every filter is set to 1 first; :math:`D_k` holds the row sums, at least 1.

    Args:
        table: Support and coefficients.
        h: One block of columns per branch, side by side.
        rows: Nodes whose result is wanted; all by default.

    Shapes:
        h ``[n, branches * hidden]``, result the same or ``[rows, branches * hidden]``.
    """
    index, value = normalized_entries(table)
    if rows is not None:
        index, value = index.index_select(0, rows), value.index_select(0, rows)
    return sum_entries(table.branches, index, value, h)


def aggregate_rows(
    table: FilterTable, nodes: Tensor, own: Tensor, near: Tensor, h: Tensor
) -> Tensor:
    """Some rows of :func:`aggregate`, from the filters and features of those they need alone.

    Args:
        table: The filters of `nodes`.
        nodes: The nodes whose result is wanted, and all that their lists name.
        own: Places among `nodes` of those whose result is wanted.
        near: Places among `nodes` of their lists.
        h: Rows of `nodes`.

    Shapes:
        table and nodes ``[m]``, own ``[r]``, near ``[r, R]``, h ``[m, branches * hidden]``, result
        ``[r, branches * hidden]``.
    """
    layout = _layout(table.branches, own.numel(), h.device)
    value, inverse_root = _looped_values(table, nodes[:, None], layout)
    place = torch.cat([own[:, None], near], dim=1).index_select(1, layout.rank)
    position = place * table.num_branches + layout.branch
    value = value.index_select(0, own)
    theirs = inverse_root.view(-1).index_select(0, position.view(-1)).view_as(value)
    value = normalize_entries(table.branches, value, inverse_root.index_select(0, own), theirs)
    return sum_entries(table.branches, position, value, h)


def sum_entries(
    branches: tuple[tuple[int, ...], ...], index: Tensor, value: Tensor, h: Tensor
) -> Tensor:
    """Sum the rows of h, cut into blocks, that the entries of each branch name.

    Args:
        branches: Ranks of each branch, see :class:`djgnn.filters.FilterTable`.
        index: Row of each entry in h cut into blocks of one branch's width.
        value: Coefficient of each entry.
        h: What is summed.

    Shapes:
        index, value ``[m, E]``, h ``[any, branches * hidden]``, result
        ``[m, branches * hidden]``.
    """
    layout = _layout(branches, index.shape[0], h.device)
    if h.device.type == "cuda" and triton_available():
        from djgnn.filters.triton_aggregate import triton_sum

        return triton_sum(value, h, index, layout.starts, layout.branch)
    hidden = h.shape[1] // len(branches)
    return weighted_sum(layout.indptr, index.reshape(-1), value.reshape(-1), h, hidden)


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


def normalized_entries(table: FilterTable) -> tuple[Tensor, Tensor]:
    """Row (node, branch) by row, the entries of the normalised filters, the self loop first.

    Returns:
        Positions (node * branches + branch) and values, both ``[n, branches + kept ranks]``.
    """
    position, value, inverse_root = looped_entries(table)
    theirs = inverse_root.view(-1).index_select(0, position.view(-1)).view_as(value)
    return position, normalize_entries(table.branches, value, inverse_root, theirs)


def looped_entries(table: FilterTable, first: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """The entries of the filters with their self loops, and 1 / sqrt of the row sums.

    Args:
        table: Filters of all nodes, or of successive ones.
        first: The node of its first row.

    Returns:
        Positions (node * branches + branch) and values, both ``[n, branches + kept ranks]``, and
        the roots ``[n, branches]``.
    """
    n, branches = table.index.shape[0], table.num_branches
    layout = _layout(table.branches, n, table.index.device)
    branch, rank = layout.branch, layout.rank
    itself = torch.arange(first, first + n, device=branch.device)[:, None]
    value, inverse_root = _looped_values(table, itself, layout)
    node = torch.cat([itself, table.index], dim=1).index_select(1, rank)
    return node * branches + branch, value, inverse_root


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


def weighted_sum(indptr: Tensor, index: Tensor, value: Tensor, h: Tensor, hidden: int) -> Tensor:
    """Cut h into rows of width `hidden`; row r of the result sums ``value[e] * h[index[e]]``.

    Args:
        indptr: Where the entries of each row begin, and the end of the last.
        index: Row of h of each entry.
        value: Coefficient of each entry.
        h: What is summed.
        hidden: Width of a row.

    Shapes:
        indptr ``[m * blocks + 1]``, index and value ``[entries]``, h ``[n, blocks * hidden]``,
        result ``[m, blocks * hidden]``.
    """
    if h.device.type == "cpu":
        # One tensor comes back, no view of it: an in-place step on a view costs two copies.
        out: Tensor = _WeightedSum.apply(value, h, indptr, index, hidden)  # type: ignore[no-untyped-call]
        return out
    rows = h.contiguous().view(-1, hidden)
    starts = indptr[:-1].to(index.dtype)
    summed = F.embedding_bag(index, rows, starts, mode="sum", per_sample_weights=value)
    return summed.view(-1, h.shape[1])


class _WeightedSum(torch.autograd.Function):
    """CSR product on the CPU with a way back as cheap as the way forth."""

    @staticmethod
    def forward(
        ctx: Any, value: Tensor, h: Tensor, indptr: Tensor, index: Tensor, hidden: int
    ) -> Tensor:
        h = h.contiguous()
        rows = h.view(-1, hidden)
        shape = (indptr.numel() - 1, rows.shape[0])
        index = index.to(indptr.dtype)
        ctx.save_for_backward(value, h, indptr, index)
        ctx.hidden, ctx.shape = hidden, shape
        out = h.new_empty(shape[0] * hidden // h.shape[1], h.shape[1])
        csr_product(csr_tensor(indptr, index, value, shape), rows, out.view(-1, hidden))
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None, None, None]:
        value, h, indptr, index = ctx.saved_tensors
        rows = h.view(-1, ctx.hidden)
        grad = grads[0].contiguous().view(-1, ctx.hidden)
        to_value = to_h = None
        if ctx.needs_input_grad[0]:
            pattern = csr_tensor(indptr, index, torch.zeros_like(value), ctx.shape)
            to_value = torch.sparse.sampled_addmm(pattern, grad, rows.t(), beta=0.0).values()
        if ctx.needs_input_grad[1]:
            entries = tuple(part.numpy() for part in (value, index, indptr))
            turned = sp.csr_array(entries, shape=ctx.shape).tocsc()
            parts = (turned.indptr, turned.indices, turned.data)
            starts, sources, values = (torch.from_numpy(part) for part in parts)
            transposed = csr_tensor(starts, sources, values, ctx.shape[::-1])
            to_h = torch.empty_like(h)
            csr_product(transposed, grad, to_h.view(-1, ctx.hidden))
        return to_value, to_h, None, None, None
