from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from djgnn.cli.app import app
from djgnn.errors import InputError
from djgnn.report.comparison import comparison_payload, load_cells, rank_rows

from .conftest import hostile_graph, make_run


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
    a, b = load_cells(file)
    assert a["test_mean"] == 85.0
    assert a["test_std"] == pytest.approx(7.0710678)
    assert a["oracle_mean"] == 87.0
    assert (b["test_mean"], b["test_std"], b["splits"]) == (70.0, None, 1)


def test_graphs_of_one_name_and_different_size_are_told_apart(tmp_path: Path) -> None:
    graphs = [hostile_graph(n) for n in (96, 64)]
    folders = [make_run(tmp_path / str(g.num_nodes), g, epochs=2) for g in graphs]
    (tmp_path / "c.json").write_text(json.dumps(cell("a", "x", [1.0])), "utf-8")
    found = comparison_payload([*folders, tmp_path / "c.json"])["cells"]
    names = [f"sbm ({g.num_nodes} nodes, {g.num_edges} edges)" for g in graphs]
    assert [c["dataset"] for c in found] == [*names, "x"]


def test_one_cell_per_line_and_a_folder_read_alike(tmp_path: Path) -> None:
    cells = [cell("a", "x", [1.0]), cell("b", "x", [2.0])]
    (tmp_path / "all.jsonl").write_text("\n".join(map(json.dumps, cells)), "utf-8")
    assert load_cells(tmp_path) == load_cells(tmp_path / "all.jsonl")
    assert [c["model"] for c in load_cells(tmp_path)] == ["a", "b"]


def test_records_of_splits_become_cells_and_failures_are_shown(tmp_path: Path) -> None:
    base = {"label": "m", "dataset": "x", "seed": 0, "metric": "accuracy", "seconds": 1.5}
    done = {"test": 80.0, "validation": 81.0, "oracle_test": 82.0}
    lines = [
        {**base, "split": 0, "status": "done", "result": done, "peak_memory_mib": 7.0},
        {**base, "split": 1, "status": "out of memory", "result": None, "peak_memory_mib": 9.0},
    ]
    (tmp_path / "r.jsonl").write_text("\n".join(map(json.dumps, lines)), "utf-8")
    (found,) = load_cells(tmp_path / "r.jsonl")
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
    a, b = load_cells(tmp_path)
    assert (a["test_mean"], a["status"]) == (80.0, "1 failed")
    assert (b["test_mean"], b["status"]) == (None, "2 failed")


def test_a_run_folder_is_a_row(run_folder: Path) -> None:
    card = json.loads((run_folder / "result.json").read_text("utf-8"))
    (found,) = load_cells(run_folder)
    assert found["test_mean"] == card["result"]["test"]
    assert found["oracle_mean"] == card["result"]["oracle_test"]
    assert found["preset"] == "default"


def test_ranks_by_hand() -> None:
    table = {"a": [90, 80, 70], "b": [80, 90, 60], "c": [10, 10, 10]}
    rows = [
        {"model": m, "dataset": d, "test_mean": v, "status": "done"}
        for m, values in table.items()
        for d, v in zip("xyz", values, strict=True)
    ]
    found = rank_rows([*rows, {**rows[0], "dataset": "w"}], "test_mean")
    assert found is not None
    assert found["ranks"] == pytest.approx({"a": 4 / 3, "b": 5 / 3, "c": 3})
    assert found["num_sets"] == 3  # b and c were not run on w
    assert rank_rows(rows[::3], "test_mean") is None  # one set


def test_a_model_that_failed_on_a_set_is_last_there() -> None:
    scores = {("a", "x"): 90, ("a", "y"): 90, ("b", "x"): 80, ("b", "y"): 80}
    scores |= {("c", "x"): 95, ("c", "y"): 85}
    rows = [
        {"model": m, "dataset": d, "test_mean": score, "status": "done"}
        for (m, d), score in scores.items()
    ]
    rows[-1]["status"] = "1 out of memory"  # its mean is of the splits that it could do
    found = rank_rows(rows, "test_mean")
    assert found is not None
    assert found["ranks"] == {"a": 1.5, "b": 2.5, "c": 2.0}
    assert found["text"][-1] == "Last on the sets where it failed: c."
    seeds = [{**row, "test_mean": row["test_mean"] + 20} for row in rows if row["model"] == "b"]
    again = rank_rows([*rows, *seeds], "test_mean")
    assert again is not None
    assert again["ranks"] == {"a": 2.0, "b": 2.0, "c": 2.0}  # b has 90 on both, as a has


@pytest.mark.parametrize("text", ["not json", "[1, 2]", '{"splits": [], "model": "a"}'])
def test_other_files_are_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "x.json"
    file.write_text(text, "utf-8")
    with pytest.raises(InputError, match=r"x\.json"):
        comparison_payload([file])


def test_nothing_to_compare_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing to compare"):
        comparison_payload([tmp_path])


def test_the_command_writes_the_comparison(run_folder: Path, tmp_path: Path) -> None:
    cells = [cell(m, d, [2.0]) for m in "ab" for d in "xy"]
    (tmp_path / "c.json").write_text(json.dumps(cells), "utf-8")
    page = tmp_path / "c.html"
    words = ["report", str(tmp_path / "c.json"), str(run_folder), "--out", str(page)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0
    assert done.stdout.strip() == str(page)
    assert "<h1>Comparison</h1>" in page.read_text("utf-8")


def test_a_missing_run_is_an_error_of_the_input(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["report", str(tmp_path / "nowhere")])
    assert isinstance(done.exception, InputError)
    assert "nowhere: there is no such run folder or file" in str(done.exception)
