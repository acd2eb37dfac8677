"""Freed memory, given back: the C library keeps it in fragments that grow with every epoch."""

from __future__ import annotations

import ctypes
import gc
import sys
import time
from functools import cache
from typing import Any

EVERY = 0.1
_last = [0.0]


@cache
def _trim() -> Any:
    """glibc's `malloc_trim`, ``None`` where the C library has none."""
    if not sys.platform.startswith("linux"):
        return None
    return getattr(ctypes.CDLL(None), "malloc_trim", None)


def release_free_memory(epoch: int = 0) -> None:
    """Return free heap pages to the system, at most ten times a second.

    Tensors of a few MiB come from the heap, where small allocations between them keep the holes
    they leave from being returned. Mapping every tensor on its own avoids that and makes an epoch
    1.8 times slower (page faults); returning the holes now and then costs nothing measurable.
    """
    trim, now = _trim(), time.monotonic()
    if trim is None or (epoch > 0 and now - _last[0] < EVERY):
        return
    if epoch <= 0:
        gc.collect()  # an optimiser of an earlier run may still be waiting in a cycle
    trim(0)
    _last[0] = time.monotonic()
