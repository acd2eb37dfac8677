from __future__ import annotations

import json
from pathlib import Path

import pytest

from djgnn.errors import InputError
from djgnn.report.comparison import _tell_apart, comparison_payload, read_cells
from djgnn.report.comparison_figures import cost_figure
from djgnn.report.ranking import rank_models


def cell(model: str, dataset: str, tests: list[float]) -> dict:
    splits = [
        {"split": i, "validation": t + 1, "test": t, "oracle_test": t + 2, "seconds": 1.0}
        for i, t in enumerate(tests)
    ]
    return {
        "model": model,
        "dataset": dataset,
        "preset": "default",
        "protocol": "validation",
        "seed": 0,
        "metric": "accuracy",
        "splits": splits,
        "seconds": 2.0,
        "peak_memory_mib": 10.0,
    }


def test_cells_keep_their_figures(tmp_path: Path) -> None:
    file = tmp_path / "cells.json"
    file.write_text(json.dumps([cell("a", "x", [80.0, 90.0]), cell("b", "x", [70.0])]), "utf-8")
    a, b = read_cells(file)
    assert a["test_mean"] == 85.0
    assert a["test_std"] == pytest.approx(7.0710678)
    assert a["oracle_mean"] == 87.0
    assert (b["test_mean"], b["test_std"], b["splits"]) == (70.0, None, 1)


def test_graphs_of_one_name_and_different_size_are_told_apart() -> None:
    cells = [
        {"dataset": "nodes", "size": "90 nodes, 300 edges"},
        {"dataset": "nodes", "size": "40 nodes, 80 edges"},
        {"dataset": "cora", "size": "2,708 nodes, 5,278 edges"},
        {"dataset": "cora", "size": "2,708 nodes, 5,278 edges"},
    ]
    _tell_apart(cells)
    assert [c["dataset"] for c in cells] == [
        "nodes (90 nodes, 300 edges)",
        "nodes (40 nodes, 80 edges)",
        "cora",
        "cora",
    ]


def test_one_cell_per_line_and_a_folder_read_alike(tmp_path: Path) -> None:
    cells = [cell("a", "x", [1.0]), cell("b", "x", [2.0])]
    (tmp_path / "all.jsonl").write_text("\n".join(map(json.dumps, cells)), "utf-8")
    assert read_cells(tmp_path) == read_cells(tmp_path / "all.jsonl")
    assert [c["model"] for c in read_cells(tmp_path)] == ["a", "b"]


def test_records_of_splits_become_cells_and_failures_are_shown(tmp_path: Path) -> None:
    base = {"label": "m", "dataset": "x", "seed": 0, "metric": "accuracy", "seconds": 1.5}
    done = {"test": 80.0, "validation": 81.0, "oracle_test": 82.0}
    lines = [
        {**base, "split": 0, "status": "done", "result": done, "peak_memory_mib": 7.0},
        {**base, "split": 1, "status": "out of memory", "result": None, "peak_memory_mib": 9.0},
    ]
    (tmp_path / "r.jsonl").write_text("\n".join(map(json.dumps, lines)), "utf-8")
    (found,) = read_cells(tmp_path / "r.jsonl")
    assert found["test_mean"] == 80.0
    assert found["splits"] == 1
    assert found["status"] == "1 out of memory"
    assert found["seconds"] == 3.0


def test_the_folder_of_a_table_is_read_with_its_failures(tmp_path: Path) -> None:
    failed = {"split": 1, "status": "failed", "reason": "diverged"}
    lines = [
        {**cell("a", "x", [80.0]), "failures": [failed]},
        {"model": "b", "dataset": "x", "seed": 0, "failures": [failed, failed]},
    ]
    (tmp_path / "results.jsonl").write_text("\n".join(map(json.dumps, lines)), "utf-8")
    (tmp_path / "other.json").write_text("{}", "utf-8")
    a, b = read_cells(tmp_path)
    assert (a["test_mean"], a["status"]) == (80.0, "1 failed")
    assert (b["test_mean"], b["status"]) == (None, "2 failed")


def test_a_run_folder_is_a_row(run_folder: Path) -> None:
    card = json.loads((run_folder / "result.json").read_text("utf-8"))
    (found,) = read_cells(run_folder)
    assert found["test_mean"] == card["result"]["test"]
    assert found["oracle_mean"] == card["result"]["oracle_test"]
    assert found["preset"] == "default"


def test_ranks_by_hand() -> None:
    table = {"a": [90, 80, 70], "b": [80, 90, 60], "c": [10, 10, 10]}
    cells = [
        cell(m, d, [v]) for m, values in table.items() for d, v in zip("xyz", values, strict=True)
    ]
    rows = [{**c, "test_mean": c["splits"][0]["test"]} for c in cells]
    found = rank_models(rows, "test_mean")
    assert found is not None
    assert found["models"] == ["a", "b", "c"]
    assert found["ranks"] == pytest.approx([4 / 3, 5 / 3, 3])
    # q(0.05, 3 models) = 2.343 (Demsar 2006, Table 5)
    assert found["critical_difference"] == pytest.approx(2.343 * (12 / 18) ** 0.5, abs=2e-3)
    assert found["cliques"] == [[0, 2]]


def test_sets_that_a_model_lacks_do_not_count() -> None:
    rows = [{"model": m, "dataset": "x", "test_mean": 1.0} for m in "ab"]
    assert (
        rank_models([*rows, {"model": "a", "dataset": "y", "test_mean": 1.0}], "test_mean") is None
    )


@pytest.mark.parametrize("text", ["not json", "[1, 2]", '{"splits": [], "model": "a"}'])
def test_other_files_are_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "x.json"
    file.write_text(text, "utf-8")
    with pytest.raises(InputError, match=r"x\.json"):
        comparison_payload([file])


def test_costs_that_nobody_has_are_not_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the figures extra is not installed")
    cells = [{**cell("a", "x", [80.0]), "peak_memory_mib": None}]
    (tmp_path / "c.json").write_text(json.dumps(cells), "utf-8")
    payload = comparison_payload([tmp_path / "c.json"])
    figure = cost_figure(payload)
    assert figure is not None
    assert [axes.get_xlabel() for axes in figure.axes] == ["seconds per split"]
    payload["cells"][0]["seconds"] = None
    assert cost_figure(payload) is None


def test_nothing_to_compare_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing to compare"):
        comparison_payload([tmp_path])
