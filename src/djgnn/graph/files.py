"""Files on disk: one check of what is read, YAML configurations, and writes that are atomic."""

import hashlib
import os
import secrets
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from djgnn.background import in_thread
from djgnn.errors import InputError

Built = TypeVar("Built")

LARGEST_CONFIGURATION = 2**16
WORTH_AHEAD = HASHED_AT_ONCE = 2**24
"""Bytes from which on a file is hashed ahead of time, and bytes that are hashed at a time."""


def readable_file(path: str | Path) -> Path:
    """The path of an existing, readable, ordinary file.

    Args:
        path: What the user gave; ``~`` stands for the home folder.

    Raises:
        InputError: If it is missing, a folder, a device or a pipe, or not readable.

    Example:
        >>> readable_file("no/such.csv")
        Traceback (most recent call last):
        djgnn.errors.InputError: no/such.csv: no such file; check the path (got 'no/such.csv')
    """
    file = Path(path).expanduser()
    if os.path.isfile(file) and os.access(file, os.R_OK):
        return file
    if os.path.isdir(file):
        problem = "is a folder; give the path of a file"
    elif os.path.isfile(file):
        problem = "cannot be read; check its permissions"
    elif os.path.exists(file):
        problem = "is not an ordinary file but a device or a pipe; copy what it gives to a file"
    else:
        problem = "no such file; check the path"
    raise InputError(f"{file}: {problem} (got {str(path)!r})")


def read_limited(path: str | Path, limit: int) -> bytes:
    """The content of an ordinary file that has at most `limit` bytes.

    Args:
        path: The file, as for :func:`readable_file`.
        limit: Most bytes to take.

    Raises:
        InputError: If it is missing, a folder, a device or a pipe, not readable, or larger.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp(), "a.txt")
        >>> _ = file.write_bytes(b"abc")
        >>> read_limited(file, 3)
        b'abc'
    """
    file = readable_file(path)
    size = file.stat().st_size
    if size > limit:
        raise InputError(
            f"{file}: is too large, at most {limit} bytes are expected here; check the path "
            f"(got {size} bytes)"
        )
    return file.read_bytes()


def read_configuration(path: str | Path, build: Callable[[dict[str, Any]], Built]) -> Built:
    """Read a YAML file of named sections and build a configuration from it.

    The safe loader refuses tags that name Python objects. Aliases are refused as well: a few lines
    of them can stand for more values than fit into memory.

    Args:
        path: The file, at most 64 KiB.
        build: Makes the configuration, or raises what is wrong with the values.

    Raises:
        InputError: If it is not readable, not plain YAML, or not a configuration.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp(), "c.yaml")
        >>> _ = file.write_text("model: {num_jumps: 5}")
        >>> read_configuration(file, dict)
        {'model': {'num_jumps': 5}}
    """
    import yaml

    content = read_limited(path, LARGEST_CONFIGURATION)
    try:
        text = content.decode("utf-8")
        for event in yaml.parse(text, yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent):
                mark: Any = event.start_mark
                raise yaml.MarkedYAMLError(problem="an alias", problem_mark=mark)
        values = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, TypeError, OverflowError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f"line {mark.line + 1}: " if mark is not None else ""
        what = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise InputError(
            f"{path}: {line}is not plain YAML; write KEY: VALUE lines in UTF-8, without tags or "
            f"aliases (got {what})"
        ) from error
    if not isinstance(values, dict) or not all(isinstance(key, str) for key in values):
        raise InputError(
            f"{path}: must hold named sections such as 'model:' and 'training:' "
            f"(got {type(values).__name__})"
        )
    try:
        return build(values)
    except (ArithmeticError, TypeError, ValueError) as error:
        raise InputError(
            f"{path}: is not a usable configuration; compare with the config.yaml of a run "
            f"(got {str(error)[:300]})"
        ) from error


def check_replaceable(path: str | Path, marks: Sequence[bytes], what: str) -> None:
    """Refuse to replace a file that is not an earlier one of the same kind.

    Args:
        path: Where a file will be written.
        marks: Any of these is near the beginning of a file of the kind.
        what: The kind, for the message.

    Raises:
        InputError: If something else is there, or a folder, a device or a pipe.
    """
    file = _writable(path)
    if not file.is_file() or file.stat().st_size == 0:
        return
    with readable_file(file).open("rb") as stream:
        start = stream.read(4096)
    if not any(mark in start for mark in marks):
        raise InputError(
            f"{file}: exists already and is not a {what}, so it is not replaced; name another file"
        )


def file_hash(path: str | Path) -> str:
    """The SHA-256 of what is in a file."""
    found = hashlib.sha256()
    with Path(path).open("rb") as stream:
        # Large parts: between two of them a thread waits for others that run Python.
        buffer = memoryview(
            bytearray(max(1, min(HASHED_AT_ONCE, os.fstat(stream.fileno()).st_size)))
        )
        while count := stream.readinto(buffer):
            found.update(buffer[:count])
    return found.hexdigest()


def hash_ahead(folder: str | Path) -> Callable[[], dict[str, str]]:
    """Begin to hash the large files of a folder in threads; whoever ends before does not wait.

    Returns:
        What gives the hashes by name; what is no ordinary file or cannot be read is left out.
    """
    begun: dict[str, Callable[[], str]] = {}
    with suppress(OSError), os.scandir(Path(folder).expanduser()) as entries:
        ordinary = [entry for entry in entries if entry.is_file(follow_symlinks=False)]
        large = [entry for entry in ordinary if entry.stat().st_size >= WORTH_AHEAD]
        begun = {entry.name: in_thread(partial(file_hash, entry.path)) for entry in large}

    def found() -> dict[str, str]:
        hashes = {}
        for name, wait in begun.items():
            with suppress(OSError):
                hashes[name] = wait()
        return hashes

    return found


def _writable(path: str | Path) -> Path:
    """The path of a file that may be made or replaced."""
    file = Path(path).expanduser()
    if file.is_dir():
        raise InputError(f"{file}: is a folder; give the path of a file (got {str(path)!r})")
    if file.exists() and not file.is_file():
        raise InputError(
            f"{file}: is not an ordinary file but a device or a pipe, so it is not replaced; name "
            f"another file (got {str(path)!r})"
        )
    return file


def flush(path: str | Path) -> None:
    """Have a file or folder on the disk, so that it survives a crash of the machine."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def atomic_write(path: str | Path) -> Iterator[BinaryIO]:
    """Open a file for writing that appears under its name only once it is complete.

    The bytes go to a temporary file in the same folder, are flushed to disk and then renamed, so a
    reader sees the old file or the new one, and a failure leaves nothing behind.

    Args:
        path: Where the file will be.

    Raises:
        InputError: If the folder is missing or not writable, or `path` is a folder, a device or a
            pipe.

    Example:
        >>> import tempfile
        >>> target = Path(tempfile.mkdtemp(), "a.txt")
        >>> with atomic_write(target) as stream:
        ...     _ = stream.write(b"whole")
        >>> target.read_bytes(), len(list(target.parent.iterdir()))
        (b'whole', 1)
    """
    file = _writable(path)
    temporary = file.with_name(f".{file.name[:100]}.{secrets.token_hex(6)}.tmp")
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    except OSError as error:
        raise InputError(
            f"{file}: cannot be written; make the folder {file.parent} and allow writing there "
            f"(got {error.strerror or error})"
        ) from error
    try:
        with os.fdopen(handle, "wb") as stream:
            with suppress(OSError):  # the new file keeps the permissions of the old one
                os.chmod(temporary, stat.S_IMODE(file.stat().st_mode))
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, file)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
