"""What the model needs of a graph, computed once: operators, degrees, twin classes."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import partial
from threading import RLock
from typing import Any, TypeVar, cast

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from djgnn.graph.operator import SparseOperator
from djgnn.jumps import TwinClasses, single_classes, twin_classes
from djgnn.model.views import GraphView
from djgnn.spectral import symmetrize

T = TypeVar("T")
ADJACENCIES = ("given", "transposed", "symmetric")
SOME_ROWS = 1 << 16
"""Rows of A that are looked at together."""


@dataclass(frozen=True, eq=False)
class GraphOperators:
    """Constant parts of a graph, on one device and in one precision.

    Shapes:
        adjacency, homophilic ``[n, n]``; degree ``[n]``; volume scalar.

    Example:
        >>> import scipy.sparse as sp
        >>> operators = graph_operators(sp.csr_array(np.array([[0.0, 1.0], [0.0, 0.0]])))
        >>> operators.degree.tolist(), operators.volume.item()
        ([1.0, 0.0], 1.0)
    """

    adjacency: SparseOperator
    degree: Tensor
    volume: Tensor
    homophilic: SparseOperator
    twins: TwinClasses

    @property
    def num_nodes(self) -> int:
        """Number of nodes n."""
        return self.adjacency.shape[0]

    def view(self, features: Tensor | SparseOperator) -> GraphView:
        """All rows, see :mod:`djgnn.model.views`."""
        return GraphView(features, self, self.adjacency, self.homophilic)

    def __repr__(self) -> str:
        return f"GraphOperators({self.adjacency}, {self.twins})"


def at_once(work: Callable[[], Any]) -> Any:
    """Call it in this process."""
    return work()


@dataclass(frozen=True, eq=False)
class WholeGraph:
    """All of a graph on the CPU, for experts that are computed whole.

    Args:
        adjacency: A as given; ``None`` on a process that has no more than its own rows.
        features: X of all nodes, where a process otherwise holds a part of it.
        shared: Does something on one of the processes and gives the result to all.
        made: What several experts need of it, by name; the first one makes it.
        device: Where experts are.
        symmetric: Gives the larger of A and its transpose, where others need it, too.
    """

    adjacency: sp.csr_array | None
    features: Any = None
    shared: Callable[[Callable[[], Any]], Any] = at_once
    made: dict[str, Any] = field(default_factory=dict)
    device: torch.device = torch.device("cpu")  # noqa: RUF009
    symmetric: Callable[[], sp.csr_array] | None = None


class Parts:
    """Parts of a graph that several operators share, each made when first asked for.

    Args:
        adjacency: A as given.
        dtype: Precision of the values.
        device: Where they live.
    """

    shares = True
    """Whether treated matrices are kept for the next part, and the transpose of A shares its
    values."""

    def __init__(
        self,
        adjacency: sp.sparray | None,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        self._given, self._kind = adjacency, (dtype, torch.device(device))
        self._made: dict[Hashable, Any] = {}
        self._making: dict[Hashable, Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles have locks of their own."""
        return {key: value for key, value in self.__dict__.items() if key != "_making"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _making={})

    def _once(self, key: Hashable, make: Callable[[], T]) -> T:
        with self._making.setdefault(key, RLock()):  # experts may be trained in several threads
            if key not in self._made:
                self._made[key] = make()
            return cast(T, self._made[key])

    def rows(self, treatment: str) -> tuple[SparseOperator, Tensor, Tensor]:
        """The adjacency, its row sums, and their sum."""

        def make() -> tuple[SparseOperator, Tensor, Tensor]:
            own, (dtype, device) = self.treated(treatment), self._kind
            degree = self.of_all(np.asarray(own.sum(axis=1)).reshape(-1))
            sums = (torch.from_numpy(degree), torch.tensor(degree.sum()))
            degrees, volume = (part.to(device, dtype) for part in sums)
            if treatment == "transposed" and self.shares:
                given = self.rows("given")[0]
                if len(given.transposed) == 1:
                    back = SparseOperator(given.transposed[0], (given.matrix,))
                    return back, degrees, volume
            return self.held(own), degrees, volume

        return self._once(("rows", treatment), make)

    first = 0
    """The first row that is kept."""

    def treated(self, treatment: str) -> sp.csr_array:
        """The rows that are kept, all of them, see :func:`treat`."""
        if not self.shares:
            return treat(self._given, treatment)
        return self._once(("treated", treatment), lambda: treat(self._given, treatment))

    def of_all(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values of all nodes, from those of the rows that are kept."""
        return values

    def whole(self) -> WholeGraph:
        """All of it."""
        device, symmetric = self._kind[1], partial(self.treated, "symmetric")

        def make() -> WholeGraph:
            given = sp.csr_array(self._given)
            return WholeGraph(given, device=device, symmetric=symmetric if self.shares else None)

        return self._once("whole", make)

    def held(self, matrix: sp.csr_array) -> SparseOperator:
        """Rows as an operator."""
        return SparseOperator.from_scipy(matrix, *self._kind)

    def normalized(self, treatment: str, mean: bool) -> Any:
        """The adjacency normalised, see :func:`gcn_normalize` and :func:`mean_normalize`."""

        def make() -> Any:
            own = self.treated(treatment)
            if mean:
                return self.spreading(mean_normalize(own))
            return self.spreading(gcn_normalize(own, self.first, self.of_all))

        return self._once(("normalized", treatment, mean), make)

    def spreading(self, matrix: sp.csr_array) -> Any:
        """Rows as an operator, to be multiplied by values of nodes."""
        return self.held(matrix)

    def twins(self, treatment: str, look: bool) -> TwinClasses:
        """The twin classes; every node alone if one need not look for any."""

        def make() -> TwinClasses:
            own = self.treated(treatment)
            classes = twin_classes(own) if look else single_classes(own.shape[0])
            return classes.to(self._kind[1])

        return self._once(("twins", look and treatment), make)

    def operators(
        self,
        pump_adjacency: str = "given",
        homophilic_adjacency: str = "given",
        mean: bool = False,
        twins: bool = True,
    ) -> GraphOperators:
        """See :func:`graph_operators`."""
        adjacency, degree, volume = self.rows(pump_adjacency)
        return GraphOperators(
            adjacency=adjacency,
            degree=degree,
            volume=volume,
            homophilic=self.normalized(homophilic_adjacency, mean),
            twins=self.twins(pump_adjacency, twins),
        )


class EdgeMemory:
    """The operators of the edges that a model was last given; copies and pickles leave them out."""

    def __init__(self) -> None:
        self._held: tuple[tuple[Tensor | None, ...], list[int], Any, Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Nothing is held."""
        return {"_held": None}

    def __call__(
        self,
        edge_index: Tensor,
        edge_weight: Tensor | None,
        kind: tuple[torch.dtype, torch.device],
        prepare: Callable[[Tensor, Tensor | None], Any],
    ) -> Any:
        """What `prepare` makes of the edges, anew where they or the model's kind have changed."""
        given, held = (edge_index, edge_weight), self._held
        versions = [part._version for part in given if part is not None]
        same = held is not None and all(a is b for a, b in zip(held[0], given, strict=True))
        if held is None or not same or held[1:3] != (versions, kind):
            self._held = held = (given, versions, kind, prepare(*given))
        return held[3]


def graph_operators(
    adjacency: sp.sparray,
    *,
    pump_adjacency: str = "given",
    homophilic_adjacency: str = "given",
    mean: bool = False,
    twins: bool = True,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> GraphOperators:
    """Prepare a graph for the model.

    Args:
        adjacency: A as given.
        pump_adjacency: ``"given"``, ``"transposed"`` or ``"symmetric"``: what the pump and the
            structure branch see.
        homophilic_adjacency: The same for the branches that propagate.
        mean: They take the mean of the neighbours; by default the normalisation of a GCN.
        twins: Look for nodes with equal rows; off for the f(I) ablation, where none exist.
        dtype: Precision of the values.
        device: Where they live.

    Example:
        >>> import scipy.sparse as sp
        >>> a = sp.csr_array(np.array([[0.0, 1.0], [0.0, 0.0]]))
        >>> graph_operators(a, pump_adjacency="symmetric").degree.tolist()
        [1.0, 1.0]
    """
    parts = Parts(adjacency, dtype, device)
    return parts.operators(pump_adjacency, homophilic_adjacency, mean, twins)


def treat(adjacency: sp.sparray, treatment: str) -> sp.csr_array:
    """The adjacency as given, transposed, or the larger of both (the union, for 0/1 edges).

    Raises:
        ValueError: For an unknown treatment.
    """
    if treatment not in ADJACENCIES:
        raise ValueError(f"adjacency must be one of {', '.join(ADJACENCIES)} (got '{treatment}')")
    given = sp.csr_array(adjacency).astype(np.float64)
    if treatment == "transposed":
        return sp.csr_array(given.T)
    return symmetrize(given) if treatment == "symmetric" else given


def gcn_normalize(
    adjacency: sp.sparray,
    first: int = 0,
    of_all: Callable[[NDArray[Any]], NDArray[Any]] = lambda values: values,
) -> sp.csr_array:
    r"""Diagonal set to 1, then :math:`D^{-1/2} A D^{-1/2}` with row sums D, at least 1.

    Args:
        adjacency: A, or successive rows of it.
        first: The first of the rows.
        of_all: Gives values of all nodes, from those of the rows.
    """
    shape, loops = adjacency.shape, adjacency.diagonal(first)
    if loops.any():
        adjacency = adjacency - sp.diags_array(loops, offsets=first, shape=shape)
    looped = sp.csr_array(adjacency + sp.eye_array(*shape, k=first, format="csr"))
    root = 1 / np.sqrt(np.maximum(np.asarray(looped.sum(axis=1)).reshape(-1), 1))
    # Scaling the entries gives the bits of two products with diagonal matrices, four times faster.
    own = np.repeat(root, np.diff(looped.indptr))
    values = own * looped.data * of_all(root)[looped.indices]
    return sp.csr_array((values, looped.indices, looped.indptr), shape=looped.shape)


def mean_normalize(adjacency: sp.sparray) -> sp.csr_array:
    """Rows divided by the sums of their absolute values; a node without neighbours keeps zeros."""
    rows = sp.csr_array(adjacency)
    size = np.asarray(abs(rows).sum(axis=1)).reshape(-1)
    values = rows.data / np.repeat(np.where(size > 0, size, 1), np.diff(rows.indptr))
    return sp.csr_array((values, rows.indices, rows.indptr), shape=rows.shape)


def adjacency_matrix(
    edge_index: Tensor, num_nodes: int, edge_weight: Tensor | None = None
) -> sp.csr_array:
    """A from PyG's edge list; parallel edges are summed.

    Raises:
        ValueError: If an edge names a node that does not exist, or weights are negative or ask for
            a gradient.
    """
    if edge_weight is not None and edge_weight.requires_grad:
        raise ValueError(
            "edge_weight must be constant, no gradient reaches it; pass edge_weight.detach()"
        )
    if edge_index.numel() and (edge_index.min() < 0 or edge_index.max() >= num_nodes):
        raise ValueError(
            f"edge_index must hold nodes between 0 and {num_nodes - 1} "
            f"(got {int(edge_index.min())} to {int(edge_index.max())})"
        )
    source, target = edge_index.cpu().numpy()
    weight = np.ones(source.size) if edge_weight is None else edge_weight.cpu().numpy()
    if not (weight >= 0).all():
        raise ValueError(f"edge_weight must be zero or more (got {weight.min()})")
    return sp.csr_array(sp.coo_array((weight, (source, target)), shape=(num_nodes, num_nodes)))


def is_directed(adjacency: sp.sparray, back: sp.csr_array | None = None) -> bool:
    """Whether a matrix differs from its transpose, `back` where it is known."""
    rows = sp.csr_array(adjacency)
    back = sp.csr_array(rows.T) if back is None else back
    if rows.nnz == back.nnz and all(each.has_canonical_format for each in (rows, back)):
        names = ("indptr", "indices", "data")
        same = all(np.array_equal(getattr(rows, n), getattr(back, n)) for n in names)
        if same or rows.data.all():  # without stored zeros equal matrices are stored alike
            return not same
    return bool(abs(rows - back).nnz)


def direction_tells(adjacency: sp.sparray, back: sp.csr_array | None = None) -> bool:
    """Whether the direction of edges may say something: some edge between two nodes has a reverse.

    Where none has one, a list probably names every edge of an undirected graph once. `back` is the
    transpose, where it is known.
    """
    rows = sp.csr_array(adjacency)
    back = sp.csr_array(rows.T) if back is None else back
    for first in range(0, rows.shape[0], SOME_ROWS):  # mostly the first have one
        some = slice(first, first + SOME_ROWS)
        pairs = sp.coo_array(rows[some].multiply(back[some]))
        if (pairs.row + first != pairs.col).any():
            return True
    return False
