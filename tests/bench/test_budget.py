"""The equal-budget leaderboard: trials known beforehand, the best by validation, earlier rows."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from djgnn.bench.budget import SMALL, plan_budget
from djgnn.bench.pool import run_plan
from djgnn.bench.store import Store, read_cells
from djgnn.bench.worker import main as worker
from djgnn.cli.bench import BudgetOptions, RunOptions, TuneOptions
from djgnn.cli.leaderboards import run_equal_budget
from djgnn.cli.tables import run_tune
from djgnn.errors import InputError

from .conftest import finished_cell

pytest.importorskip("optuna")
BOARD = BudgetOptions("mlp,gcn", datasets="own", epochs=2, trials=3)


@pytest.fixture
def run(folder: Path, tmp_path: Path):
    """Run the leaderboard in this process into a folder of its own."""

    def run(board: BudgetOptions = BOARD, **options: object) -> dict:
        chosen = RunOptions(tmp_path / "t", folder, "cpu", 0, quiet=True, **options)
        return run_equal_budget(board, chosen)

    return run


def test_trials_are_those_of_a_random_search_and_the_same_one_wins(
    run, folder: Path, tmp_path: Path
) -> None:
    options = TuneOptions(
        out=tmp_path / "tune", data=folder, device="cpu", workers=0, quiet=True, model="mlp",
        dataset="own", trials=3, sampler="random", pruner="none", splits="0-1", epochs=2,
    )  # fmt: skip
    (card,) = run_tune(options)["searches"]
    (cell, _) = run()["cells"]
    assert cell["config"]["source"] == f"best of 3 trials on validation, trial {card['best_trial']}"
    for name, value in card["params"].items():
        assert {**cell["config"]["options"], **cell["config"]["training"]}[name] == value
    assert [split["split"] for split in cell["splits"]] == [0, 1, 2]


def test_trials_never_read_a_test_label(folder: Path, tmp_path: Path) -> None:
    budget = plan_budget(("mlp",), ("own",), trials=2, epochs=1, data=folder)
    store = Store(tmp_path / "t")
    specs = budget.specs(store)
    assert [(spec.evaluate, spec.splits) for spec in specs] == [(False, (0, 1))] * 2
    assert sum(budget.facts["own"].sizes[0]) < SMALL
    run_plan(specs, budget.facts, store, workers=0, device="cpu", data=folder)
    scores = [store.cell(spec, budget.facts["own"].sha256).result() for spec in specs]
    assert all(split.test != split.test for score in scores for split in score.splits)  # NaN
    means = [score.mean("validation") for score in scores]
    (best,) = budget.finals(store)
    assert best.evaluate
    assert best.splits == (0, 1, 2)
    chosen = specs[means.index(max(means))].config
    assert best.config["options"] == chosen["options"]


def test_search_and_finals_travel_to_another_machine_and_back(
    run, folder: Path, tmp_path: Path
) -> None:
    board = BudgetOptions("mlp,gcn", datasets="own", epochs=2, trials=3, seeds="0-1")
    cells, results = tmp_path / "cells.jsonl", tmp_path / "results.jsonl"
    arguments = ["--out", str(results), "--workers", "0", "--data", str(folder), "--device", "cpu"]
    assert run(board, export=cells) == {"exported_cells": 6, "exported_splits": 12}
    assert worker(arguments, io.StringIO(cells.read_text())) == 0
    there = run(board, imports=[results], export=cells)
    assert there == {"exported_cells": 4, "exported_splits": 12}
    assert worker(arguments, io.StringIO(cells.read_text())) == 0
    assert run(board, imports=[results], export=cells)["exported_splits"] == 0
    assert [cell["seed"] for cell in run(board)["cells"]] == [0, 1, 0, 1]
    page = (tmp_path / "t" / "table.md").read_text()
    assert "# Equal budget" in page
    assert "the best of 3 random trials" in page
    assert "Seconds of all trials together: mlp " in page


def test_a_page_of_half_a_search_says_so(folder: Path, tmp_path: Path) -> None:
    budget = plan_budget(("mlp", "gcn"), ("own",), trials=1, epochs=1, data=folder)
    store = Store(tmp_path / "t")
    run_plan(budget.specs(store)[:1], budget.facts, store, workers=0, device="cpu", data=folder)
    plan = budget.plan(store)
    assert [spec.label for spec in plan.specs] == ["mlp"]
    assert "The search of gcn on own is not finished." in plan.remarks


def test_a_search_whose_trials_all_fail_has_no_final(run, tmp_path: Path, monkeypatch) -> None:
    from djgnn.bench import pool

    def broken(*_: object) -> None:
        raise MemoryError("too big")

    monkeypatch.setattr(pool, "build", broken)
    assert run()["cells"] == []
    assert "No trial of mlp on own could be trained." in (tmp_path / "t" / "table.md").read_text()


def test_rows_of_an_earlier_table_stand_beside_new_ones(run, tmp_path: Path) -> None:
    run()
    earlier = tmp_path / "earlier.jsonl"
    earlier.write_text((tmp_path / "t" / "results.jsonl").read_text())
    old = {json.loads(line)["model"]: json.loads(line) for line in earlier.read_text().splitlines()}
    run(BudgetOptions("mlp", datasets="own", epochs=1, trials=1, seeds="0-1", beside=earlier))
    new = list(map(json.loads, (tmp_path / "t" / "results.jsonl").read_text().splitlines()))
    assert [line["model"] for line in new] == ["mlp", "mlp", "gcn"]
    assert new[2]["splits"] == old["gcn"]["splits"]
    assert new[2]["config"] == old["gcn"]["config"]
    page = (tmp_path / "t" / "table.md").read_text()
    assert "Seeds: 0, 1 (mlp); 0 (gcn)." in page
    assert "not run here: gcn." in page


def test_earlier_rows_on_other_data_are_refused(run, tmp_path: Path) -> None:
    file = tmp_path / "earlier.jsonl"
    file.write_text(json.dumps(finished_cell("gat", "own", [60, 70]).to_dict()) + "\n")
    assert [cell.spec.label for cell in read_cells(file)] == ["gat"]
    with pytest.raises(InputError, match="gat ran on another own"):
        run(BudgetOptions("mlp", datasets="own", epochs=1, trials=1, beside=file))
    empty = {**finished_cell("gat", "own", [60]).to_dict(), "splits": [], "failures": []}
    for cell in ({"model": "gat"}, empty):
        file.write_text(json.dumps(cell) + "\n")
        with pytest.raises(InputError, match="line 1 is not a cell"):
            run(BudgetOptions("mlp", datasets="own", epochs=1, trials=1, beside=file))
