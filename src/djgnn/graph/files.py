"""Files on disk: one way to check what is read, one way to write so that no half file is seen."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from djgnn.errors import InputError


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
    with open_ordinary(path) as stream:
        stream.read(1)
    return Path(path).expanduser()


def read_limited(path: str | Path, limit: int) -> bytes:
    """The content of an ordinary file that has at most `limit` bytes.

    No more than one byte beyond the limit is ever read, whatever the size the file claims.

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
    with open_ordinary(path) as stream:
        size = os.fstat(stream.fileno()).st_size
        content = stream.read(min(size, limit) + 1)
        if size < len(content) <= limit:  # it has grown, or does not tell its size
            content += stream.read(limit + 1 - len(content))
    if len(content) > limit:
        raise InputError(
            f"{Path(path).expanduser()}: is too large, at most {limit} bytes are expected here; "
            f"check the path (got {max(size, len(content))} bytes)"
        )
    return content


@contextmanager
def open_ordinary(path: str | Path) -> Iterator[BinaryIO]:
    """Open an ordinary file for reading, never a device or a pipe, nor a link to one.

    Args:
        path: The file, as for :func:`readable_file`.

    Raises:
        InputError: As :func:`readable_file`, also for what fails while the file is open.
    """
    if "\0" in str(path) or not str(path):
        raise InputError(f"path: is not a file name; give the path of a file (got {str(path)!r})")
    file = Path(path).expanduser()
    try:
        with open(file, "rb", opener=_without_waiting) as stream:
            mode = os.fstat(stream.fileno()).st_mode
            if not stat.S_ISREG(mode):
                raise InputError(
                    f"{file}: is not an ordinary file but a device or a pipe; copy what it gives "
                    f"to a file first (got {stat.filemode(mode)})"
                )
            yield stream
    except FileNotFoundError:
        raise InputError(f"{file}: no such file; check the path (got {str(path)!r})") from None
    except OSError as error:
        if os.path.isdir(file):
            raise InputError(
                f"{file}: is a folder; give the path of a file (got {str(path)!r})"
            ) from None
        raise InputError(
            f"{file}: cannot be read; check its permissions (got {error.strerror or error})"
        ) from error


def _without_waiting(file: str, flags: int) -> int:
    """Open at once: a pipe would wait for a writer, a terminal could take over the process."""
    return os.open(file, flags | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0))


def check_replaceable(path: str | Path, marks: Sequence[bytes], what: str) -> None:
    """Refuse to replace a file that is not an earlier one of the same kind.

    Args:
        path: Where a file will be written.
        marks: Any of these is near the beginning of a file of the kind.
        what: The kind, for the message.

    Raises:
        InputError: If something else is there.
    """
    file = Path(path).expanduser()
    if not file.is_file() or file.stat().st_size == 0:
        return
    with open_ordinary(file) as stream:
        start = stream.read(4096)
    if not any(mark in start for mark in marks):
        raise InputError(
            f"{file}: exists already and is no {what}, so it is not replaced; name another file"
        )


@contextmanager
def atomic_write(path: str | Path) -> Iterator[BinaryIO]:
    """Open a file for writing that appears under its name only once it is complete.

    The bytes go to a temporary file in the same folder, are flushed to disk and then renamed, so a
    reader sees the old file or the new one, and a failure leaves nothing behind.

    Args:
        path: Where the file will be.

    Raises:
        InputError: If the folder is missing or not writable, or `path` is a folder.

    Example:
        >>> import tempfile
        >>> target = Path(tempfile.mkdtemp(), "a.txt")
        >>> with atomic_write(target) as stream:
        ...     _ = stream.write(b"whole")
        >>> target.read_bytes(), len(list(target.parent.iterdir()))
        (b'whole', 1)
    """
    file = Path(path).expanduser()
    if file.is_dir():
        raise InputError(f"{file}: is a folder; give the path of a file (got {str(path)!r})")
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
            with suppress(OSError):  # who could not read the old file shall not read the new one
                os.chmod(temporary, stat.S_IMODE(file.stat().st_mode))
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, file)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
