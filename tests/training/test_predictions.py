"""Tables of predictions: cells as the csv module has them, whatever and how many they are."""

import csv
import io

import numpy as np
import pytest

from djgnn.graph import Graph
from djgnn.training import predictions
from djgnn.training.predictions import COLUMNS, prediction_table, table_csv

ODD = ["a,b", '"q"', "x\ny", "x\r", " ", "'", "plain", "ü\t;"]


def test_cells_are_read_back_as_they_were() -> None:
    y = np.array([0, 1, -1, 0, 1, 0, -1, 1])
    graph = Graph(np.array([[0, 1], [1, 2]]), 8, y=y, node_names=tuple(ODD), class_names=("|", ","))
    shares = np.tile(np.array([[0.25, 0.75]], dtype=np.float32), (8, 1))
    text = table_csv(prediction_table(graph, shares, {"thresholds": [1.0, 1.0]}))
    header, *rows = csv.reader(io.StringIO(text, newline=""))
    assert header == [*COLUMNS, "p(|)", "p(,)"]
    assert [row[0] for row in rows] == ODD
    assert {tuple(row[1:4]) for row in rows} == {(",", "0.750000", "0.500000")}
    assert [row[4] for row in rows] == [("|", ",", "")[c] for c in y]
    assert {(row[5], *row[8:]) for row in rows} == {("", "0.250000", "0.750000")}
    assert rows[7][6] == "isolated"
    usual = io.StringIO(newline="")
    csv.writer(usual, lineterminator="\n").writerows([header, *rows])
    # Before Python 3.13 the module writes a carriage return that it does not read back.
    assert usual.getvalue().replace("\nx\r,", '\n"x\r",') == text


@pytest.mark.parametrize("many", [1, 10**6])
def test_shares_have_the_digits_that_python_prints(many: int, monkeypatch) -> None:
    monkeypatch.setattr(predictions, "MANY", many)
    drawn = np.random.default_rng(0).random(5000).astype(np.float32)
    ties = [1 / 128, 3 / 128]
    edges = [0, 1, 0.5, 5e-7, 1.5e-6, 0.9999995, 1e-7, 0.0625, *ties]
    shares = np.concatenate([drawn, np.array(edges, dtype=np.float32)])
    assert predictions._six(shares).to_list() == [f"{share:.6f}" for share in shares]
    assert predictions._six(np.float32([2.5, -1])).to_list() == ["2.500000", "-1.000000"]
    assert predictions._six(np.zeros(0, dtype=np.float32)).to_list() == []
