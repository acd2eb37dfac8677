"""Where a graph is validated: every rule with its message and its remedy."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from djgnn.errors import InputError

if TYPE_CHECKING:
    from djgnn.graph.graph import Graph

MASKS = ("train_mask", "val_mask", "test_mask")
METRICS = ("accuracy", "roc_auc")
TEXTS = ("name", "title", "paper_name", "direction", "source", "loader", "counterpart")
LISTS = ("oddities", "features")
MOST_NODES = 2**31 - 1
FEW_CLASSES = 1000


def stored_fields(graph: Graph) -> dict[str, Any]:
    """Validate the fields of a graph under construction and bring them to their stored form.

    Returns:
        The fields to store: contiguous, read-only, ``int64`` / ``float32`` / ``bool``, masks
        always ``[n, splits]``.

    Raises:
        InputError: With the field, the first offending place and the remedy.
    """
    n = graph.num_nodes
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or not 1 <= n <= MOST_NODES:
        raise InputError(
            "num_nodes: an empty graph has nothing to classify; give a whole number from 1 to "
            f"{MOST_NODES} (got {n!r})"
        )
    edge_index = _edge_index(graph.edge_index, int(n))
    y = _labels(graph.y, int(n), graph.class_names)
    names = {key: _names(getattr(graph, key), key) for key in ("node_names", "class_names")}
    if names["node_names"] is not None and len(names["node_names"]) != n:
        raise InputError(
            f"node_names: there must be one per node, {n} (got {len(names['node_names'])})"
        )
    fields = {"num_nodes": int(n), "edge_index": edge_index, "y": y, "card": _card(graph.card)}
    fields["edge_weight"] = _edge_weight(graph.edge_weight, edge_index.shape[1])
    fields["x"] = _features(graph.x, int(n))
    return fields | names | _masks({key: getattr(graph, key) for key in MASKS}, y, int(n))


def check_trainable(
    y: NDArray[np.int64] | None, train: Any, val: Any, num_classes: int, metric: str = "accuracy"
) -> None:
    """What training needs beyond a valid graph: training and validation nodes, two classes.

    Raises:
        InputError: If there is nothing to learn from, to select on, or to distinguish.
    """
    if y is None or not (y >= 0).any():
        raise InputError("y: no node has a label; give some, training needs them")
    if num_classes < 2 or np.unique(y[y >= 0]).size < 2:
        raise InputError(
            "y: all labelled nodes are of one class; there is nothing to learn. "
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


def _edge_index(value: Any, n: int) -> NDArray[np.int64]:
    """Two rows of whole numbers between 0 and n-1."""
    array = np.asarray(value)
    if array.size == 0 and array.ndim <= 2:
        array = np.zeros((2, 0), dtype=np.int64)
    if array.ndim != 2 or array.shape[0] != 2:
        raise InputError(
            f"edge_index: must have shape [2, E], sources above targets (got {list(array.shape)})"
        )
    array = _whole_numbers(array, "edge_index")
    if array.size and (array.min() < 0 or array.max() >= n):
        bad = (array < 0) | (array >= n)
        place = _first(bad)
        node = int(array[tuple(place)])
        remedy = (
            "node ids count from 0; name the nodes and let `Graph.from_csv` number them"
            if node < 0
            else f"ids must be below num_nodes={n}; raise num_nodes or drop the edge"
        )
        raise InputError(
            f"edge_index{place}: node {node} does not exist ({int(bad.sum())} such entries); "
            f"{remedy}"
        )
    return _frozen(array, np.int64)


def _edge_weight(value: Any, num_edges: int) -> NDArray[np.float32] | None:
    """One finite, non-negative number per edge."""
    if value is None:
        return None
    array = _single(value, "edge_weight")
    if array.shape != (num_edges,):
        raise InputError(
            f"edge_weight: must have one entry per edge, [{num_edges}] (got {list(array.shape)})"
        )
    _check_finite(array, "edge_weight")
    if (array < 0).any():
        place = _first(array < 0)
        raise InputError(
            f"edge_weight{place}: must not be negative (got {array[place[0]]:g}); degrees and "
            "volumes need weights of zero or more"
        )
    return array


def _features(x: Any, n: int) -> NDArray[np.float32] | sp.csr_array | None:
    """A finite matrix with one row per node; sparse stays sparse."""
    if x is None:
        return None
    shape = np.shape(x)
    if len(shape) != 2 or shape[0] != n:
        raise InputError(f"x: must be a matrix with one row per node, {n} (got {list(shape)})")
    if not sp.issparse(x):
        array = _single(x, "x")
        _check_finite(array, "x")
        return array
    matrix = sp.csr_array(x, copy=True)
    matrix.sum_duplicates()
    matrix.data = _single(matrix.data, "x")
    if not np.isfinite(matrix.data).all():
        entry = int(np.argmin(np.isfinite(matrix.data)))
        row = int(np.searchsorted(matrix.indptr, entry, side="right")) - 1
        _check_finite(matrix.data, "x", place=[row, int(matrix.indices[entry])])
    for part in (matrix.data, matrix.indices, matrix.indptr):
        part.flags.writeable = False
    return matrix


def _labels(y: Any, n: int, class_names: Any) -> NDArray[np.int64] | None:
    """One class per node, -1 for unknown.

    Without names no class may be beyond the number of nodes, or 1000 if there are fewer nodes: a
    part of a graph keeps the classes of the whole.
    """
    if y is None:
        return None
    array = np.asarray(y)
    if array.shape != (n,):
        raise InputError(f"y: must have one entry per node, [{n}] (got {list(array.shape)})")
    array = _whole_numbers(array, "y")
    largest = int(array.max())
    if (array < -1).any():
        place = _first(array < -1)
        raise InputError(
            f"y{place}: classes count from 0 and -1 means unknown (got {int(array[place[0]])})"
        )
    if class_names is not None and largest >= len(class_names):
        raise InputError(f"y: class {largest} has no name (got {len(class_names)} class_names)")
    if class_names is None and largest >= max(n, FEW_CLASSES):
        raise InputError(
            f"y[{int(np.argmax(array))}]: a graph of {n} nodes cannot have that many classes; "
            f"number the classes from 0 without gaps, or give `class_names` (got class {largest})"
        )
    return _frozen(array, np.int64)


def _masks(
    masks: Mapping[str, Any], y: NDArray[np.int64] | None, n: int
) -> dict[str, NDArray[np.bool_] | None]:
    """Boolean, of equal shape, disjoint, and on labelled nodes only."""
    missing = [key for key in MASKS if masks[key] is None]
    if len(missing) == len(MASKS):
        return dict.fromkeys(MASKS)
    if missing:
        raise InputError(f"{', '.join(missing)}: missing; give all three masks or none")
    if y is None:
        raise InputError("y: missing; masks need labels to point at")
    checked = {}
    for key in MASKS:
        array = np.asarray(masks[key])
        if array.dtype.kind in "iu" and np.isin(array, (0, 1)).all():
            array = array.astype(np.bool_)
        if array.dtype != np.bool_:
            raise InputError(f"{key}: must be boolean, True = in this part (got {array.dtype})")
        array = array[:, None] if array.ndim == 1 else array
        if array.ndim != 2 or array.shape[0] != n or array.shape[1] == 0:
            raise InputError(
                f"{key}: must have shape [{n}] or [{n}, splits] (got {list(array.shape)})"
            )
        if (array & (y < 0)[:, None]).any():
            node, split = _first(array & (y < 0)[:, None])
            raise InputError(
                f"{key}: node {node} of split {split} has no label (y = -1); take unlabelled "
                "nodes out of the masks"
            )
        checked[key] = _frozen(array, np.bool_)
    if len({mask.shape for mask in checked.values()}) > 1:
        shapes = ", ".join(f"{key} {list(mask.shape)}" for key, mask in checked.items())
        raise InputError(f"masks: must have the same number of splits (got {shapes})")
    for a, b in (MASKS[:2], MASKS[1:], MASKS[::2]):
        both = checked[a] & checked[b]
        if both.any():
            node, split = _first(both)
            raise InputError(
                f"{a} and {b}: overlap in split {split}, first at node {node} "
                f"({int(both[:, split].sum())} nodes there); a node belongs to one part only"
            )
    return dict(checked)


def _names(value: Any, key: str) -> tuple[str, ...] | None:
    """Distinct names that can be written."""
    if value is None:
        return None
    names = tuple(map(str, value))
    first = {name: place for place, name in reversed(list(enumerate(names)))}
    for place, name in enumerate(names):
        _check_text(name, f"{key}[{place}]")
        if first[name] != place:
            raise InputError(f"{key}: {name!r} occurs twice; names must be distinct")
    return names


def _card(card: Any) -> Mapping[str, Any]:
    """A mapping whose known facts are of their types; other facts are left alone."""
    if not isinstance(card, Mapping):
        raise InputError(f"card: must be a mapping of facts (got {type(card).__name__})")
    metric = card.get("metric", "accuracy")
    if metric not in METRICS:
        raise InputError(f"card['metric']: must be one of {', '.join(METRICS)} (got {metric!r})")
    for key in TEXTS:
        if not isinstance(card.get(key), str | None):
            raise InputError(f"card[{key!r}]: must be text (got {card[key]!r:.80})")
        _check_text(card.get(key) or "", f"card[{key!r}]")
    for key in LISTS:
        texts = card.get(key, ())
        if not isinstance(texts, list | tuple) or not all(isinstance(t, str) for t in texts):
            raise InputError(f"card[{key!r}]: must be a list of texts (got {texts!r:.80})")
        for place, text in enumerate(texts):
            _check_text(text, f"card[{key!r}][{place}]")
    return MappingProxyType(dict(card))


def _check_text(value: str, where: str) -> None:
    """Half a surrogate pair can be held in memory but not be written."""
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"{where}: has a character that cannot be written as UTF-8; rename it "
            f"(got {value[:80]!r}, character {error.start})"
        ) from error


def _first(bad: NDArray[np.bool_]) -> list[int]:
    """The place of the first True."""
    return [int(v) for v in np.argwhere(bad)[0]]


def _whole_numbers(array: NDArray[Any], key: str) -> NDArray[Any]:
    if array.dtype.kind in "iu":
        return array
    got = str(array.dtype)
    if array.dtype.kind == "f":
        bad = ~np.isfinite(array) | (array != np.rint(array))
        if not bad.any():
            return array.astype(np.int64)
        got = f"{array[tuple(_first(bad))]} at {_first(bad)}"
    raise InputError(
        f"{key}: must hold whole numbers (got {got}); for named nodes or classes use a reader "
        "such as `Graph.from_csv`, which numbers them"
    )


def _single(value: Any, key: str) -> NDArray[np.float32]:
    """Read-only single precision; what is too large for it becomes infinite."""
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise InputError(f"{key}: must hold numbers (got {array.dtype}); encode text and objects")
    return _frozen(array, np.float32)


def _check_finite(array: NDArray[Any], key: str, place: list[int] | None = None) -> None:
    bad = ~np.isfinite(array)
    if bad.any():
        raise InputError(
            f"{key}{place or _first(bad)}: not a finite number ({int(bad.sum())} such entries); "
            "fill or drop missing values (NaN, infinity) first"
        )


def _frozen(array: NDArray[Any], dtype: Any) -> NDArray[Any]:
    """A read-only copy; what is read-only already and owns its memory is taken as it is."""
    flags = array.flags
    if array.dtype == dtype and flags.owndata and flags.c_contiguous and not flags.writeable:
        return array
    with np.errstate(over="ignore"):
        owned = np.array(array, dtype=dtype, order="C", copy=True)
    owned.flags.writeable = False
    return owned
