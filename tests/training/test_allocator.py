"""Large blocks are kept while a large graph is trained, and given back after it."""

from __future__ import annotations

import mmap
import sys
from pathlib import Path

import pytest
import torch

from djgnn.training import allocator

needs_glibc = pytest.mark.skipif(
    not sys.platform.startswith("linux") or allocator._library() is None, reason="needs glibc"
)


def faults() -> int:
    """Page faults of this process."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def resident() -> int:
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE


def blocks(size: int, times: int) -> int:
    """Page faults of allocating and filling blocks of so many bytes, one after the other."""
    torch.ones(size // 4)
    before = faults()
    for _ in range(times):
        torch.ones(size // 4)
    return faults() - before


@needs_glibc
def test_large_blocks_do_not_fault_again_while_they_are_kept() -> None:
    size, times = 64 << 20, 8
    with allocator.large_blocks_kept(size):
        kept = blocks(size, times)
    # Mapped anew it would be eight times; the heap may grow once or twice.
    assert kept < 3 * size // mmap.PAGESIZE


@needs_glibc
def test_large_blocks_are_kept_and_then_given_back() -> None:
    size, times = 64 << 20, 8
    allocator.release_free_memory()  # or the blocks might fill holes of earlier tests
    before = resident()
    with allocator.large_blocks_kept(size):
        held = [torch.ones(size // 4) for _ in range(times)]
        del held
        assert resident() - before > times * size // 2
    assert resident() - before < size


@needs_glibc
def test_small_blocks_change_nothing() -> None:
    with allocator.large_blocks_kept(allocator.MAPPED):
        assert allocator._kept == [0]


@needs_glibc
def test_an_error_gives_them_back() -> None:
    def fail() -> None:
        with allocator.large_blocks_kept(1 << 30):
            assert allocator._kept == [1]
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fail()
    assert allocator._kept == [0]


@needs_glibc
def test_nothing_is_returned_while_they_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    library = allocator._library()

    class Watched:
        mallopt = library.mallopt

        @staticmethod
        def malloc_trim(pad: int) -> int:
            calls.append(pad)
            return 1

    monkeypatch.setattr(allocator, "_library", lambda: Watched)
    with allocator.large_blocks_kept(1 << 30):
        allocator.release_free_memory()
        assert not calls
    assert calls == [0]
