"""Freed memory: given back where it would be left in fragments, kept where it is large."""

from __future__ import annotations

import ctypes
import gc
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

EVERY = 0.1
# glibc maps every block above this on its own, and unmaps it when it is freed.
MAPPED = 32 << 20
_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # names of malloc.h
_TRIM_USUAL, _MMAP_USUAL = 2 * MAPPED, 65536  # where glibc arrives by itself
_last, _kept = [0.0], [0]


@cache
def _library() -> Any:
    """The C library, ``None`` where it is not glibc."""
    if not sys.platform.startswith("linux"):
        return None
    library = ctypes.CDLL(None)
    return library if hasattr(library, "malloc_trim") and hasattr(library, "mallopt") else None


def release_free_memory(epoch: int = 0) -> None:
    """Return free heap pages to the system, at most ten times a second.

    Tensors of a few MiB come from the heap, where small allocations between them keep the holes
    they leave from being returned. Mapping every tensor on its own avoids that and makes an epoch
    1.8 times slower (page faults); returning the holes now and then costs nothing measurable.
    """
    library, now = _library(), time.monotonic()
    if library is None or _kept[0] or (epoch > 0 and now - _last[0] < EVERY):
        return
    if epoch <= 0:
        gc.collect()  # an optimiser of an earlier run may still be waiting in a cycle
    library.malloc_trim(0)
    _last[0] = time.monotonic()


@contextmanager
def large_blocks_kept(largest: int) -> Iterator[None]:
    """Keep freed blocks for the next step, if the largest are of a size to be mapped anew.

    A step allocates the same large tensors as the one before. Mapped anew each time, all of their
    pages fault: on a CPU a quarter to half of the time of a step over some hundred thousand nodes.
    The heap keeps them, at the price of holes between them: peaks of memory grow by 20 to 80%.
    Everything free is returned at the end.

    Args:
        largest: Bytes of the largest tensor of a step.
    """
    library = _library()
    if library is None or largest <= MAPPED:
        yield
        return
    _kept[0] += 1
    library.mallopt(_MMAP_MAX, 0)
    library.mallopt(_TRIM_THRESHOLD, 2**31 - 1)
    try:
        yield
    finally:
        _kept[0] -= 1
        if not _kept[0]:
            library.mallopt(_MMAP_MAX, _MMAP_USUAL)
            library.mallopt(_TRIM_THRESHOLD, _TRIM_USUAL)
            release_free_memory()
