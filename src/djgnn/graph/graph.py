"""`Graph`: what every stage starts from. Immutable, checked once, independent of torch."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from djgnn.errors import InputError
from djgnn.graph.checks import MASKS, stored_fields, stored_masks


@dataclass(frozen=True, eq=False)
class Graph:
    r"""A directed graph with node features, labels and splits.

    The adjacency is :math:`A_{ij} = w_{ij}` for an edge :math:`i \to j`, **as given**: nothing is
    symmetrised, no self loop is added or removed. Arrays are read-only after construction.

    Args:
        edge_index: Sources and targets of the edges.
        num_nodes: Number of nodes n.
        x: Node features, dense or CSR; ``None`` for a graph of structure alone.
        y: Class of each node, ``-1`` = unknown; ``None`` if there are no labels.
        edge_weight: Weight of each edge; ``None`` means 1.
        train_mask: Training nodes; one column per split.
        val_mask: Validation nodes, as `train_mask`.
        test_mask: Test nodes, as `train_mask`.
        node_names: Name of each node as the user wrote it; ``None`` means 0..n-1.
        class_names: Name of each class; ``None`` means 0..c-1.
        name: Name of the data set.
        card: Facts about the data set (metric, provenance, oddities).

    Shapes:
        edge_index ``[2, E]``, x ``[n, F]``, y ``[n]``, masks ``[n]`` or ``[n, splits]``.

    Raises:
        InputError: Whenever the parts do not fit together; see :mod:`djgnn.graph.checks`.

    Example:
        >>> import numpy as np
        >>> g = Graph(edge_index=np.array([[0, 1], [1, 2]]), num_nodes=3, y=np.array([0, 1, 0]))
        >>> g
        Graph(num_nodes=3, num_edges=2, num_features=0, num_classes=2, num_splits=0)
        >>> g.adjacency.toarray().tolist()
        [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]
    """

    edge_index: NDArray[np.int64]
    num_nodes: int
    x: NDArray[np.float32] | sp.csr_array | None = None
    y: NDArray[np.int64] | None = None
    edge_weight: NDArray[np.float32] | None = None
    train_mask: NDArray[np.bool_] | None = None
    val_mask: NDArray[np.bool_] | None = None
    test_mask: NDArray[np.bool_] | None = None
    node_names: tuple[str, ...] | None = None
    class_names: tuple[str, ...] | None = None
    name: str = "graph"
    card: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for key, value in stored_fields(self).items():
            object.__setattr__(self, key, value)

    @property
    def num_edges(self) -> int:
        """Number of directed edges."""
        return int(self.edge_index.shape[1])

    @property
    def num_features(self) -> int:
        """Number of feature columns; 0 without features."""
        return 0 if self.x is None else int(self.x.shape[1])

    @property
    def num_classes(self) -> int:
        """Number of classes: the given names, else one more than the largest label."""
        if self.class_names is not None:
            return len(self.class_names)
        return int(self.labels.max()) + 1

    @property
    def num_splits(self) -> int:
        """Number of train/validation/test splits stored with the graph."""
        return 0 if self.train_mask is None else int(self.train_mask.shape[1])

    @property
    def metric(self) -> str:
        """The score of this data set, see :func:`djgnn.training.selection.score`."""
        return str(self.card.get("metric", "accuracy"))

    @cached_property
    def labels(self) -> NDArray[np.int64]:
        """Class of each node, -1 = unknown: `y`, or -1 everywhere if there are no labels."""
        if self.y is not None:
            return self.y
        unknown = np.full(self.num_nodes, -1, dtype=np.int64)
        unknown.flags.writeable = False
        return unknown

    @cached_property
    def adjacency(self) -> sp.csr_array:
        """The adjacency as given: CSR, float32, sorted columns; parallel edges are summed."""
        weight = self.edge_weight
        if weight is None:
            weight = np.ones(self.num_edges, dtype=np.float32)
        shape = (self.num_nodes, self.num_nodes)
        kind = np.int32 if max(self.num_edges, self.num_nodes) < 2**31 else np.int64
        matrix = sp.csr_array(sp.coo_array((weight, tuple(self.edge_index.astype(kind))), shape))
        matrix.sum_duplicates()
        return matrix

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 of everything that can change a result: structure, features, labels, splits."""
        digest = hashlib.sha256(f"djgnn-graph-1 n={self.num_nodes}".encode())
        parts: dict[str, Any] = {
            key: getattr(self, key) for key in ("edge_index", "edge_weight", "y", *MASKS)
        }
        if isinstance(self.x, sp.csr_array):
            parts |= {"x.data": self.x.data, "x.indices": self.x.indices.astype(np.int64)}
            parts |= {"x.indptr": self.x.indptr.astype(np.int64), "x.shape": np.array(self.x.shape)}
        else:
            parts["x"] = self.x
        for key, value in parts.items():
            if value is not None:
                digest.update(f"|{key} {value.dtype.str} {value.shape}|".encode())
                digest.update(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)
        return digest.hexdigest()

    def split(self, index: int = 0) -> Split:
        """The masks of one split.

        Raises:
            InputError: If the graph has no splits or `index` is not one of them.
        """
        if self.train_mask is None or self.val_mask is None or self.test_mask is None:
            raise InputError(
                f"{self.name}: the graph has no splits; make some with `random_splits(graph)`"
            )
        if not 0 <= index < self.num_splits:
            raise InputError(
                f"split {index}: {self.name} has splits 0 to {self.num_splits - 1} (got {index})"
            )
        train, val, test = (m[:, index] for m in (self.train_mask, self.val_mask, self.test_mask))
        return Split(train=train, val=val, test=test, index=index)

    def with_masks(
        self,
        train_mask: NDArray[np.bool_],
        val_mask: NDArray[np.bool_],
        test_mask: NDArray[np.bool_],
    ) -> Graph:
        """The same graph with other splits."""
        masks = dict(zip(MASKS, (train_mask, val_mask, test_mask), strict=True))
        return self._with(**stored_masks(masks, self.y, self.num_nodes))

    def without_labels(self, class_names: tuple[str, ...] | None = None) -> Graph:
        """The same graph without labels and splits; `class_names` are those of another graph."""
        return self._with(y=None, class_names=class_names, **dict.fromkeys(MASKS))

    def _with(self, **checked: Any) -> Graph:
        """The same graph with other fields, in their stored form; nothing is checked again."""
        found = object.__new__(type(self))
        found.__dict__.update(self.__dict__, **checked)
        for key in ("labels", "content_hash"):
            found.__dict__.pop(key, None)
        return found

    def names(self) -> Sequence[str]:
        """Node names, invented from the index where none were given."""
        return self.node_names or [str(i) for i in range(self.num_nodes)]

    def index_of(self, node: str | int) -> int:
        """The number of a node given by its name, or by its number.

        Raises:
            InputError: If there is no such node, with the nearest names.
        """
        if isinstance(node, str):
            names = list(self.names())
            if node in names:
                return names.index(node)
            near = get_close_matches(node, names[:100_000], n=3)
            hint = f"; did you mean {', '.join(map(repr, near))}?" if near else ""
            raise InputError(f"node: there is none of that name{hint} (got {node!r})")
        if not 0 <= int(node) < self.num_nodes:
            raise InputError(f"node: must be between 0 and {self.num_nodes - 1} (got {node!r})")
        return int(node)

    def classes(self) -> Sequence[str]:
        """Class names, invented from the index where none were given."""
        return self.class_names or [str(c) for c in range(self.num_classes)]

    @classmethod
    def load(cls, name: str, data: str | Path | None = None) -> Graph:
        """Find a data set by name, see :func:`djgnn.graph.registry.load`."""
        from djgnn.graph.registry import load

        return load(name, data=data)

    @classmethod
    def from_csv(cls, edges: str | Path, nodes: str | Path, **options: Any) -> Graph:
        """Read an edge table and a node table, see :func:`djgnn.graph.tables.read_tables`."""
        from djgnn.graph.tables import read_tables

        return read_tables(edges, nodes, **options)

    @classmethod
    def from_frames(cls, edges: Any, nodes: Any, **options: Any) -> Graph:
        """Take pandas or polars frames, see :func:`djgnn.graph.tables.from_frames`."""
        from djgnn.graph.tables import from_frames

        return from_frames(edges, nodes, **options)

    @classmethod
    def from_graphml(cls, path: str | Path, **options: Any) -> Graph:
        """Read a GraphML file, see :func:`djgnn.graph.graphml.read_graphml`."""
        from djgnn.graph.graphml import read_graphml

        return read_graphml(path, **options)

    @classmethod
    def from_pyg(cls, data: Any, name: str = "graph") -> Graph:
        """Convert a PyG ``Data``: ``edge_index``, ``edge_weight``, ``x``, ``y`` and the masks.

        Labels may be floats; NaN and -1 mean unknown. Give all three masks or none, each of shape
        ``[n]`` or ``[n, splits]``.
        """
        from djgnn.graph.convert import from_pyg

        return from_pyg(data, name=name)

    @classmethod
    def from_scipy(cls, matrix: Any, x: Any = None, y: Any = None, **fields: Any) -> Graph:
        """Take an adjacency matrix, sparse or dense: entry ``[i, j]`` is the weight of i -> j.

        `x` are features, `y` labels (-1 is unknown), `fields` any other fields of a graph.
        """
        from djgnn.graph.convert import from_scipy

        return from_scipy(matrix, x=x, y=y, **fields)

    @classmethod
    def from_networkx(cls, g: Any, **options: Any) -> Graph:
        """Convert a networkx graph; an undirected edge becomes two directed ones, a self loop one.

        Options: `features` (node attributes that are numbers, or one that is a vector), `label` (a
        node attribute; missing means unknown), `weight` (an edge attribute), `name`.
        """
        from djgnn.graph.convert import from_networkx

        return from_networkx(g, **options)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by the fields, so that a copy is checked and read-only like the original."""
        values = [getattr(self, f.name) for f in fields(self)]
        return Graph, (*values[:-1], dict(self.card))

    def __deepcopy__(self, memo: Any) -> Graph:
        """Itself, as nothing in it changes; scikit-learn copies the parameters of an estimator."""
        return self

    def __repr__(self) -> str:
        return (
            f"Graph(num_nodes={self.num_nodes}, num_edges={self.num_edges}, "
            f"num_features={self.num_features}, num_classes={self.num_classes}, "
            f"num_splits={self.num_splits})"
        )


@dataclass(frozen=True, eq=False)
class Split:
    """Three disjoint sets of nodes, as boolean masks of length n.

    Example:
        >>> split = Split(*np.eye(3, dtype=bool))
        >>> np.flatnonzero(split.val).tolist()
        [1]
    """

    train: NDArray[np.bool_]
    val: NDArray[np.bool_]
    test: NDArray[np.bool_]
    index: int = 0

    def __repr__(self) -> str:
        sizes = "/".join(str(int(m.sum())) for m in (self.train, self.val, self.test))
        return f"Split(index={self.index}, train/val/test={sizes})"
