"""The processes of a run: rank, size, and what they agree on.

`torchrun` starts the processes and tells each its number through the environment. A process that
was started without it, or alone, is a group of one and needs no connection.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Self, TypeVar

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from djgnn.errors import InputError, ProcessLostError
from djgnn.training.inputs import choose_device

T = TypeVar("T")

VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
# How long a process waits for the others; reading a large graph may keep one of them.
PATIENCE = timedelta(minutes=30)


@dataclass(frozen=True, eq=False)
class Group:
    """One process among those of a run.

    Args:
        rank: Its number.
        size: How many there are.
        local_rank: Its number on its machine.
        restarts: How often `torchrun` has started the processes anew.
        launch: What `torchrun` calls this run, empty if it has no name; ``None`` without it.

    Example:
        >>> group = Group()
        >>> group.first, group.any(True), group.shared(lambda: 7)
        (True, True, 7)
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    restarts: int = 0
    launch: str | None = None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """What `torchrun` says about this process; a group of one if it says nothing.

        Raises:
            InputError: If only a part of its variables is there, or one makes no sense.

        Example:
            >>> Group.from_environment({}).size
            1
        """
        there = [name for name in VARIABLES if name in environment]
        if "RANK" not in there and "WORLD_SIZE" not in there:
            return cls()
        counts = {"TORCHELASTIC_RESTART_COUNT": "0", **environment}
        try:
            rank, size, local, restarts = (
                int(counts[name]) for name in (*VARIABLES[:3], "TORCHELASTIC_RESTART_COUNT")
            )
        except (KeyError, ValueError):
            rank = size = 0
        if len(there) < len(VARIABLES) or not 0 <= rank < size:
            got = ", ".join(f"{name}={environment[name]!r}" for name in there)
            raise InputError(
                f"environment: {', '.join(VARIABLES)} must all be set, to whole numbers with RANK "
                "below WORLD_SIZE; start the processes with torchrun, or unset RANK and WORLD_SIZE "
                f"(got {got})"
            )
        launch = environment.get("TORCHELASTIC_RUN_ID")
        return cls(rank, size, local, restarts, "" if launch == "none" else launch)

    @property
    def first(self) -> bool:
        """Whether this is the process that writes files and prints."""
        return self.rank == 0

    @property
    def alone(self) -> bool:
        """Whether there are no others."""
        return self.size == 1

    def device(self, name: str = "auto") -> torch.device:
        """The device of this process: of several GPUs that of its number, made the current one.

        Raises:
            InputError: If CUDA is asked for and not there, or has fewer GPUs than processes.
        """
        found = choose_device(name)
        if found.type != "cuda" or self.alone:
            return found
        count = torch.cuda.device_count()
        if self.local_rank >= count:
            raise InputError(
                f"device: process {self.local_rank} of this machine has no GPU of its own; start "
                f"at most one process per GPU, or use cpu (got {count} GPUs)"
            )
        torch.cuda.set_device(self.local_rank)
        return torch.device("cuda", self.local_rank)

    def any(self, flag: bool) -> bool:
        """Whether the flag is true on any process; all processes get the same answer."""
        return any(self.gathered(flag))

    def gathered(self, value: T) -> list[T]:
        """The values of all processes, by number."""
        if self.alone:
            return [value]
        values: list[Any] = [None] * self.size
        with watched():
            dist.all_gather_object(values, value)
        return values

    def together(self, work: Callable[[], T]) -> T:
        """Do something on every process; if it fails on one, it fails on all, alike.

        Raises:
            Exception: The error of the first process that had one.
        """
        result: T | None = None
        error: Exception | None = None
        try:
            result = work()
        except (ArithmeticError, MemoryError, OSError, RuntimeError, ValueError) as caught:
            error = caught
        failed = [(rank, e) for rank, e in enumerate(self.gathered(error)) if e is not None]
        if not failed:
            return result  # type: ignore[return-value]
        rank, cause = failed[0]
        if error is not None and (rank == self.rank or str(error) == str(cause)):
            raise error
        if self.first or isinstance(cause, InputError):
            raise cause if rank == 0 else type(cause)(f"process {rank}: {cause}")
        raise ProcessLostError(f"process {rank} failed: {cause}")

    def shared(self, work: Callable[[], T]) -> T:
        """Do something on the first process; all get its result, or its error."""
        result = self.together(lambda: work() if self.first else None)
        if self.alone:
            return result  # type: ignore[return-value]
        held: list[Any] = [result]
        with watched():
            dist.broadcast_object_list(held, src=0, device=torch.device("cpu"))
        value: T = held[0]
        return value


@contextmanager
def join(device: str = "auto", environment: Mapping[str, str] = os.environ) -> Iterator[Group]:
    """Meet the other processes of this run, if there are any; gloo on CPUs, NCCL on GPUs.

    Args:
        device: What training will run on, ``"auto"``, ``"cpu"`` or ``"cuda"``.
        environment: Where `torchrun` sets its variables.

    Raises:
        InputError: If the environment is incomplete.
        ProcessLostError: If the others do not connect.

    Example:
        >>> with join("cpu", {}) as group:  # without torchrun a process is alone
        ...     group.size
        1
    """
    group = Group.from_environment(environment)
    if group.alone:
        yield group
        return
    gpu = device != "cpu" and torch.cuda.is_available()
    backend = "cpu:gloo,cuda:nccl" if gpu else "gloo"
    with watched():
        store, _, _ = next(rendezvous("env://", timeout=PATIENCE))
        # `torchrun` keeps the store over restarts: without a prefix a process may find the
        # addresses of those that are gone, and wait for them.
        store = PrefixStore(f"djgnn/{group.restarts}/{group.size}", store)
        dist.init_process_group(
            backend, store=store, rank=group.rank, world_size=group.size, timeout=PATIENCE
        )
    try:
        yield group
    finally:
        dist.destroy_process_group()


@contextmanager
def watched() -> Iterator[None]:
    """Say what a failed connection means: another process of the run is gone.

    Raises:
        ProcessLostError: In place of the connection's own error.
    """
    try:
        yield
    except RuntimeError as error:
        raise ProcessLostError(
            "another process of this run ended or cannot be reached; its own message says why. "
            "`torchrun --max-restarts N` resumes from the last checkpoint "
            f"(got {str(error).splitlines()[0][:200]})"
        ) from error
