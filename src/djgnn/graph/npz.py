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

from __future__ import annotations

import io
import json
import math
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from djgnn.errors import InputError
from djgnn.graph.checks import MASKS
from djgnn.graph.files import atomic_write, readable_file
from djgnn.graph.graph import Graph

MAX_BYTES = 8 * 2**30
NODE_BYTES = 80
NAME_BYTES = 64
HEADER_BYTES = 2**14
CSR_PARTS = ("x_data", "x_indices", "x_indptr", "x_shape")
NUMBERS = ("edge_index", "y", *MASKS, "edge_weight")
KEYS = (*NUMBERS, "x", *CSR_PARTS, "node_names", "class_names", "num_nodes", "card")
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
    """
    small = graph.num_nodes <= np.iinfo(np.int32).max
    arrays: dict[str, Any] = {
        "edge_index": graph.edge_index.astype(np.int32 if small else np.int64)
    }
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
    with atomic_write(path) as stream:
        np.savez_compressed(stream, **arrays)


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
            for key, member in wanted.items():
                problem = f"key {key!r} cannot be read, the file is damaged or cut off"
                with archive.open(member) as stream:
                    arrays[key] = np.lib.format.read_array(stream, allow_pickle=False)
    except InputError as error:
        raise InputError(f"{file}: {error}") from None
    except Exception as error:  # zipfile, the decompressors and numpy raise many kinds
        raise InputError(
            f"{file}: {problem}; write it with `numpy.savez_compressed` or `write_npz`, or copy it "
            f"again if it was cut off (got {_reason(error)})"
        ) from error
    return arrays


def _held_bytes(archive: zipfile.ZipFile, member: zipfile.ZipInfo, key: str) -> int:
    """The bytes that an array will take, by its header alone."""
    with archive.open(member) as stream:
        start = io.BytesIO(stream.read(HEADER_BYTES))
    version = np.lib.format.read_magic(start)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"npy version {version}")
    first = version == (1, 0)
    header = np.lib.format.read_array_header_1_0 if first else np.lib.format.read_array_header_2_0
    shape, _, dtype = header(start)
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
    fields["x"] = _features(arrays)
    for key in ("node_names", "class_names"):
        if key in arrays:
            fields[key] = _strings(arrays[key], key)
    if "card" in arrays:
        fields["card"] = _card(arrays["card"])
    number = arrays.get("num_nodes")
    if number is not None and (number.shape != () or number.dtype.kind not in "iu"):
        raise InputError(
            f"key 'num_nodes' must be one whole number (got {number.dtype} {list(number.shape)})"
        )
    shapes = [np.shape(fields[key]) for key in ("y", "x", "node_names") if key in fields]
    if number is None and not any(shapes):
        raise InputError(
            f"the number of nodes is unknown; add the key 'num_nodes', 'y' or 'x' (got {given})"
        )
    n = int(next(shape[0] for shape in shapes if shape) if number is None else number)
    fields["num_nodes"] = n
    # A number alone must not take memory: nodes and columns without entries are counted in bytes.
    per_node = ("edge_index", "y", "x", "x_indptr", "node_names", *MASKS)
    entries = max(arrays[key].size for key in per_node if key in arrays)
    columns, filled = (
        (fields["x"].shape[1], fields["x"].nnz) if sp.issparse(fields["x"]) else (0, 0)
    )
    for what, size, there in (("nodes", n, entries), ("feature columns", columns, filled)):
        if size > there and size * NODE_BYTES > max_bytes:
            raise InputError(
                f"{size} {what} would take {size * NODE_BYTES / 2**30:.3g} GiB of memory, more "
                f"than the limit of {max_bytes / 2**30:.3g} GiB, and most are empty; number the "
                f"{what} without gaps, or raise `max_bytes` if you trust the file (got {there} "
                "entries)"
            )
    return fields


def _features(arrays: dict[str, NDArray[Any]]) -> Any:
    present = [key for key in CSR_PARTS if key in arrays]
    if not present:
        return arrays.get("x")
    if "x" in arrays or len(present) < len(CSR_PARTS):
        raise InputError(
            f"features must be 'x' alone or all of {', '.join(CSR_PARTS)} "
            f"(got {', '.join(['x'] * ('x' in arrays) + present)})"
        )
    data, indices, indptr, shape = (arrays[key] for key in CSR_PARTS)
    try:
        if any(part.dtype.kind not in "iu" for part in (indices, indptr, shape)):
            raise TypeError("x_indices, x_indptr and x_shape must be whole numbers")
        rows, columns = shape.tolist()
        matrix = sp.csr_array((data, indices, indptr), shape=(rows, columns))
        matrix.check_format(full_check=True)
    except (ValueError, TypeError, IndexError, OverflowError) as error:
        raise InputError(
            f"keys {', '.join(CSR_PARTS)} are not the parts of a CSR matrix; store `matrix.data, "
            f".indices, .indptr, .shape` of one matrix (got {_reason(error)})"
        ) from error
    return matrix


def _strings(array: NDArray[Any], key: str) -> list[str]:
    try:
        if array.dtype.kind == "U" and array.ndim == 1:
            return list(array.tolist())
        got = f"{array.dtype} {list(array.shape)}"
    except (ValueError, SystemError) as error:  # not a character
        got = _reason(error)
    raise InputError(f"key {key!r} must be a list of unicode strings; write it again (got {got})")


def _card(array: NDArray[Any]) -> dict[str, Any]:
    if array.dtype.kind == "U" and array.ndim == 0:
        with suppress(ValueError, SystemError, RecursionError):
            card = json.loads(array.item())
            json.dumps(card, ensure_ascii=False).encode()  # half a surrogate pair is refused
            if isinstance(card, dict):
                return card
    raise InputError(
        "key 'card' must be one JSON object as text; leave the key out or write it with "
        f"`json.dumps` (got {array.dtype} {list(array.shape)})"
    )


def _reason(error: BaseException) -> str:
    """The kind of an error and the first line of its message."""
    text = str(error).partition("\n")[0][:200]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
