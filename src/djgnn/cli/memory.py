"""Freed memory of the command line's own process; a library call never changes its allocator."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

    from djgnn.graph import Graph
    from djgnn.training.config import RunConfig

EVERY = 2.0
# glibc maps every block above this on its own, and unmaps it when it is freed.
MAPPED = 32 << 20
KEPT = 256 << 20
"""Largest blocks that are kept; the heap around larger ones would take gigabytes more."""
GPU_KEPT = 2 << 30
"""What torch may keep on a GPU from one expert to the next."""
# As MAPPED, where several processes share a graph.
SHARED_MAPPED = 1 << 20
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX, _ARENA_MAX = -1, -3, -4, -8  # names of malloc.h
_TRIM_USUAL, _MMAP_USUAL = 2 * MAPPED, 65536  # what glibc reaches by itself


@cache
def c_library() -> Any:
    """The C library, ``None`` where it is not glibc."""
    if not sys.platform.startswith("linux"):
        return None
    library = ctypes.CDLL(None)
    return library if hasattr(library, "malloc_trim") and hasattr(library, "mallopt") else None


def one_heap() -> None:
    """Let all threads share a heap, unless the user has set how many there are.

    With heaps of their own, experts that are trained at the same time neither keep their blocks
    from epoch to epoch nor use those of each other.
    """
    library = c_library()
    if library is not None and "MALLOC_ARENA_MAX" not in os.environ:
        library.mallopt(_ARENA_MAX, 1)


def largest_block(config: RunConfig, graph: Graph, device: str) -> int:
    """Bytes of the largest tensor of a step on a CPU: all embeddings of the widest network."""
    import torch

    from djgnn.model.branch_mixture import ConvexMixture
    from djgnn.training.inputs import Facts, blank_djgnn, num_features

    if device != "cpu":
        return 0
    sizes = (num_features(graph), graph.num_classes, graph.num_nodes)
    facts = Facts(graph.name, *sizes, directed=True, directions=True)  # no wider than others
    with torch.device("meta"):  # sizes alone, nothing is allocated
        parts = blank_djgnn(config, facts).modules()
    widths = [part.weights[0].shape[1] for part in parts if isinstance(part, ConvexMixture)]
    rows = min(graph.num_nodes, config.training.batch_size or graph.num_nodes)
    return 4 * rows * int(max(widths))


def give_back() -> None:
    """Return what is free to the system, after what only cycles still hold."""
    gc.collect()
    library = c_library()
    if library is not None:
        library.malloc_trim(0)


def keep_freed() -> None:
    """Keep what is freed for what is allocated next, from now on.

    Pages of large blocks fault once then, not for every block; the peak is larger.
    """
    library = c_library()
    if library is not None:
        library.mallopt(_MMAP_MAX, 0)
        library.mallopt(_TRIM_THRESHOLD, 2**31 - 1)


def drop_weights(module: nn.Module) -> None:
    """Give back the memory of large weights, whose values nobody asks for again.

    They keep their shapes, and take memory again where they are written.
    """
    import torch

    for each in (*module.parameters(), *module.buffers()):
        if each.nbytes >= SHARED_MAPPED:
            each.data = torch.empty_like(each)


@contextmanager
def shared_memory() -> Iterator[None]:
    """Set the allocator of a process that has a part of a graph: what it frees goes back at once.

    Rows that come from other processes are many small tables of many sizes. In the heap the holes
    that they leave take half as much memory again as the tables.
    """
    library = c_library()
    if library is None:
        yield
        return
    library.mallopt(_MMAP_THRESHOLD, SHARED_MAPPED)
    try:
        yield
    finally:
        library.mallopt(_MMAP_THRESHOLD, MAPPED)


@contextmanager
def training_memory(largest: int) -> Iterator[Callable[[int], None]]:
    """Set the allocator for a training; gives what to call after every epoch, with its number.

    Tensors of a few MiB come from the heap, where small allocations between them keep the holes
    they leave from being returned. Mapping every tensor on its own avoids that and makes an epoch
    1.8 times slower (page faults); so the holes are returned after an epoch, at most every two
    seconds. More often it costs: on cora about 30% of an epoch, half of it by returns of glibc
    itself, which begins with small limits. So these are where it would arrive from the start.

    A step with larger tensors allocates the same ones as the step before. Mapped anew each time,
    all of their pages fault: on a CPU a quarter to half of the time of a step over some ten
    thousand nodes. There the heap keeps them until the training of an expert ends, and peaks of
    memory grow by 20 to 80%, from epoch to epoch: torch aligns its blocks, small allocations settle
    in what that leaves, and no block of the same size fits into the gap again. So blocks beyond
    `KEPT` are mapped.

    Args:
        largest: Bytes of the largest tensor of a step.
    """
    from torch import cuda

    library, last = c_library(), -1.0
    kept = library is not None and MAPPED < largest <= KEPT

    def release(epoch: int) -> None:
        nonlocal last
        if epoch == 0:
            gc.collect()  # an optimiser of an earlier training may still be in a cycle
            # Of a GPU if it is much: the next expert has tensors of other sizes.
            if cuda.is_initialized() and cuda.memory_reserved() > GPU_KEPT:  # type: ignore[no-untyped-call]
                cuda.empty_cache()
        if library is None:
            return
        if epoch == 0 or (not kept and time.monotonic() - last >= EVERY):
            library.malloc_trim(0)
            last = time.monotonic()

    if library is not None and 0 < largest <= MAPPED:
        library.mallopt(_MMAP_THRESHOLD, MAPPED)
        library.mallopt(_TRIM_THRESHOLD, _TRIM_USUAL)
    if kept:
        keep_freed()
    else:
        gc.freeze()  # what is there already is not searched for cycles again and again
    try:
        yield release
    finally:
        if kept:
            library.mallopt(_MMAP_MAX, _MMAP_USUAL)
            library.mallopt(_TRIM_THRESHOLD, _TRIM_USUAL)
        else:
            gc.unfreeze()
        give_back()
