"""Numbers that describe the nodes of a graph, without a network."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from threading import RLock
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from djgnn.graph.new_nodes import Arrivals
from djgnn.graph.operator import SparseOperator, csr_product, index_dtype
from djgnn.model.operators import WholeGraph, mean_normalize
from djgnn.model.truncated_svd import leading_subspace
from djgnn.spectral import symmetrize

Floats = NDArray[np.float64]
Rows = slice | NDArray[np.int64]
EVERY = slice(None)
"""Rows of all nodes."""
ROUNDING = 1e-9
"""Least variance: what rounding leaves of none must not tell nodes apart."""
BLOCK, MANY_NODES, MANY_ENTRIES = 1 << 15, 100_000, 1 << 21
"""Rows that a thread works on at a time; nodes from which on A is decomposed on the device, and
entries of a matrix from which on it is multiplied there."""
COLUMNS = 16
"""Of a product on a CPU that are computed at a time, in double precision."""
POWER, FORMER_POWER = 0.25, 0.5
"""Of the degrees that edges are divided by before A is decomposed, and of version 1.0."""
CPU = torch.device("cpu")
_making = RLock()  # experts may be trained in several threads
sharing = RLock()  # tables and singular vectors take long: others do not wait for them


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
    device: torch.device = CPU
    """Where products of many rows are computed."""

    @classmethod
    def of(
        cls,
        adjacency: sp.sparray,
        later: Arrivals | None = None,
        device: torch.device = CPU,
        either: sp.csr_array | None = None,
    ) -> Self:
        """Those of a graph, and of nodes that come later; `either` where it is known already."""
        back = sp.csr_array(adjacency.T)
        either = symmetrize(adjacency) if either is None else either
        if later is None:
            return cls(_bare(adjacency), _bare(back), _bare(either), mutual=True, device=device)
        among, away, here = later.among, later.outgoing, later.incoming
        rows = (
            (adjacency, away, among),
            (back, here, among.T),
            (either, away.maximum(here), symmetrize(among)),
        )

        def joined(parts: tuple[Any, Any, Any]) -> sp.csr_array:
            return _bare(_below(sp.csr_array(parts[0]), sp.hstack(parts[1:])))

        with ThreadPoolExecutor(min(len(rows), torch.get_num_threads())) as pool:
            out, back, both = pool.map(joined, rows)
        return cls(out, back, both, device=device)

    def ways(self, directed: bool) -> tuple[sp.csr_array, ...]:
        """Targets and sources; where edges have no direction, neighbours."""
        return (self.outgoing, self.incoming) if directed else (self.both,)

    def means(self, directed: bool) -> tuple[sp.csr_array, ...]:
        """The means over targets and sources; where edges have no direction, over neighbours."""
        if not directed:
            return (self.mean,)
        if "means" not in self.made:
            self.made["means"] = tuple(mean_normalize(way) for way in self.ways(True))
        found: tuple[sp.csr_array, ...] = self.made["means"]
        return found

    def times(self, rows: sp.csr_array) -> Callable[[Tensor], Tensor]:
        """What multiplies values of nodes by a matrix, see :func:`times`."""
        return times(rows, self.device)

    def product(self, rows: sp.csr_array, dense: NDArray[Any]) -> Floats:
        """``rows @ dense``, see :func:`product`."""
        return product(rows, dense, self.device)

    def columns_of(self, rows: sp.csr_array, dense: NDArray[Any]) -> Iterator[Floats]:
        """The columns of :meth:`product`, on a CPU some after the others."""
        if self.device.type != "cpu":
            yield self.product(rows, dense)
            return
        for first in range(0, dense.shape[1], COLUMNS):
            yield self.product(rows, np.asarray(dense[:, first : first + COLUMNS], np.float64))

    @cached_property
    def mean(self) -> sp.csr_array:
        """The means over all neighbours."""
        return mean_normalize(self.both)

    @cached_property
    def returns(self) -> Floats:
        """The weight with which two steps, a sum and then a mean, lead back to each node."""
        both = self.both
        if not self.mutual:
            return totals(sp.csr_array(both.multiply(self.mean.T)))
        values = both.data * (both.data / totals(abs(both))[both.indices])
        return totals(sp.csr_array((values, both.indices, both.indptr), shape=both.shape))

    def singular(self, directed: bool, width: int, device: torch.device) -> NDArray[np.float32]:
        """The result of :func:`singular_places`, which several experts need."""
        key = ("singular", directed)
        with sharing:
            if key not in self.made:
                self.made[key] = singular_places(self.ways(directed), width, device)
            found: NDArray[np.float32] = self.made[key]
        return found


def surroundings(graph: WholeGraph, later: Arrivals | None = None) -> Surroundings:
    """Those of all nodes of a graph, and of the last nodes that came later, made once."""
    key = "surroundings" if later is None else "later"
    with _making:
        if key not in graph.made or graph.made[key][0] is not later:
            either = None if graph.symmetric is None else graph.symmetric()
            made = Surroundings.of(graph.adjacency, later, graph.device, either)
            graph.made[key] = (later, made)
    found: Surroundings = graph.made[key][1]
    return found


def _below(upper: sp.csr_array, lower: sp.sparray) -> sp.csr_array:
    """Rows of a wider matrix below others, which have zeros in its further columns."""
    more = sp.csr_array(lower)
    data, indices = (
        np.concatenate([getattr(rows, name) for rows in (upper, more)])
        for name in ("data", "indices")
    )
    ends = np.concatenate([upper.indptr, upper.indptr[-1] + more.indptr[1:].astype(np.int64)])
    kind = index_dtype(int(ends[-1]), *more.shape)
    places = (each.astype(kind, copy=False) for each in (indices, ends))
    return sp.csr_array((data, *places), shape=(len(ends) - 1, more.shape[1]))


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


def product(rows: sp.csr_array, dense: NDArray[Any], device: torch.device = CPU) -> Floats:
    """``rows @ dense``: to the bit of scipy, or of a large matrix on a GPU."""
    if device.type == "cpu" or rows.nnz < MANY_ENTRIES:
        return _in_threads(rows, dense)
    given = dense if dense.flags.writeable else dense.copy()
    found: Floats = times(rows, device)(torch.from_numpy(given).to(device)).cpu().numpy()
    return found


def times(rows: sp.csr_array, device: torch.device = CPU) -> Callable[[Tensor], Tensor]:
    """What multiplies by a matrix, in double precision and on a device: on a CPU as scipy does.

    Shapes:
        rows ``[n, m]``; of the function, argument ``[m, w]``, result ``[n, w]``.
    """
    if device.type == "cpu":
        return lambda dense: torch.from_numpy(_in_threads(rows, dense.numpy()))
    matrix = SparseOperator.from_scipy(rows, torch.float64, device, backward=False).matrix
    return lambda dense: csr_product(matrix, dense.double())


def _in_threads(rows: sp.csr_array, dense: NDArray[Any]) -> NDArray[Any]:
    """Scipy's product to the bit, in several threads where there are many rows."""
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


def some(matrix: sp.csr_array, rows: Rows) -> sp.csr_array:
    """Some rows of a matrix; itself where all are wanted."""
    return matrix if isinstance(rows, slice) and rows == EVERY else sp.csr_array(matrix[rows])


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


def degree_profile(near: Surroundings, rows: Rows = EVERY) -> list[Floats]:
    """Numbers about the degrees around a node, of some nodes.

    Mean and spread of the logarithms of its neighbours' degrees, the mean of their means, and the
    logarithms of the sums of the degrees and of their inverses.

    Shapes:
        results ``[n]`` each.
    """
    degree, mean, both = totals(near.both), some(near.mean, rows), some(near.both, rows)
    log = np.log1p(degree)
    around = near.mean @ log
    first = around[rows]
    spread = np.sqrt(np.maximum(mean @ log**2 - first**2, ROUNDING))
    sums = [np.log1p(both @ each) for each in (degree, inverse(degree))]
    return [first, spread, mean @ around, *sums]


def label_shares(
    near: Surroundings, known: Floats, prior: Floats, directed: bool, rows: Rows = EVERY
) -> list[Floats]:
    r"""The classes of labelled neighbours in every direction, and of their neighbours.

    Of the weight c of every class and its sum t they are :math:`(c + \pi) / (t + 1)`, with the
    class shares :math:`\pi`, and :math:`\log(1 + t)`. No node sees its own label: steps that lead
    back to it are taken out.

    Args:
        near: Who is near whom.
        known: One row per node, a one in the column of its class; zeros where it has no label.
        prior: Class shares.
        directed: Whether edges have a direction.
        rows: Whose.

    Shapes:
        known ``[n, classes]``, prior ``[classes]``; results ``[rows, classes]`` and ``[rows, 1]``.
    """
    counts = [near.product(some(way, rows), known) for way in near.ways(directed)]
    twice = near.product(some(near.both, rows), near.product(near.mean, known))
    if known[rows].any():
        twice -= near.returns[rows, None] * known[rows]
    counts.append(np.maximum(twice, 0))
    found = []
    for count in counts:
        total = count.sum(axis=1, keepdims=True)
        found += [(count + prior) / (total + 1), np.log1p(total)]
    return found


def singular_places(
    ways: Sequence[sp.csr_array], width: int, device: torch.device | str = "cpu"
) -> NDArray[np.float32]:
    r"""What places nodes by their edges: singular vectors of :math:`D^{-1/4} A \bar D^{-1/4}`.

    The rows of edges times the result, divided by the fourth roots of their sums, are the places.
    They tell both groups and whose neighbours have many edges, of which square roots leave little.

    Args:
        ways: The rows of A, and those of its transpose where they differ.
        width: Columns of each direction.
        device: Where a graph of 100,000 nodes or more is decomposed, see :func:`leading_subspace`.

    Shapes:
        result ``[n, width * directions]``.
    """
    rows = ways[0]
    roots = [inverse(np.asarray(rows.sum(axis=axis)).reshape(-1)) ** POWER for axis in (1, 0)]
    values = np.repeat(roots[0], np.diff(rows.indptr)) * rows.data * roots[1][rows.indices]
    scaled = sp.csr_array((values, rows.indices, rows.indptr), shape=rows.shape)
    found = np.zeros((rows.shape[0], width * len(ways)), dtype=np.float32)
    if not rows.nnz:
        return found
    if found.shape[0] < MANY_NODES:
        right = leading_directions(scaled, width)
    else:
        right = leading_subspace(scaled, width, device)
    found[:, :width] = roots[1][:, None] * right
    if len(ways) > 1:
        left = product(scaled, right, torch.device(device))
        size = np.linalg.norm(left, axis=0)
        found[:, width:] = roots[0][:, None] * left * inverse(size)
    return found


def places(
    near: Surroundings,
    directed: bool,
    vectors: NDArray[Any],
    rows: Rows = EVERY,
    power: float = POWER,
) -> Iterator[Floats]:
    """Where some nodes are by their edges with known ones, see :func:`singular_places`.

    Shapes:
        vectors ``[known, width * directions]``, results ``[rows, some columns]``, one beside the
        other.
    """
    known, ways = vectors.shape[0], near.ways(directed)
    for way, part in zip(ways, np.split(vectors, len(ways), axis=1), strict=True):
        own = some(way, rows)
        own = own if own.shape[1] == known else own[:, :known]
        scale = (inverse(totals(own)) ** power)[:, None]
        for columns in near.columns_of(own, part):
            columns *= scale
            yield columns
