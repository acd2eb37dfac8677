"""Large heterophilic graphs with uneven degrees, drawn in O(edges): what scaling is measured on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from djgnn.errors import InputError
from djgnn.graph.graph import Graph

if TYPE_CHECKING:
    from numpy.random import Generator
    from numpy.typing import NDArray


def degree_corrected_sbm(
    num_nodes: int,
    num_edges: int,
    *,
    num_classes: int = 8,
    num_features: int = 128,
    homophily: float = 0.1,
    exponent: float = 2.5,
    signal: float = 1.0,
    random_state: int = 0,
) -> Graph:
    r"""Draw a directed graph whose classes point at other classes, with power-law degrees.

    .. math::
        P(i \to j) \propto \theta_i\, M_{y(i) y(j)}\, \theta_j, \qquad
        P(\theta > t) \propto t^{1 - \text{exponent}}

    Of the edges of class c the share `homophily` stays in c, half of the rest goes to class c + 1,
    and what is left to any class. So neighbours disagree, while whom a node points at tells its
    class. Edges are distinct and no node points at itself.

    Args:
        num_nodes: Number of nodes, at least two per class.
        num_edges: Number of edges to draw; repeated ones are dropped, so there are a few less.
        num_classes: Number of classes, at least 2, of equal size.
        num_features: Number of features, 0 = none; standard normal, with a mean per class.
        homophily: Share of edges within a class.
        exponent: Of the power law of degrees, above 2.
        signal: Length of the class means of the features.
        random_state: Seed.

    Raises:
        InputError: For sizes or shares that make no graph.

    Example:
        >>> g = degree_corrected_sbm(1000, 8000, num_features=4)
        >>> same = g.y[g.edge_index[0]] == g.y[g.edge_index[1]]
        >>> bool(g.num_edges > 7000), bool(same.mean() < 0.25)
        (True, True)
    """
    _check(num_nodes, num_edges, num_classes, homophily, exponent)
    rng = np.random.default_rng(random_state)
    y = rng.permutation(np.arange(num_nodes) % num_classes)
    weight = rng.pareto(exponent - 1, num_nodes) + 1
    weight = np.minimum(weight / weight.mean(), np.sqrt(num_nodes))
    stubs = _round(weight * (num_edges / weight.sum()), rng)
    edge_index = _draw_edges(y, stubs, num_classes, homophily, rng)
    x = None
    if num_features:
        means = rng.standard_normal((num_classes, num_features), dtype=np.float32)
        means *= signal / np.linalg.norm(means, axis=1, keepdims=True)
        x = rng.standard_normal((num_nodes, num_features), dtype=np.float32)
        x += means[y]
    card = {"title": "Degree-corrected heterophilic block model", "metric": "accuracy"}
    return Graph(edge_index, num_nodes, x=x, y=y, name="degree_corrected_sbm", card=card)


def _draw_edges(
    y: NDArray[np.int64],
    stubs: NDArray[np.int64],
    num_classes: int,
    homophily: float,
    rng: Generator,
) -> NDArray[np.int64]:
    """Every node has as many edges as stubs; a target is a random stub of the class chosen."""
    n = y.size
    by_class = np.argsort(y, kind="stable")
    ends = np.repeat(by_class, stubs[by_class] + 1)  # one more, so that every node can be reached
    bounds = np.concatenate([[0], np.cumsum(np.bincount(y, weights=stubs + 1))]).astype(np.int64)
    source = np.repeat(np.arange(n), stubs)
    chance = rng.random(source.size, dtype=np.float32)
    target_class = y[source]
    other = (chance >= homophily).nonzero()[0]
    shift = np.where(
        chance[other] < (1 + homophily) / 2, 1, rng.integers(0, num_classes, other.size)
    )
    target_class[other] = (target_class[other] + shift) % num_classes
    low, high = bounds[target_class], bounds[target_class + 1]
    target = ends[low + (rng.random(source.size) * (high - low)).astype(np.int64)]
    key = np.sort((source * n + target)[source != target])
    key = key[np.diff(key, prepend=-1) > 0]
    return np.stack(np.divmod(key, n))


def _round(expected: NDArray[np.float64], rng: Generator) -> NDArray[np.int64]:
    """Whole numbers with these expectations."""
    return np.floor(expected + rng.random(expected.size)).astype(np.int64)


def _check(n: int, edges: int, classes: int, homophily: float, exponent: float) -> None:
    if classes < 2 or n < 2 * classes or not 1 <= edges <= n * (n - 1) // 4:
        raise InputError(
            "degree_corrected_sbm: needs two classes, two nodes per class and 1 to n (n - 1) / 4 "
            f"edges (got {classes} classes, {n} nodes, {edges} edges)"
        )
    if not 0 <= homophily <= 1 or not exponent > 2:
        raise InputError(
            "degree_corrected_sbm: homophily must be a share and exponent above 2 "
            f"(got {homophily}, {exponent})"
        )
