"""The table of a graph: what one can say of a node in numbers, without a network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from djgnn.model.operators import WholeGraph, mean_normalize
from djgnn.model.subspace import leading_subspace
from djgnn.spectral import symmetrize

if TYPE_CHECKING:
    from djgnn.graph.arrivals import Arrivals

Floats = NDArray[np.float64]
ROUNDING = 1e-9
"""Least variance: what rounding leaves of none must not tell nodes apart."""
BLOCK, MANY_NODES = 1 << 15, 100_000
"""Rows that a thread works on at a time; nodes from which on A is decomposed on the device."""


@dataclass(frozen=True, eq=False)
class Surroundings:
    """Who the neighbours of every node are, without itself.

    A row belongs to the node that looks. Later nodes see known ones and each other; known nodes
    do not see later ones, so that nothing changes for them.

    Shapes:
        outgoing, incoming, both ``[n, n]`` (targets, sources, either), with later nodes
        ``[n + m, n + m]``.
    """

    outgoing: sp.csr_array
    incoming: sp.csr_array
    both: sp.csr_array
    made: dict[Any, Any] = field(default_factory=dict)
    mutual: bool = False
    """Whether all who see a node are seen by it."""

    @classmethod
    def of(cls, adjacency: sp.sparray, later: Arrivals | None = None) -> Surroundings:
        """Those of a graph, and of nodes that come later."""
        back, either = sp.csr_array(adjacency.T), symmetrize(adjacency)
        if later is None:
            return cls(_bare(adjacency), _bare(back), _bare(either), mutual=True)
        among, away, here = later.among, later.outgoing, later.incoming
        rows = (
            (adjacency, away, among),
            (back, here, among.T),
            (either, away.maximum(here), symmetrize(among)),
        )
        return cls(*(_bare(sp.block_array([[a, None], [r, s]])) for a, r, s in rows))

    def ways(self, directed: bool) -> tuple[sp.csr_array, ...]:
        """Targets and sources; where edges have no direction, neighbours."""
        return (self.outgoing, self.incoming) if directed else (self.both,)

    @cached_property
    def mean(self) -> sp.csr_array:
        """The means over all neighbours."""
        return mean_normalize(self.both)

    @cached_property
    def returns(self) -> Floats:
        """What comes back to a node of two steps, the first a sum and the second a mean."""
        both = self.both
        if not self.mutual:
            return totals(sp.csr_array(both.multiply(self.mean.T)))
        values = both.data * (both.data / totals(abs(both))[both.indices])
        return totals(sp.csr_array((values, both.indices, both.indptr), shape=both.shape))

    def singular(self, directed: bool, width: int, device: torch.device) -> Floats:
        """The result of :func:`singular_places`, which several experts need."""
        key = ("singular", directed)
        if key not in self.made:
            self.made[key] = singular_places(self.ways(directed), width, device)
        found: Floats = self.made[key]
        return found


def surroundings(graph: WholeGraph, later: Arrivals | None = None) -> Surroundings:
    """Those of all nodes of a graph, and of the last nodes that came later, made once."""
    key = "surroundings" if later is None else "later"
    if key not in graph.made or graph.made[key][0] is not later:
        graph.made[key] = (later, Surroundings.of(graph.adjacency, later))
    found: Surroundings = graph.made[key][1]
    return found


def _bare(matrix: sp.sparray) -> sp.csr_array:
    rows = sp.csr_array(matrix).astype(np.float64)
    loops = rows.diagonal()
    if loops.any():
        rows = sp.csr_array(rows - sp.diags_array(loops))
    rows.eliminate_zeros()
    return rows


def in_blocks(work: Callable[[slice], None], rows: int) -> None:
    """Do some work for all rows, block by block, in as many threads as torch has.

    What becomes of a row must not depend on the others, so that it does not on the threads either.
    """
    parts = [slice(first, first + BLOCK) for first in range(0, rows, BLOCK)]
    threads = min(torch.get_num_threads(), len(parts))
    if threads < 2:
        for part in parts:
            work(part)
        return
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(work, parts):
            pass


def product(rows: sp.csr_array, dense: Floats) -> Floats:
    """``rows @ dense`` to the bit, in several threads where there are many rows."""
    if rows.shape[0] <= BLOCK or torch.get_num_threads() == 1:
        return np.asarray(rows @ dense)
    found = np.empty((rows.shape[0], *dense.shape[1:]), np.result_type(rows.dtype, dense.dtype))

    def work(part: slice) -> None:
        ends = rows.indptr[part.start : part.stop + 1]
        inside = slice(ends[0], ends[-1])
        parts = (rows.data[inside], rows.indices[inside], ends - ends[0])  # nothing is copied
        found[part] = sp.csr_array(parts, shape=(len(ends) - 1, rows.shape[1])) @ dense

    in_blocks(work, rows.shape[0])
    return found


def totals(rows: sp.csr_array) -> Floats:
    """Sums of the rows."""
    return np.asarray(rows.sum(axis=1), dtype=np.float64).reshape(-1)


def inverse(values: Floats) -> Floats:
    """1 / value, and 0 for 0."""
    return np.divide(1.0, values, out=np.zeros_like(values), where=values > 0)


def leading_directions(x: Any, width: int) -> Floats:
    """The first right singular vectors of a matrix, by scikit-learn's truncated SVD, in one thread.

    Shapes:
        x ``[n, F]`` with F > 1 (dense or sparse), result ``[F, width]``.
    """
    from sklearn.decomposition import TruncatedSVD
    from threadpoolctl import threadpool_limits

    # It divides by the variance, which may be zero.
    with threadpool_limits(1), np.errstate(invalid="ignore"):
        return np.asarray(TruncatedSVD(width, random_state=0).fit(x).components_.T)


def reduction(x: Any, width: int, direct: int) -> Floats:
    """What leads from wide features to few columns: the commonest as they are, an SVD of the rest.

    Args:
        x: The features.
        width: Columns to end with.
        direct: How many of them are features that have the most values other than 0.

    Shapes:
        x ``[n, F]`` with F > width (dense or sparse), result ``[F, width]``.
    """
    values = sp.csc_array(x)
    direct = min(direct, width // 2)
    common = np.argsort(-np.diff(values.indptr), kind="stable")[:direct]
    found = np.zeros((values.shape[1], width))
    found[common, np.arange(direct)] = 1
    rest = np.ones(values.shape[1])
    rest[common] = 0
    found[:, direct:] = leading_directions(values @ sp.diags_array(rest), width - direct)
    return found


def neighbour_means(h: Floats, means: Sequence[sp.csr_array], num_hops: int) -> list[Floats]:
    """A matrix, then for every direction its means over neighbours, over theirs, and so on.

    Shapes:
        h ``[n, w]``, means ``[n, n]`` (rows that sum to 1), result ``[n, w]`` each.
    """
    found = [h]
    for mean in means:
        spread = h
        for _ in range(num_hops):
            spread = product(mean, spread)
            found.append(spread)
    return found


def degree_profile(near: Surroundings) -> list[Floats]:
    """What one can say of a node by the degrees around it.

    Mean and spread of the logarithms of its neighbours' degrees, the mean of their means, and the
    logarithms of the sums of the degrees and of their inverses.

    Shapes:
        results ``[n]`` each.
    """
    degree, mean = totals(near.both), near.mean
    log = np.log1p(degree)
    first = mean @ log
    spread = np.sqrt(np.maximum(mean @ log**2 - first**2, ROUNDING))
    sums = [np.log1p(near.both @ each) for each in (degree, inverse(degree))]
    return [first, spread, mean @ first, *sums]


def label_shares(near: Surroundings, known: Floats, prior: Floats, directed: bool) -> list[Floats]:
    r"""The classes of labelled neighbours in every direction, and of their neighbours.

    Of the weight c of every class and its sum t they are :math:`(c + \pi) / (t + 1)`, with the
    class shares :math:`\pi`, and :math:`\log(1 + t)`. No node sees its own label: steps that lead
    back to it are taken out.

    Args:
        near: Who is near whom.
        known: One row per node, a one in the column of its class; zeros where it has no label.
        prior: Class shares.
        directed: Whether edges have a direction.

    Shapes:
        known ``[n, classes]``, prior ``[classes]``; results ``[n, classes]`` and ``[n, 1]``.
    """
    counts = [product(way, known) for way in near.ways(directed)]
    twice = product(near.both, product(near.mean, known)) - near.returns[:, None] * known
    counts.append(np.maximum(twice, 0))
    found = []
    for count in counts:
        total = count.sum(axis=1, keepdims=True)
        found += [(count + prior) / (total + 1), np.log1p(total)]
    return found


def singular_places(
    ways: Sequence[sp.csr_array], width: int, device: torch.device | str = "cpu"
) -> Floats:
    r"""What places nodes by their edges: singular vectors of :math:`D^{-1/2} A \bar D^{-1/2}`.

    The rows of edges times the result, divided by the roots of their sums, are the places.

    Args:
        ways: The rows of A, and those of its transpose where they differ.
        width: Columns of each direction.
        device: Where a graph of 100,000 nodes or more is decomposed, see :func:`leading_subspace`.

    Shapes:
        result ``[n, width * directions]``.
    """
    roots = [np.sqrt(inverse(totals(way))) for way in (ways[0], ways[0].T)]
    scaled = sp.csr_array(sp.diags_array(roots[0]) @ ways[0] @ sp.diags_array(roots[1]))
    found = np.zeros((ways[0].shape[0], width * len(ways)))
    if not ways[0].nnz:
        return found
    if found.shape[0] < MANY_NODES:
        right = leading_directions(scaled, width)
    else:
        right = leading_subspace(scaled, width, device)
    found[:, :width] = roots[1][:, None] * right
    if len(ways) > 1:
        left = product(scaled, right)
        size = np.linalg.norm(left, axis=0)
        found[:, width:] = roots[0][:, None] * left * inverse(size)
    return found


def places(ways: Sequence[sp.csr_array], vectors: Floats) -> Floats:
    """Where nodes are by their edges with known ones, see :func:`singular_places`.

    Shapes:
        vectors ``[known, width * directions]``, result ``[n, width * directions]``.
    """
    known, found = vectors.shape[0], []
    for way, part in zip(ways, np.split(vectors, len(ways), axis=1), strict=True):
        rows = way[:, :known]
        found.append(np.sqrt(inverse(totals(rows)))[:, None] * product(rows, part))
    return np.column_stack(found)
