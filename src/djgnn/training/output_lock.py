"""Reserve the output folder of a run: lock it, test that it can be written, remove leftovers."""

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from scipy.sparse import issparse
from torch import nn

from djgnn.errors import InputError, OutputError
from djgnn.graph import Graph
from djgnn.graph.files import read_limited
from djgnn.training.card import CARD_BYTES, READ, REPORT, RESULT

TRIED = 2**16
"""Bytes that are written to see whether writing works."""
PAGE_BYTES, CHECKPOINT_COPIES = 2**23, 5
"""A usual page; weights, those of the best epoch, two moments, and the weights of the run."""


@contextmanager
def claimed(path: str | Path) -> Iterator[None]:
    """Lock the folder of a run: no other process on this machine can write it meanwhile.

    What a process that was killed left half-written beside it is removed; an older run that was
    being replaced is restored. The lock is a hidden file beside the folder; the operating system
    releases it when the process ends, however that happens.

    Args:
        path: Where the run will be.

    Raises:
        InputError: If another process holds it, or it cannot be replaced by a folder.
        OutputError: If it cannot be written.
    """
    target = Path(os.path.realpath(Path(path).expanduser()))
    if os.path.ismount(target):
        raise InputError(f"{path}: is the mount point of a disk; name a folder inside it")
    made = [place for place in target.parents if not place.exists()]
    lock = target.with_name(f".{target.name}.lock")
    try:
        handle = _locked(lock, target, path)
        try:
            yield
        finally:
            with suppress(OSError):
                lock.unlink()
            os.close(handle)
    finally:
        for place in made:
            with suppress(OSError):  # something is in it now
                place.rmdir()


def needed_bytes(graph: Graph, module: nn.Module) -> int:
    """About what a run and its checkpoints take on the disk."""
    x: Any = graph.x
    arrays = (graph.edge_index, graph.edge_weight, x.data if issparse(x) else x, graph.y)
    stored = sum(0 if array is None else int(array.nbytes) for array in arrays)
    weights = sum(int(value.nbytes) for value in module.state_dict().values())
    table = graph.num_nodes * (80 + 10 * graph.num_classes)
    return PAGE_BYTES + stored + table + CHECKPOINT_COPIES * weights


def check_space(path: str | Path, needed: int) -> None:
    """Refuse a place where a run will not fit.

    Args:
        path: Where the run will be; the folder above it exists.
        needed: Bytes.

    Raises:
        OutputError: If the disk has less.
    """
    target = Path(os.path.realpath(Path(path).expanduser()))
    free = shutil.disk_usage(target.parent).free
    if free < needed:
        raise OutputError(
            f"{path}: a run of about {needed / 2**20:,.0f} MiB does not fit on this disk; free "
            f"space there, or name another folder (got {free / 2**20:,.0f} MiB)"
        )


def _locked(lock: Path, target: Path, path: str | Path) -> int:
    """The open lock file, once the folder was tested for writing and leftovers were removed."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle = _open(lock)
        try:
            os.pwrite(handle, bytes(TRIED), 0)
            os.ftruncate(handle, 0)
            _tidy(target)
        except BaseException:
            os.close(handle)
            raise
        return handle
    except BlockingIOError as error:
        raise InputError(
            f"{path}: another `djgnn fit` is writing there; wait for it, or name another folder"
        ) from error
    except (FileExistsError, NotADirectoryError) as error:
        raise InputError(
            f"{path}: cannot be written, a folder above it is a file; name another folder"
        ) from error
    except OSError as error:
        raise OutputError(
            f"{path}: cannot be written; name another folder, or allow writing in {target.parent} "
            f"(got {error.strerror or error})"
        ) from error


def _open(lock: Path) -> int:
    """An open file that is locked, and is still the one of this name.

    Raises:
        BlockingIOError: If another process has locked it.
    """
    while True:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
        try:
            if sys.platform != "win32":
                import fcntl

                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(handle), lock.stat()):
                    return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # its owner has just removed it


def retire(old: Path, target: Path) -> None:
    """Remove a run, or half of one, that another replaced.

    What the run did not write was put there by its user, and moves to the new one.
    """
    try:
        card = json.loads(read_limited(old / RESULT, CARD_BYTES))
        files = card.get("files")
        own = {*READ, RESULT, REPORT, *(files if isinstance(files, dict) else ())}
        for place in list(old.iterdir()):
            if place.name not in own and not os.path.lexists(target / place.name):
                os.replace(place, target / place.name)
    except (AttributeError, RecursionError, ValueError):
        pass  # never a complete run
    except OSError:
        return  # what cannot be moved is not removed either
    shutil.rmtree(old, ignore_errors=True)


def _tidy(target: Path) -> None:
    """Remove what a killed process left; restore an older run that it had moved away."""
    left = re.compile(re.escape(f".{target.name}.") + r"[0-9a-f]{8}\.(part|old)")
    for place in list(target.parent.iterdir()):
        found = left.fullmatch(place.name)
        if found and found[1] == "old" and not target.exists():
            os.replace(place, target)
        elif found:
            retire(place, target)
    for place in list(target.iterdir()) if target.is_dir() else ():
        if re.fullmatch(rf"\.({RESULT}|{REPORT})\.[0-9a-f]{{12}}\.tmp", place.name):
            place.unlink()
