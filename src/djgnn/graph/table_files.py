"""Tables on disk and in memory: text, Parquet, pandas; and how a graph is written as tables."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import scipy.sparse as sp

from djgnn.errors import InputError
from djgnn.graph.files import atomic_write, readable_file
from djgnn.graph.graph import Graph
from djgnn.graph.table_text import TABS, Table, check_distinct, read_text

PARQUET = (".parquet", ".pq")
MOST_CELLS = 2**28
MOST_TEXT, TEXT_PER_BYTE = 2**30, 16
"""Bytes of text in a small Parquet file, and in a larger one for each of its bytes."""
BLOCK_CELLS = 2**22
EXACT = 2**53


def read_table(path: str | Path, separator: str | None = None) -> Table:
    """Read a table: Parquet by its suffix, with the types it has, anything else as text.

    Args:
        path: The file.
        separator: Of a text file, see :func:`djgnn.graph.table_text.read_text`.

    Raises:
        InputError: If the file is missing, too large, or cannot be read.
    """
    file = readable_file(path)
    if file.suffix.lower() not in PARQUET:
        return read_text(file, separator)
    try:
        return Table(str(file), _read_parquet(file), "Parquet")
    except InputError:
        raise
    except (Exception, pl.exceptions.PanicException) as error:
        got = (str(error).splitlines() or [type(error).__name__])[0][:200]
        what = "cannot be read as Parquet; write it again or use CSV"
        raise InputError(f"{file}: {what} (got {got})") from error


def _read_parquet(file: Path) -> pl.DataFrame:
    """The table of a Parquet file, within bounds of memory.

    Nested and binary columns, which are never used, are not read: they are lists without any
    value. Equal texts share memory until they are used, so their size is known in time.

    Raises:
        InputError: If it is too large.
    """
    rows = pl.scan_parquet(file, glob=False).select(pl.len()).collect().item()
    kinds = pl.read_parquet_schema(file)
    if rows * len(kinds) > MOST_CELLS:
        raise InputError(
            f"{file}: has {rows} rows and {len(kinds)} columns, more than {MOST_CELLS} cells; "
            f"store features in .npz (got {rows * len(kinds)} cells)"
        )
    odd = [name for name, kind in kinds.items() if kind.is_nested() or kind == pl.Binary]
    frame = pl.read_parquet(file, glob=False, columns=[name for name in kinds if name not in odd])
    if odd:
        nothing = pl.Series([None], dtype=pl.List(pl.Null)).new_from_index(0, rows)
        found = {name: nothing if name in odd else frame[name] for name in kinds}
        frame = pl.DataFrame(found)
    sizes = (
        pl.col(pl.String).str.len_bytes().cast(pl.Int64).sum(),
        pl.col(pl.Categorical, pl.Enum).cat.len_bytes().cast(pl.Int64).sum(),
    )
    text = sum(map(sum, frame.select(*sizes).rows()))
    if text > max(MOST_TEXT, TEXT_PER_BYTE * file.stat().st_size):
        raise InputError(
            f"{file}: has more text than its size lets expect; write it as CSV, or shorten long "
            f"cells that repeat (got {text} bytes)"
        )
    return frame


def polars_frame(frame: Any, what: str) -> pl.DataFrame:
    """A polars or pandas data frame as polars, without pyarrow; `what` is its role, for messages.

    Columns of mixed types, and of whole numbers of more than 64 bits, become text; None, NaN and NA
    among objects become missing.

    Raises:
        InputError: If it is not a data frame, or a column occurs twice.

    Example:
        >>> polars_frame(pl.DataFrame({"a": [1]}), "nodes").shape
        (1, 1)
    """
    if isinstance(frame, pl.LazyFrame):
        frame = frame.collect()
    elif not isinstance(frame, pl.DataFrame):
        if not all(hasattr(frame, part) for part in ("columns", "dtypes", "iloc")):
            raise InputError(
                f"{what}: must be a polars or pandas data frame (got {type(frame).__name__})"
            )
        names, columns = list(map(str, frame.columns)), []
        check_distinct(what, names)
        for place, name in enumerate(names):
            values = frame.iloc[:, place].to_numpy()
            if values.dtype.kind not in "biuf":
                gone = frame.iloc[:, place].isna().to_numpy(dtype=bool)
                cells = zip(values.tolist(), gone, strict=True)
                values = [None if missing else cell for cell, missing in cells]
                kinds = {type(cell) for cell in values if cell is not None}
                small = kinds == {int} and all(v is None or -(2**63) <= v < 2**63 for v in values)
                if len(kinds) > 1 or (kinds == {int} and not small):
                    values = [None if cell is None else str(cell) for cell in values]
            columns.append(pl.Series(name, values))
        frame = pl.DataFrame(columns)
    if not frame.width:
        raise InputError(f"{what}: has no columns; name them (got an empty frame)")
    return pl.DataFrame(frame)


def write_tables(graph: Graph, edges: str | Path, nodes: str | Path, split: int | None = 0) -> None:
    """Write a graph as an edge table and a node table, the inverse of ``read_tables``.

    Columns are ``source, target, weight`` and ``node, label, split, f0, f1, ...``; those the graph
    does not have are left out. Numbers are written so that nothing is lost. Reading gives the same
    adjacency, names, labels by name, and the masks of that split, and the same features if they are
    read as they are, ``columns={"f*": "raw"}``; a class that no node has is not in the tables.

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
    check_writable(graph)
    names = pl.Series(list(graph.names()), dtype=pl.String)
    columns = dict(zip(("source", "target"), map(names.gather, graph.edge_index), strict=True))
    if graph.edge_weight is not None:
        columns["weight"] = _numbers(graph.edge_weight)
    for path, frames in (
        (edges, iter([pl.DataFrame(columns)])),
        (nodes, node_tables(graph, split)),
    ):
        suffix = Path(path).suffix.lower()
        separator = "\t" if suffix in TABS else ","
        with atomic_write(path) as stream:
            if suffix in PARQUET:
                pl.concat(frames, how="vertical_relaxed").write_parquet(stream)
            for place, frame in enumerate(frames):
                first = place == 0
                frame.write_csv(
                    stream, include_header=first, separator=separator, quote_style="non_numeric"
                )


def check_writable(graph: Graph, unfit: re.Pattern[str] | None = None) -> None:
    """Refuse names of nodes and classes that are empty or hold what a format cannot."""
    for kind, names in (("node", graph.names()), ("class", graph.classes())):
        for place, name in enumerate(names):
            if not name or (unfit and unfit.search(name)):
                raise InputError(
                    f"{kind} {place}: has an empty name or one with characters that the format "
                    f"cannot hold; rename it or write .npz (got {name!r})"
                )


def node_tables(graph: Graph, split: int | None) -> Iterator[pl.DataFrame]:
    """The node table of a graph, a block of rows at a time, so that sparse features stay small."""

    def words(names: Sequence[str], codes: Any) -> pl.Series:
        places = np.where(codes < 0, len(names), codes)
        return pl.Series([*names, None], dtype=pl.String).gather(places)

    table = {"node": pl.Series(list(graph.names()), dtype=pl.String)}
    if graph.y is not None:
        table["label"] = words(graph.classes(), graph.y)
    if split is not None and graph.num_splits:
        parts, codes = graph.split(split), np.full(graph.num_nodes, -1)
        for code, mask in enumerate((parts.train, parts.val, parts.test)):
            codes[mask] = code
        table["split"] = words(("train", "val", "test"), codes)
    frame = pl.DataFrame(table)
    x: Any = graph.x
    if x is None:
        yield frame
        return
    step = max(1, BLOCK_CELLS // max(1, graph.num_features))
    for start in range(0, graph.num_nodes, step):
        part = x[start : start + step]
        part = part.toarray() if sp.issparse(part) else part
        yield frame[start : start + step].with_columns(
            _numbers(part[:, f]).alias(f"f{f}") for f in range(graph.num_features)
        )


def _numbers(values: Any) -> pl.Series:
    """A column of whole numbers if all are, which print as such; else as they are."""
    whole = ((values == np.rint(values)) & (np.abs(values) < EXACT)).all()
    if whole and not np.signbit(values[values == 0]).any():  # only a float has a negative zero
        return pl.Series(values.astype(np.int64))
    return pl.Series(np.ascontiguousarray(values))
