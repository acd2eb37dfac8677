"""Tables on disk and in memory: CSV, TSV, Parquet, pandas; errors name the file and the row."""

import csv
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
from djgnn.graph.table_rules import shorten

PARQUET = (".parquet", ".pq")
TABS = (".tsv", ".tab")
MOST_CELLS = 2**29
BLOCK_CELLS = 2**22
EXACT = 2**53
COMMA = r"^-?\d+,\d+$"
PACKED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"x\x01", b"x^", b"x\x9c", b"x\xda")


def read_table(path: str | Path) -> pl.DataFrame:
    """Read a table in one pass, text as text, so that an id such as ``007`` stays what it is.

    The separator of a CSV file is a comma, semicolon or tab, whichever the header line has most
    of; ``.tsv`` means tab. Blank lines are skipped. Columns of a Parquet file keep their type.

    Raises:
        InputError: If the file is missing, empty, not UTF-8, ragged, or has a column twice.
    """
    file, separator = readable_file(path), ","
    parquet = file.suffix.lower() in PARQUET
    try:
        if parquet:
            rows = pl.scan_parquet(file, glob=False).select(pl.len()).collect().item()
            width = len(pl.read_parquet_schema(file))
            if rows * width > MOST_CELLS:
                raise InputError(
                    f"{file}: has {rows} rows and {width} columns, more than {MOST_CELLS} cells; "
                    f"store features in .npz (got {rows * width} cells)"
                )
            return pl.read_parquet(file, glob=False)
        separator = _separator(file)
        names = _header(file, separator)
        frame = pl.read_csv(file, separator=separator, infer_schema=False, glob=False)
    except InputError:
        raise
    except (Exception, pl.exceptions.PanicException) as error:
        if not parquet:
            _check_csv(file, separator)
        kind = "Parquet; write it again or use CSV" if parquet else "a table; save it as UTF-8 CSV"
        got = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise InputError(f"{file}: cannot be read as {kind} (got {got})") from error
    if frame.columns != names:
        raise InputError(
            f"{file}: the header line has odd quotes or is broken over lines; write it plainly "
            f"(got {shorten(names)})"
        )
    if frame.width > 1 and frame[:, -1].null_count():  # polars fills short rows with nulls
        content, cells = file.read_bytes(), (frame.height + 1) * (frame.width - 1)
        if b'"' in content or content.count(separator.encode()) != cells:
            _check_csv(file, separator)
    blank = frame[:, 0].null_count() > 0  # otherwise there is no blank line
    return frame.filter(~pl.all_horizontal(pl.all().is_null())) if blank else frame


def _separator(file: Path) -> str:
    """The separator of a CSV file, by its name or its first line; binary files are refused."""
    with file.open("rb") as stream:
        start = stream.readline(2**20)
    if start.startswith(PACKED):  # polars would unpack it, whatever its size
        raise InputError(
            f"{file}: is compressed; unpack it first, or put another column first "
            f"(got bytes {start[:4]!r})"
        )
    if start[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in start:
        raise InputError(
            f"{file}: is not UTF-8 text; save it as UTF-8 (in a spreadsheet: 'CSV UTF-8') "
            f"(got bytes {start[:4]!r})"
        )
    outside = b"".join(start.split(b'"')[::2])
    most = max((",", ";", "\t"), key=lambda mark: outside.count(mark.encode()))
    return "\t" if file.suffix.lower() in TABS else most


def _header(file: Path, separator: str) -> list[str]:
    """The column names of a CSV file."""
    with file.open(encoding="utf-8-sig", newline="") as stream:
        names = next(csv.reader(stream, delimiter=separator), [])
    if not any(names):
        raise InputError(f"{file}: is empty; it needs a header line and rows (got no data)")
    if "" in names:
        raise InputError(
            f"{file}: column {names.index('') + 1} has no name; name it, or save the table without "
            f"its index (got {shorten(names)})"
        )
    check_distinct(str(file), names)
    return names


def check_rows(
    where: str, column: pl.Series, bad: Any, problem: str, empty: str | None = None
) -> None:
    """Raise an error at the first bad row, if there is one; rows count from 1 below the header.

    Args:
        where: The file, for the message.
        column: The cells.
        bad: Whether a cell is wrong.
        problem: What is wrong, and the remedy.
        empty: The same for a cell without content.

    Raises:
        InputError: With file, row, column and cell.
    """
    if not bad.any():
        return
    row = int(np.argmax(np.asarray(bad)))
    cell = column[row]
    if empty is not None and not str("" if cell is None else cell).strip():
        problem = empty
    if "number" in problem and isinstance(cell, str) and re.search(COMMA, cell.strip()):
        problem += "; write a decimal point, not a comma"
    got = repr(cell[:80] if isinstance(cell, str) else cell)
    raise InputError(f"{where}: row {row + 1}, column {column.name[:80]!r}: {problem} (got {got})")


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
                if len(kinds) > 1 or (kinds == {int} and not all(map(_fits, values))):
                    values = [None if cell is None else str(cell) for cell in values]
            columns.append(pl.Series(name, values))
        frame = pl.DataFrame(columns)
    if not frame.width:
        raise InputError(f"{what}: has no columns; name them (got an empty frame)")
    return pl.DataFrame(frame)


def _fits(number: int | None) -> bool:
    """Whether a whole number has at most 64 bits."""
    return number is None or -(2**63) <= number < 2**63


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


def check_distinct(where: str, names: Sequence[str]) -> None:
    """Refuse a name of a column that occurs twice."""
    if len(set(names)) < len(names):
        twice = next(name for place, name in enumerate(names) if name in names[:place])
        raise InputError(
            f"{where}: column {twice[:80]!r} occurs twice; rename one (got {shorten(names)})"
        )


def _check_csv(file: Path, separator: str) -> None:
    """Raise an error at the first place of a CSV file that is not UTF-8, quoted badly or ragged."""
    try:
        content = file.read_bytes()
        content.decode("utf-8")
        with file.open(encoding="utf-8-sig", newline="") as stream:
            rows = csv.reader(stream, delimiter=separator, strict=True)
            names = next(rows, [])
            for row, cells in enumerate(rows, 1):
                if cells and len(cells) != len(names):
                    raise InputError(
                        f"{file}: row {row} has {len(cells)} cells, the header has {len(names)}; "
                        f"give every row one cell per column, and quote cells that contain "
                        f"{separator!r} (got {', '.join(cells)[:80]!r} under "
                        f"{', '.join(names)[:80]!r})"
                    )
    except (UnicodeDecodeError, csv.Error) as error:
        problem = "a quoted cell is not closed or is followed by text; check the double quotes"
        if isinstance(error, UnicodeDecodeError):
            line = content.count(b"\n", 0, error.start) + 1
            problem = f"line {line} is not UTF-8 text; save the file as UTF-8"
        raise InputError(f"{file}: {problem} (got {error})") from error
