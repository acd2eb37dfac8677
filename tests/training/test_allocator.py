"""Large blocks are kept while a large graph is trained, and given back after it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from djgnn.training import allocator

needs_glibc = pytest.mark.skipif(
    not sys.platform.startswith("linux") or allocator._library() is None, reason="needs glibc"
)


# In a process of its own: earlier tests leave holes in the heap, which blocks may fill.
MEASURED = """
import mmap, resource, sys
import torch
from djgnn.training import allocator

size, times = 64 << 20, 8
pages = size // mmap.PAGESIZE
torch.set_num_threads(1)

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1])

def faulted():
    for _ in range(4 * times):  # until the heap has grown to what it needs
        torch.ones(size // 4)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(times):
        torch.ones(size // 4)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

mapped, before = faulted(), resident()
with allocator.large_blocks_kept(size):
    kept = faulted()
    held = [torch.ones(size // 4) for _ in range(times)]
    del held
    still = resident() - before
after = resident() - before
print(mapped / pages, kept / pages, still / pages, after / pages)
"""


@needs_glibc
def test_large_blocks_are_kept_and_then_given_back() -> None:
    done = subprocess.run(
        [sys.executable, "-c", MEASURED], capture_output=True, text=True, check=True
    )
    mapped, kept, still, after = map(float, done.stdout.split())
    if mapped > 4:  # huge pages fault seldom
        assert kept < 2
    assert still > 7
    assert after < 1


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
