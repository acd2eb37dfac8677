"""Where a graph is validated: every rule but those of texts, its message and its remedy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from djgnn.errors import InputError
from djgnn.graph.check_texts import METRICS as METRICS
from djgnn.graph.check_texts import check_card, check_names

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from djgnn.graph.graph import Graph

MASKS = ("train_mask", "val_mask", "test_mask")
MOST_NODES = 2**31 - 1
FEW_CLASSES = 1000


def check_graph(graph: Graph) -> dict[str, Any]:
    """Validate the fields of a graph under construction and bring them to their stored form.

    Returns:
        The fields to store: contiguous, read-only, ``int64`` / ``float32`` / ``bool``, masks
        always ``[n, splits]``.

    Raises:
        InputError: With the field, the first offending place and the remedy.
    """
    n = check_num_nodes(graph.num_nodes)
    fields: dict[str, Any] = {"num_nodes": n}
    fields["edge_index"] = check_edge_index(graph.edge_index, n)
    num_edges = fields["edge_index"].shape[1]
    fields["edge_weight"] = check_edge_weight(graph.edge_weight, num_edges)
    fields["x"] = check_features(graph.x, n)
    fields["y"] = check_labels(graph.y, n, graph.class_names)
    fields |= check_masks({key: getattr(graph, key) for key in MASKS}, fields["y"], n)
    for key in ("node_names", "class_names"):
        fields[key] = check_names(getattr(graph, key), key)
    if fields["node_names"] is not None and len(fields["node_names"]) != n:
        raise InputError(
            f"node_names: there must be one per node, {n} (got {len(fields['node_names'])})"
        )
    fields["card"] = check_card(graph.card)
    return fields


def check_num_nodes(num_nodes: Any) -> int:
    """A positive whole number; an empty graph has nothing to classify."""
    if isinstance(num_nodes, bool) or not isinstance(num_nodes, int | np.integer):
        raise InputError(f"num_nodes: must be a whole number (got {num_nodes!r})")
    if num_nodes < 1:
        raise InputError(f"num_nodes: the graph is empty (got {num_nodes}); give at least one node")
    if num_nodes > MOST_NODES:
        raise InputError(
            f"num_nodes: at most {MOST_NODES} nodes can be numbered (got {num_nodes}); check it"
        )
    return int(num_nodes)


def check_edge_index(edge_index: Any, n: int) -> NDArray[np.int64]:
    """Two rows of whole numbers between 0 and n-1."""
    array = np.asarray(edge_index)
    if array.size == 0 and array.ndim <= 2:
        array = np.zeros((2, 0), dtype=np.int64)
    if array.ndim != 2 or array.shape[0] != 2:
        raise InputError(
            f"edge_index: must have shape [2, E], sources above targets (got {list(array.shape)})"
        )
    if array.dtype.kind not in "iu":
        array = _whole_numbers(array, "edge_index")
    if array.size and (array.min() < 0 or array.max() >= n):
        bad = (array < 0) | (array >= n)
        row, column = (int(v) for v in np.argwhere(bad)[0])
        value = int(array[row, column])
        remedy = (
            "node ids count from 0; name the nodes and let `Graph.from_csv` number them"
            if value < 0
            else f"ids must be below num_nodes={n}; raise num_nodes or drop the edge"
        )
        raise InputError(
            f"edge_index[{row}, {column}]: node {value} does not exist ({int(bad.sum())} such "
            f"entries); {remedy}"
        )
    return _frozen(array, np.int64)


def check_edge_weight(edge_weight: Any, num_edges: int) -> NDArray[np.float32] | None:
    """One finite, non-negative number per edge."""
    if edge_weight is None:
        return None
    array = _single(_numbers(edge_weight, "edge_weight"))
    if array.shape != (num_edges,):
        raise InputError(
            f"edge_weight: must have one entry per edge, [{num_edges}] (got {list(array.shape)})"
        )
    _finite(array, "edge_weight")
    if (array < 0).any():
        place = int(np.argmax(array < 0))
        raise InputError(
            f"edge_weight[{place}]: must not be negative (got {array[place]:g}); degrees and "
            "volumes need weights of zero or more"
        )
    return _frozen(array, np.float32)


def check_features(x: Any, n: int) -> NDArray[np.float32] | sp.csr_array | None:
    """A finite matrix with one row per node; sparse stays sparse."""
    if x is None:
        return None
    if sp.issparse(x):
        matrix = sp.csr_array(x, copy=True)
        matrix.sum_duplicates()
        matrix.data = _single(_numbers(matrix.data, "x"))
        _rows(matrix.shape, n)
        if not np.isfinite(matrix.data).all():
            entry = int(np.argmin(np.isfinite(matrix.data)))
            row = int(np.searchsorted(matrix.indptr, entry, side="right")) - 1
            _not_finite("x", f"[{row}, {int(matrix.indices[entry])}]", matrix.data)
        for part in (matrix.data, matrix.indices, matrix.indptr):
            part.flags.writeable = False
        return matrix
    array = _single(_numbers(x, "x"))
    if array.ndim != 2:
        raise InputError(f"x: must be a matrix [n, features] (got {array.ndim} dimensions)")
    _rows(array.shape, n)
    _finite(array, "x")
    return _frozen(array, np.float32)


def check_labels(y: Any, n: int, class_names: Any = None) -> NDArray[np.int64] | None:
    """One class per node, -1 for unknown.

    Without names no class may be beyond the number of nodes, or 1000 if there are fewer nodes: a
    part of a graph keeps the classes of the whole.
    """
    if y is None:
        return None
    array = np.asarray(y)
    if array.shape != (n,):
        raise InputError(f"y: must have one entry per node, [{n}] (got {list(array.shape)})")
    if array.dtype.kind not in "iu":
        array = _whole_numbers(array, "y")
    if (array < -1).any():
        place = int(np.argmax(array < -1))
        raise InputError(
            f"y[{place}]: classes count from 0 and -1 means unknown (got {int(array[place])})"
        )
    if class_names is not None and int(array.max()) >= len(class_names):
        raise InputError(
            f"y: class {int(array.max())} has no name; class_names has {len(class_names)} entries"
        )
    if class_names is None and int(array.max()) >= max(n, FEW_CLASSES):
        place = int(np.argmax(array))
        raise InputError(
            f"y[{place}]: a graph of {n} nodes cannot have that many classes; number the classes "
            f"from 0 without gaps, or give `class_names` (got class {int(array[place])})"
        )
    return _frozen(array, np.int64)


def check_masks(
    masks: Mapping[str, Any], y: NDArray[np.int64] | None, n: int
) -> dict[str, NDArray[np.bool_] | None]:
    """Boolean, of equal shape, disjoint, and on labelled nodes only."""
    given = {key: value for key, value in masks.items() if value is not None}
    if not given:
        return dict.fromkeys(MASKS)
    if len(given) < len(MASKS):
        missing = ", ".join(key for key in MASKS if key not in given)
        raise InputError(f"{missing}: missing; give all three masks or none")
    checked = {key: _mask(given[key], key, n) for key in MASKS}
    if len({mask.shape for mask in checked.values()}) > 1:
        shapes = ", ".join(f"{key} {list(mask.shape)}" for key, mask in checked.items())
        raise InputError(f"masks: must have the same number of splits (got {shapes})")
    for a, b in (MASKS[:2], MASKS[1:], MASKS[::2]):
        both = checked[a] & checked[b]
        if both.any():
            node, split = (int(v) for v in np.argwhere(both)[0])
            raise InputError(
                f"{a} and {b}: overlap in split {split}, first at node {node} "
                f"({int(both[:, split].sum())} nodes there); a node belongs to one part only"
            )
    if y is None:
        raise InputError("y: missing; masks need labels to point at")
    for key, mask in checked.items():
        outside = mask & (y < 0)[:, None]
        if outside.any():
            node, split = (int(v) for v in np.argwhere(outside)[0])
            raise InputError(
                f"{key}: node {node} of split {split} has no label (y = -1); take unlabelled "
                "nodes out of the masks"
            )
    return {key: _frozen(mask, np.bool_) for key, mask in checked.items()}


def check_trainable(
    y: NDArray[np.int64] | None, train: Any, val: Any, num_classes: int, metric: str = "accuracy"
) -> None:
    """What training needs beyond a valid graph: training and validation nodes, two classes.

    Raises:
        InputError: If there is nothing to learn from, to select on, or to tell apart.
    """
    if y is None or not (y >= 0).any():
        raise InputError("y: no node has a label; give some, training needs them")
    if num_classes < 2 or np.unique(y[y >= 0]).size < 2:
        raise InputError(
            "y: all labelled nodes are of one class; there is nothing to tell apart. "
            "Give labels of at least two classes"
        )
    if not np.any(train):
        raise InputError("train_mask: no training node in this split; give at least one per class")
    if np.unique(y[train]).size < 2:
        raise InputError(
            "train_mask: the training nodes are all of one class; give at least two classes"
        )
    if not np.any(val):
        raise InputError(
            "val_mask: no validation node in this split; the best epoch is chosen on validation "
            "nodes. Give some, or let `random_splits` set a part of the labels aside"
        )
    if metric == "roc_auc" and np.unique(y[val]).size < 2:
        raise InputError(
            "val_mask: the validation nodes are all of one class, which has no ROC-AUC; give both"
        )


def _mask(value: Any, key: str, n: int) -> NDArray[np.bool_]:
    array = np.asarray(value)
    if array.dtype.kind in "iu" and np.isin(array, (0, 1)).all():
        array = array.astype(np.bool_)
    if array.dtype != np.bool_:
        raise InputError(f"{key}: must be boolean, True = in this part (got {array.dtype})")
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or array.shape[0] != n or array.shape[1] == 0:
        raise InputError(f"{key}: must have shape [{n}] or [{n}, splits] (got {list(array.shape)})")
    return array


def _rows(shape: tuple[int, ...], n: int) -> None:
    if shape[0] != n:
        raise InputError(f"x: must have one row per node, {n} (got {shape[0]})")


def _numbers(value: Any, key: str) -> NDArray[Any]:
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise InputError(f"{key}: must hold numbers (got {array.dtype}); encode text and objects")
    return array


def _single(array: NDArray[Any]) -> NDArray[np.float32]:
    """Single precision; what is too large for it becomes infinite and is refused as such."""
    with np.errstate(over="ignore"):
        single = array.astype(np.float32)
    single.flags.writeable = False
    return single


def _whole_numbers(array: NDArray[Any], key: str) -> NDArray[np.int64]:
    if array.dtype.kind == "f" and np.isfinite(array).all() and (array == np.rint(array)).all():
        return array.astype(np.int64)
    if array.dtype.kind == "f":
        bad = ~np.isfinite(array) | (array != np.rint(array))
        place = [int(v) for v in np.argwhere(bad)[0]]
        got = f"{array[tuple(place)]} at {place}"
    else:
        got = str(array.dtype)
    raise InputError(
        f"{key}: must hold whole numbers (got {got}); for named nodes or classes use a reader "
        "such as `Graph.from_csv`, which numbers them"
    )


def _finite(array: NDArray[Any], key: str) -> None:
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        place = [int(v) for v in np.argwhere(~np.isfinite(array))[0]]
        _not_finite(key, str(place), array)


def _not_finite(key: str, place: str, array: NDArray[Any]) -> None:
    count = int((~np.isfinite(array)).sum())
    raise InputError(
        f"{key}{place}: not a finite number ({count} such entries); fill or drop missing values "
        "(NaN, infinity) first"
    )


def _frozen(array: NDArray[Any], dtype: Any) -> NDArray[Any]:
    """A read-only copy; what is read-only already and owns its memory is taken as it is."""
    flags = array.flags
    if array.dtype == dtype and flags.owndata and flags.c_contiguous and not flags.writeable:
        return array
    owned = np.array(array, dtype=dtype, order="C", copy=True)
    owned.flags.writeable = False
    return owned
