"""Dropout whose randomness comes from an explicit generator, and cheaply on a CPU.

`torch.nn.functional.dropout` draws one number per entry and multiplies floats by booleans; both
are slow on a CPU. Here one 64-bit draw decides eight entries, and the mask is not kept: behind a
ReLU the result itself tells which entries passed.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

_LEVELS = 256


def relu_dropout(
    x: Tensor, p: float, training: bool = True, generator: torch.Generator | None = None
) -> Tensor:
    """ReLU, then zero entries with probability p and divide the others by the share kept.

    It works in place on x, which must not be needed afterwards. The probability is rounded to
    1/256, and the divisor is that of the rounded one, so that the expectation is ReLU(x) exactly.

    Raises:
        ValueError: If p is not at least 0 and below 1.

    Example:
        >>> relu_dropout(torch.tensor([-1.0, 2.0]), 0.5, training=False)
        tensor([0., 2.])
    """
    share = keep_share(p)
    if not training or share == 1:
        return x.relu_()
    out: Tensor = _ReluDropout.apply(x, share, generator)  # type: ignore[no-untyped-call]
    return out


def keep_share(p: float) -> float:
    """The share of entries that dropout keeps: 1 - p, with p rounded to 1/256."""
    if not 0 <= p < 1:
        raise ValueError(f"dropout must be at least 0 and below 1 (got {p})")
    return 1 - min(round(p * _LEVELS), _LEVELS - 1) / _LEVELS


def keep_mask(x: Tensor, share: float, generator: torch.Generator | None = None) -> Tensor:
    """A tensor like x that is 1 with probability `share`, else 0."""
    count = math.prod(x.shape)
    draws = torch.empty((count + 7) // 8, dtype=torch.int64, device=x.device)
    draws.random_(-(2**63), None, generator=generator)
    threshold = round((1 - share) * _LEVELS) - _LEVELS // 2
    # Comparing straight into floats: multiplying floats by booleans is ten times slower.
    chances = draws.view(torch.int8)[:count].view(x.shape)
    return torch.ge(
        chances, threshold, out=torch.empty_like(x, memory_format=torch.contiguous_format)
    )


class _ReluDropout(torch.autograd.Function):
    """An entry passes its gradient if and only if it came out positive."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, share: float, generator: torch.Generator | None) -> Tensor:
        x.relu_().mul_(keep_mask(x, share, generator)).mul_(1 / share)
        ctx.mark_dirty(x)
        ctx.save_for_backward(x)
        ctx.share = share
        return x

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (out,) = ctx.saved_tensors
        passed = torch.ops.aten.threshold_backward(grads[0], out, 0)
        return passed.mul_(1 / ctx.share), None, None
