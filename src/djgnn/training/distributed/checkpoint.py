"""A checkpoint that one process writes and all continue from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from djgnn.training.checkpoint import Checkpoint
from djgnn.training.distributed.group import Group
from djgnn.training.progress import Progress


class SharedCheckpoint(Checkpoint):
    """The first process reads and writes the file; the others need not see its disk.

    The state is the same on all processes, so a run may be continued by fewer or more of them.

    Args:
        path: The file, on the first process's machine.
        key: What the run is.
        every: Seconds between two writings.
        group: The processes.
    """

    def __init__(self, path: str | Path, key: str, every: float, group: Group) -> None:
        super().__init__(path, key, every)
        self.group = group

    def stage(self, name: str) -> SharedCheckpoint:
        """The checkpoint of one part of a run, beside the others."""
        part = super().stage(name)
        return SharedCheckpoint(part.path, part.key, part.every, self.group)

    def save(
        self,
        progress: Progress,
        module: nn.Module,
        optimizer: torch.optim.Optimizer,
        generator: torch.Generator | None,
    ) -> None:
        """Write the file anew, on the first process."""
        if self.group.first:
            super().save(progress, module, optimizer, generator)

    def _found(self) -> tuple[dict[str, Any], dict[str, Tensor]] | None:
        return self.group.shared(super()._found)
