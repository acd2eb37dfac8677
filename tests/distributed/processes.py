"""Real processes that meet over gloo, started from a server that has imported everything once."""

from __future__ import annotations

import multiprocessing
import os
import queue
import socket
import traceback
from collections.abc import Callable
from typing import Any

import pytest

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["djgnn.training", "djgnn.training.distributed", "torch._dynamo"])
LIMIT = 60


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _work(
    rank: int, size: int, port: int, work: Callable[..., Any], given: tuple[Any, ...], results: Any
) -> None:
    names = {"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": rank, "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in names.items()}, MASTER_ADDR="127.0.0.1")
    import torch

    from djgnn.training.distributed import join

    torch.set_num_threads(1)
    try:
        with join("cpu") as group:
            results.put((rank, True, work(group, *given)))
    except BaseException:
        results.put((rank, False, traceback.format_exc()))


def run_group(size: int, work: Callable[..., Any], *given: Any) -> list[Any]:
    """What `work(group, *given)` returns on each of several processes."""
    results, port = CONTEXT.Queue(), free_port()
    workers = [
        CONTEXT.Process(target=_work, args=(rank, size, port, work, given, results))
        for rank in range(size)
    ]
    for worker in workers:
        worker.start()
    try:
        found = sorted(results.get(timeout=LIMIT) for _ in workers)
    except queue.Empty:
        pytest.fail(f"a process said nothing for {LIMIT} seconds")
    finally:
        for worker in workers:
            worker.join(5)
            worker.kill()
    failed = [text for _, fine, text in found if not fine]
    assert not failed, "\n".join(failed)
    return [value for _, _, value in found]
