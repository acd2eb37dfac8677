"""Files on disk: one way to check what is read, one way to write so that no half file is seen."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from djgnn.errors import InputError


def readable_file(path: str | Path) -> Path:
    """The path of an existing, readable, ordinary file.

    Args:
        path: What the user gave; ``~`` stands for the home folder.

    Raises:
        InputError: If it is missing, a folder, or not readable.

    Example:
        >>> readable_file("no/such.csv")
        Traceback (most recent call last):
        djgnn.errors.InputError: no/such.csv: no such file; check the path (got 'no/such.csv')
    """
    if "\0" in str(path) or not str(path):
        raise InputError(f"path: is not a file name; give the path of a file (got {str(path)!r})")
    file = Path(path).expanduser()
    try:
        if file.is_dir():
            raise InputError(f"{file}: is a folder; give the path of a file (got {str(path)!r})")
        with file.open("rb") as stream:
            stream.read(1)
    except FileNotFoundError:
        raise InputError(f"{file}: no such file; check the path (got {str(path)!r})") from None
    except OSError as error:
        raise InputError(
            f"{file}: cannot be read; check its permissions (got {error.strerror or error})"
        ) from error
    return file


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
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, file)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
