"""Large heterophilic graphs with power-law degrees, which the benchmarks of size run on."""

from __future__ import annotations

import numpy as np

from djgnn.errors import InputError
from djgnn.graph import Graph


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
    and what is left to any class. So neighbours disagree, while the targets of a node show its
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
    n, c = num_nodes, num_classes
    enough = c >= 2 and n >= 2 * c and 1 <= num_edges <= n * (n - 1) // 4
    if not enough or not 0 <= homophily <= 1 or not exponent > 2:
        raise InputError(
            "degree_corrected_sbm: needs two classes, two nodes per class, 1 to n (n - 1) / 4 "
            "edges, homophily from 0 to 1 and exponent above 2 "
            f"(got {c} classes, {n} nodes, {num_edges} edges, {homophily}, {exponent})"
        )
    rng = np.random.default_rng(random_state)
    y = rng.permutation(np.arange(n) % c)
    weight = rng.pareto(exponent - 1, n) + 1
    weight = np.minimum(weight / weight.mean(), np.sqrt(n))
    # Whole numbers of edges with these expectations; the target of an edge is the end of a random
    # edge of its class, with one end more per node so that every node can be reached.
    out = np.floor(weight * (num_edges / weight.sum()) + rng.random(n)).astype(np.int64)
    by_class = np.argsort(y, kind="stable")
    ends = np.repeat(by_class, out[by_class] + 1)
    bounds = np.concatenate([[0], np.cumsum(np.bincount(y, weights=out + 1))]).astype(np.int64)
    source = np.repeat(np.arange(n), out)
    chance = rng.random(source.size, dtype=np.float32)
    chosen = y[source]
    other = (chance >= homophily).nonzero()[0]
    shift = np.where(chance[other] < (1 + homophily) / 2, 1, rng.integers(0, c, other.size))
    chosen[other] = (chosen[other] + shift) % c
    low, high = bounds[chosen], bounds[chosen + 1]
    target = ends[low + (rng.random(source.size) * (high - low)).astype(np.int64)]
    edge_index = np.stack(np.divmod(np.unique((source * n + target)[source != target]), n))
    x = None
    if num_features:
        means = rng.standard_normal((c, num_features), dtype=np.float32)
        means *= signal / np.linalg.norm(means, axis=1, keepdims=True)
        x = rng.standard_normal((n, num_features), dtype=np.float32)
        x += means[y]
    card = {"title": "Degree-corrected heterophilic block model", "metric": "accuracy"}
    return Graph(edge_index, n, x=x, y=y, name="degree_corrected_sbm", card=card)
