"""Activation checkpointing with an explicit source of randomness."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint


def recompute(run: Callable[[], Tensor], generator: torch.Generator | None = None) -> Tensor:
    """The result of `run`, of which nothing is kept: the way back runs it again.

    The second run draws the same random numbers, and leaves the generator where it was.

    Args:
        run: Differentiable, without side effects but on the generator.
        generator: Source of its randomness; torch's own by default.
    """
    if not torch.is_grad_enabled():
        return run()
    if generator is None:
        result: Tensor = checkpoint(run, use_reentrant=False)
        return result
    before, runs = generator.get_state(), 0

    def again() -> Tensor:
        nonlocal runs
        runs += 1
        if runs == 1:
            return run()
        now = generator.get_state()
        generator.set_state(before)
        try:
            return run()
        finally:
            generator.set_state(now)

    result = checkpoint(again, use_reentrant=False, preserve_rng_state=False)
    return result
