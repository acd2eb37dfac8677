"""Dropout whose randomness comes from an explicit generator, and cheaply on a CPU.

`torch.nn.functional.dropout` draws one number per entry and multiplies floats by booleans; both
are slow on a CPU. Here one 64-bit draw decides eight entries, and the mask is not kept: behind a
ReLU the result itself tells which entries passed, unless something was added to it.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from djgnn.graph.operator import SparseOperator

_LEVELS = 256
_SKIP = 1 << 16
# Entries of a block: it stays in a core's cache while several operations pass over it.
_BLOCK = 1 << 18


@dataclass(frozen=True)
class Window:
    """Successive rows of a larger tensor, from `first` on, of `total` in all.

    Dropout of a window is that of the same rows when the whole tensor is dropped: all of its random
    numbers are drawn, the window's are kept.
    """

    first: int
    total: int


@dataclass(frozen=True, eq=False)
class Chosen:
    """Some rows of a larger tensor, of `total` in all; likewise.

    Shapes:
        index ``[rows]``.
    """

    index: Tensor
    total: int


Part = Window | Chosen
"""What x is of a larger tensor."""
Dropping = tuple[float, bool, Generator | None, Part | None]
"""How it is dropped: the probability, whether in training, by which numbers, and what x is."""


def relu_dropout(
    x: Tensor,
    p: float,
    training: bool = True,
    generator: Generator | None = None,
    window: Part | None = None,
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
    out: Tensor = _ReluDropout.apply(x, share, generator, window)  # type: ignore[no-untyped-call]
    return out


def add_relu_dropout(
    h: Tensor,
    x: Tensor,
    p: float,
    training: bool = True,
    generator: Generator | None = None,
    window: Part | None = None,
) -> Tensor:
    """h plus what :func:`relu_dropout` makes of x, which must not be needed afterwards.

    For the backward pass a byte per entry is kept.
    """
    share = keep_share(p)
    if not training or share == 1:
        return h + x.relu_() if torch.is_grad_enabled() else x.relu_().add_(h)
    out: Tensor = _AddReluDropout.apply(h, x, share, generator, window)  # type: ignore[no-untyped-call]
    return out


def drop(
    x: Tensor,
    p: float,
    training: bool = True,
    generator: Generator | None = None,
    window: Part | None = None,
) -> Tensor:
    """Dropout: zero entries with probability p and divide the others by the share kept.

    Raises:
        ValueError: If p is not at least 0 and below 1.

    Example:
        >>> drop(torch.tensor([-1.0, 2.0]), 0.5, training=False)
        tensor([-1.,  2.])
    """
    share = keep_share(p)
    if not training or share == 1:
        return x
    return x * keep_mask(x, share, generator, window).mul_(1 / share)


def multiply(
    x: Tensor | SparseOperator,
    weight: Tensor,
    dropout: float = 0.0,
    training: bool = True,
    generator: Generator | None = None,
    window: Part | None = None,
) -> Tensor:
    """The product of dense or sparse features with weights, in training with dropout on x.

    The zeros of sparse features stay zero. A `window` is one of the rows of x, of sparse features
    of their entries.
    """
    if not isinstance(x, SparseOperator):
        return drop(x, dropout, training, generator, window) @ weight
    if not training or keep_share(dropout) == 1:
        return x @ weight
    kept = drop(x.matrix.values(), dropout, True, generator, window)
    if x.device.type == "cpu":
        return x.with_values(kept) @ weight
    columns = x.matrix.col_indices()
    starts = x.matrix.crow_indices()[:-1].to(columns.dtype)
    return F.embedding_bag(columns, weight, starts, mode="sum", per_sample_weights=kept)


def keep_share(p: float) -> float:
    """The share of entries that dropout keeps: 1 - p, with p rounded to 1/256."""
    if not 0 <= p < 1:
        raise ValueError(f"dropout must be at least 0 and below 1 (got {p})")
    return 1 - min(round(p * _LEVELS), _LEVELS - 1) / _LEVELS


def keep_mask(
    x: Tensor,
    share: float,
    generator: Generator | None = None,
    window: Part | None = None,
) -> Tensor:
    """A tensor like x that is 1 with probability `share`, else 0."""
    return _kept(x, _chances(x, generator, window).view(x.shape), share)


def chance_bytes(x: Tensor, share: float, generator: Generator | None) -> tuple[Tensor, int]:
    """A random byte for each entry, and the least one of those that are kept."""
    return _chances(x, generator, None), _threshold(share)


def _threshold(share: float) -> int:
    return round((1 - share) * _LEVELS) - _LEVELS // 2


def _kept(x: Tensor, chances: Tensor, share: float) -> Tensor:
    threshold = _threshold(share)
    # Comparing straight into floats: multiplying floats by booleans is ten times slower.
    return torch.ge(
        chances, threshold, out=torch.empty_like(x, memory_format=torch.contiguous_format)
    )


def _chances(x: Tensor, generator: Generator | None, window: Part | None) -> Tensor:
    """Random bytes, one for each entry; all of the larger tensor are drawn."""
    width, count, device = math.prod(x.shape[1:]), x.numel(), x.device
    if isinstance(window, Chosen):
        every = window.total * width
        draws = torch.empty((every + 7) // 8, dtype=torch.int64, device=device)
        draws.random_(-(2**63), None, generator=generator)
        rows = draws.view(torch.int8)[:every].view(window.total, width)
        return rows.index_select(0, window.index).view(-1)
    begin, whole = (0, count) if window is None else (window.first * width, window.total * width)
    words, first, last = (whole + 7) // 8, begin // 8, (begin + count + 7) // 8
    if device.type != "cpu":  # there a number depends on how many are drawn at once
        first, last = 0, words
    _skip(first, generator)
    draws = torch.empty(last - first, dtype=torch.int64, device=device)
    draws.random_(-(2**63), None, generator=generator)
    _skip(words - last, generator)
    return draws.view(torch.int8)[begin - 8 * first :][:count]


def _skip(words: int, generator: Generator | None) -> None:
    """Draw so many numbers and forget them, a few at a time."""
    for begin in range(0, words, _SKIP):
        scratch = torch.empty(min(_SKIP, words - begin), dtype=torch.int64)
        scratch.random_(-(2**63), None, generator=generator)


class _ReluDropout(torch.autograd.Function):
    """An entry passes its gradient if and only if it came out positive."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        share: float,
        generator: Generator | None,
        window: Part | None,
    ) -> Tensor:
        _relu_dropout_(x, share, generator, window)
        ctx.mark_dirty(x)
        ctx.save_for_backward(x)
        ctx.share = share
        return x

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        return _passed(grads[0], ctx.saved_tensors[0], ctx.share), None, None, None


class _AddReluDropout(torch.autograd.Function):
    """As the one above, but it only remembers which entries passed."""

    @staticmethod
    def forward(
        ctx: Any,
        h: Tensor,
        x: Tensor,
        share: float,
        generator: Generator | None,
        window: Part | None,
    ) -> Tensor:
        _relu_dropout_(x, share, generator, window)
        ctx.mark_dirty(x)
        ctx.save_for_backward(_positive(x))
        ctx.share = share
        return x.add_(h)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        return grads[0], _passed(grads[0], ctx.saved_tensors[0], ctx.share), None, None, None


def _relu_dropout_(
    x: Tensor, share: float, generator: Generator | None, window: Part | None
) -> None:
    if x.device.type == "cpu" and x.is_contiguous():
        chances = None if window is None else _chances(x, generator, window)
        for i, part in enumerate(torch.split(x.view(-1), _BLOCK)):
            own = _chances(part, generator, None) if chances is None else chances[i * _BLOCK :]
            part.relu_().mul_(_kept(part, own[: part.numel()], share)).mul_(1 / share)
    else:
        x.relu_().mul_(keep_mask(x, share, generator, window)).mul_(1 / share)


def _positive(x: Tensor) -> Tensor:
    """Whether entries are positive, a byte each."""
    if x.device.type != "cpu" or not x.is_contiguous():
        return x > 0
    found = torch.empty(x.shape, dtype=torch.uint8)  # from and to booleans it takes seven times
    blocks = (torch.split(tensor.view(-1), _BLOCK) for tensor in (x, found))
    for part, into in zip(*blocks, strict=True):
        into.copy_(torch.gt(part, 0, out=torch.empty_like(part)))
    return found


def _passed(grad: Tensor, out: Tensor, share: float) -> Tensor:
    """The gradient where `out` is positive or true, by the share kept."""
    if grad.device.type != "cpu" or not (grad.is_contiguous() and out.is_contiguous()):
        return _through(grad, out).mul_(1 / share)
    passed = torch.empty_like(grad)
    blocks = (torch.split(tensor.view(-1), _BLOCK) for tensor in (grad, out, passed))
    for given, result, into in zip(*blocks, strict=True):
        _through(given, result, into).mul_(1 / share)
    return passed


def _through(grad: Tensor, out: Tensor, into: Tensor | None = None) -> Tensor:
    into = torch.empty_like(grad) if into is None else into
    kept = out.to(grad.dtype)  # a block of bytes; others are as they are
    torch.ops.aten.threshold_backward.grad_input(grad, kept, 0, grad_input=into)
    return into
