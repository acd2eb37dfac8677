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
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from djgnn.errors import InputError
from djgnn.graph.checks import MASKS, check_num_nodes
from djgnn.graph.files import atomic_write
from djgnn.graph.graph import Graph
from djgnn.graph.npz_arrays import CSR_PARTS, PLAIN, read_arrays, reason

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_BYTES = 8 * 2**30
NODE_BYTES = 80
LAYOUT = "see the layout at the top of `djgnn.graph.npz`"


def read_npz(path: str | Path, *, max_bytes: int = MAX_BYTES) -> Graph:
    """Read a graph from a file of the layout above. Unknown keys are left alone.

    Args:
        path: The file.
        max_bytes: Refuse a file whose arrays would take more memory than this (8 GiB), in the
            types they are held in; or whose number of nodes would, if nothing else tells of them.

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
    arrays = read_arrays(path, ("edge_index", *PLAIN, *CSR_PARTS), max_bytes)
    try:
        return Graph(name=file.stem, **_fields(file, arrays, max_bytes))
    except InputError as error:
        text = str(error)
        raise InputError(text if text.startswith(str(file)) else f"{file}: {text}") from error


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


def _fields(file: Path, arrays: dict[str, NDArray[Any]], max_bytes: int) -> dict[str, Any]:
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
    fields["num_nodes"] = check_num_nodes(_num_nodes(file, arrays, fields))
    _check_bare_nodes(file, arrays, fields["num_nodes"], max_bytes)
    _check_bare_columns(file, fields["x"], max_bytes)
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
            f"`matrix.data, .indices, .indptr, .shape` of one matrix (got {reason(error)})"
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


def _check_bare_nodes(file: Path, arrays: dict[str, NDArray[Any]], n: int, max_bytes: int) -> None:
    """A number alone must not ask for memory: nodes that nothing tells of are counted in bytes."""
    told = ("y", "x", "x_indptr", "node_names", *MASKS)
    entries = max(arrays[key].size for key in ("edge_index", *told) if key in arrays)
    if n > entries and n * NODE_BYTES > max_bytes:
        raise InputError(
            f"{file}: {n} nodes would take some {n * NODE_BYTES / 2**30:.3g} GiB of memory, more "
            f"than the limit of {max_bytes / 2**30:.3g} GiB, and most have neither edges, features "
            "nor labels; number the nodes without gaps, or raise `max_bytes` if you trust the "
            f"file (got {n} nodes, at most {entries} entries)"
        )


def _check_bare_columns(file: Path, x: Any, max_bytes: int) -> None:
    """Nor must the width of features of which most columns are empty."""
    if not sp.issparse(x) or x.shape[1] <= x.nnz or x.shape[1] * NODE_BYTES <= max_bytes:
        return
    raise InputError(
        f"{file}: {x.shape[1]} feature columns would take some "
        f"{x.shape[1] * NODE_BYTES / 2**30:.3g} GiB of memory, more than the limit of "
        f"{max_bytes / 2**30:.3g} GiB, and most are empty; leave empty columns out, or raise "
        f"`max_bytes` if you trust the file (got {x.nnz} entries)"
    )


def _strings(file: Path, array: NDArray[Any], key: str) -> list[str]:
    if array.dtype.kind != "U" or array.ndim != 1:
        raise InputError(
            f"{file}: key {key!r} must be a list of unicode strings "
            f"(got {array.dtype} {list(array.shape)})"
        )
    try:
        names: list[str] = array.tolist()
    except (ValueError, SystemError) as error:
        raise InputError(
            f"{file}: key {key!r} holds characters that do not exist; write the names again "
            f"(got {reason(error)})"
        ) from error
    return names


def _unicode(names: tuple[str, ...], key: str) -> NDArray[np.str_]:
    for name in names:
        if name.endswith("\0"):
            raise InputError(f"{key}: a name must not end in a NUL character (got {name!r})")
    return np.array(names, dtype=np.str_)


def _read_card(file: Path, array: NDArray[Any]) -> dict[str, Any]:
    try:
        card = json.loads(array.item()) if array.dtype.kind == "U" else None
        json.dumps(card, ensure_ascii=False).encode()  # half a surrogate could never be printed
    except (ValueError, SystemError, RecursionError):
        card = None
    if not isinstance(card, dict):
        raise InputError(
            f"{file}: key 'card' must be one JSON object as text; leave the key out or write it "
            f"with `json.dumps` (got {array.dtype} {list(array.shape)})"
        )
    return card
