"""Checkpoints: everything a run knows between two epochs, in one file that is whole or absent."""

import dataclasses
import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Generator, Tensor, nn

from djgnn.errors import InputError
from djgnn.graph.files import flush, readable_file
from djgnn.training.distributed.group import Group
from djgnn.training.optimizer import MOMENTS, Adam
from djgnn.training.progress import EpochRecord, Progress

FORMAT = "djgnn-checkpoint-1"
NUMBERS = len(dataclasses.fields(EpochRecord)) - 1
"""Numbers of an epoch; its expert is that of the checkpoint's stage."""


def fingerprint(*parts: Any) -> str:
    """A hash of what must be the same for a run to be continued.

    Example:
        >>> fingerprint("cora", {"lr": 0.1}) == fingerprint("cora", {"lr": 0.2})
        False
    """
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def save_tensors(tensors: Mapping[str, Tensor], path: Path, about: dict[str, str]) -> None:
    """Write tensors into a file of safetensors, see :func:`written`."""
    # Pointers go to the library, not copies: the peak of memory does not grow.
    whole = {name: tensor.contiguous() for name, tensor in tensors.items()}
    with written(path):
        save_file(whole, path, about)


@contextmanager
def written(path: Path) -> Iterator[None]:
    """Give a file of safetensors the usual permissions; turn its errors into an `OSError`.

    The library lets only the user read what it writes.

    Raises:
        OSError: If the file cannot be written.
    """
    try:
        yield
        path.chmod(path.parent.stat().st_mode & 0o666)
    except SafetensorError as error:
        number = re.search(r"\(os error (\d+)\)", str(error))
        raise OSError(int(number[1]) if number else 0, str(error), str(path)) from error


class _Writer:
    """Writes files in a thread of its own, one after the other."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._begun: list[Future[None]] = []

    def begin(self, write: Callable[[], None]) -> None:
        """Write a file of what the GPU has by now, after those before it.

        Raises:
            OSError: If one of those could not be written.
        """
        for each in [each for each in self._begun if each.done()]:
            each.result()
        self._pool = self._pool or ThreadPoolExecutor(1, "checkpoint")
        there = torch.cuda.Event()  # type: ignore[no-untyped-call]
        there.record()

        def work() -> None:
            stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            stream.wait_event(there)
            with torch.cuda.stream(stream):  # others need not wait for its copies
                write()

        self._begun.append(self._pool.submit(work))

    def finish(self) -> None:
        """Wait until all are written.

        Raises:
            OSError: If one of them cannot be.
        """
        begun, self._begun = self._begun, []
        for each in begun:
            each.result()


class Checkpoint:
    """One file that follows a run.

    On a GPU what is kept of a training that has ended is written while the next one runs;
    :meth:`finish` waits for it.

    Args:
        path: The file; its folder is made when first needed.
        key: What the run is, see :func:`fingerprint`; a file of another run is refused.
        every: Seconds between two writings, more where writing would take a tenth of the time; 0
            writes after every epoch.
        group: The processes of the run. The first one reads and writes the file, the others need
            not see its disk; as the first one has all of the state, another number of processes
            may resume the run.
    """

    def __init__(
        self, path: str | Path, key: str, every: float = 10.0, group: Group | None = None
    ) -> None:
        self.path, self.key, self.every = Path(path), key, every
        self.group = group or Group()
        self._last, self._wait = time.monotonic(), every
        self._writer = _Writer()

    def stage(self, name: str) -> Self:
        """The checkpoint of one part of a run, beside the others."""
        file = self.path.with_name(f"{name}.safetensors")
        found = type(self)(file, f"{self.key}/{name}", self.every, self.group)
        found._writer = self._writer
        return found

    def finish(self) -> None:
        """Wait until all stages are written.

        Raises:
            OSError: If one of them cannot be.
        """
        self._writer.finish()

    def forget(self) -> None:
        """Delete the file: the run begins anew."""
        self.finish()
        if self.group.first:
            self.path.unlink(missing_ok=True)

    @property
    def due(self) -> bool:
        """Whether it is time to write again."""
        return time.monotonic() - self._last >= self._wait

    def save(
        self,
        progress: Progress,
        module: nn.Module,
        optimizer: Adam,
        generator: Generator | None,
    ) -> None:
        """Write the file anew; an older one stays until the new one is complete on disk.

        Of a training that has ended only what was kept is needed.
        """
        if not self.group.first:
            return
        begun = time.monotonic()
        records = [dataclasses.astuple(record)[:NUMBERS] for record in progress.history]
        tensors = {
            **{f"kept.{k}": v for k, v in progress.kept.items()},
            "kept_logits": progress.kept_logits,
            "held": progress.held,
            "half_losses": torch.tensor(progress.half_losses, dtype=torch.float64),
            "history": torch.tensor(records, dtype=torch.float64).view(len(records), -1),
            "decisions": torch.from_numpy(np.stack(progress.decisions)),
        }
        if not progress.ended:
            tensors |= {f"module.{k}": v for k, v in module.state_dict().items()}
            for i, held in optimizer.state.items():
                tensors |= {f"adam.{i}.{k}": v for k, v in held.items()}
            if generator is not None:
                tensors["generator"] = generator.get_state()
        about = {
            "key": self.key,
            "kept_epoch": progress.kept_epoch,
            "seconds": progress.seconds,
            "ended": progress.ended,
            "threads": torch.get_num_threads(),
        }

        def write() -> None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            part = self.path.with_suffix(".part")
            save_tensors(tensors, part, {"format": FORMAT, "about": json.dumps(about)})
            flush(part)
            os.replace(part, self.path)

        if progress.ended and progress.kept_logits.is_cuda:  # these tensors do not change any more
            self._writer.begin(write)
        else:
            write()
        self._last = time.monotonic()
        self._wait = self.every and max(self.every, 10 * (self._last - begun))

    def restore(
        self,
        module: nn.Module,
        optimizer: Adam,
        generator: Generator | None,
    ) -> Progress:
        """Put a run back to where it was; a fresh start if there is no file.

        Raises:
            InputError: If the file is damaged or belongs to another run.
        """
        self._last = time.monotonic()
        found = self.group.shared(lambda: self._read() if self.path.exists() else None)
        if found is None:
            return Progress()
        about, tensors = found
        try:
            progress = _progress(about, tensors)
            _check_types(module, tensors)
            if progress.kept_epoch >= 0:
                module.load_state_dict(progress.kept)  # refuses other names and shapes
            device = next(module.parameters()).device
            progress.kept_logits = progress.kept_logits.to(device)
            progress.held = progress.held.to(device)
            progress.kept = {k: v.to(device) for k, v in progress.kept.items()}
            if not progress.ended:
                _restore_adam(optimizer, tensors)
                module.load_state_dict(_part(tensors, "module."))
            if not progress.ended and generator is not None:
                generator.set_state(tensors["generator"])
        except (LookupError, ArithmeticError, ValueError, TypeError, RuntimeError) as error:
            raise InputError(f"{self.path}: damaged ({error}); {_REMEDY}") from error
        return progress

    def _read(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
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


def threads_before(folder: Path) -> int | None:
    """How many threads the run in a folder of checkpoints used; ``None`` if none records it."""
    for path in sorted(folder.glob("*.safetensors")):
        with suppress(LookupError, OSError, RecursionError, SafetensorError, TypeError, ValueError):
            with safe_open(readable_file(path), framework="pt") as file:
                number = json.loads((file.metadata() or {}).get("about", "{}"))["threads"]
            if isinstance(number, int) and 0 < number <= (os.cpu_count() or 1):
                return number
    return None


_REMEDY = "delete it and start anew without resuming"


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}


def _progress(about: dict[str, Any], tensors: dict[str, Tensor]) -> Progress:
    rows, decisions = tensors["history"], tensors["decisions"]
    wanted = (rows.shape[0], NUMBERS)
    _require(rows.dtype == torch.float64 and rows.shape == wanted, "history")
    epochs = torch.arange(rows.shape[0], dtype=torch.float64)
    _require(torch.equal(rows[:, 0], epochs), "history: numbers of the epochs")
    _require(decisions.ndim == 2 and decisions.shape[0] == rows.shape[0], "decisions")
    kept, seconds = about["kept_epoch"], about["seconds"]
    _require(type(kept) is int and -1 <= kept < rows.shape[0], "kept_epoch")
    _require(isinstance(seconds, int | float) and 0 <= seconds < 1e300, "seconds")
    _require(isinstance(about["ended"], bool), "ended")
    _check_figures(rows, kept)
    logits, held = tensors["kept_logits"], tensors["held"]
    _require(kept < 0 or (logits.ndim == 2 and logits.dtype == torch.float32), "kept_logits")
    like = (held.shape[1:], held.dtype) == (logits.shape[1:], logits.dtype)
    _require(kept < 0 or like, "held")
    _require(decisions.dtype in (torch.int16, torch.float32), "decisions")
    halves = tensors["half_losses"]
    _require(halves.dtype == torch.float64 and halves.shape == (2,), "half_losses")
    history = [EpochRecord(int(row[0]), *row[1:]) for row in rows.tolist()]
    return Progress(
        history=history,
        decisions=list(decisions.numpy()),
        kept=_part(tensors, "kept."),
        kept_logits=tensors["kept_logits"],
        kept_epoch=kept,
        held=tensors["held"],
        half_losses=halves.tolist(),
        seconds=float(seconds),
        ended=about["ended"],
    )


def _check_figures(rows: Tensor, kept: int) -> None:
    """Scores are percentages or undefined, losses are of single precision or none."""
    losses, scores = rows[:, [1, 2, 4]], rows[:, [3, 5]]  # the fields of `EpochRecord`
    share = (scores >= 0) & (scores <= 100 + 1e-6)
    _require(bool((scores.isnan() | share).all()), "history: scores")
    single = losses.abs() <= torch.finfo(torch.float32).max
    _require(bool((~losses.isfinite() | single).all()), "history: losses")
    _require(kept < 0 or bool(losses[kept].isfinite().all()), "history: losses of kept_epoch")


def _check_types(module: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Refuse weights of other types, and kept values that are not finite."""
    wanted = {name: value.dtype for name, value in module.state_dict().items()}
    for name, value in tensors.items():
        part, _, own = name.partition(".")
        if part in ("kept", "module"):
            _require(value.dtype == wanted.get(own, value.dtype), name)
        _require(part not in ("kept", "kept_logits") or bool(value.isfinite().all()), name)


def _restore_adam(optimizer: Adam, tensors: dict[str, Tensor]) -> None:
    """Restore the moments, if they have the parameters' shapes and types.

    A fused optimiser works on raw memory, so that wrong ones would crash the process.
    """
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in _part(tensors, "adam.").items():
        number, _, name = key.partition(".")
        state.setdefault(int(number), {})[name] = value
    parameters = optimizer.parameters
    for i, entry in state.items():
        _require(0 <= i < len(parameters) and entry.keys() == set(MOMENTS), f"adam.{i}")
        for name in ("exp_avg", "exp_avg_sq"):
            same = entry[name].shape == parameters[i].shape
            _require(same and entry[name].dtype == parameters[i].dtype, f"adam.{i}.{name}")
        step = entry["step"]
        _require(step.numel() == 1 and step.dtype == torch.float32, f"adam.{i}.step")
        _require(0 <= float(step) < 2**53, f"adam.{i}.step")
    optimizer.restore(state)


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(f"{what}: not as it was written")
