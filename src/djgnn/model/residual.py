"""What a residual layer of propagation computes beside the propagation, in few passes."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Generator, Tensor

from djgnn.graph.operator import SparseOperator, csr_product
from djgnn.jumps.triton_search import uses_triton
from djgnn.model.dropout import chance_bytes
from djgnn.model.norm import EPSILON, layer_norm
from djgnn.model.products import crossed, times

BLOCK_ROWS = 1 << 15
"""Of a block on a CPU; graphs that have no more are computed whole."""
MANY_ROWS, WIDTHS = 1 << 18, (16, 32, 64)
"""Rows from which on kernels take longer than their launches, and widths that matrix units take."""
ROWS, BYTES = 32, 256
"""Rows of a program, and bytes of kept bits."""


def in_one_piece(h: Tensor) -> bool:
    """Whether a layer over this table is computed so."""
    fits = h.dtype == torch.float32 and h.shape[1] in WIDTHS and h.is_contiguous()
    return fits and h.shape[0] >= MANY_ROWS and uses_triton(h)


class ResidualLayer(torch.autograd.Function):
    r""":math:`H + \mathrm{ReLU}(Z V + A Z W + b)` of the normalised rows Z of H, with dropout.

    What is kept for the backward pass is H and a bit for each entry.

    Shapes:
        h ``[n, width]``, norm ``[2, width]`` (scale and shift), layer ``[width, 2 width]`` (V and W
        side by side), bias ``[width]``, result ``[n, width]``.
    """

    @staticmethod
    def forward(
        ctx: Any,
        h: Tensor,
        norm: Tensor,
        layer: Tensor,
        bias: Tensor,
        matrix: SparseOperator,
        share: float,
        generator: Generator | None,
    ) -> Tensor:
        """Two kernels and a sparse product."""
        from djgnn.model.triton_residual import activation_kernel, products_kernel

        n, width = h.shape
        own, near = torch.empty_like(h), torch.empty_like(h)
        norm, layer = norm.contiguous(), layer.contiguous()
        products_kernel[(-(-n // ROWS),)](
            h, norm[0], norm[1], bias, layer, own, near, n, EPSILON, WIDTH=width, ROWS=ROWS
        )
        seen = csr_product(matrix.matrix, near)
        del near
        dropped, kept = share < 1, any(ctx.needs_input_grad)
        chances, threshold = chance_bytes(h, share, generator) if dropped else (own, 0)
        bits = torch.empty(n * width // 8 if kept else 0, dtype=torch.uint8, device=h.device)
        activation_kernel[(-(-n * width // 8 // BYTES),)](
            h, own, seen, chances, bits, n, threshold, 1 / share,
            WIDTH=width, BYTES=BYTES, DROP=dropped, KEEP=kept,
        )  # fmt: skip
        ctx.save_for_backward(h, norm, layer, bits)
        ctx.matrix, ctx.share = matrix, share
        return own

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Two kernels and a sparse product back."""
        from djgnn.model.triton_residual import gradient_kernel, passed_kernel

        (h, norm, layer, bits), grad = ctx.saved_tensors, grads[0].contiguous()
        (n, width), own = h.shape, torch.empty_like(h)
        passed_kernel[(-(-n * width // 8 // BYTES),)](
            grad, bits, own, n, 1 / ctx.share, WIDTH=width, BYTES=BYTES
        )
        near = ctx.matrix.gradient(own)
        z = layer_norm(h, norm[0], norm[1])[0]
        to_layer = torch.cat([z.t() @ own, z.t() @ near], dim=1)
        del z
        tiles = -(-n // ROWS)
        sums = h.new_empty(tiles, 3, width)
        gradient_kernel[(tiles,)](
            h, norm[0], layer, own, near, grad, sums, n, EPSILON, WIDTH=width, ROWS=ROWS
        )
        vectors = sums.sum(dim=0)
        return own, vectors[:2], to_layer, vectors[2], None, None, None


class NormProducts(torch.autograd.Function):
    """Z V + b and Z W of the normalised rows Z of h; Z is computed again for the backward pass.

    On a CPU block by block: whole tables in between would be new memory at every layer.
    """

    @staticmethod
    def forward(
        ctx: Any, h: Tensor, scale: Tensor, shift: Tensor, bias: Tensor, v: Tensor, w: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Both products."""
        ctx.save_for_backward(h, scale, shift, v, w)
        own, near = torch.empty_like(h), torch.empty_like(h)
        for part, to_own, to_near in _blocks(h, own, near):
            z = layer_norm(part, scale, shift)[0]
            found = times(z, v, bias), times(z, w)
            if part.shape == h.shape:  # all at once
                return found
            to_own.copy_(found[0])
            to_near.copy_(found[1])
        return own, near

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:
        """To all six."""
        h, scale, shift, v, w = ctx.saved_tensors
        size, to_h, sums = h.shape[1:], torch.empty_like(h), list[list[Tensor]]()
        for part, own, near, into in _blocks(h, *grads, to_h):
            z, mean, inverse = layer_norm(part, scale, shift)
            to_v, to_w = crossed(z, own, near)
            to_z = times(own, v.t()).add_(times(near, w.t()))
            found = torch.ops.aten.native_layer_norm_backward(
                to_z, part, size, mean, inverse, scale, shift, [True] * 3
            )
            if part.shape == h.shape:  # all at once
                to_h = found[0]
            else:
                into.copy_(found[0])
            sums.append([*found[1:], own.sum(dim=0), to_v, to_w])
        return to_h, *(sum(each[1:], each[0]) for each in zip(*sums, strict=True))


def _blocks(*tables: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """The same rows of several tables, some at a time on a CPU."""
    size = BLOCK_ROWS if tables[0].device.type == "cpu" else max(1, tables[0].shape[0])
    return zip(*(torch.split(table, size) for table in tables), strict=True)
