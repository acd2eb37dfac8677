"""One graph in one ``.npz`` file: the layout every data set of this package is stored in.

| key | type | meaning |
| --- | --- | --- |
| ``edge_index`` | int ``[2, E]`` | sources above targets |
| ``x`` or ``x_data x_indices x_indptr x_shape`` | float ``[n, F]`` | features, dense or CSR parts |
| ``y`` | int ``[n]`` | class, -1 = unknown |
| ``train_mask val_mask test_mask`` | bool ``[n]`` or ``[n, splits]`` | one column per split |
| ``edge_weight`` | float ``[E]`` | optional |
| ``node_names``, ``class_names`` | unicode | optional |
| ``num_nodes`` | int | only needed without features, labels and names |
| ``card`` | unicode, JSON | optional facts about the data set |

Nothing is unpickled, and sizes are checked in the headers before memory is taken.
"""

import io
import json
import math
import zipfile
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Lock
from typing import IO, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from djgnn.errors import InputError
from djgnn.graph.checks import MASKS
from djgnn.graph.files import atomic_write, readable_file
from djgnn.graph.graph import Graph

RUN_FILE = "graph.npz"
"""The graph in the folder of a run."""
MAX_BYTES = 8 * 2**30
NODE_BYTES = 80
NAME_BYTES = 64
HEADER_BYTES = 2**14
LARGE, SAMPLE = 2**26, 2**20
THREADS, CHUNK = 4, 2**18
"""Arrays that are read at the same time, and bytes at a time."""
_parsing = Lock()
"""Python 3.11 cannot parse in several threads."""
CSR_PARTS = ("x_data", "x_indices", "x_indptr", "x_shape")
NUMBERS = ("edge_index", "y", *MASKS, "edge_weight")
TYPES = {
    "node_names": (1, "U", "a list of unicode strings"),
    "class_names": (1, "U", "a list of unicode strings"),
    "num_nodes": (0, "iu", "one whole number"),
    "card": (0, "U", "one JSON object as text"),
}
KEYS = (*NUMBERS, "x", *CSR_PARTS, *TYPES)
HELD_BYTES = {"edge_index": 8, "y": 8, "x": 4, "x_data": 4, "edge_weight": 4}


def read_npz(path: str | Path, *, max_bytes: int = MAX_BYTES) -> Graph:
    """Read a graph from a file of the layout above. Unknown keys are left alone.

    Args:
        path: The file.
        max_bytes: Refuse a file whose arrays would take more memory than this (8 GiB), in the
            types they are held in; or whose number of nodes would, if most nodes have no entry.

    Returns:
        The graph; its name is the file's name without ``.npz``.

    Raises:
        InputError: With the file, the key and the remedy: not a file, not a zip, damaged, a missing
            key, an object array, wrong shapes, more than `max_bytes`.

    Example:
        >>> import tempfile
        >>> g = Graph(np.array([[0, 1], [1, 2]]), num_nodes=3, y=np.array([0, 1, -1]))
        >>> file = Path(tempfile.mkdtemp(), "path.npz")
        >>> write_npz(g, file)
        >>> read_npz(file).content_hash == g.content_hash
        True
    """
    file = Path(path).expanduser()
    arrays = read_arrays(path, KEYS, max_bytes)
    try:
        return Graph(name=file.stem, **_fields(arrays, max_bytes))
    except InputError as error:
        raise InputError(f"{file}: {error}") from error


def write_npz(graph: Graph, path: str | Path) -> None:
    """Write a graph so that :func:`read_npz` gives it back with the same content hash.

    The file appears under its name only when it is complete. The name of the graph is the name of
    the file and is not stored.

    Args:
        graph: What to write.
        path: Where; the name is used as it is.

    Raises:
        InputError: If the place cannot be written, or a name ends in a NUL character.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> graph = Graph([[0, 1], [1, 2]], 3)
        >>> with TemporaryDirectory() as folder:
        ...     write_npz(graph, f"{folder}/path.npz")
        ...     read_npz(f"{folder}/path.npz").content_hash == graph.content_hash
        True
    """
    arrays: dict[str, Any] = {"edge_index": graph.edge_index.astype(np.int32)}
    if isinstance(graph.x, sp.csr_array):
        parts = (graph.x.data, graph.x.indices, graph.x.indptr, np.array(graph.x.shape))
        arrays |= dict(zip(CSR_PARTS, parts, strict=True))
    elif graph.x is not None:
        arrays["x"] = graph.x
    for key in ("y", *MASKS, "edge_weight"):
        if getattr(graph, key) is not None:
            arrays[key] = getattr(graph, key)
    for key in ("node_names", "class_names"):
        names = getattr(graph, key)
        if names is not None and any(name.endswith("\0") for name in names):
            raise InputError(f"{key}: a name must not end in a NUL character; rename it")
        if names is not None:
            arrays[key] = np.array(names, dtype=np.str_)
    if graph.x is None and graph.y is None:
        arrays["num_nodes"] = np.int64(graph.num_nodes)
    if graph.card:
        arrays["card"] = np.array(json.dumps(dict(graph.card), default=str, sort_keys=True))
    size = sum(np.asarray(array).nbytes for array in arrays.values())
    with atomic_write(path) as stream:
        if size <= LARGE:
            np.savez_compressed(stream, **arrays)
        else:
            _save_quickly(stream, arrays)


def _save_quickly(stream: Any, arrays: dict[str, Any]) -> None:
    """As `numpy.savez_compressed`, at the lowest level: the usual one takes several times as long
    and gains little. Arrays that hardly shrink are stored as they are."""
    with zipfile.ZipFile(stream, "w", compresslevel=1) as archive:
        for name, given in arrays.items():
            array = np.asanyarray(given)
            begin = np.ravel(array)[: SAMPLE // max(1, array.itemsize)].tobytes()
            smaller = len(zlib.compress(begin, 1)) < 0.8 * len(begin)
            archive.compression = zipfile.ZIP_DEFLATED if smaller else zipfile.ZIP_STORED
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def read_arrays(path: str | Path, keys: Sequence[str], max_bytes: int) -> dict[str, NDArray[Any]]:
    """Those of the arrays `keys` that an ``.npz`` file has.

    Raises:
        InputError: With the file and the key: not a file, not a zip, damaged, of objects, or
            together more than `max_bytes`.
    """
    file = readable_file(path)
    problem = "is not a readable .npz file"
    arrays: dict[str, NDArray[Any]] = {}
    try:
        with zipfile.ZipFile(file) as archive:
            members = {info.filename: info for info in archive.infolist()}
            wanted = {key: members[f"{key}.npy"] for key in keys if f"{key}.npy" in members}
            total = 0
            for key, member in wanted.items():
                problem = f"key {key!r} cannot be read, the file is damaged or cut off"
                total += max(member.file_size, _held_bytes(archive, member, key))
            if total > max_bytes:
                raise InputError(
                    f"would take {total / 2**30:.3g} GiB of memory, more than the limit of "
                    f"{max_bytes / 2**30:.3g} GiB; raise `max_bytes` if you trust the file "
                    f"(got {total} bytes)"
                )
            with ExitStack() as opened, ThreadPoolExecutor(THREADS) as pool:
                streams = {}
                for key, member in wanted.items():
                    problem = f"key {key!r} cannot be read, the file is damaged or cut off"
                    # All before the first thread: zipfile finds the beginning of a member by steps
                    # relative to a position that whoever reads moves, too.
                    streams[key] = opened.enter_context(archive.open(member))
                found = {key: pool.submit(_array, stream) for key, stream in streams.items()}
                for key, array in found.items():
                    problem = f"key {key!r} cannot be read, the file is damaged or cut off"
                    arrays[key] = array.result()
    except InputError as error:
        raise InputError(f"{file}: {error}") from None
    except Exception as error:  # zipfile, the decompressors and numpy raise many kinds
        raise InputError(
            f"{file}: {problem}; write it with `numpy.savez_compressed` or `write_npz`, or copy it "
            f"again if it was cut off (got {type(error).__name__}: "
            f"{' '.join(str(error).split())[:150]})"
        ) from error
    return arrays


def _array(stream: IO[bytes]) -> NDArray[Any]:
    """An array from where it begins, read-only."""
    shape, fortran, dtype = _header(stream)
    flat = np.empty(math.prod(shape), dtype)
    room = flat.view(np.uint8).data if dtype.itemsize else memoryview(b"")
    for first in range(0, len(room), CHUNK):
        part = stream.read(min(CHUNK, len(room) - first))
        room[first : first + CHUNK] = part  # too few are refused
    flat.flags.writeable = False
    return flat.reshape(shape, order="F" if fortran else "C")


def _header(stream: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether columns come first, and type of an array, from where it begins."""
    version = np.lib.format.read_magic(stream)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"npy version {version}")
    first = version == (1, 0)
    header = np.lib.format.read_array_header_1_0 if first else np.lib.format.read_array_header_2_0
    with _parsing:
        found: tuple[tuple[int, ...], bool, np.dtype[Any]] = header(stream)
    return found


def _held_bytes(archive: zipfile.ZipFile, member: zipfile.ZipInfo, key: str) -> int:
    """The bytes that an array will take, by its header alone."""
    with archive.open(member) as stream:
        shape, _, dtype = _header(io.BytesIO(stream.read(HEADER_BYTES)))
    if dtype.hasobject:
        raise InputError(
            f"key {key!r} holds Python objects, which are never unpickled; store numbers or "
            f"unicode text (got dtype {dtype})"
        )
    count = math.prod(shape)
    if min(shape, default=0) < 0 or count * max(dtype.itemsize, 1) > member.file_size:
        raise InputError(
            f"key {key!r} claims more entries than it has bytes; the file is damaged, write it "
            f"again (got {dtype.str} {list(shape)}, {member.file_size} bytes)"
        )
    if key in ("node_names", "class_names"):
        return count * (dtype.itemsize + NAME_BYTES)
    return count * max(dtype.itemsize, HELD_BYTES.get(key, 0))


def _fields(arrays: dict[str, NDArray[Any]], max_bytes: int) -> dict[str, Any]:
    """The fields of `Graph` from the arrays of a file."""
    given = ", ".join(arrays) or "no key"
    if "edge_index" not in arrays:
        raise InputError(
            "key 'edge_index' is missing; see the layout at the top of `djgnn.graph.npz` "
            f"(got {given})"
        )
    fields: dict[str, Any] = {key: arrays[key] for key in NUMBERS if key in arrays}
    fields["x"] = x = _features(arrays)
    for key, (dimensions, kinds, what) in TYPES.items():
        if key in arrays:
            fields[key] = _values(key, arrays[key], dimensions, kinds, what)
    shapes = [np.shape(fields[key]) for key in ("y", "x", "node_names") if key in fields]
    if "num_nodes" not in fields:
        if not any(shapes):
            raise InputError(
                f"the number of nodes is unknown; add the key 'num_nodes', 'y' or 'x' (got {given})"
            )
        fields["num_nodes"] = next(shape[0] for shape in shapes if shape)
    # A number alone must not take memory: nodes and columns without entries are counted in bytes.
    per_node = ("edge_index", "y", "x", "x_indptr", "node_names", *MASKS)
    entries = max(arrays[key].size for key in per_node if key in arrays)
    columns, filled = (x.shape[1], x.nnz) if sp.issparse(x) else (0, 0)
    sizes = (("nodes", fields["num_nodes"], entries), ("feature columns", columns, filled))
    for what, size, there in sizes:
        if size > there and size * NODE_BYTES > max_bytes:
            raise InputError(
                f"{size} {what} would take {size * NODE_BYTES / 2**30:.3g} GiB of memory, more "
                f"than the limit of {max_bytes / 2**30:.3g} GiB, and most are empty; number the "
                f"{what} without gaps, or raise `max_bytes` if you trust the file (got {there} "
                "entries)"
            )
    return fields


def _features(arrays: dict[str, NDArray[Any]]) -> Any:
    """The matrix ``x``, or the one whose CSR parts are there."""
    present = [key for key in ("x", *CSR_PARTS) if key in arrays]
    if present in ([], ["x"]):
        return arrays.get("x")
    try:
        data, indices, indptr, shape = (arrays[key] for key in CSR_PARTS)
        if "x" in arrays or any(part.dtype.kind not in "iu" for part in (indices, indptr, shape)):
            raise TypeError("x beside them, or places that are not whole numbers")
        rows, columns = shape.tolist()
        matrix = sp.csr_array((data, indices, indptr), shape=(rows, columns))
        matrix.check_format(full_check=True)
    except (ValueError, TypeError, LookupError, OverflowError) as error:
        raise InputError(
            f"keys {', '.join(present)} are not the parts of a CSR matrix; store 'x' alone, or all "
            f"of {', '.join(CSR_PARTS)} (got {type(error).__name__}: "
            f"{' '.join(str(error).split())[:150]})"
        ) from error
    return matrix


def _values(key: str, array: NDArray[Any], dimensions: int, kinds: str, what: str) -> Any:
    """Names, the number of nodes, or the card, as Python's values."""
    if array.dtype.kind in kinds and array.ndim == dimensions:
        with suppress(ValueError, SystemError, RecursionError):  # not a character, not JSON
            value = array.tolist()
            if key != "card":
                return value
            card = json.loads(value)
            json.dumps(card, ensure_ascii=False).encode()  # half a surrogate pair is refused
            if isinstance(card, dict):
                return card
    raise InputError(
        f"key {key!r} must be {what}; leave it out or write it again "
        f"(got {array.dtype} {list(array.shape)})"
    )
