"""How much do neighbours disagree: homophily measures on the edges of a labelled graph."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from djgnn.errors import InputError
from djgnn.graph import Graph
from djgnn.spectral.laplacians import Adjacency, as_adjacency, symmetrize

Ends = tuple[NDArray[np.int64], NDArray[np.int64]]


HomophilyMethod = Literal["edge", "node", "class", "adjusted", "label_informativeness"]


def homophily(
    graph: Adjacency,
    y: ArrayLike | None = None,
    *,
    method: HomophilyMethod = "edge",
    adjacency: Literal["given", "symmetric"] = "given",
) -> float:
    r"""How often neighbours agree in class, by one of five measures.

    With :math:`E` the edges whose two ends have a known class, and :math:`V` the known nodes:

    - ``edge`` (Zhu et al. 2020), in [0, 1]: the share of agreeing edges,

      .. math:: h = |\{(i, j) \in E : y_i = y_j\}| \,/\, |E|

    - ``node`` (Pei et al. 2020), in [0, 1]: that share among the edges that enter a node, averaged
      over :math:`V`; a node that no edge enters counts 0, as in PyG.
    - ``class`` (Lim et al. 2021; PyG's ``edge_insensitive``, also accepted), in [0, 1]: with
      :math:`h_k` the share among the edges that enter class k,

      .. math:: \frac{1}{c-1} \sum_k \max\Bigl(0,\; h_k - \frac{|V_k|}{|V|}\Bigr)

    - ``adjusted`` (Platonov et al. 2023), at most 1, 0 for labels independent of the edges: with
      :math:`D_k` the number of edge ends in class k,

      .. math:: \frac{h - \sum_k (D_k / 2|E|)^2}{1 - \sum_k (D_k / 2|E|)^2}

    - ``label_informativeness`` (Platonov et al. 2023), in [0, 1]: what a neighbour's class tells,
      :math:`I(y_i; y_j) / H(y_i)` for a random end of a random edge.

    Edge weights are not used. ``edge``, ``node`` and ``class`` treat edges as directed, like PyG;
    the two of Platonov et al. are defined for undirected graphs and take every stored edge as one.

    Args:
        graph: The graph, or its adjacency.
        y: Class of each node, negative = unknown; the labels of the graph if left out. Edges with
            an unknown end are left out.
        method: Which measure.
        adjacency: ``symmetric`` first takes the union with the reversed edges; then ``edge`` and
            the two of Platonov et al. count every undirected edge and every self loop once.

    Shapes:
        y ``[n]``.

    Returns:
        The measure; NaN if no edge joins two known nodes.

    Raises:
        InputError: If there are no labels, they do not fit the graph, or a measure that needs two
            classes sees one.

    Example:
        >>> import scipy.sparse as sp
        >>> edges = ([0, 1, 2, 3], [1, 2, 0, 4])
        >>> a = sp.csr_array((np.ones(4), edges), shape=(5, 5))
        >>> [round(homophily(a, [0, 0, 0, 0, 1], method=m), 4) for m in ("edge", "node", "class")]
        [0.75, 0.6, 0.2]

    Reference:
        Platonov et al., Characterizing graph datasets for node classification, NeurIPS 2023.
    """
    if method not in _MEASURES and method != "node":
        names = ", ".join((*get_args(HomophilyMethod), "edge_insensitive"))
        raise InputError(f"method: choose one of {names} (got {method!r})")
    if adjacency not in ("given", "symmetric"):
        raise InputError(f"adjacency: choose 'given' or 'symmetric' (got {adjacency!r})")
    return _Known.of(graph, y, adjacency).measure(method)


def homophilies(
    graph: Adjacency, *, adjacency: Literal["given", "symmetric"] = "given"
) -> dict[str, float]:
    """All measures of :func:`homophily`, which together cost little more than one."""
    known = _Known.of(graph, None, adjacency)
    return {method: known.measure(method) for method in get_args(HomophilyMethod)}


@dataclass(frozen=True, eq=False)
class _Known:
    """What the measures need of the edges whose two ends have a known class.

    Args:
        label: The class of every node, -1 where it is unknown.
        ends: Sources and targets of these edges.
        every: How many of them lead from each class to each other one.
        once: The same with each undirected edge of a symmetrised graph once.

    Shapes:
        label ``[n]``, every, once ``[classes, classes]``.
    """

    label: NDArray[np.int64]
    ends: Ends
    every: NDArray[np.int64]
    once: NDArray[np.int64]

    @classmethod
    def of(cls, graph: Adjacency, y: ArrayLike | None, adjacency: str) -> Self:
        """Of a graph, or of its symmetrised edges."""
        label = known_labels(graph, y)
        if adjacency == "given" and isinstance(graph, Graph):
            source, target = graph.edge_index
        else:
            matrix = as_adjacency(graph) if adjacency == "given" else symmetrize(graph)
            source, target = matrix.tocoo().coords
        known = label >= 0
        if not known.all():
            both = known[source] & known[target]
            source, target = source[both], target[both]
        width = int(label.max(initial=-1)) + 1
        pairs = label[source] * width + label[target]

        def counted(chosen: NDArray[np.int64]) -> NDArray[np.int64]:
            return np.bincount(chosen, minlength=width**2).reshape(width, width)

        every = counted(pairs)
        once = every if adjacency == "given" else counted(pairs[source <= target])
        return cls(label, (source, target), every, once)

    def measure(self, method: str) -> float:
        """One of them; NaN without an edge."""
        if not self.every.any():
            return float("nan")
        if method == "node":
            return self.node()
        joint = self.every if method in ("class", "edge_insensitive") else self.once
        return float(_MEASURES[method](joint, np.bincount(self.label[self.label >= 0])))

    def node(self) -> float:
        """The share of agreeing edges among those that enter a node, averaged over known nodes."""
        (source, target), n = self.ends, self.label.size
        agree = target[self.label[source] == self.label[target]]
        entering, agreeing = (np.bincount(each, minlength=n) for each in (target, agree))
        return float((agreeing / np.maximum(entering, 1))[self.label >= 0].mean())


def known_labels(graph: Adjacency, y: ArrayLike | None) -> NDArray[np.int64]:
    """The labels to measure with: `y`, else the graph's own; every unknown class is -1.

    Raises:
        InputError: If there are none, or not one per node, or they are not whole numbers.

    Example:
        >>> known_labels(np.zeros((3, 3)), [2, -7, 0]).tolist()
        [2, -1, 0]
    """
    if y is None:
        y = graph.y if isinstance(graph, Graph) else None
    if y is None:
        raise InputError(
            "y: the measure needs labels, and neither y nor graph.y is there (got None)"
        )
    label = np.asarray(y)
    n = graph.num_nodes if isinstance(graph, Graph) else as_adjacency(graph).shape[0]
    if label.shape != (n,):
        raise InputError(f"y: must hold one class per node, shape ({n},) (got {label.shape})")
    if label.dtype.kind not in "iu":
        whole = label.dtype.kind in "bf" and bool(np.all(np.mod(label, 1) == 0))
        if not whole:
            raise InputError(
                "y: must hold whole numbers with -1 for unknown; number the classes first "
                f"(got dtype {label.dtype})"
            )
    return np.maximum(label.astype(np.int64), -1)


def _edge(joint: NDArray[np.int64], count: NDArray[np.int64]) -> float:
    return float(np.trace(joint) / joint.sum())


def _class_insensitive(joint: NDArray[np.int64], count: NDArray[np.int64]) -> float:
    _need_two_classes(count, "class")
    excess = np.diag(joint) / np.maximum(joint.sum(axis=0), 1) - count / count.sum()
    return float(np.maximum(excess, 0).sum() / (count.size - 1))


def _end_shares(joint: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.asarray((joint.sum(axis=0) + joint.sum(axis=1)) / (2 * joint.sum()), np.float64)


def _adjusted(joint: NDArray[np.int64], count: NDArray[np.int64]) -> float:
    shares = _end_shares(joint)
    _need_two_classes(shares, "adjusted")
    chance = float((shares**2).sum())
    return (_edge(joint, count) - chance) / (1.0 - chance)


def _label_informativeness(joint: NDArray[np.int64], count: NDArray[np.int64]) -> float:
    shares = _end_shares(joint)
    _need_two_classes(shares, "label_informativeness")
    pairs = (joint + joint.T) / (2.0 * joint.sum())
    seen = pairs > 0
    information = (pairs[seen] * np.log(pairs[seen] / np.outer(shares, shares)[seen])).sum()
    present = shares[shares > 0]
    return float(information / -(present * np.log(present)).sum())


_MEASURES: dict[str, Callable[[NDArray[np.int64], NDArray[np.int64]], float]] = {
    "edge": _edge,
    "class": _class_insensitive,
    "edge_insensitive": _class_insensitive,
    "adjusted": _adjusted,
    "label_informativeness": _label_informativeness,
}
"""By counts of edges between classes, and of nodes of a class."""


def _need_two_classes(count: NDArray[np.float64] | NDArray[np.int64], method: str) -> None:
    seen = int((count > 0).sum())
    if seen < 2:
        raise InputError(
            f"method: {method!r} compares classes and needs two among the known ends; "
            f"use 'edge' or 'node' (got {seen})"
        )
