"""Tables on disk: CSV, TSV and Parquet as text columns, with errors that name the row."""

from __future__ import annotations

import codecs
import csv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from djgnn.errors import InputError
from djgnn.graph.files import readable_file
from djgnn.graph.parquet_trial import TRIAL
from djgnn.graph.table_rules import repeated, shorten

if TYPE_CHECKING:
    import polars as pl

PARQUET = (".parquet", ".pq")
TABS = (".tsv", ".tab")
CHUNK = 2**24
MOST_CELLS = 2**29
PACKED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd")
LIKE_ZLIB = (b"x\x01", b"x^", b"x\x9c", b"x\xda")
MARK = b"\xef\xbb\xbf"
DAMAGED = (OSError, ValueError, TypeError, MemoryError, OverflowError)


def read_table(
    path: str | Path,
    columns: Sequence[str] | None = None,
    types: Mapping[str, Any] | None = None,
    rows: int | None = None,
) -> pl.DataFrame:
    """Read a table, every column as text, so that an id such as ``007`` stays what it is.

    The separator of a CSV file is a comma, semicolon or tab, whichever the header line has most
    of; ``.tsv`` means tab. Blank lines are skipped. Columns of a Parquet file keep their type.

    Args:
        path: The file.
        columns: Read these only, of a Parquet file; rows of text are read and checked whole.
        types: Other types for some columns of a CSV file.
        rows: Read no more than these first rows of a CSV file, unchecked.

    Raises:
        InputError: If the file is missing, empty, not UTF-8, ragged, or has a column twice.
    """
    import polars as pl

    file = readable_file(path)
    if file.suffix.lower() in PARQUET:
        return _read_parquet(file, columns)
    source, separator = _text_of(file), separator_of(file)
    try:
        frame = pl.read_csv(
            source,
            separator=separator,
            n_rows=rows,
            infer_schema=False,
            schema_overrides=dict(types or {}),
            glob=False,
        )
    except pl.exceptions.NoDataError as error:
        raise InputError(
            f"{file}: is empty; it needs a header line and rows (got no data)"
        ) from error
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, *DAMAGED) as error:
        _explain(file, separator)
        raise InputError(
            f"{file}: cannot be read as a table; save it as UTF-8 CSV with a header line "
            f"(got {_first(error)})"
        ) from error
    names = header(file)
    if frame.columns != names:
        raise InputError(
            f"{file}: the header line has odd quotes or is broken over lines; write it plainly "
            f"(got {shorten(names)})"
        )
    if rows is None:
        _check_short_rows(file, separator, frame)
    return frame.filter(~pl.all_horizontal(pl.all().is_null()))


def header(path: str | Path) -> list[str]:
    """The column names of a table.

    Raises:
        InputError: If there are none, or one occurs twice.
    """
    file = readable_file(path)
    if file.suffix.lower() in PARQUET:
        return list(_parquet_schema(file))
    _check_start(file)
    try:
        with file.open(encoding="utf-8-sig", newline="") as stream:
            names = next(csv.reader(stream, delimiter=separator_of(file)), [])
    except (UnicodeDecodeError, csv.Error) as error:
        _explain(file, ",")
        raise InputError(
            f"{file}: has no readable header line; save it as UTF-8 CSV (got {error})"
        ) from error
    if not any(names):
        raise InputError(f"{file}: is empty; it needs a header line and rows (got no data)")
    if "" in names:
        raise InputError(
            f"{file}: column {names.index('') + 1} has no name; name it, or save the table without "
            f"its index (got {shorten(names)})"
        )
    twice = repeated(names)
    if twice is not None:
        raise InputError(
            f"{file}: column {twice[:80]!r} occurs twice; rename one (got {shorten(names)})"
        )
    return names


def row_error(file: str | Path, row: int, column: str, what: str, got: object) -> InputError:
    """An error at a place in a table; rows are counted from 1 below the header."""
    shown = repr(got[:80] if isinstance(got, str) else got)
    return InputError(f"{file}: row {row + 1}, column {column[:80]!r}: {what} (got {shown})")


def separator_of(file: Path) -> str:
    """Comma, semicolon or tab, whichever the header line has most of."""
    if file.suffix.lower() in TABS:
        return "\t"
    with file.open("rb") as stream:
        line = stream.readline(2**20).decode("utf-8", "replace")
    outside = "".join(line.split('"')[::2])
    return max((",", ";", "\t"), key=outside.count)


def _read_parquet(file: Path, columns: Sequence[str] | None) -> pl.DataFrame:
    """Read after the footer was asked how much there is; only flat columns are taken."""
    import polars as pl

    with _parquet_errors(file):
        schema = _parquet_schema(file)
        rows = pl.scan_parquet(file, glob=False).select(pl.len()).collect().item()
    wanted = list(schema) if columns is None else list(dict.fromkeys(columns))
    nested = [name for name in wanted if schema[name].is_nested()]
    if nested:
        raise InputError(
            f"{file}: column {nested[0]!r} holds lists or structs; store one number or text per "
            f"cell (got {schema[nested[0]]})"
        )
    if rows * len(wanted) > MOST_CELLS:
        raise InputError(
            f"{file}: has {rows} rows and {len(wanted)} columns, more than {MOST_CELLS} cells; "
            f"store features in .npz (got {rows * len(wanted)} cells)"
        )
    wrong = TRIAL.ask(file, wanted)
    if wrong:
        raise _bad_parquet(file, wrong)
    with _parquet_errors(file):
        return pl.read_parquet(file, columns=wanted, glob=False)


def _parquet_schema(file: Path) -> dict[str, Any]:
    import polars as pl

    with _parquet_errors(file):
        return dict(pl.read_parquet_schema(file))


@contextmanager
def _parquet_errors(file: Path) -> Iterator[None]:
    import polars as pl

    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, *DAMAGED) as error:
        raise _bad_parquet(file, _first(error)) from error


def _bad_parquet(file: Path, got: str) -> InputError:
    return InputError(f"{file}: cannot be read as Parquet; write it again or use CSV (got {got})")


def _first(error: BaseException) -> str:
    """The first line of what a reader said."""
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def _text_of(file: Path) -> Path | bytes:
    """What polars reads as text: it unpacks whatever begins like a packed file.

    A header such as ``x^2`` begins like one, and a byte order mark keeps it what it is.
    """
    start = _check_start(file)
    return MARK + file.read_bytes() if start.startswith(LIKE_ZLIB) else file


def _check_start(file: Path) -> bytes:
    """The first bytes of a CSV file, which must be text."""
    with file.open("rb") as stream:
        start = stream.readline(2**12)
    if start.startswith(PACKED) or (start.startswith(LIKE_ZLIB) and not _is_text(start)):
        raise InputError(f"{file}: is compressed; unpack it first (got bytes {start[:4]!r})")
    if start[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in start:
        raise InputError(
            f"{file}: is not UTF-8 text; save it as UTF-8 (in a spreadsheet: 'CSV UTF-8') "
            f"(got bytes {start[:4]!r})"
        )
    return start


def _is_text(start: bytes) -> bool:
    """Whether these first bytes are UTF-8, perhaps cut off, without control characters."""
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(start)
    except UnicodeDecodeError:
        return False
    return all(letter >= " " or letter in "\t\r\n" for letter in text)


def _explain(file: Path, separator: str) -> None:
    """Find the place that made a reader fail, and raise an error that names it."""
    content = file.read_bytes()
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{file}: line {line} is not UTF-8 text; save the file as UTF-8 "
            f"(got byte {content[error.start : error.start + 1]!r})"
        ) from None
    _check_ragged(file, separator)


def _check_ragged(file: Path, separator: str) -> None:
    width, names = 0, []
    for row, cells in enumerate(rows_of(file, separator)):
        if row == 0:
            width, names = len(cells), cells
        elif cells and len(cells) != width:
            raise InputError(
                f"{file}: row {row} has {len(cells)} cells, the header has {width}; give every row "
                f"one cell per column, and quote cells that contain {separator!r} "
                f"(got {', '.join(cells)[:80]!r} under {', '.join(names)[:80]!r})"
            )


def rows_of(file: Path, separator: str) -> Iterator[list[str]]:
    """The rows of a CSV file, header first, one after the other: slow, for samples and errors."""
    with file.open(encoding="utf-8-sig", newline="") as stream:
        try:
            yield from csv.reader(stream, delimiter=separator, strict=True)
        except csv.Error as error:
            raise InputError(
                f"{file}: a quoted cell is not closed or is followed by text; check the double "
                f"quotes (got {error})"
            ) from error


def _check_short_rows(file: Path, separator: str, frame: pl.DataFrame) -> None:
    """Polars fills a short row with nulls, so look where the last column has some."""
    if frame.width < 2 or frame[:, -1].null_count() == 0:
        return
    separators, quotes, mark = 0, 0, separator.encode()
    with file.open("rb") as stream:
        while chunk := stream.read(CHUNK):
            separators += chunk.count(mark)
            quotes += chunk.count(b'"')
    if quotes or separators != (frame.height + 1) * (frame.width - 1):
        _check_ragged(file, separator)
