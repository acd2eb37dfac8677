"""Numbers as people write them: decimal marks, thousands, signs, currencies, a unit."""

import re
from typing import Literal, NamedTuple

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from djgnn.graph.cells import GAPS, blank, check_rows

# More words for a missing value, only in a column of numbers.
NUMBER_GAPS = GAPS | {"?", "-", ".", "--", "unknown", "missing", "n.a.", "inf", "-inf", "+inf"}
NUMBER_GAPS |= {"infinity", "-infinity", "#div/0!", "#value!", "#ref!", "#num!"}
OTHER = {".": ",", ",": "."}
FITS = {  # a number with this decimal mark, and the other one between thousands or not at all
    mark: rf"^[+-]?(\d+|[1-9]\d{{0,2}}(\{other}\d{{3}})+)?(\{mark}\d*)?([eE][+-]?\d+)?$"
    for mark, other in OTHER.items()
}
EITHER = r"^[+-]?[1-9]\d{0,2}[.,]\d{3}$"
SPACES = r"[\s'\u2019]"
GROUPED = rf"^[+-]?[1-9]\d{{0,2}}({SPACES}\d{{3}})+([.,]\d*)?$"
BEGINS = r"^[(+\-\u2212\u2013]?\s*\p{Sc}?\s*[+\-\u2212\u2013]?\s*[.,]?\d"
UNIT = re.compile(r"\d\s*(%|[^\W\d_]*[/°]?[^\W\d_]+)$")
SAMPLE, HEAD = 10_000, 100
FEW = 20  # one cell in so many does not decide what a comma is


class Usual(NamedTuple):
    """The decimal mark that the numbers of a file have, and whether some cell proves it."""

    decimal: str = "."
    proved: bool = False


POINT = Usual()


class Spelling(msgspec.Struct, frozen=True):
    """How the numbers of a column are written; no decimal mark if no cell has one."""

    decimal: Literal["", ".", ","] = ""
    unit: str = ""

    def __str__(self) -> str:
        unit = f" in {self.unit}" if self.unit else ""
        return unit + (", decimal comma" if self.decimal == "," else "")


def usual_decimal(frame: pl.DataFrame, semicolons: bool) -> Usual:
    """The decimal mark of most columns of a file; without any, a comma if semicolons separate.

    Example:
        >>> usual_decimal(pl.DataFrame({"a": ["3,5", "1,083"], "b": ["x", "y"]}), semicolons=False)
        Usual(decimal=',', proved=True)
    """
    cells = frame.head(HEAD).select(pl.col(pl.String).str.strip_chars())[:, :HEAD]
    fits = {mark: pl.all().str.contains(FITS[mark]) for mark in OTHER}
    marked = (pl.all().str.contains("[.,]") & (fits["."] | fits[","])).sum()
    only = {mark: (fits[mark] & ~fits[other]).sum() for mark, other in OTHER.items()}
    proofs = {mark: (count > 0) & (FEW * count >= marked) for mark, count in only.items()}
    columns = {m: sum(cells.select(e).row(0)) if cells.width else 0 for m, e in proofs.items()}
    if columns[","] != columns["."]:
        return Usual("," if columns[","] > columns["."] else ".", proved=True)
    return Usual("," if semicolons else ".")


def find_decimal(text: pl.Series, usual: Usual = POINT) -> Literal["", ".", ","]:
    """The decimal mark that cells have; an empty text if none has a comma or a point.

    Cells such as ``1,234`` can be read in two ways. The usual mark of the file decides, unless one
    in twenty cells of this column can only be read in the other way.

    Example:
        >>> find_decimal(pl.Series(["1,234", "12,500"])), find_decimal(pl.Series(["1,234", "2,5"]))
        ('.', ',')
        >>> find_decimal(pl.Series(["1,234", "12,500"]), Usual(","))
        ','
    """
    marked = text.filter(text.str.contains("[.,]").fill_null(False)).head(SAMPLE)
    fits = {mark: marked.str.contains(FITS[mark]) for mark in OTHER}
    count = int((fits["."] | fits[","]).sum())
    if not count:
        return ""
    points = not bool(marked.str.contains(",", literal=True).any())
    comma = usual.decimal == "," and (usual.proved or not points)
    only = {mark: int((fits[mark] & ~fits[other]).sum()) for mark, other in OTHER.items()}
    if only[","] != only["."]:
        more = only[","] > only["."]
        if FEW * only["," if more else "."] >= count:
            comma = more
    return "," if comma else "."


def plain_decimal(column: pl.Series, numbers: NDArray[np.float64]) -> Literal["", "."] | None:
    """The decimal mark of plain numbers if the first cells settle it, in less time; else ``None``.

    Example:
        >>> plain_decimal(pl.Series(["2.5", "3"]), np.array([2.5, 3.0]))
        '.'
    """
    if column.dtype != pl.String:
        return ""
    marked = [cell for cell in column.head(HEAD).to_list() if "." in cell]
    if not marked:
        return None if bool((numbers % 1).any()) else ""
    odd = sum(not re.search(EITHER, cell) for cell in marked)
    return "." if FEW * odd >= len(marked) else None


def may_be_thousands(text: pl.Series, decimal: str, usual: Usual) -> bool:
    """Whether nearly all decimal marks could separate thousands, and nothing speaks against it.

    Three digits follow the marks, and cells without a mark are below 1000. Where there are none of
    these, only points in a file that should have decimal commas are doubtful.
    """
    if decimal == "," and usual.proved:
        return False
    cells = text.drop_nulls()
    held = cells.str.contains(decimal, literal=True)
    marked, whole = cells.filter(held), cells.filter(~held)
    for part in (marked.head(HEAD), marked):
        if FEW * int((~part.str.contains(EITHER)).sum()) >= len(part):
            return False
    return _all(whole, r"^[+-]?\d{1,3}$") if len(whole) else usual.decimal != decimal


def _all(cells: pl.Series, pattern: str) -> bool:
    return bool(cells.str.contains(pattern).all())


def read_numbers(
    column: pl.Series, spelled: Spelling | None = None, usual: Usual = POINT
) -> tuple[pl.Series, Spelling]:
    """The cells as float64, missing where they are not finite numbers, and how they are written.

    Args:
        column: The cells.
        spelled: How they are written; found out by default.
        usual: The decimal mark of the file, where the cells leave that open.

    Example:
        >>> numbers, spelled = read_numbers(pl.Series(["12,5 kg", "1.200 kg"]))
        >>> numbers.to_list(), spelled
        ([12.5, 1200.0], Spelling(decimal=',', unit='kg'))
    """
    if column.dtype != pl.String:
        numbers = column.cast(pl.Float64, strict=False)
        return numbers.set(~numbers.is_finite().fill_null(False), None), Spelling()
    text = blank(column, NUMBER_GAPS)
    numbers = text.cast(pl.Float64, strict=False)
    plain = numbers.null_count() == text.null_count()
    unit = spelled.unit if spelled else "" if plain else _unit(text)
    if unit or not plain:
        places = text.str.contains(BEGINS).fill_null(False) & text.str.ends_with(unit)
        text = text.set(~places, None)
        cells = _tidy(text.filter(places).str.strip_suffix(unit))
        text = text.scatter(places.arg_true(), cells) if len(cells) else text
    decimal = (spelled.decimal if spelled else "") or find_decimal(text, usual)
    if unit or not plain or decimal == ",":
        thousands = OTHER[decimal or "."]
        fits = text.str.contains(FITS[decimal or "."])
        bare = text.str.replace_all(thousands, "", literal=True).str.replace(",", ".", literal=True)
        numbers = bare.set(~fits, None).cast(pl.Float64, strict=False)
    return numbers.set(~numbers.is_finite().fill_null(False), None), Spelling(decimal, unit)


def _unit(text: pl.Series) -> str:
    """The word after the number, if it is the same in all cells."""
    found = UNIT.search(str(text.drop_nulls().first()))
    unit = found[1] if found else ""
    return unit if unit and _all(text, rf"{BEGINS}(\d|[.,]|{SPACES})*{re.escape(unit)}$") else ""


def _tidy(text: pl.Series) -> pl.Series:
    """Numbers with a plain minus sign, without brackets, currencies, percents and spaces."""
    text = text.str.replace_all(r"[\u2212\u2013]", "-").str.replace(r"^\((.*)\)$", "-${1}")
    text = text.str.replace(r"^([+-]?)\p{Sc}\s*", "${1}").str.replace(r"\s*[%\p{Sc}]?$", "")
    return text.str.replace_all(SPACES, "").zip_with(text.str.contains(GROUPED), text)


def parse_numbers(column: pl.Series, spelled: Spelling | None = None) -> pl.Series:
    """The cells as float64, missing where they are not finite numbers.

    ``1,234.5`` has marks of thousands, ``3,5`` a decimal comma (if all cells with a comma could be
    either, they are thousands); a currency or percent sign is left out.

    Example:
        >>> parse_numbers(pl.Series(["$1,200", "30%", "x"])).to_list()
        [1200.0, 30.0, None]
        >>> parse_numbers(pl.Series(["1,5", "1.234,25", "7"])).to_list()
        [1.5, 1234.25, 7.0]
        >>> parse_numbers(pl.Series(["(1,509.16)", "−3", "1'234.50", "¥10"])).to_list()
        [-1509.16, -3.0, 1234.5, 10.0]
    """
    return read_numbers(column, spelled)[0]


def not_numbers(column: pl.Series, numbers: pl.Series) -> pl.Series:
    """Which cells are neither a number nor missing, given what :func:`parse_numbers` found."""
    if column.dtype != pl.String:
        return pl.repeat(False, len(column), eager=True)
    return numbers.is_null() & blank(column, NUMBER_GAPS).is_not_null()


def check_numbers(where: str, column: pl.Series, numbers: pl.Series, problem: str) -> None:
    """Raise an error if a cell is neither a number nor missing, with the rows of some of these."""
    odd = not_numbers(column, numbers)
    rows = [str(row + 1) for row in odd.arg_true().head(6)]
    if len(rows) > 1:
        problem += f" ({odd.sum()} such rows: {', '.join(rows[:5])}{', ...' if rows[5:] else ''})"
    check_rows(where, column, odd, problem)
