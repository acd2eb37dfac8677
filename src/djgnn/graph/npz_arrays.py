"""The arrays of an ``.npz`` file: nothing is unpickled, sizes are known before anything is read."""

from __future__ import annotations

import io
import lzma
import math
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from djgnn.errors import InputError
from djgnn.graph.checks import MASKS
from djgnn.graph.files import open_ordinary

if TYPE_CHECKING:
    from numpy.typing import NDArray

CSR_PARTS = ("x_data", "x_indices", "x_indptr", "x_shape")
PLAIN = ("x", "y", *MASKS, "edge_weight", "node_names", "class_names", "num_nodes", "card")
HELD_BYTES = {"edge_index": 8, "y": 8, "x": 4, "x_data": 4, "edge_weight": 4}
NAME_BYTES = 64
HEADER_BYTES = 2**14
UNREADABLE = (
    OSError,
    ValueError,
    EOFError,
    RuntimeError,
    NotImplementedError,
    MemoryError,
    SystemError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
)


def read_arrays(path: str | Path, keys: Sequence[str], max_bytes: int) -> dict[str, NDArray[Any]]:
    """Those of the arrays `keys` that a file has.

    Raises:
        InputError: With the file and the key: not a file, not a zip, damaged, of objects, or
            together more than `max_bytes`.
    """
    file = Path(path).expanduser()
    try:
        with open_ordinary(path) as stream, zipfile.ZipFile(stream) as archive:
            return _read(file, archive, keys, max_bytes)
    except InputError:
        raise
    except UNREADABLE as error:
        raise InputError(
            f"{file}: is not a readable .npz file; write it with `numpy.savez_compressed` or "
            f"`write_npz`, or copy it again if it was cut off (got {reason(error)})"
        ) from error


def _read(
    file: Path, archive: zipfile.ZipFile, keys: Sequence[str], max_bytes: int
) -> dict[str, NDArray[Any]]:
    """One by one, after the sizes to be held were added up."""
    members = {info.filename: info for info in archive.infolist()}
    wanted = {key: members[f"{key}.npy"] for key in keys if f"{key}.npy" in members}
    total = 0
    for key, member in wanted.items():
        with _reading(file, key):
            total += max(member.file_size, _held(file, archive, member, key))
    if total > max_bytes:
        raise InputError(
            f"{file}: would take {total / 2**30:.3g} GiB of memory, more than the limit of "
            f"{max_bytes / 2**30:.3g} GiB; raise `max_bytes` if you trust the file (got {total})"
        )
    arrays: dict[str, NDArray[Any]] = {}
    for key, member in wanted.items():
        with _reading(file, key), archive.open(member) as stream:
            arrays[key] = np.lib.format.read_array(stream, allow_pickle=False)
    return arrays


@contextmanager
def _reading(file: Path, key: str) -> Iterator[None]:
    try:
        yield
    except InputError:
        raise
    except UNREADABLE as error:
        raise InputError(
            f"{file}: key {key!r} cannot be read; the file is damaged or cut off, copy or write "
            f"it again (got {reason(error)})"
        ) from error


def _held(file: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo, key: str) -> int:
    """The bytes an array will take, by its header alone.

    It must not be of objects, nor claim more entries than its bytes can hold.
    """
    with archive.open(member) as stream:
        start = io.BytesIO(stream.read(HEADER_BYTES))
    version = np.lib.format.read_magic(start)
    if version == (1, 0):
        shape, _, dtype = np.lib.format.read_array_header_1_0(start)
    elif version == (2, 0):
        shape, _, dtype = np.lib.format.read_array_header_2_0(start)
    else:
        raise ValueError(f"npy version {version}")
    if dtype.hasobject:
        raise InputError(
            f"{file}: key {key!r} holds Python objects, which are never unpickled; store numbers "
            f"or unicode text (got dtype {dtype})"
        )
    count = math.prod(shape)
    if min(shape, default=0) < 0 or (dtype.itemsize == 0 and count):
        raise InputError(
            f"{file}: key {key!r} claims entries that have no bytes; the file is damaged, write "
            f"it again (got dtype {dtype.str}, shape {list(shape)})"
        )
    claimed = count * dtype.itemsize
    if claimed > member.file_size:
        raise InputError(
            f"{file}: key {key!r} claims {claimed} bytes, the archive holds {member.file_size}; "
            f"the file is damaged, write it again (got shape {list(shape)})"
        )
    if key in ("node_names", "class_names"):
        return claimed + count * NAME_BYTES
    return count * max(dtype.itemsize, HELD_BYTES.get(key, 0))


def reason(error: BaseException) -> str:
    """The first line of what a reader said, with the kind of its error."""
    text = str(error).splitlines()[0][:200] if str(error) else ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
