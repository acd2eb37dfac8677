"""A graph as two tables, such that reading them gives the graph back."""

from __future__ import annotations

from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from djgnn.errors import InputError
from djgnn.graph.files import atomic_write
from djgnn.graph.graph import Graph
from djgnn.graph.table_files import PARQUET, TABS

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

CELLS = 2**22
EXACT = 2**53


def write_tables(graph: Graph, edges: str | Path, nodes: str | Path, split: int | None = 0) -> None:
    """Write a graph as an edge table and a node table, the inverse of ``read_tables``.

    Columns are ``source, target, weight`` and ``node, label, split, f0, f1, ...``; those the graph
    does not have are left out. Numbers are written so that nothing is lost. Reading gives the same
    adjacency, features, names, labels by name, and the masks of that split; a class that no node
    has is not in the tables.

    Args:
        graph: What to write.
        edges: File for the edges; ``.parquet`` is written as such, ``.tsv`` with tabs, anything
            else with commas.
        nodes: File for the nodes.
        split: Which split to write, ``None`` = none.

    Raises:
        InputError: If a node or class has an empty name, or a file cannot be written.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> g = Graph(np.array([[0], [1]]), num_nodes=2, y=np.array([0, -1]))
        >>> write_tables(g, folder / "e.csv", folder / "n.csv")
        >>> (folder / "n.csv").read_text().split()
        ['"node","label"', '"0","0"', '"1",']
    """
    import polars as pl

    names = pl.Series(list(graph.names()), dtype=pl.String)
    for kind, values in (("node", graph.names()), ("class", graph.classes())):
        if "" in values:
            raise InputError(
                f"{kind} {list(values).index('')}: has an empty name, which a table cannot tell "
                f"from a missing one; rename it (got '')"
            )
    source, target = graph.edge_index
    columns = {"source": names.gather(source), "target": names.gather(target)}
    if graph.edge_weight is not None:
        columns["weight"] = _number(graph.edge_weight)
    with atomic_write(edges) as stream:
        _write(pl.DataFrame(columns), stream, Path(edges), header=True)
    table = {"node": names}
    if graph.y is not None:
        table["label"] = _lookup(list(graph.classes()), graph.y)
    if split is not None and graph.num_splits:
        parts = graph.split(split)
        codes = np.full(graph.num_nodes, -1)
        for code, mask in enumerate((parts.train, parts.val, parts.test)):
            codes[mask] = code
        table["split"] = _lookup(["train", "val", "test"], codes)
    with atomic_write(nodes) as stream:
        _write_nodes(pl.DataFrame(table), graph, stream, Path(nodes))


def _write_nodes(table: pl.DataFrame, graph: Graph, stream: IO[bytes], path: Path) -> None:
    """Features are expanded a slice of rows at a time, so a sparse matrix stays small."""
    import polars

    x: Any = graph.x
    if x is None:
        _write(table, stream, path, header=True)
        return
    whole = _whole_columns(x)
    step = max(1, CELLS // max(1, graph.num_features))

    def block(start: int) -> pl.DataFrame:
        part = x[start : start + step]
        dense = part.toarray() if sp.issparse(part) else part
        return table[start : start + step].with_columns(
            _number(dense[:, f], bool(whole[f])).alias(f"f{f}") for f in range(graph.num_features)
        )

    starts = range(0, graph.num_nodes, step)
    if path.suffix.lower() in PARQUET:  # has its directory at the end: one piece
        _write(polars.concat([block(start) for start in starts]), stream, path, header=True)
        return
    for start in starts:
        _write(block(start), stream, path, header=start == 0)


def _whole_columns(x: Any) -> NDArray[np.bool_]:
    """Which feature columns hold whole numbers only, and print as such."""
    if not sp.issparse(x):
        whole: NDArray[np.bool_] = ((x == np.rint(x)) & (np.abs(x) < EXACT)).all(axis=0)
        return whole
    odd = (x.data != np.rint(x.data)) | (np.abs(x.data) >= EXACT)
    return np.asarray(np.bincount(x.indices[odd], minlength=x.shape[1]) == 0)


def _number(values: NDArray[Any], whole: bool | None = None) -> pl.Series:
    import polars as pl

    if whole is None:
        whole = bool(((values == np.rint(values)) & (np.abs(values) < EXACT)).all())
    # A negative zero survives as a float only.
    if whole and not np.signbit(values[values == 0]).any():
        return pl.Series(values.astype(np.int64))
    return pl.Series(np.ascontiguousarray(values))


def _lookup(words: list[str], codes: NDArray[Any]) -> pl.Series:
    import polars as pl

    places = pl.Series(np.where(codes < 0, len(words), codes))
    return pl.Series([*words, None], dtype=pl.String).gather(places)


def _write(frame: pl.DataFrame, stream: IO[bytes], path: Path, header: bool) -> None:
    if path.suffix.lower() in PARQUET:
        frame.write_parquet(stream)
        return
    frame.write_csv(
        stream,
        include_header=header,
        separator="\t" if path.suffix.lower() in TABS else ",",
        quote_style="non_numeric",
    )
