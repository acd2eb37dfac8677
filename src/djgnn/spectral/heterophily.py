"""How much do neighbours disagree: homophily measures on the edges of a labelled graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from djgnn.errors import InputError
from djgnn.graph import Graph
from djgnn.spectral.laplacians import as_adjacency, symmetrize

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    from djgnn.spectral.laplacians import Adjacency

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
    if method not in _measures():
        raise InputError(f"method: choose one of {', '.join(_measures())} (got {method!r})")
    if adjacency not in ("given", "symmetric"):
        raise InputError(f"adjacency: choose 'given' or 'symmetric' (got {adjacency!r})")
    return _homophily(method, known_labels(graph, y), *_edges(graph, adjacency))


def homophilies(
    graph: Adjacency, *, adjacency: Literal["given", "symmetric"] = "given"
) -> dict[str, float]:
    """All measures of :func:`homophily`, which together cost little more than one."""
    label, ends = known_labels(graph, None), _edges(graph, adjacency)
    return {method: _homophily(method, label, *ends) for method in get_args(HomophilyMethod)}


def _measures() -> dict[str, Callable[[Ends, NDArray[np.int64]], float]]:
    return {
        "edge": _edge,
        "node": _node,
        "class": _class_insensitive,
        "edge_insensitive": _class_insensitive,
        "adjusted": _adjusted,
        "label_informativeness": _label_informativeness,
    }


def _homophily(method: str, label: NDArray[np.int64], every: Ends, once: Ends) -> float:
    ends = every if method in ("node", "class", "edge_insensitive") else once
    both = (label[ends[0]] >= 0) & (label[ends[1]] >= 0)
    if not both.any():
        return float("nan")
    known = ends if both.all() else (ends[0][both], ends[1][both])
    return float(_measures()[method](known, label))


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


def _edges(graph: Adjacency, how: str) -> tuple[Ends, Ends]:
    """Sources and targets, and the same with each undirected edge of a symmetrised graph once."""
    if how == "given" and isinstance(graph, Graph):
        every = (graph.edge_index[0], graph.edge_index[1])
        return every, every
    matrix = (as_adjacency(graph) if how == "given" else symmetrize(graph)).tocoo()
    every = (matrix.row, matrix.col)
    if how == "given":
        return every, every
    once = every[0] <= every[1]
    return every, (every[0][once], every[1][once])


def _edge(ends: Ends, label: NDArray[np.int64]) -> float:
    return float(np.mean(label[ends[0]] == label[ends[1]]))


def _node(ends: Ends, label: NDArray[np.int64]) -> float:
    agree = label[ends[0]] == label[ends[1]]
    entering = np.bincount(ends[1], minlength=label.size)
    agreeing = np.bincount(ends[1], weights=agree, minlength=label.size)
    return float((agreeing / np.maximum(entering, 1))[label >= 0].mean())


def _class_insensitive(ends: Ends, label: NDArray[np.int64]) -> float:
    count = np.bincount(label[label >= 0])
    _need_two_classes(count, "class")
    agree = label[ends[0]] == label[ends[1]]
    entering = np.bincount(label[ends[1]], minlength=count.size)
    agreeing = np.bincount(label[ends[1]], weights=agree, minlength=count.size)
    excess = agreeing / np.maximum(entering, 1) - count / count.sum()
    return float(np.maximum(excess, 0).sum() / (count.size - 1))


def _end_shares(ends: Ends, label: NDArray[np.int64]) -> NDArray[np.float64]:
    count = np.bincount(np.concatenate([label[ends[0]], label[ends[1]]]))
    return np.asarray(count / count.sum(), dtype=np.float64)


def _adjusted(ends: Ends, label: NDArray[np.int64]) -> float:
    shares = _end_shares(ends, label)
    _need_two_classes(shares, "adjusted")
    chance = float((shares**2).sum())
    return (_edge(ends, label) - chance) / (1.0 - chance)


def _label_informativeness(ends: Ends, label: NDArray[np.int64]) -> float:
    shares = _end_shares(ends, label)
    _need_two_classes(shares, "label_informativeness")
    c = shares.size
    joint = np.bincount(label[ends[0]] * c + label[ends[1]], minlength=c * c).reshape(c, c)
    joint = (joint + joint.T) / (2.0 * joint.sum())
    seen = joint > 0
    information = (joint[seen] * np.log(joint[seen] / np.outer(shares, shares)[seen])).sum()
    present = shares[shares > 0]
    return float(information / -(present * np.log(present)).sum())


def _need_two_classes(count: NDArray[np.float64] | NDArray[np.int64], method: str) -> None:
    seen = int((count > 0).sum())
    if seen < 2:
        raise InputError(
            f"method: {method!r} compares classes and needs two among the known ends; "
            f"use 'edge' or 'node' (got {seen})"
        )
