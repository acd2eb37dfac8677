"""Damaged run folders and benchmark files get an answer that names file, field and remedy."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.reseal import reseal

from djgnn.errors import InputError
from djgnn.report import run_data
from djgnn.report.comparison import comparison_payload
from djgnn.report.page import write_comparison_page, write_run_page
from djgnn.report.run_data import load_run
from djgnn.training.recorder import RECORD

NAN = float("nan")


@pytest.fixture
def copy(run_folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(run_folder, tmp_path / "copy"))


def change_card(folder: Path, field: str, value: Any) -> None:
    file = folder / "result.json"
    card = json.loads(file.read_text("utf-8"))
    *sections, key = field.split(".")
    place = card
    for section in sections:
        place = place[section]
    if value is None:
        del place[key]
    else:
        place[key] = value
    file.write_text(json.dumps(card), "utf-8")


@pytest.mark.parametrize(
    ("field", "value", "wants"),
    [
        ("seed", None, "a whole number"),
        ("seed", NAN, "a whole number"),
        ("seed", 10**400, "a whole number"),
        ("metric", ["accuracy"], "one of accuracy, roc_auc"),
        ("protocol", 5, "text"),
        ("interrupted", "no", "true or false"),
        ("result", 5, "an object"),
        ("result.split", "x", "a whole number"),
        ("result.split", -1, "a whole number"),
        ("result.test", "<b>", "a score"),
        ("result.test", 1e308, "a score"),
        ("result.seconds", 10**400, "a number"),
        ("result.epoch", 1.5, "a whole number"),
        ("alpha", [1], "an object, each value a number"),
        ("alpha", {"jump0": True}, "an object, each value a number"),
        ("data.name", "\ud800", "text"),
        ("data.num_nodes", "x", "a whole number"),
        ("data.classes", [1], "a list, each text"),
        ("calibration.temperature", 0, "a positive number"),
        ("experts", 3, "a list"),
        ("jumps", {"used": 1}, "a list"),
        ("verdict.low", 101, "a score from 0 to 100"),
        ("verdict.warnings", ["a", 3], "a list, each text"),
        ("sets.thresholds", [0.5, 2], "a list, each a number from -1 to 1"),
        ("sets.by", "node", "one of all, class"),
        ("versions", {"python": 3}, "an object, each value text"),
    ],
)
def test_a_damaged_card_is_refused(copy: Path, field: str, value: Any, wants: str) -> None:
    change_card(copy, field, value)
    for read in (load_run, lambda folder: comparison_payload([folder])):
        with pytest.raises(InputError, match=rf"result\.json: .*{field} must be {wants}.*again"):
            read(copy)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("suspects", [{"node": 5}]),
        ("label_next", [{"node": "a", "prediction": "b", "probability": 7, "neighbours": 1}]),
        ("thresholds", {"a": [5]}),
        ("pr_curve", {"a": {"recall": ["x"]}}),
        ("reading", {"notes": [], "columns": [{}], "warnings": []}),
        ("importance", [{"group": "a", "drop": "<b>"}]),
    ],
)
def test_damaged_advice_is_refused(copy: Path, field: str, value: Any) -> None:
    change_card(copy, field, value)
    with pytest.raises(InputError, match=rf"result\.json: damaged, {field}\S* must be .*again"):
        load_run(copy)


def test_a_split_that_the_graph_lacks_is_refused(copy: Path) -> None:
    change_card(copy, "result.split", 7)
    reseal(copy)
    with pytest.raises(InputError, match="split"):
        load_run(copy)


def test_what_a_card_has_beside_is_left_alone(copy: Path, tmp_path: Path) -> None:
    deep: Any = NAN
    for _ in range(400):
        deep = [deep]
    change_card(copy, "note", NAN)
    change_card(copy, "data.note", deep)
    change_card(copy, "result.note", NAN)
    reseal(copy)
    assert write_run_page(load_run(copy), tmp_path / "p.html").is_file()


def _rows(change: Callable[[list[list[str]]], list[list[str]]]) -> Callable[[str], str]:
    """A change of the rows of a table; cells may have line breaks."""

    def changed(text: str) -> str:
        out = io.StringIO(newline="")
        rows = csv.reader(io.StringIO(text, newline=""))
        csv.writer(out, lineterminator="\n").writerows(change(list(rows)))
        return out.getvalue()

    return changed


def _field(column: int, value: str) -> Callable[[str], str]:
    def change(rows: list[list[str]]) -> list[list[str]]:
        rows[-1][column] = value
        return rows

    return _rows(change)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (_rows(lambda rows: rows[:10]), "one row for each of.*again"),
        (lambda text: "", "it has other columns;.*again"),
        (lambda text: text.replace("part", "port", 1), "it has other columns;.*again"),
        (lambda text: text + "1,2\n", r"row \d+ must have 12 fields;.*again \(got 2\)"),
        (lambda text: f'"{"a" * 200_000}"\n', "field larger than"),
        (_field(1, "zz"), "prediction must be a class of this run.*'zz'"),
        (_field(2, "x"), "probability must be a number from 0 to 1"),
        (_field(3, "nan"), "margin must be a number from 0 to 1"),
        (_field(5, "tset"), "part must be one of"),
    ],
)
@pytest.mark.parametrize("block", [10**9, 7])
def test_damaged_predictions_are_refused(
    copy: Path,
    change: Callable[[str], str],
    says: str,
    block: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run_data, "BLOCK_ROWS", block)
    file = copy / "predictions.csv"
    file.write_bytes(change(file.read_bytes().decode("utf-8")).encode("utf-8"))
    reseal(copy)
    with pytest.raises(InputError, match=rf"predictions\.csv: damaged.*{says}"):
        load_run(copy)


def test_predictions_are_read_alike_in_blocks(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = load_run(run_folder).predictions
    monkeypatch.setattr(run_data, "BLOCK_ROWS", 7)
    again = load_run(run_folder).predictions
    assert list(again) == list(found)
    assert all(again[key].equals(found[key]) for key in found)


HISTORY = "epoch,loss,pump_loss,train,validation_loss,validation\n"


@pytest.mark.parametrize(
    "text", [f'"{"a" * 200_000}"\n', HISTORY + "9" * 400 + ",1,1,1,1,1\n", "epoch\n0\n"]
)
def test_damaged_histories_are_refused(copy: Path, text: str) -> None:
    (copy / "history.csv").write_text(text, "utf-8")
    reseal(copy)
    with pytest.raises(InputError, match=r"history\.csv: damaged"):
        load_run(copy)


@pytest.mark.parametrize(
    ("key", "change"),
    [("ranks", lambda v: v + 10**6), ("alpha", lambda v: v[:, :1]), ("epochs", lambda v: v + 50)],
)
def test_a_recording_of_another_run_is_refused(
    copy: Path, key: str, change: Callable[[Any], Any]
) -> None:
    with np.load(copy / RECORD) as file:
        arrays = dict(file)
    np.savez(copy / RECORD, **{**arrays, key: change(arrays[key])})
    reseal(copy)
    with pytest.raises(InputError, match=rf"record\.npz: key '{key}'"):
        load_run(copy)


SPLIT = {"split": 0, "test": 50.0, "validation": 50.0, "oracle_test": 50.0}
CELL = {"model": "a", "dataset": "x", "splits": [SPLIT], "seed": 0, "seconds": 1.0}
RECORD_LINE = {"label": "m", "dataset": "x", "seed": 0, "status": "done", "result": SPLIT}


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({**CELL, "splits": ["a"]}, r"splits\[0\] must be an object"),
        ({**CELL, "splits": 5}, "splits must be a list of objects"),
        ({**CELL, "failures": [5]}, r"failures\[0\] must be an object"),
        ({**CELL, "failures": [{}]}, r"failures\[0\]\.status must be text; .*got nothing"),
        ({**CELL, "seed": 1.5}, "seed must be a whole number"),
        ({**CELL, "seconds": 10**400}, "seconds must be a number"),
        ({**CELL, "model": "\ud800"}, "model must be text"),
        (
            {**CELL, "splits": [{"test": v} for v in (50, -1e308, 1e308)]},
            r"splits\[1\]\.test must be a score from 0 to 100",
        ),
        ({**RECORD_LINE, "result": 5}, "result must be an object, or null"),
        ({**RECORD_LINE, "result": None}, "result must be an object;"),
        ({**RECORD_LINE, "result": {"test": "x"}}, r"result\.test must be a score"),
        ({**RECORD_LINE, "status": ["a"]}, "status must be text"),
        ({**RECORD_LINE, "dataset": 5}, "dataset must be text"),
    ],
)
def test_a_damaged_cell_is_refused(tmp_path: Path, value: Any, says: str) -> None:
    (tmp_path / "c.json").write_text(json.dumps(value), "utf-8")
    with pytest.raises(InputError, match=rf"c\.json: damaged, {says}"):
        comparison_payload([tmp_path / "c.json"])


@pytest.mark.parametrize("text", ["[" * 100_000, '{"model": ' * 100_000, '{"cells": 5}'])
def test_json_of_another_shape_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "c.json").write_text(text, "utf-8")
    with pytest.raises(InputError, match=r"c\.json"):
        comparison_payload([tmp_path / "c.json"])


def test_nan_and_absent_figures_of_a_benchmark_are_legal(tmp_path: Path) -> None:
    bare = {"model": "a", "dataset": "x", "splits": [{"test": NAN, "validation": None}]}
    costs = {"seconds": NAN, "peak_memory_mib": None}
    (tmp_path / "c.json").write_text(json.dumps([bare, {**bare, **costs}]), "utf-8")
    page = write_comparison_page([tmp_path / "c.json"], tmp_path / "c.html")
    assert page.is_file()
