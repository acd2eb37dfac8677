"""Large blocks are kept while a large graph is trained, and given back after it."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from djgnn.cli import memory
from djgnn.graph import heterophilic_sbm
from djgnn.training import resolve

needs_glibc = pytest.mark.skipif(memory.c_library() is None, reason="needs glibc")

# In a process of its own: earlier tests leave holes in the heap, which blocks may fill.
MEASURED = """
import mmap, resource, sys
import torch
from djgnn.cli.memory import training_memory

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
with training_memory(size):
    kept = faulted()
    held = [torch.ones(size // 4) for _ in range(times)]
    del held
    still = resident() - before
after = resident() - before
print(mapped / pages, kept / pages, still / pages, after / pages)
"""

DROPPED = """
import mmap
import torch
from djgnn.cli.memory import drop_weights, shared_memory

pages = (64 << 20) // mmap.PAGESIZE
torch.set_num_threads(1)

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1])

with shared_memory():
    before = resident()
    module = torch.nn.Linear(4096, 4096)
    bias, made = module.bias.clone(), resident() - before
    drop_weights(module)
    dropped = resident() - before
    assert torch.equal(module.bias, bias) and module.weight.shape == (4096, 4096)
    module.weight.data.fill_(1.0)
    print(made / pages, dropped / pages, (resident() - before) / pages)
"""


class Watched:
    """A C library that notes what is called."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, ...]] = []

    def malloc_trim(self, pad: int) -> int:
        self.calls.append((pad,))
        return 1

    def mallopt(self, name: int, value: int) -> int:
        self.calls.append((name, value))
        return 1


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    library = Watched()
    monkeypatch.setattr(memory, "c_library", lambda: library)
    return library


@pytest.mark.parametrize(("given", "calls"), [(None, [(-8, 1)]), ("4", [])])
def test_threads_share_a_heap_unless_the_user_says_how_many(
    watched: Watched, monkeypatch: pytest.MonkeyPatch, given: str | None, calls: list[Any]
) -> None:
    monkeypatch.delenv("MALLOC_ARENA_MAX", raising=False)
    if given is not None:
        monkeypatch.setenv("MALLOC_ARENA_MAX", given)
    memory.one_heap()
    assert watched.calls == calls


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
def test_large_weights_that_are_dropped_take_memory_when_they_are_written_again() -> None:
    done = subprocess.run(
        [sys.executable, "-c", DROPPED], capture_output=True, text=True, check=True
    )
    made, dropped, again = map(float, done.stdout.split())
    assert min(made, again) > 0.9
    assert dropped < 0.3


@pytest.mark.parametrize("largest", [0, memory.MAPPED, memory.KEPT + 1])
def test_other_blocks_are_returned_now_and_then(watched: Watched, largest: int) -> None:
    with memory.training_memory(largest) as release:
        for epoch in range(5):
            release(epoch)
    # Of small ones glibc's own limits are set to where they end anyway.
    limits = [(-3, memory.MAPPED), (-1, 2 * memory.MAPPED)] if largest == memory.MAPPED else []
    # The first epoch, then at most every two seconds, and the end.
    assert watched.calls == [*limits, (0,), (0,)]


def test_what_a_process_of_several_frees_goes_back(watched: Watched) -> None:
    with memory.shared_memory():
        assert watched.calls == [(-3, memory.SHARED_MAPPED)]
    assert watched.calls[1:] == [(-3, memory.MAPPED)]


def test_an_error_gives_large_blocks_back(watched: Watched) -> None:
    def fail() -> None:
        with memory.training_memory(memory.KEPT) as release:
            release(0)
            release(1)
            assert watched.calls[2:] == [(0,)]  # nothing is returned while an expert is trained
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fail()
    assert watched.calls[-1] == (0,)
    assert {name for name, *value in watched.calls[3:5]} == {-4, -1}


def test_a_library_call_does_not_touch_the_allocator() -> None:
    probe = (
        "import sys\n"
        "from djgnn import DJClassifier\n"
        "from djgnn.graph import heterophilic_sbm\n"
        "assert not any(m.startswith('djgnn.cli') for m in sys.modules)\n"
        "DJClassifier(options={'epochs': 2}, device='cpu').fit(heterophilic_sbm(120))\n"
        "assert not any(m.startswith('djgnn.cli') for m in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", probe], check=True)


def test_the_largest_block_is_that_of_the_widest_expert() -> None:
    graph = heterophilic_sbm(120)
    config = resolve("default", hidden_channels=8)  # joint: seven jumps and two other branches
    n = graph.num_nodes
    assert memory.largest_block(config, graph, "cpu") == 4 * n * 9 * 8
    assert memory.largest_block(config.replace(batch_size=10), graph, "cpu") == 4 * 10 * 9 * 8
    one = config.replace(experts=(), num_jumps=2)
    assert memory.largest_block(one, graph, "cpu") == 4 * n * 5 * 8
    assert memory.largest_block(config, graph, "cuda") == 0


@pytest.mark.parametrize("preset", ["default", "full"])
def test_sizes_are_found_without_the_compiler_of_torch(preset: str) -> None:
    probe = (
        "import sys\n"
        "from djgnn.cli.memory import largest_block\n"
        "from djgnn.graph import heterophilic_sbm\n"
        "from djgnn.training import resolve\n"
        f"largest_block(resolve({preset!r}), heterophilic_sbm(60), 'cpu')\n"
        "assert 'torch._dynamo' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", probe], check=True)
