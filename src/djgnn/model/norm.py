"""Layer normalisation of many narrow rows, which torch gives a whole block of a GPU each."""

import torch
from torch import Tensor

from djgnn.jumps.triton_search import uses_triton

EPSILON = 1e-5
"""Beside the variance, as usual."""
WIDEST, ENTRIES = 1024, 4096
"""Columns that a program can hold, and entries of it."""


def layer_norm(h: Tensor, scale: Tensor, shift: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Rows with mean 0 and variance 1, scaled and shifted; their means and inverse deviations.

    Shapes:
        h ``[n, width]``, scale, shift ``[width]``, results ``[n, width]``, ``[n, 1]``, ``[n, 1]``.
    """
    n, width = h.shape
    if not uses_triton(h) or width > WIDEST or not h.is_contiguous() or not h.numel():
        return torch.native_layer_norm(h, (width,), scale, shift, EPSILON)
    from djgnn.model.triton_norm import norm_kernel

    out, columns = torch.empty_like(h), 1 << (width - 1).bit_length()
    mean, inverse = h.new_empty(n, 1), h.new_empty(n, 1)
    rows = max(1, ENTRIES // columns)
    norm_kernel[(-(-n // rows),)](
        h, scale.contiguous(), shift.contiguous(), out, mean, inverse, n, EPSILON,
        WIDTH=width, COLUMNS=columns, ROWS=rows,
    )  # fmt: skip
    return out, mean, inverse
