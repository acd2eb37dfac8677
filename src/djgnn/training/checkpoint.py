"""Checkpoints: everything a run knows between two epochs, in one file that is whole or absent."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from djgnn.errors import InputError
from djgnn.graph.files import readable_file
from djgnn.model import DJGNN
from djgnn.training.checkpoint_check import (
    check_lists,
    check_moments,
    check_progress,
    check_weights,
)
from djgnn.training.progress import EpochRecord, Progress

FORMAT = "djgnn-checkpoint-1"


def fingerprint(*parts: Any) -> str:
    """A hash of what must be the same for a run to be continued.

    Example:
        >>> fingerprint("cora", {"lr": 0.1}) == fingerprint("cora", {"lr": 0.2})
        False
    """
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


class Checkpoint:
    """One file that follows a run.

    Args:
        path: The file; its folder is made when first needed.
        key: What the run is, see :func:`fingerprint`; a file of another run is refused.
        every: Seconds between two writings; 0 writes after every epoch.
    """

    def __init__(self, path: str | Path, key: str, every: float = 10.0) -> None:
        self.path, self.key, self.every = Path(path), key, every
        self._last = time.monotonic()

    def stage(self, name: str) -> Checkpoint:
        """The checkpoint of one part of a run, beside the others."""
        return Checkpoint(
            self.path.with_name(f"{name}.safetensors"), f"{self.key}/{name}", self.every
        )

    @property
    def due(self) -> bool:
        """Whether it is time to write again."""
        return time.monotonic() - self._last >= self.every

    def save(
        self,
        progress: Progress,
        module: nn.Module,
        optimizer: torch.optim.Optimizer,
        generator: torch.Generator | None,
    ) -> None:
        """Write the file anew; an older one stays until the new one is complete on disk."""
        records = [dataclasses.astuple(record) for record in progress.history]
        tensors = {
            **{f"module.{k}": v for k, v in module.state_dict().items()},
            **{f"kept.{k}": v for k, v in progress.kept.items()},
            **{f"adam.{i}.{k}": v for i, k, v in _moments(optimizer)},
            **{f"lists.{k}": v for k, v in _old_lists(module).items()},
            "kept_logits": progress.kept_logits,
            "history": torch.tensor(records, dtype=torch.float64).view(len(records), -1),
            "decisions": torch.from_numpy(np.stack(progress.decisions)),
        }
        if generator is not None:
            tensors["generator"] = generator.get_state()
        about = {
            "key": self.key,
            "kept_epoch": progress.kept_epoch,
            "seconds": progress.seconds,
            "ended": progress.ended,
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        part = self.path.with_suffix(".part")
        # Pointers go to the library, not copies: the peak of memory does not grow.
        whole = {name: tensor.contiguous() for name, tensor in tensors.items()}
        save_file(whole, part, {"format": FORMAT, "about": json.dumps(about)})
        with part.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(part, self.path)
        self._last = time.monotonic()

    def restore(
        self,
        module: nn.Module,
        optimizer: torch.optim.Optimizer,
        generator: torch.Generator | None,
    ) -> Progress:
        """Put a run back to where it was; a fresh start if there is no file.

        Raises:
            InputError: If the file is damaged or belongs to another run.
        """
        found = self._found()
        if found is None:
            return Progress()
        about, tensors = found
        try:
            check_progress(about, tensors)
            progress = _progress(about, tensors)
            if progress.kept_epoch >= 0:
                check_weights(progress.kept, module)
            check_lists(_part(tensors, "lists."))
            device = next(module.parameters()).device
            progress.kept_logits = progress.kept_logits.to(device)
            progress.kept = {k: v.to(device) for k, v in progress.kept.items()}
            _restore_adam(optimizer, tensors)
            module.load_state_dict(_part(tensors, "module."))
            if isinstance(module, DJGNN):
                module.ranks.old = _part(tensors, "lists.")
            if generator is not None:
                generator.set_state(tensors["generator"])
        except (LookupError, ArithmeticError, ValueError, TypeError, RuntimeError) as error:
            raise InputError(f"{self.path}: damaged ({error}); {_REMEDY}") from error
        return progress

    def _found(self) -> tuple[dict[str, Any], dict[str, Tensor]] | None:
        """What the file says, ``None`` without one."""
        return self._read() if self.path.exists() else None

    def _read(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(readable_file(self.path), framework="pt") as file:
                metadata = file.metadata() or {}
                about = json.loads(metadata.get("about", "{}"))
                tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        except (OSError, RecursionError, SafetensorError, ValueError) as error:
            raise InputError(f"{self.path}: damaged ({error}); {_REMEDY}") from error
        if metadata.get("format") != FORMAT or not isinstance(about, dict):
            raise InputError(f"{self.path}: not a checkpoint of this version; {_REMEDY}")
        if about.get("key") != self.key:
            raise InputError(
                f"{self.path}: belongs to a run with other data, options or seed; repeat the "
                "command that started it, or delete the checkpoint and start anew"
            )
        return about, tensors


_REMEDY = "delete it and start anew without --resume"


def _moments(optimizer: torch.optim.Optimizer) -> list[tuple[int, str, Tensor]]:
    state = optimizer.state_dict()["state"]
    return [(i, key, value) for i, entry in state.items() for key, value in entry.items()]


def _old_lists(module: nn.Module) -> dict[str, Tensor]:
    return module.ranks.old if isinstance(module, DJGNN) else {}


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}


def _progress(about: dict[str, Any], tensors: dict[str, Tensor]) -> Progress:
    history = [EpochRecord(int(row[0]), *row[1:]) for row in tensors["history"].tolist()]
    kept_epoch = int(about["kept_epoch"])
    return Progress(
        history=history,
        decisions=list(tensors["decisions"].numpy()),
        best=history[kept_epoch].merit if kept_epoch >= 0 else (-math.inf, -math.inf),
        kept=_part(tensors, "kept."),
        kept_logits=tensors["kept_logits"],
        kept_epoch=kept_epoch,
        seconds=float(about["seconds"]),
        ended=bool(about["ended"]),
    )


def _restore_adam(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in _part(tensors, "adam.").items():
        number, _, name = key.partition(".")
        state.setdefault(int(number), {})[name] = value
    check_moments(state, optimizer)
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
