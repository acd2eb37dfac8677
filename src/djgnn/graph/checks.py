"""Where a graph is validated: every rule with its message and its remedy."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NotRequired, TypedDict, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from djgnn.checking import check_file
from djgnn.errors import InputError

if TYPE_CHECKING:
    from djgnn.graph.graph import Graph

Metric = Literal["accuracy", "roc_auc", "macro_f1", "average_precision"]

MASKS = ("train_mask", "val_mask", "test_mask")
METRICS = get_args(Metric)
METRIC_NAMES = dict(
    zip(METRICS, ("accuracy", "ROC-AUC", "macro F1", "average precision"), strict=True)
)
BINARY = ("roc_auc", "average_precision")
"""Metrics of two classes, which rank the nodes."""
MOST_NODES = 2**31 - 1
FEW_CLASSES = 1000
LONGEST_NAME = 100_000
NOT_FINITE = "not a finite number; fill or drop missing values (NaN, infinity) first"


class Facts(TypedDict):
    """The facts of ``graph.card`` that this package reads; any others may be there."""

    metric: NotRequired[Metric]
    name: NotRequired[str | None]
    title: NotRequired[str | None]
    paper_name: NotRequired[str | None]
    direction: NotRequired[str | None]
    source: NotRequired[str | None]
    loader: NotRequired[str | None]
    counterpart: NotRequired[str | None]
    oddities: NotRequired[list[str]]
    features: NotRequired[list[str]]


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
    edges: Any = graph.edge_index if np.size(graph.edge_index) else np.zeros((2, 0), np.int64)
    edges = _array("edge_index", edges, np.int64, (2, None), "sources above targets")
    if edges.size and (edges.min() < 0 or edges.max() >= n):
        problem = (
            f"no such node, ids count from 0 and are below num_nodes={n}; raise num_nodes, drop "
            "the edge, or let `Graph.from_csv` number named nodes"
        )
        _refuse("edge_index", edges, (edges < 0) | (edges >= n), problem)
    if not isinstance(graph.card, Mapping):
        raise InputError(f"card: must be a mapping of facts (got {type(graph.card).__name__})")
    card = MappingProxyType(dict(graph.card))
    check_file(dict(card), Facts, "card", "correct it")
    fields: dict[str, Any] = {"num_nodes": int(n), "edge_index": edges, "card": card}
    fields["x"] = None if graph.x is None else _features(graph.x, int(n))
    fields["y"] = None if graph.y is None else _labels(graph.y, int(n), graph.class_names)
    fields["edge_weight"] = weight = graph.edge_weight
    if weight is not None:
        shape = (edges.shape[1],)
        weight = _array("edge_weight", weight, np.float32, shape, "one entry per edge")
        _refuse(
            "edge_weight", weight, weight < 0, "must not be negative; degrees need zero or more"
        )
        fields["edge_weight"] = weight
    for key in ("node_names", "class_names"):
        names = getattr(graph, key)
        fields[key] = None if names is None else _names(key, names)
    if fields["node_names"] is not None and len(fields["node_names"]) != n:
        raise InputError(
            f"node_names: there must be one per node, {n} (got {len(fields['node_names'])})"
        )
    return fields | stored_masks({key: getattr(graph, key) for key in MASKS}, fields["y"], int(n))


def check_trainable(
    y: NDArray[np.int64], train: Any, val: Any, num_classes: int, metric: str = "accuracy"
) -> None:
    """What training needs beyond a valid graph: training and validation nodes, two classes.

    Raises:
        InputError: If there is nothing to learn from, to select on, or to distinguish.
    """
    problem = ""
    if not (y >= 0).any():
        problem = "y: no node has a label; give some, training needs them"
    elif num_classes < 2 or np.unique(y[y >= 0]).size < 2:
        problem = (
            "y: all labelled nodes are of one class; there is nothing to learn. "
            "Give labels of at least two classes"
        )
    elif not np.any(train):
        problem = "train_mask: no training node in this split; give at least one per class"
    elif np.unique(y[train]).size < 2:
        problem = "train_mask: the training nodes are all of one class; give at least two classes"
    elif not np.any(val):
        problem = (
            "val_mask: no validation node in this split; the best epoch is chosen on validation "
            "nodes. Give some, or let `random_splits` set a part of the labels aside"
        )
    elif metric in BINARY and num_classes != 2:
        problem = f"metric {metric}: needs two classes; use accuracy or macro_f1"
        problem += f" (got {num_classes} classes)"
    elif metric in BINARY and np.unique(y[val]).size < 2:
        problem = "val_mask: the validation nodes are all of one class: no "
        problem += f"{METRIC_NAMES[metric]}; give both"
    if problem:
        raise InputError(problem)


def _array(
    key: str,
    value: Any,
    dtype: Any,
    shape: tuple[int | None, ...],
    meaning: str,
    finite: bool = True,
) -> NDArray[Any]:
    """A field in its stored type: whole numbers, finite numbers or truth values; read-only.

    Args:
        key: The field, for messages.
        value: What the user gave.
        dtype: ``int64``, ``float32`` or ``bool``.
        shape: Its sizes, ``None`` = any.
        meaning: What the sizes are, for messages.
        finite: Whether to refuse infinite numbers.

    Raises:
        InputError: If the shape or the type is another, or a number is not finite.
    """
    array = np.asarray(value)
    _check_shape(key, array.shape, shape, meaning)
    kind, wrong = array.dtype.kind, ""
    if dtype == np.float32 and kind not in "biuf":
        wrong = "numbers; encode text and objects"
    elif dtype == np.bool_ and kind != "b" and not (kind in "iu" and np.isin(array, (0, 1)).all()):
        wrong = "boolean values, True = in this part"
    elif dtype == np.int64 and kind == "f":
        whole = np.isfinite(array) & (array == np.rint(array))
        _refuse(key, array, ~whole, "must hold whole numbers; a reader numbers named ones")
    elif dtype == np.int64 and kind not in "iu":
        wrong = "whole numbers; a reader such as `Graph.from_csv` numbers named nodes and classes"
    if wrong:
        raise InputError(f"{key}: must hold {wrong} (got {array.dtype})")
    if array.dtype != dtype or not array.flags.c_contiguous or not _constant(array):
        with np.errstate(over="ignore"):  # what is too large becomes infinite
            array = np.array(array, dtype=dtype, order="C", copy=True)
        array.flags.writeable = False
    if finite and dtype == np.float32:
        _refuse(key, array, ~np.isfinite(array), NOT_FINITE)
    return array


def _constant(array: NDArray[Any]) -> bool:
    """Whether nobody can change the values: it is read-only, and so is the array that it shows."""
    owner = array if array.base is None else array.base
    if not isinstance(owner, np.ndarray) or not owner.flags.owndata:
        return False
    return not (array.flags.writeable or owner.flags.writeable)


def _features(x: Any, n: int) -> NDArray[np.float32] | sp.csr_array:
    """A finite matrix with one row per node; sparse stays sparse."""
    if not sp.issparse(x):
        return _array("x", x, np.float32, (n, None), "one row per node")
    _check_shape("x", x.shape, (n, None), "one row per node")
    matrix = sp.csr_array(x, copy=True)
    matrix.sum_duplicates()
    matrix.data = _array("x", matrix.data, np.float32, (None,), "", finite=False)
    bad = ~np.isfinite(matrix.data)
    if bad.any():
        row = int(np.searchsorted(matrix.indptr, np.argmax(bad), side="right")) - 1
        place = [row, int(matrix.indices[np.argmax(bad)])]
        _refuse("x", matrix.data, bad, NOT_FINITE, place)
    for part in (matrix.data, matrix.indices, matrix.indptr):
        part.flags.writeable = False
    return matrix


def _labels(y: Any, n: int, class_names: Any) -> NDArray[np.int64]:
    """One class per node, -1 for unknown.

    Without names no class may be beyond the number of nodes, or 1000 if there are fewer nodes: a
    part of a graph keeps the classes of the whole.
    """
    array = _array("y", y, np.int64, (n,), "one entry per node")
    most = max(n, FEW_CLASSES) if class_names is None else len(class_names)
    problem = (
        f"a graph of {n} nodes cannot have that many classes; number the classes from 0 without "
        "gaps, or give `class_names`"
        if class_names is None
        else f"this class has no name; give more than {most} `class_names`"
    )
    _refuse("y", array, array < -1, "classes count from 0 and -1 means unknown")
    _refuse("y", array, array >= most, problem)
    return array


def stored_masks(
    masks: Mapping[str, Any], y: NDArray[np.int64] | None, n: int
) -> dict[str, NDArray[np.bool_] | None]:
    """Masks in their stored form: boolean, of equal shape, disjoint, on labelled nodes only.

    Raises:
        InputError: If they are not, or some are missing.
    """
    missing = [key for key in MASKS if masks[key] is None]
    if len(missing) == len(MASKS):
        return dict.fromkeys(MASKS)
    if missing:
        raise InputError(f"{', '.join(missing)}: missing; give all three masks or none")
    if y is None:
        raise InputError("y: missing; masks need labels to point at")
    checked: dict[str, NDArray[np.bool_] | None] = {}
    used = np.zeros((n, 0), dtype=np.int8)
    for key in MASKS:
        mask = np.asarray(masks[key])
        mask = mask[:, None] if mask.ndim == 1 else mask
        splits = used.shape[1] or max((1, *mask.shape[1:]))
        meaning = "or of one dimension, and the same number of splits in all three masks"
        mask = _array(key, mask, np.bool_, (n, splits), meaning)
        bare = mask & (y < 0)[:, None]
        _refuse(key, y, bare, "this node has no label; take unlabelled nodes out of the masks")
        used = used + mask if checked else mask.astype(np.int8)
        _refuse(key, used, used > 1, "overlaps another mask; a node belongs to one part of a split")
        checked[key] = mask
    return checked


def _names(key: str, value: Any) -> tuple[str, ...]:
    """Distinct names that can be written."""
    names = tuple(map(str, value))
    with suppress(UnicodeEncodeError):
        "".join(names).encode()
        if len(set(names)) == len(names) and max(map(len, names), default=0) <= LONGEST_NAME:
            return names
    seen = set()
    for place, name in enumerate(names):
        try:
            name.encode()
        except UnicodeEncodeError as error:
            raise InputError(
                f"{key}[{place}]: has a character that cannot be written as UTF-8; rename it "
                f"(got {name[:80]!r}, character {error.start})"
            ) from error
        if len(name) > LONGEST_NAME:
            raise InputError(
                f"{key}[{place}]: is longer than {LONGEST_NAME} characters, more than a cell of a "
                f"table may have; shorten it (got {len(name)}: {name[:40]!r}...)"
            )
        if name in seen:
            raise InputError(f"{key}: {name!r} occurs twice; names must be distinct")
        seen.add(name)
    return names


def _check_shape(
    key: str, found: tuple[int, ...], wanted: tuple[int | None, ...], meaning: str
) -> None:
    """Refuse another shape than the one wanted, where ``None`` is any size."""
    sizes = zip(wanted, found, strict=False)
    if len(found) != len(wanted) or any(size not in (None, there) for size, there in sizes):
        shape = ", ".join("*" if size is None else str(size) for size in wanted)
        raise InputError(f"{key}: must have shape [{shape}], {meaning} (got {list(found)})")


def _refuse(
    key: str,
    array: NDArray[Any],
    bad: NDArray[np.bool_],
    problem: str,
    place: list[int] | None = None,
) -> None:
    """Raise an error at the first bad entry, if there is one; `place` is where it is said to be."""
    if bad.any():
        first = tuple(int(v) for v in np.unravel_index(np.argmax(bad), bad.shape))
        got = array[first[: array.ndim]]
        raise InputError(
            f"{key}{place or list(first)}: {problem} ({int(bad.sum())} such entries) (got {got})"
        )
