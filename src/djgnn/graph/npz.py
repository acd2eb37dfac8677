"""One graph in one ``.npz`` file: the layout every data set of this package is stored in.

| key | type | meaning |
| --- | --- | --- |
| ``edge_index`` | int ``[2, E]`` | sources above targets |
| ``x`` or ``x_data x_indices x_indptr x_shape`` | float ``[n, F]`` | features, dense or CSR parts |
| ``y`` | int ``[n]`` | class, -1 = unknown |
| ``train_mask val_mask test_mask`` | bool ``[n]`` or ``[n, splits]`` | one column per split |
| ``edge_weight`` | float ``[E]`` | optional |
| ``node_names``, ``class_names`` | unicode | optional |
| ``num_nodes`` | int | only needed where neither features nor labels nor names tell |
| ``card`` | unicode, JSON | optional facts about the data set |

Nothing is ever unpickled, and sizes are checked in the headers before anything is inflated.
"""

from __future__ import annotations

import json
import lzma
import math
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from djgnn.errors import InputError
from djgnn.graph.checks import MASKS
from djgnn.graph.files import atomic_write, readable_file
from djgnn.graph.graph import Graph

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_BYTES = 8 * 2**30
CSR_PARTS = ("x_data", "x_indices", "x_indptr", "x_shape")
PLAIN = ("x", "y", *MASKS, "edge_weight", "node_names", "class_names", "num_nodes", "card")
LAYOUT = "see the layout at the top of `djgnn.graph.npz`"
UNREADABLE = (
    OSError,
    ValueError,
    EOFError,
    RuntimeError,
    NotImplementedError,
    MemoryError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
)


def read_npz(path: str | Path, *, max_bytes: int = MAX_BYTES) -> Graph:
    """Read a graph from a file of the layout above. Unknown keys are left alone.

    Args:
        path: The file.
        max_bytes: Refuse a file whose arrays would take more memory than this (8 GiB).

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
    file = readable_file(path)
    arrays = read_arrays(file, ("edge_index", *PLAIN, *CSR_PARTS), max_bytes=max_bytes)
    try:
        return Graph(name=file.stem, **_fields(file, arrays))
    except InputError as error:
        text = str(error)
        raise InputError(text if text.startswith(str(file)) else f"{file}: {text}") from error


def read_arrays(
    path: str | Path, keys: Sequence[str], *, max_bytes: int = MAX_BYTES
) -> dict[str, NDArray[Any]]:
    """Those of the arrays `keys` that a file has. Nothing is unpickled, sizes are checked first.

    Raises:
        InputError: With the file and the remedy, as :func:`read_npz`.
    """
    file = readable_file(path)
    try:
        with zipfile.ZipFile(file) as archive:
            return _arrays(file, archive, keys, max_bytes)
    except InputError:
        raise
    except UNREADABLE as error:
        raise InputError(
            f"{file}: is not a readable .npz file; write it with `numpy.savez_compressed` or "
            f"`write_npz`, or copy it again if it was cut off (got {_what(error)})"
        ) from error


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
        if getattr(graph, key) is not None:
            arrays[key] = _unicode(getattr(graph, key), key)
    if graph.x is None and graph.y is None:
        arrays["num_nodes"] = np.int64(graph.num_nodes)
    if graph.card:
        arrays["card"] = np.array(json.dumps(dict(graph.card), default=str, sort_keys=True))
    with atomic_write(path) as stream:
        np.savez_compressed(stream, **arrays)


def _arrays(
    file: Path, archive: zipfile.ZipFile, keys: Sequence[str], max_bytes: int
) -> dict[str, NDArray[Any]]:
    """Arrays by key, read one by one after their declared sizes were added up."""
    members = {info.filename: info for info in archive.infolist()}
    wanted = [k for k in keys if f"{k}.npy" in members]
    total = sum(members[f"{key}.npy"].file_size for key in wanted)
    if total > max_bytes:
        raise InputError(
            f"{file}: would take {total / 2**30:.3g} GiB of memory, more than the limit of "
            f"{max_bytes / 2**30:.3g} GiB; raise `max_bytes` if you trust the file (got {total})"
        )
    return {key: _array(file, archive, members[f"{key}.npy"], key) for key in wanted}


def _array(file: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo, key: str) -> NDArray[Any]:
    try:
        with archive.open(member) as stream:
            _check_header(file, stream, key, member.file_size)
        with archive.open(member) as stream:
            array: NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
    except InputError:
        raise
    except UNREADABLE as error:
        raise InputError(
            f"{file}: key {key!r} cannot be read; the file is damaged or cut off, copy or write "
            f"it again (got {_what(error)})"
        ) from error
    return array


def _check_header(file: Path, stream: IO[bytes], key: str, declared: int) -> None:
    """An array must not be of objects, nor claim more entries than its bytes can hold."""
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
    elif version == (2, 0):
        shape, _, dtype = np.lib.format.read_array_header_2_0(stream)
    else:
        raise ValueError(f"npy version {version}")
    if dtype.hasobject:
        raise InputError(
            f"{file}: key {key!r} holds Python objects, which are never unpickled; store numbers "
            f"or unicode text (got dtype {dtype})"
        )
    claimed = math.prod(shape) * dtype.itemsize
    if claimed > declared:
        raise InputError(
            f"{file}: key {key!r} claims {claimed} bytes, the archive holds {declared}; the file "
            f"is damaged, write it again (got shape {list(shape)})"
        )


def _fields(file: Path, arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    """The fields of `Graph` from the arrays of a file."""
    if "edge_index" not in arrays:
        raise InputError(
            f"{file}: key 'edge_index' is missing; {LAYOUT} (got {', '.join(arrays) or 'no key'})"
        )
    fields: dict[str, Any] = {
        key: arrays[key] for key in ("y", *MASKS, "edge_weight", "edge_index") if key in arrays
    }
    fields["x"] = _features(file, arrays)
    for key in ("node_names", "class_names"):
        if key in arrays:
            fields[key] = _strings(file, arrays[key], key)
    fields["num_nodes"] = _num_nodes(file, arrays, fields)
    if "card" in arrays:
        fields["card"] = _read_card(file, arrays["card"])
    return fields


def _features(file: Path, arrays: dict[str, NDArray[Any]]) -> Any:
    present = [key for key in CSR_PARTS if key in arrays]
    if not present:
        return arrays.get("x")
    if "x" in arrays or len(present) < len(CSR_PARTS):
        raise InputError(
            f"{file}: features must be 'x' alone or all of {', '.join(CSR_PARTS)} "
            f"(got {', '.join(['x'] * ('x' in arrays) + present)})"
        )
    data, indices, indptr, shape = (arrays[key] for key in CSR_PARTS)
    try:
        if any(part.dtype.kind not in "iu" for part in (indices, indptr, shape)):
            raise TypeError("x_indices, x_indptr and x_shape must be whole numbers")
        if shape.shape != (2,):
            raise ValueError(f"x_shape {shape.tolist()}")
        matrix = sp.csr_array((data, indices, indptr), shape=tuple(int(v) for v in shape))
        matrix.check_format(full_check=True)
    except (ValueError, TypeError, IndexError, OverflowError) as error:
        raise InputError(
            f"{file}: keys {', '.join(CSR_PARTS)} are not the parts of a CSR matrix; store "
            f"`matrix.data, .indices, .indptr, .shape` of one matrix (got {_what(error)})"
        ) from error
    return matrix


def _num_nodes(file: Path, arrays: dict[str, NDArray[Any]], fields: dict[str, Any]) -> int:
    if "num_nodes" in arrays:
        value = arrays["num_nodes"]
        if value.shape != () or value.dtype.kind not in "iu":
            raise InputError(
                f"{file}: key 'num_nodes' must be one whole number (got {value.dtype} "
                f"{list(value.shape)})"
            )
        return int(value)
    for key in ("y", "x", "node_names"):
        part = fields.get(key)
        if part is not None and not sp.issparse(part) and np.ndim(part) == 0:
            raise InputError(f"{file}: key {key!r} must have one entry per node (got one value)")
        if part is not None:
            return len(part) if key == "node_names" else int(part.shape[0])
    raise InputError(
        f"{file}: the number of nodes is unknown; add the key 'num_nodes', 'y' or 'x' "
        f"(got {', '.join(arrays)})"
    )


def _strings(file: Path, array: NDArray[Any], key: str) -> list[str]:
    if array.dtype.kind != "U" or array.ndim != 1:
        raise InputError(
            f"{file}: key {key!r} must be a list of unicode strings "
            f"(got {array.dtype} {list(array.shape)})"
        )
    names: list[str] = array.tolist()
    return names


def _unicode(names: tuple[str, ...], key: str) -> NDArray[np.str_]:
    for name in names:
        if name.endswith("\0"):
            raise InputError(f"{key}: a name must not end in a NUL character (got {name!r})")
    return np.array(names, dtype=np.str_)


def _read_card(file: Path, array: NDArray[Any]) -> dict[str, Any]:
    try:
        card = json.loads(array.item()) if array.dtype.kind == "U" else None
    except (ValueError, RecursionError):
        card = None
    if not isinstance(card, dict):
        raise InputError(
            f"{file}: key 'card' must be one JSON object as text; leave the key out or write it "
            f"with `json.dumps` (got {array.dtype} {list(array.shape)})"
        )
    return card


def _what(error: BaseException) -> str:
    text = str(error).splitlines()[0][:200] if str(error) else ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
