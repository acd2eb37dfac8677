"""Stochastic block models: graphs whose structure, labels and features are known by design."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from djgnn.errors import InputError
from djgnn.graph.graph import Graph


def stochastic_block_model(
    sizes: Sequence[int],
    probabilities: ArrayLike,
    *,
    labels: Sequence[int] | None = None,
    num_features: int = 16,
    signal: float = 1.0,
    directed: bool = False,
    shuffle: bool = False,
    block_names: Sequence[str] | None = None,
    random_state: int = 0,
) -> Graph:
    r"""Draw a graph in which the probability of an edge depends on the blocks of its ends only.

    .. math::
        P(i \to j) = P_{b(i) b(j)}, \qquad x_i = s\, \mu_{y(i)} + \varepsilon_i

    with :math:`\mu_c` a random direction of length 1 and :math:`\varepsilon_i` standard normal.
    There are no self loops. The cost is O(edges): no n x n matrix is drawn.

    Args:
        sizes: Number of nodes of each block.
        probabilities: Probability of an edge from a block to a block; symmetric unless `directed`.
        labels: Class of each block, or of each node in the order of the blocks; the block itself
            by default. Labels that do not follow the blocks make structural heterophily.
        num_features: Number of features, 0 = none.
        signal: Strength s of the class in the features.
        directed: Draw both directions of a pair apart; else every edge is there both ways.
        shuffle: Number the nodes at random, so that a number says nothing about the class.
        block_names: Names of the blocks, their numbers by default.
        random_state: Seed.

    Returns:
        A graph whose node names are ``block/number`` and whose card has ``blocks`` and ``sizes``.

    Shapes:
        sizes ``[b]``, probabilities ``[b, b]``, labels ``[b]`` or ``[n]``.

    Raises:
        InputError: If sizes, probabilities and labels do not fit together.

    Example:
        >>> g = stochastic_block_model([3, 2], [[0, 1], [1, 0]], num_features=0)
        >>> g.num_edges, g.y.tolist(), g.node_names[3]
        (12, [0, 0, 0, 1, 1], '1/0')
    """
    counts, matrix, y = _check_blocks(sizes, probabilities, labels, directed)
    rng = np.random.default_rng(random_state)
    n = y.size
    names = list(map(str, range(counts.size) if block_names is None else block_names))
    if len(names) != counts.size:
        raise InputError(
            f"block_names: must have one name per block, {counts.size} (got {len(names)})"
        )
    if num_features < 0 or not np.isfinite(signal):
        raise InputError(
            "num_features, signal: must be a number of columns and a finite strength "
            f"(got {num_features}, {signal})"
        )
    edge_index = _draw_edges(counts, matrix, directed, rng)
    x = None
    if num_features:
        means = rng.standard_normal((int(y.max()) + 1, num_features))
        means /= np.linalg.norm(means, axis=1, keepdims=True)
        noise = rng.standard_normal((n, num_features))
        x = (signal * means[y] + noise).astype(np.float32)
    nodes = [f"{name}/{i}" for name, size in zip(names, counts, strict=True) for i in range(size)]
    if shuffle:
        order = rng.permutation(n)
        place = np.argsort(order)
        edge_index, y = place[edge_index], y[order]
        x = None if x is None else x[order]
        nodes = [nodes[i] for i in order]
    edge_index = edge_index[:, np.lexsort((edge_index[1], edge_index[0]))]
    card: dict[str, Any] = {"title": "Stochastic block model", "metric": "accuracy"}
    card |= {"blocks": names, "sizes": counts.tolist(), "random_state": random_state}
    return Graph(edge_index, n, x=x, y=y, node_names=tuple(nodes), name="sbm", card=card)


def heterophilic_sbm(
    num_nodes: int = 640,
    *,
    num_classes: int = 4,
    communities_per_class: int = 4,
    num_hubs: int = 7,
    hub_size: int = 2,
    hubs_per_community: int = 3,
    link: float = 0.95,
    background: float = 0.002,
    num_features: int = 6,
    signal: float = 1.0,
    random_state: int = 0,
) -> Graph:
    r"""Draw a graph whose neighbours disagree, while position in the graph shows the class.

    Every class is the union of several communities. The members of a community point at the same
    few hubs, and hubs are shared by communities of all classes: the class of a neighbour says
    nothing, and a mean over neighbours, or over the neighbours of neighbours, mixes the
    classes. But nodes of one community have nearly the same row of A, some of them exactly: in
    the similarity of rows, where jumps look, same-label nodes are close. As in the paper's
    Appendix B, labels break the structure. Features carry the class weakly.

    Args:
        num_nodes: Number of nodes beside the hubs, divided evenly.
        num_classes: Number of classes, at least 2.
        communities_per_class: Number of communities of each class.
        num_hubs: Number of groups of hubs; their classes are drawn at random.
        hub_size: Hubs in a group.
        hubs_per_community: Groups of hubs that a community points at.
        link: Probability of an edge from a member to a hub of its community.
        background: Probability of any other edge.
        num_features: Number of features, 0 = none.
        signal: Strength of the class in the features.
        random_state: Seed.

    Returns:
        A shuffled, directed graph; node names are ``class.community/number`` and ``hubH/number``.

    Raises:
        InputError: If there are too few nodes, classes, communities or hubs.

    Example:
        >>> g = heterophilic_sbm(160)
        >>> same = g.y[g.edge_index[0]] == g.y[g.edge_index[1]]
        >>> bool(0.1 < same.mean() < 0.4)
        True
    """
    total = num_classes * communities_per_class
    enough = num_classes >= 2 and communities_per_class >= 1 and num_nodes >= total
    if not enough or hub_size < 1 or not 1 <= hubs_per_community <= num_hubs:
        raise InputError(
            "heterophilic_sbm: needs two classes, one community per class, one node per community, "
            "and 1 to num_hubs groups of one hub or more per community (got "
            f"{num_classes} classes, {communities_per_class} communities, {num_nodes} nodes; "
            f"{hubs_per_community} of {num_hubs} groups of {hub_size})"
        )
    rng = np.random.default_rng([random_state, 1])
    matrix = np.full((total + num_hubs, total + num_hubs), float(background))
    for community in range(total):
        chosen = rng.choice(num_hubs, hubs_per_community, replace=False)
        matrix[community, total + chosen] = link
    classes = np.arange(total) % num_classes
    sizes = np.full(total, num_nodes // total)
    sizes[: num_nodes % total] += 1
    return stochastic_block_model(
        [*sizes.tolist(), *[hub_size] * num_hubs],
        matrix,
        labels=[*classes.tolist(), *rng.integers(0, num_classes, num_hubs).tolist()],
        num_features=num_features,
        signal=signal,
        directed=True,
        shuffle=True,
        block_names=[
            *(f"{c}.{k // num_classes}" for k, c in enumerate(classes)),
            *(f"hub{h}" for h in range(num_hubs)),
        ],
        random_state=random_state,
    )


def _draw_edges(
    counts: NDArray[np.int64], matrix: NDArray[np.float64], directed: bool, rng: Generator
) -> NDArray[np.int64]:
    """For every pair of blocks the number of edges, then that many distinct pairs of nodes."""
    starts = np.concatenate([[0], np.cumsum(counts)])
    parts = [np.zeros((2, 0), dtype=np.int64)]
    for a, b in zip(*np.nonzero(matrix), strict=True):
        if not directed and b < a:
            continue
        size_a, size_b = int(counts[a]), int(counts[b])
        pairs = size_a * size_b if a != b else size_a * (size_a - 1)
        pairs = pairs // 2 if a == b and not directed else pairs
        chosen = _distinct(pairs, int(rng.binomial(pairs, matrix[a, b])), rng)
        if a != b:
            source, target = np.divmod(chosen, size_b)
        elif directed:
            source, target = np.divmod(chosen, max(size_a - 1, 1))
            target = target + (target >= source)
        else:
            source, target = _triangle(chosen)
        parts.append(np.stack([source + starts[a], target + starts[b]]))
    edges = np.concatenate(parts, axis=1)
    return edges if directed else np.concatenate([edges, edges[::-1]], axis=1)


def _distinct(population: int, count: int, rng: Generator) -> NDArray[np.int64]:
    """`count` distinct numbers below `population`, every set equally likely, in O(count)."""
    if 2 * count > population:
        left_out = _distinct(population, population - count, rng)
        return np.setdiff1d(np.arange(population), left_out, assume_unique=True)
    found = np.zeros(0, dtype=np.int64)
    while found.size < count:
        more = rng.integers(population, size=count - found.size)
        found = np.unique(np.concatenate([found, more]))
    return found


def _triangle(index: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pair number t as (i, j) with j < i: t = i (i - 1) / 2 + j."""
    i = ((1 + np.sqrt(1 + 8 * index.astype(np.float64))) / 2).astype(np.int64)
    i -= i * (i - 1) // 2 > index
    i += i * (i + 1) // 2 <= index
    return i, index - i * (i - 1) // 2


def _check_blocks(
    sizes: Any, probabilities: Any, labels: Any, directed: bool
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
    """Sizes, probabilities and the class of every node, where they fit together."""
    counts = np.asarray(sizes)
    if counts.ndim != 1 or not counts.size or counts.dtype.kind not in "iu" or (counts < 1).any():
        raise InputError(f"sizes: must be whole numbers of 1 or more per block (got {sizes!r})")
    b, n = counts.size, int(counts.sum())
    matrix = np.asarray(probabilities, dtype=np.float64)
    inside = matrix.shape == (b, b) and bool(((matrix >= 0) & (matrix <= 1)).all())
    if not inside or not (directed or np.array_equal(matrix, matrix.T)):
        raise InputError(
            f"probabilities: must have one row and column per block, [{b}, {b}], be between 0 and "
            f"1, and symmetric unless `directed=True` (got {matrix.tolist()!r:.80})"
        )
    given = np.arange(b) if labels is None else np.asarray(labels)
    if given.dtype.kind not in "iu" or given.shape not in ((b,), (n,)) or (given < 0).any():
        raise InputError(
            f"labels: must be one class of 0 or more per block, [{b}], or per node, [{n}] "
            f"(got {given.dtype} {list(given.shape)})"
        )
    per_node = np.repeat(given, counts) if given.shape == (b,) else given
    return counts.astype(np.int64), matrix, per_node.astype(np.int64)
