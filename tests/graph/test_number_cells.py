"""Numbers as people write them have the features of the same numbers written plainly."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import polars as pl
import pytest

from djgnn.errors import InputError, ReadingWarning
from djgnn.graph.column_kinds import read_columns
from djgnn.graph.encoders import Encoder, stored_encoders
from djgnn.graph.table_columns import read_weights

SIZES = [round(1.0 + i * i % 17 + i / 1000, 3) for i in range(40)]
COUNTS = [20, 950] + [1000 + i * i * 37 for i in range(38)]


def read(
    cells: Sequence[object], semicolons: bool = False, **more: Any
) -> tuple[list[float], Encoder]:
    """The first feature of a column `z`, and its encoder."""
    frame = pl.DataFrame({"z": list(map(str, cells)), **more.pop("beside", {})})
    known = more.pop("known", None)
    blocks, encoders = read_columns("n.csv", frame, more, known, semicolons)
    assert len(encoders[0].names()) <= 1
    return blocks[0][:, 0].tolist(), encoders[0]


def read_line(cells: Sequence[str]) -> str:
    return read_columns("n.csv", pl.DataFrame({"z": cells}), {}, None)[1][0].line()


def plain(numbers: Sequence[float]) -> list[float]:
    with warnings.catch_warnings(action="ignore"):
        return read(numbers)[0]


def comma(number: float) -> str:
    return f"{number}".replace(".", ",")


def german(number: int) -> str:
    return f"{number:,}".replace(",", ".")


def later(encoder: Encoder, cells: Sequence[str], **more: Any) -> list[float]:
    """Cells of another table, by an encoder that went through the file of a run."""
    stored = stored_encoders({"columns": json.loads(msgspec.json.encode([encoder]))})
    return read(cells, known=stored, **more)[0]


def test_later_tables_keep_the_decimal_comma() -> None:
    features, encoder = read([comma(size) for size in SIZES], semicolons=True)
    assert features == plain(SIZES)
    assert encoder.line().startswith("number, decimal comma, ")
    three = [i for i, size in enumerate(SIZES) if len(comma(size).split(",")[1]) == 3]
    assert later(encoder, [comma(SIZES[i]) for i in three]) == [features[i] for i in three]
    with pytest.raises(
        InputError, match=r"row 2, column 'z': .*decimal comma.*rows: 2, 3\).*'3.5'"
    ):
        later(encoder, ["3,5", "3.5", "4.25"])


def test_later_tables_keep_the_decimal_point() -> None:
    _, encoder = read(SIZES)
    assert later(encoder, ["1,234"]) == later(encoder, ["1234"])
    with pytest.raises(InputError, match="row 1, column 'z': is not a finite number, as the model"):
        later(encoder, ["3,5"])


def test_readings_of_version_1_0_are_still_used() -> None:
    _, encoder = read([comma(size) for size in SIZES])
    columns = json.loads(msgspec.json.encode([encoder]))
    del columns[0]["spelled"]
    old = stored_encoders({"columns": columns})
    assert read(["3,5", "4,25"], known=old)[0] == later(encoder, ["3,5", "4,25"])


@pytest.mark.parametrize("kind", ["number", "raw"])
def test_a_kind_that_is_said_keeps_the_decimal_comma_too(kind: str) -> None:
    features, encoder = read([comma(size) for size in SIZES], z=kind)
    assert features == pytest.approx(read(SIZES, z=kind)[0])
    assert later(encoder, ["1,125"]) == later(read(SIZES, z=kind)[1], ["1.125"])


def test_a_comma_is_decimal_where_semicolons_separate() -> None:
    numbers = [2 + i % 3 if i % 4 == 0 else 1 + i % 8 // 2 + 0.125 for i in range(40)]
    cells = [comma(number) if number % 1 else str(int(number)) for number in numbers]
    with pytest.warns(ReadingWarning, match=r"'1,125' .* may be thousands; .*'z=number:\.'"):
        assert read(cells, semicolons=True)[0] == plain(numbers)
    proof = {"y": ["0,5", "7,25"] * 20}
    assert read(cells, semicolons=True, beside=proof)[0] == plain(numbers)
    thousands = [round(number * 1000) if number % 1 else number for number in numbers]
    assert read(cells)[0] == plain(thousands)
    assert read(cells, semicolons=True, z="number:.")[0] == plain(thousands)
    proof = {"y": ["0.5", "7.25"] * 20}
    assert read(cells, semicolons=True, beside=proof)[0] == plain(thousands)


def test_points_are_thousands_beside_decimal_commas_and_doubtful_elsewhere() -> None:
    cells = [german(count) for count in COUNTS]
    proof = {"y": ["0,5", "7,25"] * 20}
    assert read(cells, semicolons=True, beside=proof)[0] == plain(COUNTS)
    for semicolons in (False, True):
        with pytest.warns(ReadingWarning, match=r"decimal point and may be thousands.*number:,'"):
            features, _ = read(cells, semicolons=semicolons)
        assert features == plain([float(cell) for cell in cells])
    assert read(cells, z="number:,")[0] == plain(COUNTS)
    assert read([f"{size:.3f}" for size in SIZES])[0] == plain(SIZES)


def test_one_cell_does_not_decide_what_the_others_are() -> None:
    cells = [f"{count:,}" for count in COUNTS]
    cells[7] = "3,5"
    with pytest.raises(InputError, match=r"row 8, column 'z': is not a number.*\(got '3,5'\)"):
        read(cells)
    with pytest.warns(ReadingWarning, match="decimal comma and may be thousands"):
        read(cells, semicolons=True)
    cells = [comma(size) for size in SIZES]
    cells[30:32] = "3.5", "4.5"
    with pytest.raises(InputError, match=r"decimal comma.*2 such rows: 31, 32\) \(got '3\.5'\)"):
        read(cells)


def test_percent_signs_of_some_cells_are_named() -> None:
    cells = [f"{i % 9}%" if i % 2 else f"0.{i % 9}" for i in range(40)]
    with pytest.warns(ReadingWarning, match="column 'z': 20 of 40 numbers have a percent sign"):
        read(cells)


def test_a_number_is_not_a_truth_value_because_of_its_gaps() -> None:
    frame = pl.DataFrame({"z": ["1.00", "0.00", "?"] * 10})
    blocks, encoders = read_columns("n.csv", frame, {}, None)
    assert encoders[0].line().startswith("number")
    assert blocks[0][:, 1].tolist() == [0, 0, 1] * 10


def test_weights_have_a_decimal_comma_where_semicolons_separate() -> None:
    cells = pl.Series("weight", ["1,125", "2"])
    assert read_weights("e.csv", cells, semicolons=True).tolist() == [1.125, 2]
    assert read_weights("e.csv", cells).tolist() == [1125, 2]


@pytest.mark.parametrize(
    ("written", "sign"),
    [
        (lambda x: f"({x:,.2f})", -1),
        (lambda x: f"\N{MINUS SIGN}{x:.2f}", -1),
        (lambda x: f"{x:,.2f}".replace(",", "'"), 1),
        (lambda x: f"{x:,.2f}".replace(",", " ").replace(".", ","), 1),
        (lambda x: f"{x:,.2f}".replace(",", "\N{NO-BREAK SPACE}").replace(".", ","), 1),
        (lambda x: f"{x:,.2f}".replace(",", "\N{NARROW NO-BREAK SPACE}").replace(".", ","), 1),
        (lambda x: f"\N{YEN SIGN}{x:.2f}", 1),
        (lambda x: f"(${x:.2f})", -1),
        (lambda x: f"{x:.2f} USD", 1),
        (lambda x: f"{x:.2f}kg", 1),
        (lambda x: f"{x:,.2f} km/h", 1),
        (lambda x: f"-{x:.2f} °C", -1),
    ],
)
def test_other_spellings_are_numbers(written: Callable[[float], str], sign: int) -> None:
    numbers = [count * 1.25 + 0.01 for count in COUNTS]
    features, encoder = read([written(number) for number in numbers])
    assert features == plain([sign * round(number, 2) for number in numbers])
    assert later(encoder, [written(numbers[5])]) == features[5:6]


def test_later_numbers_have_the_unit_of_training() -> None:
    features, encoder = read([f"{size} kg" for size in SIZES])
    assert encoder.line().startswith("number in kg, ")
    assert later(encoder, [f"{SIZES[3]}kg", "n/a"])[0] == features[3]
    with pytest.raises(InputError, match=r"row 1, column 'z': is not a finite number in kg.*'3 g'"):
        later(encoder, ["3 g"])


def test_numbers_of_several_units_are_not_called_an_id() -> None:
    cells = [f"{size}{'MB' if i % 2 else 'GB'}" for i, size in enumerate(SIZES)]
    assert "nearly all different, most begin with a number" in read_line(cells)
    assert "like an id" in read_line([f"{i * 7919:08x}-7" for i in range(40)])
    assert "category" in read_line(
        [f"{1 + i % 4}{'st' if i % 4 == 0 else 'th'}" for i in range(40)]
    )
