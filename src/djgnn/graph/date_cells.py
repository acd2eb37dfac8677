"""Dates as people write them."""

from datetime import date

import polars as pl

from djgnn.graph.cells import blank
from djgnn.graph.number_cells import parse_numbers

DATES = (
    "%Y-%m-%d",
    "%Y-%m-%d %H:%M:%S%.f",
    "%Y-%m-%d %H:%M",
    "%Y/%m/%d",
    "%Y/%m/%d %H:%M:%S",
    "%Y/%m/%d %H:%M",
    "%d.%m.%Y",
    "%d.%m.%Y %H:%M:%S",
    "%d.%m.%Y %H:%M",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%d/%m/%Y %H:%M:%S",
    "%m/%d/%Y %H:%M:%S",
    "%d/%m/%Y %H:%M",
    "%m/%d/%Y %H:%M",
    "%d-%m-%Y",
    "%m-%d-%Y",
    "%d %b %Y",
    "%d %B %Y",
    "%b %d, %Y",
    "%B %d, %Y",
    "%d-%b-%Y",
    "%d.%m.%y",
    "%d.%m.%y %H:%M",
    "%d/%m/%y",
    "%m/%d/%y",
    "%d/%m/%y %H:%M",
    "%m/%d/%y %H:%M",
    "%d-%b-%y",
)
# How a year must be written; 1.2.13 is a version rather than a date.
YEARS = {
    "%Y%m%d": r"^\d{8}$",
    "%Y": r"^\d{4}(\D|$)|\D\d{4}( |$)",
    "%y": r"[/-]\d\d( |$)|^\d\d\.\d\d\.\d\d( |$)",
}
FIRST, LAST = ((date(year, 1, 1) - date(1970, 1, 1)).days for year in (1800, 2201))
UNIX = {"seconds since 1970": 1.0, "milliseconds since 1970": 1000.0}
DAY = "YYYYMMDD"
SECONDS = 86400.0


def parse_dates(column: pl.Series, form: str) -> pl.Series:
    """Days since 1970 as float64, missing where a cell is not of the form.

    Args:
        column: Text, numbers, or dates of a typed table.
        form: One of ``DATES`` or ``UNIX``, ``DAY``, or ``typed``.

    Example:
        >>> parse_dates(pl.Series(["1970-01-02", "?"]), "%Y-%m-%d").to_list()
        [1.0, None]
        >>> parse_dates(pl.Series(["1970-01-02T12:00:00Z"]), "%Y-%m-%d %H:%M:%S%.f").to_list()
        [1.5]
        >>> parse_dates(pl.Series(["02/01/70", "02/01/1970"]), "%d/%m/%y").to_list()
        [1.0, None]
    """
    if column.dtype.is_temporal():
        moments = column.cast(pl.Datetime("us"), strict=False)
    elif form in UNIX:
        return parse_numbers(column) / (SECONDS * UNIX[form])
    else:
        text = blank(column.cast(pl.String)).str.replace(r"^(\d{4}-\d\d)$", "${1}-01")
        text = text.str.replace(r"(\d)[T ](\d.*?)\s*(Z|UTC|[+-]\d\d:?\d\d)?$", "${1} ${2}")
        form = "%Y%m%d" if form in (DAY, "typed") else form
        year = next(pattern for part, pattern in YEARS.items() if part in form)
        text = text.set(~text.str.contains(year), None)
        if "%H" in form:
            moments = text.str.to_datetime(form, strict=False, time_unit="us")
        else:
            moments = text.str.to_date(form, strict=False).cast(pl.Datetime("us"))
    return moments.to_physical().cast(pl.Float64) / (1e6 * SECONDS)


def date_form(text: pl.Series) -> tuple[str | None, str | None]:
    """The form that nine in ten of the cells have, none if these are not dates of 1800 to 2200.

    Returns:
        The form; and the one with day and month exchanged, if all cells fit that as well.

    Example:
        >>> date_form(pl.Series(["31/12/22", "01/02/98"])), date_form(pl.Series(["1.2.3"]))
        (('%d/%m/%y', None), (None, None))
        >>> date_form(pl.Series(["05/06/2022"]))
        ('%d/%m/%Y', '%m/%d/%Y')
    """
    cells = text.drop_nulls()
    head = cells.head(100)
    if not bool(head.str.contains(r"\d.*[-/. :]").any()):
        return None, None
    forms = [form for form in DATES if 10 * _count(head, form) >= 9 * len(head)]
    found = {form: _count(cells, form) for form in forms}
    form = max(found, key=lambda form: found[form], default="")
    if not form or 10 * found[form] < 9 * len(cells):
        return None, None
    other = form.translate(str.maketrans("dm", "md"))
    return form, other if other != form and found.get(other) == len(cells) else None


def _count(cells: pl.Series, form: str) -> int:
    """How many cells are dates of a form and of our times."""
    return int(parse_dates(cells, form).is_between(FIRST, LAST, closed="left").sum())
