"""Dates: which forms are found, and what is no date."""

from __future__ import annotations

import polars as pl
import pytest

from djgnn.errors import InputError, ReadingWarning
from djgnn.graph.column_kinds import read_columns
from djgnn.graph.encoders import Encoder

DAYS = [(1995 + i % 28, 1 + i % 12, 1 + i * 7 % 28) for i in range(40)]


def read(cells: list[str], **told: str) -> tuple[list[float], Encoder]:
    """The first feature of a column `z`, and its encoder."""
    blocks, encoders = read_columns("n.csv", pl.DataFrame({"z": cells}), told, None)
    return blocks[0][:, 0].tolist() if encoders[0].names() else [], encoders[0]


@pytest.mark.parametrize(
    ("written", "form"),
    [
        ("{1:02}/{2:02}/{3:02}", "%m/%d/%y"),
        ("{2}/{1}/{3:02}", "%d/%m/%y"),
        ("{2:02}.{1:02}.{3:02}", "%d.%m.%y"),
        ("{1}/{2}/{3:02} 12:30", "%m/%d/%y %H:%M"),
    ],
)
def test_years_of_two_digits_are_of_this_century_or_the_last(written: str, form: str) -> None:
    cells = [written.format(y, m, d, y % 100) for y, m, d in DAYS]
    features, encoder = read(cells)
    assert encoder.line().startswith(f"date ({form})")
    assert features == pytest.approx(read(["{}-{:02}-{:02}".format(*day) for day in DAYS])[0])


@pytest.mark.parametrize("written", ["{}.{}.{}", "{}/{}/{}", "{2}.{0}.1{1}"])
def test_versions_and_ratios_are_not_dates(written: str) -> None:
    cells = [written.format(1 + i % 3, 1 + i % 11, 1 + i % 9) for i in range(40)]
    assert "date" not in read(cells)[1].line()


def test_years_that_no_one_means_are_not_dates() -> None:
    assert "date" not in read([f"{i:04}-01-02" for i in range(1, 41)])[1].line()
    last = [f"{2000 + i}-01-02" for i in range(39)] + ["9999-12-31"]  # "until further notice"
    assert "date" in read(last)[1].line()


def test_later_dates_have_years_of_as_many_digits() -> None:
    _, encoder = read(["{2:02}/{1:02}/{0}".format(*day) for day in DAYS])
    with pytest.raises(InputError, match="row 1, column 'z': is not a date like the others"):
        encoder.encode("n.csv", pl.Series("z", ["06/10/22"]))


def test_day_and_month_that_could_be_exchanged_are_named_once() -> None:
    cells = [f"{1 + i % 12:02}/{1 + i * 5 % 12:02}/2021" for i in range(40)]
    with pytest.warns(ReadingWarning, match=r"as %d/%m/%Y and as %m.*'z=date:%m/%d/%Y'") as found:
        read(cells)
    assert len(found) == 1
    assert "(%m/%d/%Y)" in read(cells, z="date:%m/%d/%Y")[1].line()
    assert "(%d/%m/%Y)" in read(cells, z="date:%d/%m/%Y")[1].line()
    assert "(%d/%m/%Y)" in read([*cells[1:], "31/12/2021"])[1].line()
