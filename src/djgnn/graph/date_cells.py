"""Dates as people write them."""

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
)
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
    """
    if column.dtype.is_temporal():
        moments = column.cast(pl.Datetime("us"), strict=False)
    elif form in UNIX:
        return parse_numbers(column) / (SECONDS * UNIX[form])
    else:
        text = blank(column.cast(pl.String)).str.replace(r"^(\d{4}-\d\d)$", "${1}-01")
        text = text.str.replace(r"(\d)[T ](\d.*?)\s*(Z|UTC|[+-]\d\d:?\d\d)?$", "${1} ${2}")
        form = "%Y%m%d" if form in (DAY, "typed") else form
        if "%H" in form:
            moments = text.str.to_datetime(form, strict=False, time_unit="us")
        else:
            moments = text.str.to_date(form, strict=False).cast(pl.Datetime("us"))
    return moments.to_physical().cast(pl.Float64) / (1e6 * SECONDS)
