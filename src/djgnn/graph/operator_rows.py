"""Rows of a `SparseOperator`, taken again and again: what a batch sees of a graph."""

from __future__ import annotations

import torch
from torch import Tensor

from djgnn.graph.operator import SparseOperator, csr_tensor


def take_rows(operator: SparseOperator, index: Tensor) -> SparseOperator:
    """Some rows of an operator; ready for the way back only where gradients are on.

    Args:
        operator: The whole one.
        index: Which rows, in any order.

    Shapes:
        operator ``[n, m]``, index ``[r]``, result ``[r, m]``.

    Example:
        >>> import scipy.sparse as sp
        >>> whole = SparseOperator.from_scipy(sp.csr_array([[0.0, 2.0], [1.0, 0.0]]))
        >>> take_rows(whole, torch.tensor([1])).to_dense().tolist()
        [[1.0, 0.0]]
    """
    if operator.device.type != "cpu":
        return gather_rows(operator, index)
    rows = operator.to_scipy()[index.numpy()]
    return SparseOperator.from_scipy(rows, operator.dtype, backward=torch.is_grad_enabled())


def gather_rows(operator: SparseOperator, index: Tensor) -> SparseOperator:
    """The same on any device, without a look at the host but for the number of entries."""
    indptr, shape = operator.matrix.crow_indices(), (index.numel(), operator.shape[1])
    begin = indptr.index_select(0, index)
    length = indptr.index_select(0, index + 1) - begin
    ends = torch.cat([length.new_zeros(1), length.cumsum(0, dtype=length.dtype)])
    row = torch.arange(shape[0], device=index.device).repeat_interleave(length.long())
    place = torch.arange(row.numel(), device=index.device)
    place += (begin - ends[:-1]).index_select(0, row)
    column = operator.matrix.col_indices().index_select(0, place)
    value = operator.matrix.values().index_select(0, place)
    matrix = csr_tensor(ends, column, value, shape)
    if not torch.is_grad_enabled():
        return SparseOperator(matrix, ())
    order = column.sort(stable=True).indices
    count = torch.bincount(column, minlength=shape[1]).cumsum(0)
    starts = torch.cat([count.new_zeros(1), count]).to(ends.dtype)
    sources = row.to(column.dtype).index_select(0, order)
    turned = csr_tensor(starts, sources, value.index_select(0, order), (shape[1], shape[0]))
    return SparseOperator(matrix, (turned,))


def columns_of(operator: SparseOperator) -> tuple[Tensor, SparseOperator]:
    """The columns that have entries, and the operator over these columns alone.

    Shapes:
        operator ``[r, m]``, columns ``[c]``, result ``[r, c]``.
    """
    matrix, rows = operator.matrix, operator.shape[0]
    columns, place = distinct(matrix.col_indices(), operator.shape[1])
    kind = matrix.col_indices().dtype
    few = csr_tensor(
        matrix.crow_indices(), place.to(kind), matrix.values(), (rows, columns.numel())
    )
    turned = tuple(_keep_rows(part, columns) for part in operator.transposed)
    return columns, SparseOperator(few, turned)


def distinct(values: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Distinct whole numbers below `size` in increasing order, and the place of each value there.

    As `torch.unique`, by counting instead of sorting.

    Example:
        >>> distinct(torch.tensor([4, 1, 4]), 5)
        (tensor([1, 4]), tensor([1, 0, 1]))
    """
    seen = torch.zeros(size, dtype=torch.bool, device=values.device)
    seen[values.long()] = True
    place = seen.cumsum(0) - 1
    return seen.nonzero().squeeze(1), place[values.long()]


def _keep_rows(part: Tensor, rows: Tensor) -> Tensor:
    """A CSR tensor without its empty rows; `rows` holds at least those that have entries."""
    indptr = part.crow_indices()
    starts = torch.cat([indptr[:1], indptr.index_select(0, rows + 1)])
    return csr_tensor(starts, part.col_indices(), part.values(), (rows.numel(), part.shape[1]))
