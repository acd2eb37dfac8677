"""What a classifier is handed: graphs of any library with their labels, nodes by number or name."""

import dataclasses
from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from djgnn.errors import InputError
from djgnn.graph.checks import BINARY, MASKS, METRICS
from djgnn.graph.convert import array_of, from_pyg
from djgnn.graph.graph import Graph
from djgnn.graph.labels import encode, in_order, one_per_node


def is_graph(source: Any) -> bool:
    """Whether :func:`labelled_graph` can take it: a `Graph`, a PyG ``Data``, a networkx graph."""
    return isinstance(source, Graph) or _is_pyg(source) or _is_networkx(source)


def labelled_graph(
    source: Any, y: Any = None, known: Graph | None = None, own: bool = True
) -> tuple[Graph, NDArray[Any]]:
    """A graph of any library, and the labels that its codes stand for, in the type they came in.

    Of a PyG ``Data`` the labels are in ``y`` and the splits in its masks. The node attributes of a
    networkx graph are columns, by the rules of :func:`djgnn.graph.tables.read_tables`: ``label``,
    ``class``, ``y`` or ``target`` has the labels; ``split``, or the attributes that are named as
    the masks of PyG, the split; all others are features, vectors too.

    Args:
        source: The graph.
        y: Labels to use instead: one per node, or a mapping from a node's name to its label. An
            attribute of a networkx graph that says the same as `y` is not taken for a feature.
        known: The graph of a fitted model, whose nodes and attributes are meant.
        own: Whether its own labels are wanted; otherwise they are not looked at.

    Raises:
        InputError: If it is not a graph, naming what makes one of it; or something is wrong with
            its parts.
    """
    own = own and y is None
    if isinstance(source, Graph):
        graph, classes = source, own_classes(source)
    elif _is_pyg(source):
        graph, classes = _from_pyg(source, own)
    elif _is_networkx(source):
        from djgnn.graph.networkx_attributes import read_attributes

        graph, classes = read_attributes(source, y, known, own)
    else:
        raise InputError(f"X: must be a graph; {_advice(source)} (got {type(source).__name__})")
    if y is not None:
        return with_labels(graph, y)
    return (graph, classes) if own else (graph.without_labels(), classes)


def labelled_nodes(source: Any, nodes: Any, y: Any) -> tuple[Graph, NDArray[Any]]:
    """As :func:`labelled_graph`, with the labels of some nodes, and none of the graph's own.

    Args:
        source: The graph.
        nodes: Some of its nodes, see :func:`node_numbers`.
        y: Their labels.

    Raises:
        InputError: If something is not a node, or a label is missing or not allowed.
    """
    if y is None:
        raise InputError("y: give the labels of the nodes in X; the graph's own are not looked at")
    graph, _ = labelled_graph(source, own=False)
    numbers = node_numbers(graph, nodes)
    found = with_labels(graph, y, numbers)
    if not _is_networkx(source):
        return found
    names, values = graph.names(), one_per_node(y, numbers.size).tolist()
    return labelled_graph(source, {names[i]: v for i, v in zip(numbers, values, strict=True)})


def with_labels(
    graph: Graph, y: Any, nodes: NDArray[np.int64] | None = None
) -> tuple[Graph, NDArray[Any]]:
    """A graph with other labels than its own and without splits, and what their codes stand for.

    Args:
        graph: The graph.
        y: One label per node, or a mapping from a node's name to its label.
        nodes: The nodes that `y` is of; the labels of all others are unknown.

    Raises:
        InputError: If there is not one label per node, labels are of no allowed type, or a node has
            two of them.
    """
    if nodes is None:
        given, classes = encode(in_order(y, graph.names()))
        codes = given
    else:
        given, classes = encode(one_per_node(y, nodes.size, "one label per node of X"))
        codes = np.full(graph.num_nodes, -1, dtype=np.int64)
        codes[nodes] = given
        if (codes[nodes] != given).any():
            twice = int(np.argmax(codes[nodes] != given))
            raise InputError(
                f"X[{twice}]: this node is there again with another label; keep one of them "
                f"(got node {nodes[twice]})"
            )
    if classes.size == 1 and (given < 0).any():
        raise InputError(
            "y: -1, None, NaN and empty text mean unknown, and all other labels are of one class; "
            f"if -1 is a class, write the labels as 0 and 1 (got {classes.tolist()})"
        )
    return _relabelled(graph, codes, map(str, classes)), classes


def _relabelled(graph: Graph, y: NDArray[np.int64], class_names: Iterable[str]) -> Graph:
    """The structure and features of a graph with other labels, and without splits."""
    masks: dict[str, Any] = dict.fromkeys(MASKS)
    return dataclasses.replace(graph, y=y, class_names=tuple(class_names), **masks)


def with_metric(graph: Graph, metric: str | None) -> Graph:
    """A graph with a score of its own choice; without one its own, if it fits the classes.

    Raises:
        InputError: If there is no such score.
    """
    if metric is None:
        fits = graph.metric not in BINARY or graph.num_classes == 2
        metric = graph.metric if fits else METRICS[0]
    if metric not in METRICS:
        raise InputError(f"metric: must be one of {', '.join(METRICS)} (got {metric!r})")
    return dataclasses.replace(graph, card={**graph.card, "metric": metric})


def to_learn_from(graph: Graph) -> Graph:
    """A graph with its first split and no test nodes, or without splits.

    Labels of nodes in no part of the split are left out. If there are no validation nodes in it,
    the labels of its training nodes are kept alone. The list of classes is that of the graph: it
    names those of its test nodes, too.

    Raises:
        InputError: If there is no label.
    """
    if graph.y is None:
        raise InputError(
            "y: the graph has no labels; give one per node, or a mapping from the name of a node "
            f"to its label, as networkx.get_node_attributes does (got {graph!r})"
        )
    if graph.num_splits:
        parts = graph.split(0)
        if parts.val.any():
            kept = np.where(parts.train | parts.val | parts.test, graph.y, -1)
            same = np.array_equal(kept, graph.y)
            found = graph if same else _relabelled(graph, kept, graph.classes())
            return found.with_masks(parts.train, parts.val, np.zeros_like(parts.test))
        return _relabelled(graph, np.where(parts.train, graph.y, -1), graph.classes())
    return graph


def node_numbers(graph: Graph, nodes: Any) -> NDArray[np.int64]:
    """The numbers of nodes that are given by number or by name.

    Args:
        graph: Where they are.
        nodes: Whole numbers from 0, or names as text; one dimension, or one column.

    Raises:
        InputError: At the first that is not a node, and for masks, tables and graphs.

    Example:
        >>> graph = Graph(np.zeros((2, 0)), num_nodes=3, node_names=("a", "b", "c"))
        >>> node_numbers(graph, ["c", "a"]).tolist(), node_numbers(graph, [[2], [0]]).tolist()
        ([2, 0], [2, 0])
    """
    if is_graph(nodes) or isinstance(nodes, str | Mapping):
        raise InputError(
            "X: must be nodes of the graph, a list or an array of numbers or names "
            f"(got {type(nodes).__name__})"
        )
    array = np.asarray(array_of(nodes))
    array = array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array
    if array.ndim != 1:
        raise InputError(
            "X: must be nodes of the graph, one number or name each, as np.arange(graph.num_nodes) "
            f"has them; features belong into the graph (got shape {list(array.shape)})"
        )
    if array.dtype.kind == "b":
        raise InputError("X: is a mask; give the nodes, np.flatnonzero(mask) (got bool)")
    if array.dtype.kind in "UOT":
        number = {name: place for place, name in enumerate(graph.names())}
        texts = [str(node) for node in array.tolist()]
        found = np.array([number.get(text, -1) for text in texts], dtype=np.int64)
        if (found < 0).any():
            graph.index_of(texts[int(np.argmin(found))])  # says which, and what is near
        return found
    whole = array.dtype.kind in "iu" or (
        array.dtype.kind == "f" and (array == np.rint(array)).all()
    )
    if not whole:
        raise InputError(
            f"X: must be nodes of the graph, whole numbers or names (got {array.dtype} numbers)"
        )
    bad = (array < 0) | (array >= graph.num_nodes)
    if bad.any():
        place = int(np.argmax(bad))
        raise InputError(
            f"X[{place}]: no such node; they count from 0 to {graph.num_nodes - 1} "
            f"({int(bad.sum())} such entries) (got {array[place]})"
        )
    return array.astype(np.int64)


def own_classes(graph: Graph) -> NDArray[Any]:
    """What a graph's own labels stand for: the names of classes, or without names the numbers."""
    return np.arange(graph.num_classes) if graph.class_names is None else np.array(graph.classes())


def _is_pyg(source: Any) -> bool:
    return hasattr(type(source), "edge_index") or hasattr(source, "edge_types")


def _is_networkx(source: Any) -> bool:
    return all(hasattr(source, part) for part in ("nodes", "edges", "is_directed", "adj"))


def _advice(source: Any) -> str:
    """How to make a graph of something else."""
    if isinstance(source, str):
        return "Graph.load(name) finds a data set, Graph.from_csv(edges, nodes) reads tables"
    if hasattr(source, "columns"):
        return "Graph.from_frames(edges, nodes) makes one of two data frames"
    shape: tuple[int, ...] = getattr(source, "shape", ())
    if hasattr(source, "tocsr") or (len(shape) == 2 and shape[0] == shape[1] > 1):
        return "Graph.from_scipy(adjacency, x=features) makes one of a matrix"
    if isinstance(source, Iterable) and shape == () and is_graph(next(iter(source), None)):
        return "X holds several, as data sets of PyG do; take the first, X[0]"
    return (
        "to fit with nodes give the graph to the classifier, DJClassifier(graph=graph).fit(nodes, "
        "y); Graph.from_scipy(adjacency, x=features) makes one of matrices"
    )


def _from_pyg(data: Any, own: bool) -> tuple[Graph, NDArray[Any]]:
    """A PyG graph with codes for its labels, whatever numbers they are.

    Args:
        data: The object.
        own: Whether its labels and masks are wanted.
    """
    parts = {key: getattr(data, key, None) for key in ("edge_index", "x", "edge_weight", "y")}
    size, y = getattr(data, "num_nodes", None), parts.pop("y")
    if y is None or not own:
        return from_pyg(SimpleNamespace(**parts, num_nodes=size)), np.zeros(0)
    codes, classes = encode(one_per_node(y, int(size or 0)))
    parts |= {key: getattr(data, key, None) for key in MASKS}
    graph = from_pyg(SimpleNamespace(**parts, y=codes, num_nodes=size))
    return dataclasses.replace(graph, class_names=tuple(map(str, classes))), classes
