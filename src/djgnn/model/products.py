"""Dense products of many rows with small weights.

The library of linear algebra that torch multiplies with on a CPU takes the widest registers on
processors of its own make alone. oneDNN, which torch has for convolutions, takes them everywhere
and is twice as fast there, with the same sums.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any

import torch
from torch import Tensor

FEWEST_ROWS = 1024
"""With fewer, starting it costs what it saves."""


def product(x: Tensor, weight: Tensor) -> Tensor:
    """``x @ weight``, with gradients.

    Shapes:
        x ``[n, k]``, weight ``[k, m]``, result ``[n, m]``.

    Example:
        >>> product(torch.ones(2, 3), torch.ones(3, 1)).tolist()
        [[3.0], [3.0]]
    """
    if not _faster(x):
        return x @ weight
    out: Tensor = _Product.apply(x, weight)  # type: ignore[no-untyped-call]
    return out


def narrow_product(x: Tensor, weight: Tensor) -> Tensor:
    """``x @ weight.t()`` for few rows of weights, with gradients.

    Shapes:
        x ``[n, k]``, weight ``[m, k]``, result ``[n, m]``.
    """
    if _faster(x):
        return product(x, weight.t())
    # This way round both gradients walk along rows of x; the other way one of them is ten times
    # slower.
    return (weight @ x.t()).t()


def block_products(x: Tensor, weight: Tensor, blocks: int) -> Tensor:
    """The product of each block of columns of x with its block of columns of the weights.

    Shapes:
        x ``[n, blocks * k]``, weight ``[k, blocks * m]``, result ``[n, blocks * m]``.

    Example:
        >>> block_products(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0]]), 2).tolist()
        [[3.0, 8.0]]
    """
    out: Tensor = _BlockProducts.apply(x, weight, blocks)  # type: ignore[no-untyped-call]
    return out


def times(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``x @ weight + bias`` without gradients."""
    if _faster(x):
        return _linear(x, weight.t().contiguous(), bias)
    return x @ weight if bias is None else torch.addmm(bias, x, weight)


def crossed(x: Tensor, *others: Tensor) -> list[Tensor]:
    """``x.t() @ y`` of many rows for each y, without gradients.

    Shapes:
        x ``[n, k]``, y ``[n, m]``, results ``[k, m]``.
    """
    if not _faster(x):
        return [x.t() @ y for y in others]
    if x.shape[1] > others[0].shape[1]:  # the narrow one is turned
        return [_linear(y.t().contiguous(), x.t()).t() for y in others]
    turned = x.t().contiguous()
    return [_linear(turned, y.t()) for y in others]


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return times(x, weight)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None]:
        (x, weight), grad = ctx.saved_tensors, grads[0].contiguous()
        to_x = times(grad, weight.t()) if ctx.needs_input_grad[0] else None
        return to_x, crossed(x, grad)[0] if ctx.needs_input_grad[1] else None


class _BlockProducts(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, blocks: int) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.blocks = blocks
        out = x.new_empty(len(x), weight.shape[1])
        for rows, factors, into in _split(blocks, x, weight, out):
            into.copy_(times(rows.contiguous(), factors))
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        x, weight = ctx.saved_tensors
        wanted = zip((x, weight), ctx.needs_input_grad, strict=False)
        to_x, to_weight = (torch.empty_like(each) if want else None for each, want in wanted)
        for b, (rows, factors, grad) in enumerate(_split(ctx.blocks, x, weight, grads[0])):
            grad = grad.contiguous()
            if to_x is not None:
                to_x.chunk(ctx.blocks, dim=1)[b].copy_(times(grad, factors.t()))
            if to_weight is not None:
                to_weight.chunk(ctx.blocks, dim=1)[b].copy_(crossed(rows.contiguous(), grad)[0])
        return to_x, to_weight, None


def _split(blocks: int, *tables: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Blocks of columns of several tables."""
    return zip(*(torch.chunk(table, blocks, dim=1) for table in tables), strict=True)


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``x @ weight.t() + bias`` by oneDNN."""
    found: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return found


def _faster(x: Tensor) -> bool:
    """Whether oneDNN multiplies these rows faster."""
    fits = x.device.type == "cpu" and x.dtype == torch.float32 and x.is_contiguous()
    return fits and x.shape[0] >= FEWEST_ROWS and x.shape[1] > 0 and _wide_registers()


@cache
def _wide_registers() -> bool:
    wide = torch.backends.cpu.get_cpu_capability() == "AVX512"
    there = wide and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return there and hasattr(torch.ops.mkldnn, "_linear_pointwise")  # no public name has it
