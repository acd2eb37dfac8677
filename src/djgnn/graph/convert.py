"""Graphs of other libraries (PyG, scipy, networkx), and how features are stored."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from djgnn.errors import InputError, ReadingWarning
from djgnn.graph.checks import MASKS
from djgnn.graph.graph import Graph
from djgnn.graph.labels import class_order, is_unknown
from djgnn.graph.table_rules import shorten

SPARSE_BELOW = 0.25
SPARSE_COLUMNS = 32
LARGE = 1000.0
SQUARABLE = (1e-19, 1.8e19)
"""Between these, squares are 32-bit numbers."""


def compact(x: Any) -> Any:
    """Features in the smaller of the two storages: CSR if wide and mostly zero, else dense.

    CSR for more than 32 columns of which fewer than a quarter of the entries are not zero.

    Example:
        >>> compact(np.eye(40)).nnz, compact(np.eye(4)).shape
        (40, (4, 4))
    """
    if x is None or sp.issparse(x):
        return x
    array = np.asarray(x)
    wide = array.ndim == 2 and array.shape[1] > SPARSE_COLUMNS and array.size > 0
    if wide and np.count_nonzero(array) < SPARSE_BELOW * array.size:
        return sp.csr_array(array)
    return array


def scale_remark(graph: Graph) -> str | None:
    """A warning about features so large that they drown the others; ``None`` if there are none.

    Features are used as they are given.

    Example:
        >>> g = Graph(np.array([[0], [1]]), num_nodes=2, x=np.array([[0.5, 1.6e9], [1.0, 1.7e9]]))
        >>> scale_remark(g).split(":")[0]
        'feature 1 reaches 1.7e+09'
    """
    x: Any = graph.x
    if x is None or not graph.num_features or not graph.num_nodes:
        return None
    largest = abs(x).max(axis=0)
    largest = largest.toarray().ravel() if sp.issparse(largest) else largest
    column = int(largest.argmax())
    if largest[column] <= LARGE:
        return None
    names: Any = graph.card.get("features")
    named = isinstance(names, list) and len(names) == graph.num_features
    return (
        f"feature {repr(str(names[column])) if named else column} reaches {largest[column]:.3g}: "
        "features are used as they are, and such numbers drown the others; subtract the mean of "
        "the column and divide by its standard deviation"
    )


def overflow_remark(graph: Graph) -> str | None:
    """What is wrong with features or weights whose products no 32-bit number holds.

    Example:
        >>> g = Graph(np.array([[0], [1]]), num_nodes=2, edge_weight=np.array([3e38]))
        >>> overflow_remark(g)
        'edge weights reach 3e+38: their products overflow; divide all weights by a number'
    """
    weight = np.zeros(0) if graph.edge_weight is None else abs(graph.edge_weight)
    x: Any = np.zeros(0) if graph.x is None else graph.x
    size = abs(x.data if sp.issparse(x) else x)
    most, weight = float(size.max(initial=0)), weight[weight > 0]
    if most > SQUARABLE[1]:
        return f"features reach {most:.3g}: their products overflow; divide the column by a number"
    if 0 < most < SQUARABLE[0]:
        return f"no feature is above {most:.3g}: their products vanish; multiply them by a number"
    if weight.max(initial=0) > SQUARABLE[1]:
        return (
            f"edge weights reach {weight.max():.3g}: their products overflow; divide all weights "
            "by a number"
        )
    if weight.min(initial=1) < np.finfo(np.float32).tiny:
        return (
            f"an edge weight is {weight.min():.3g}: its reciprocal overflows; multiply all weights "
            "by a number"
        )
    return None


def from_pyg(data: Any, name: str = "graph") -> Graph:
    """Convert a ``torch_geometric.data.Data``.

    Used are ``edge_index``, ``edge_weight``, ``x``, ``y`` and the three masks. Labels may be
    floats, NaN or -1 mean unknown; unlabelled nodes are taken out of the masks; a mask ``[n]``
    beside masks ``[n, splits]`` holds for every split. Of the masks some may be missing: one that
    is, is empty, but for the training nodes, which are then the labelled nodes in no other mask.

    Args:
        data: The object, on any device.
        name: Name of the graph.

    Raises:
        InputError: If there is no ``edge_index``, or labels are not one class per node.

    Example:
        >>> from types import SimpleNamespace
        >>> import torch
        >>> d = SimpleNamespace(edge_index=torch.tensor([[0], [1]]), y=torch.tensor([0.0, -1.0]))
        >>> from_pyg(d).y.tolist()
        [0, -1]
    """
    edge_index, x, y, weight, *masks = (
        array_of(getattr(data, key, None))
        for key in ("edge_index", "x", "y", "edge_weight", *MASKS)
    )
    if edge_index is None or isinstance(edge_index, dict):
        raise InputError(
            "data: must be a homogeneous graph with `edge_index`; convert with `to_homogeneous()` "
            f"or store the adjacency as `edge_index` (got {type(data).__name__})"
        )
    if y is not None:
        y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
        if y.ndim != 1:
            raise InputError(
                "y: must be one class per node; several labels per node are not supported "
                f"(got {list(y.shape)})"
            )
        y = np.where(np.isnan(y), -1, y) if y.dtype.kind == "f" else y
    given = {
        key: mask.astype(bool) for key, mask in zip(MASKS, masks, strict=True) if mask is not None
    }
    splits = max((mask.shape[1] for mask in given.values() if mask.ndim == 2), default=1)
    for key, mask in given.items():
        columns = np.repeat(mask[:, None], splits, axis=1) if mask.ndim == 1 else mask
        given[key] = columns if y is None else columns & (y >= 0)[:, None]
    sized = next((part for part in (x, y) if part is not None), None)
    size = int(data.num_nodes if sized is None else sized.shape[0])
    full = complete_masks(given, np.ones(size, dtype=np.bool_) if y is None else y >= 0)
    return Graph(edge_index, size, x=compact(x), y=y, edge_weight=weight, name=name, **full)


def complete_masks(
    given: Mapping[str, NDArray[np.bool_]], labelled: NDArray[np.bool_]
) -> dict[str, Any]:
    """All three masks, or none: a missing one is empty, that of the training nodes is the rest.

    Args:
        given: Some of the masks, by name.
        labelled: Which nodes have a label.

    Shapes:
        masks ``[n, splits]`` or ``[n]``, labelled ``[n]``.

    Example:
        >>> held = np.array([True, False, False])
        >>> found = complete_masks({"test_mask": held}, np.array([True, True, False]))
        >>> found["train_mask"].tolist(), found["val_mask"].tolist()
        ([False, True, False], [False, False, False])
    """
    if not given:
        return {}
    taken = np.logical_or.reduce(list(given.values()))
    rest = (labelled if taken.ndim == 1 else labelled[:, None]) & ~taken
    missing = {key: rest if key == "train_mask" else np.zeros_like(taken) for key in MASKS}
    return missing | dict(given)


def from_scipy(matrix: Any, x: Any = None, y: Any = None, **fields: Any) -> Graph:
    """Take an adjacency matrix, sparse or dense; entries are weights, zeros are no edges.

    Args:
        matrix: Square; entry ``[i, j]`` is the edge i -> j.
        x: Features.
        y: Labels, -1 = unknown.
        fields: Further fields of `Graph`.

    Raises:
        InputError: If the matrix is not square.

    Example:
        >>> from_scipy(np.array([[0, 2], [0, 1]])).edge_weight.tolist()
        [2.0, 1.0]
    """
    try:
        coo = sp.coo_array(sp.csr_array(matrix))  # through CSR: sorted and summed
    except (ValueError, TypeError) as error:
        raise InputError(f"matrix: must be a matrix of numbers (got {error})") from error
    if coo.ndim != 2 or coo.shape[0] != coo.shape[1]:
        raise InputError(
            f"matrix: must be square, one row and one column per node (got {list(coo.shape)})"
        )
    keep = coo.data != 0
    weight = coo.data[keep]
    return Graph(
        edge_index=np.stack([coo.row[keep], coo.col[keep]]).astype(np.int64),
        num_nodes=int(coo.shape[0]),
        edge_weight=None if (weight == 1).all() else weight,
        x=x,
        y=y,
        **fields,
    )


def from_networkx(
    g: Any,
    *,
    features: str | Sequence[str] | None = None,
    label: str | None = None,
    weight: str | None = None,
    name: str = "graph",
) -> Graph:
    """Convert a networkx graph; an undirected edge becomes two directed ones, a self loop one.

    Args:
        g: Graph, DiGraph, or their multigraphs; parallel edges are kept.
        features: Node attributes that are numbers, in this order; or one that is a vector. No
            other is used, which is warned of where there are any and none is named; ``()`` = none.
        label: Node attribute with the class, any value; missing, None, NaN, "" or -1 = unknown.
        weight: Edge attribute with the weight; an edge without it has weight 1.
        name: Name of the graph.

    Raises:
        InputError: If an attribute is missing or not a number.

    Example:
        >>> import networkx
        >>> g = networkx.path_graph(["a", "b"])
        >>> from_networkx(g).node_names, from_networkx(g).num_edges
        (('a', 'b'), 2)
    """
    if not all(hasattr(g, part) for part in ("nodes", "edges", "is_directed")):
        raise InputError(f"g: must be a networkx graph (got {type(g).__name__})")
    index = {node: i for i, node in enumerate(g)}
    ends = [(index[u], index[v], d.get(weight, 1)) for u, v, d in g.edges(data=True)]
    if not g.is_directed():
        ends += [(v, u, w) for u, v, w in ends if u != v]
    y, classes = None, None
    if label:
        texts = [None if is_unknown(v) else str(v) for _, v in g.nodes(data=label)]
        classes = tuple(class_order(list({text for text in texts if text is not None})))
        code = {name: number for number, name in enumerate(classes)}
        y = np.array([-1 if text is None else code[text] for text in texts])
    return Graph(
        edge_index=np.array([e[:2] for e in ends], dtype=np.int64).reshape(-1, 2).T,
        num_nodes=len(index),
        edge_weight=np.array([e[2] for e in ends]) if weight and ends else None,
        x=_attributes(g, features, label),
        y=y,
        node_names=tuple(str(node) for node in index),
        class_names=classes,
        name=name,
    )


def _attributes(g: Any, features: str | Sequence[str] | None, label: str | None) -> Any:
    """The features of the nodes, ``None`` if none are named."""
    if features is None:
        said = (pair for _, attributes in g.nodes(data=True) for pair in attributes.items())
        given = {str(name) for name, value in said if value is not None}
        if others := sorted(given - {label}):
            warnings.warn(
                f"features: {len(others)} node attributes are not used; name them, or hand the "
                "networkx graph itself to DJClassifier, which uses all; features=() means none "
                f"(got {shorten(others)})",
                ReadingWarning,
                stacklevel=4,
            )
    if not features:
        return None
    names = [features] if isinstance(features, str) else list(features)
    rows: list[Any] = []
    for node, attributes in g.nodes(data=True):
        missing = [name for name in names if attributes.get(name) is None]
        parts = [np.ravel(attributes[name]) for name in names if name not in missing]
        if missing or (rows and sum(map(len, parts)) != len(rows[0])):
            problem = f"no attribute {missing[0]!r}" if missing else "not as many numbers as others"
            raise InputError(
                f"node {node!r}: has {problem}; give every node the same attributes "
                f"(got {', '.join(map(str, attributes)) or 'none'})"
            )
        rows.append(np.concatenate(parts))
    return compact(np.stack(rows)) if rows else None


def array_of(value: Any) -> Any:
    """A tensor as a NumPy array or CSR matrix; a dict, as heterogeneous graphs have, as it is."""
    if value is None or isinstance(value, dict):
        return value
    if "sparse" in str(getattr(value, "layout", "")):
        coo = value.detach().cpu().to_sparse_coo().coalesce()
        rows, columns = coo.indices().numpy()
        return sp.csr_array((coo.values().numpy(), (rows, columns)), shape=tuple(coo.shape))
    return value.detach().cpu().numpy() if hasattr(value, "detach") else np.asarray(value)
