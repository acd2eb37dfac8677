"""Text files as tables: encoding, separator, comments and header are detected, or given."""

import csv
import io
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import polars as pl

from djgnn.errors import InputError
from djgnn.graph.table_rules import USUAL_NAMES, shorten

TABS = (".tsv", ".tab")
PACKED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"x\x01", b"x^", b"x\x9c", b"x\xda")
SEPARATORS = {"tab": "\t", "semicolon": ";", "comma": ",", "bar": "|", "space": " "}
START = 2**16
LINES = 100
ROWS = 1000
OLD_EXCEL = b"\xd0\xcf\x11\xe0"
TOLD = re.compile(rb'"?sep=([\t -~])"?\r?\n', re.IGNORECASE)
"""The first line by which Excel is told the separator."""
PREAMBLE = re.compile(rb"((#(?![,;\t|\"])|%)[^\n]*\n|[ \t\r]*\n)+")
QUOTED = re.compile(r'"[^"]*"')
USUAL = frozenset(name for names in USUAL_NAMES.values() for name in names)
YEAR = re.compile(r"(19|20)\d\d")


@dataclass(frozen=True)
class Table:
    """A table in memory, all text if it comes from text, and how its file was read.

    `header` is ``None`` while it is not known whether the first row holds the names.
    """

    where: str
    frame: pl.DataFrame
    how: str = ""
    header: bool | None = True
    semicolons: bool = False

    def named(self, header: bool) -> Self:
        """The same with the first row as names, or with the names ``column_1``, ``column_2``, ...

        Raises:
            InputError: If a name occurs twice.
        """
        names = [f"column_{place + 1}" for place in range(self.frame.width)]
        frame = self.frame
        if header:
            cells = [(cell or "").strip() for cell in frame.row(0)] if frame.height else []
            names = [cell or name for cell, name in zip(cells, names, strict=True)]
            check_distinct(self.where, names)
            frame = frame[1:]
        how = f"{self.how}, {'a header' if header else 'no header'}"
        return replace(
            self,
            frame=frame.rename(dict(zip(frame.columns, names, strict=True))),
            how=how,
            header=header,
        )


def read_text(file: Path, separator: str | None = None) -> Table:
    """Read a text file in one pass, text as text, so that an id such as ``007`` stays what it is.

    Comments before the table (``#`` or ``%``) and blank lines are skipped, and so is a first line
    ``sep=;``, which names the separator. What is not UTF-8 is
    read as UTF-16 if it says so, else as Windows' western European letters.

    Args:
        file: The file.
        separator: One of ``SEPARATORS`` or the character itself; detected by default.

    Raises:
        InputError: If the file is empty, packed, binary, ragged, or has an open quote.
    """
    with file.open("rb") as stream:
        start = stream.read(START)
    _check_plain(file, start)
    source: Path | bytes = file
    how = ""
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        source, how = _recoded(file, "utf-16"), ", UTF-16"
        start = source[:START]
    if b"\0" in start.partition(b"\n")[0]:
        raise InputError(
            f"{file}: is not UTF-8 text; save it as UTF-8 (in a spreadsheet: 'CSV UTF-8') "
            f"(got bytes {start[:4]!r})"
        )
    start = start.removeprefix(b"\xef\xbb\xbf")
    if not start.strip():
        raise InputError(f"{file}: is empty; it needs a header line and rows (got no data)")
    told = TOLD.match(start)
    separator = separator or (told[1].decode("ascii") if told else None)
    comments = PREAMBLE.match(start, told.end() if told else 0) or told
    preamble = start[: comments.end()] if comments else b""
    mark = SEPARATORS.get(separator or "", separator) or _separator(file, start[len(preamble) :])
    if len(mark) != 1 or not mark.isascii():
        raise InputError(
            f"separator: must be {', '.join(SEPARATORS)} or one character; change `separator=` "
            f"(got {separator!r})"
        )
    name = next((name for name, character in SEPARATORS.items() if character == mark), repr(mark))
    skip = preamble.count(b"\n")
    try:
        frame = _parse(file, source, mark, skip)
    except UnicodeDecodeError:
        how = ", not UTF-8, so taken for Windows-1252"
        frame = _parse(file, _recoded(file, "cp1252"), mark, skip)
    table = Table(str(file), frame, f"{name} separated{how}", None, mark == ";")
    said = [line for line in preamble.decode("latin-1").splitlines() if line.strip()]
    titles = (said[-1].lstrip("#").split(None if mark == " " else mark)) if said else []
    if said and said[-1].startswith("#") and 1 < len(titles) == frame.width:
        head = pl.DataFrame([titles], schema=frame.schema, orient="row")
        return replace(table, frame=head.vstack(frame)).named(True)
    return table


def _check_plain(file: Path, start: bytes) -> None:
    """Refuse a packed file, which polars would unpack whatever its size, and one of Excel."""
    problem = ""
    if start.startswith(PACKED):
        problem = "is compressed; unpack it first, or put another column first"
    elif start.startswith(OLD_EXCEL) or (start.startswith(b"PK\x03\x04") and b"xl/" in start):
        problem = "is an Excel file; save the sheet as CSV ('CSV UTF-8') and give that file"
    if problem:
        raise InputError(f"{file}: {problem} (got bytes {start[:4]!r})")


def _separator(file: Path, start: bytes) -> str:
    """The character that stands equally often in most lines, outside quotes."""
    if file.suffix.lower() in TABS:
        return "\t"
    # Of bytes: a text also ends its lines at control characters, which a name may have.
    whole = [line.decode("utf-8", "replace") for line in start.splitlines()]
    lines = [QUOTED.sub("q", line).strip(" \r") for line in whole[:LINES] if line.strip()]
    found: list[tuple[float, int, str]] = []
    for place, mark in enumerate(("\t", ";", ",", "|")):
        counts = [line.count(mark) for line in lines]
        usual = max(set(counts) - {0}, key=counts.count, default=0)
        found.append((counts.count(usual) / len(lines) if usual else 0.0, -place, mark))
    best = max(found)
    spaces = [len(line.split()) for line in lines]
    even = min(spaces) > 1 and spaces.count(spaces[-1]) >= 0.9 * len(lines)
    both = any(" " in line for line in lines)  # tabs with spaces around them
    if even and (best[0] < 0.5 or (both and spaces == [line.count("\t") + 1 for line in lines])):
        return " "
    return best[2] if best[0] else ","


def _recoded(file: Path, encoding: str) -> bytes:
    """The content of a file as UTF-8.

    Raises:
        InputError: If it is not of that encoding.
    """
    content = file.read_bytes()
    try:
        return content.decode(encoding).encode("utf-8")
    except UnicodeError as error:
        bad = getattr(error, "start", 0)
        line = content.count(b"\n", 0, bad) + 1
        raise InputError(
            f"{file}: line {line} is not UTF-8 text; save the file as UTF-8 (got {error})"
        ) from error


def _parse(file: Path, source: Path | bytes, mark: str, skip: int) -> pl.DataFrame:
    """The rows of a text file after the lines to skip, without blank ones.

    Raises:
        UnicodeDecodeError: If it is not UTF-8.
        InputError: If it is ragged or a quote is not closed.
    """
    if mark == " ":
        source, mark = _tabbed(source), "\t"
    frame: pl.DataFrame | None
    try:
        frame = pl.read_csv(
            io.BytesIO(source) if isinstance(source, bytes) else source,
            separator=mark,
            has_header=False,
            infer_schema=False,
            glob=False,
            skip_lines=skip,
        )
    except (Exception, pl.exceptions.PanicException) as error:
        frame = _plain_rows(file, source, mark, skip)
        if frame is None:
            got = (str(error).splitlines() or [type(error).__name__])[0][:200]
            what = "cannot be read as a table; check its quotes and save it as UTF-8 CSV"
            raise InputError(f"{file}: {what} (got {got})") from error
    if frame[:, 0].null_count():  # otherwise there is no blank line
        frame = frame.filter(~pl.all_horizontal(pl.all().is_null()))
    if frame.width > 1 and frame[:, -1].null_count():  # polars fills short rows with nulls
        content = source if isinstance(source, bytes) else source.read_bytes()
        marks = frame.height * (frame.width - 1)
        if skip or b'"' in content or content.count(mark.encode()) != marks:
            _plain_rows(file, content, mark, skip)
    return frame


def _plain_rows(file: Path, source: Path | bytes, mark: str, skip: int) -> pl.DataFrame | None:
    """The rows as Python reads them; ``None`` if there is nothing wrong with them.

    If all rows have one cell more than the first, that one holds the names of the others: R leaves
    out that of the first column, and some programs end every row with a separator.

    Raises:
        UnicodeDecodeError: If it is not UTF-8.
        InputError: If it is ragged or a quote is not closed.
    """
    content = source if isinstance(source, bytes) else source.read_bytes()
    text = content.decode("utf-8-sig")
    lines = io.StringIO(text, newline="")
    for _ in range(skip):
        lines.readline()
    reader = csv.reader(lines, delimiter=mark, strict=True)
    try:
        rows = [(reader.line_num + skip, cells) for cells in reader if cells]
    except csv.Error as error:
        problem = "a quoted cell is not closed or is followed by text; check the double quotes"
        raise InputError(f"{file}: {problem} (got {error})") from error
    first = rows[0][1] if rows else []
    width = len(first)
    odd = [(line, cells) for line, cells in rows if len(cells) != width]
    if odd and len(odd) == len(rows) - 1 and all(len(cells) == width + 1 for _, cells in odd):
        ends = all(not cells[-1].strip() for _, cells in odd)
        names = [*first, ""] if ends else ["", *first]
        table = [[cell or None for cell in row] for row in (names, *(row for _, row in odd))]
        schema = {str(place): pl.String for place in range(width + 1)}
        return pl.DataFrame(table, schema, orient="row")
    if odd:
        line, cells = odd[0]
        many = f" ({len(odd)} such lines)" if len(odd) > 1 else ""
        raise InputError(
            f"{file}: line {line} has {len(cells)} cells, the first has {width}{many}; give every "
            f"row one cell per column, and quote cells that contain {mark!r} "
            f"(got {', '.join(cells)[:80]!r} under {', '.join(first)[:80]!r})"
        )
    return None


def _tabbed(source: Path | bytes) -> bytes:
    """The content with one tab for every run of spaces and tabs outside quotes."""
    content = source if isinstance(source, bytes) else source.read_bytes()
    content = re.sub(rb"(?m)^[ \t]+|[ \t]+(?=\r?$)", b"", content)
    parts = content.split(b'"')
    parts[::2] = [re.sub(rb"[ \t]+", b"\t", part) for part in parts[::2]]
    return b'"'.join(parts)


def guess_header(table: Table, named: Collection[str]) -> bool | None:
    """Whether the first row of a table holds the names of its columns; ``None`` = cannot be told.

    Args:
        table: All text.
        named: Columns that the user or an earlier table named.
    """
    first = [(cell or "").strip() for cell in table.frame.row(0)]
    if set(first) & set(named) - {""}:
        return True
    low = [cell.casefold() for cell in first]
    below = table.frame[1 : ROWS + 1]
    again = [
        bool(cell) and bool((column == cell).any())
        for cell, column in zip(first, below.get_columns(), strict=True)
    ]
    usual = [name in USUAL and not met for name, met in zip(low, again, strict=True)]
    if any(usual) or any(re.fullmatch(r"column_\d+", name) for name in low):
        return True
    numbers = [_is_number(cell) for cell in first]
    running = [name for name, number in zip(low, numbers, strict=True) if number]
    if running and len(low) > 3 and all(name.isdecimal() for name in running):
        start = 0 if running[0] == "0" else 1  # a number of any length is not made one
        if running == [str(start + place) for place in range(len(running))]:
            return True  # a program named the columns by their number
        if all(YEAR.fullmatch(name) for name in running) and len(set(running)) == len(running):
            return True
    if any(numbers) or any(again) or len(set(low)) < len(low):
        return False
    if "" in first[1:]:
        return False
    told = [
        column.count() > 0 and column.drop_nulls().map_elements(_is_number, pl.Boolean).all()
        for column in below.get_columns()
    ]
    if any(told):
        return True
    repeats = [column.n_unique() < 0.9 * len(column) for column in below.get_columns()]
    return True if any(repeats) else None


def _is_number(cell: str) -> bool:
    try:
        float(cell.replace(",", "."))
    except ValueError:
        return False
    return True


def check_distinct(where: str, names: Sequence[str]) -> None:
    """Refuse a name of a column that occurs twice."""
    if len(set(names)) < len(names):
        twice = next(name for place, name in enumerate(names) if name in names[:place])
        raise InputError(
            f"{where}: column {twice[:80]!r} occurs twice; rename one (got {shorten(names)})"
        )
