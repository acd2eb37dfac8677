"""Leaderboards: one configuration for all sets, seeds averaged, ranks, differences, variants."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from djgnn.baselines import baseline_config
from djgnn.bench.document import render
from djgnn.bench.leaderboard import compose_leaderboard, plan_untuned
from djgnn.bench.standings import average_seeds
from djgnn.bench.tables import SUITES, TablePlan
from djgnn.bench.worker import main as worker
from djgnn.cli.bench import RunOptions, UntunedOptions
from djgnn.cli.leaderboards import run_untuned
from djgnn.errors import InputError
from djgnn.graph import Graph, write_npz
from djgnn.training.config import resolve

from .conftest import FACTS, finished_cell

FOUR = [
    finished_cell("djgnn", "texas", [80, 82]),
    finished_cell("gcn", "texas", [60, 70]),
    finished_cell("djgnn", "cornell", [70, 71]),
    finished_cell("gcn", "cornell", [70.5, 71.5]),
]


@pytest.fixture
def run(folder: Path, tmp_path: Path):
    """Run a leaderboard in this process into a folder of its own."""

    def run(board: UntunedOptions, **options: object) -> dict:
        chosen = RunOptions(tmp_path / "t", folder, "cpu", 0, quiet=True, **options)
        return run_untuned(board, chosen)

    return run


def page_of(cells: list, reference: str = "djgnn") -> str:
    plan = TablePlan("untuned", tuple(cell.spec for cell in cells), FACTS, ())
    return render(compose_leaderboard(plan, cells, reference, "djgnn bench untuned"), "md")


def test_every_system_has_one_configuration_whatever_the_set(tiny: Graph, tmp_path: Path) -> None:
    for name in ("texas", "cora"):
        write_npz(tiny, tmp_path / f"{name}.npz")
    plan = plan_untuned({"djgnn": {}, "gcn": {}}, ("texas", "cora"), data=tmp_path)
    configs = {(spec.dataset, spec.label): spec.recipe() for spec in plan.specs}
    assert configs["texas", "djgnn"] == configs["cora", "djgnn"] == resolve("default")
    assert configs["texas", "gcn"] == configs["cora", "gcn"] == baseline_config("gcn")
    with pytest.raises(InputError, match="must be one of djgnn"):
        plan_untuned({"nothing": {}}, ("texas",), data=tmp_path)


def test_there_are_seventeen_sets_and_not_the_old_cornell() -> None:
    sets = SUITES["untuned"].datasets
    assert len(set(sets)) == len(sets) == 17
    assert "cornell_old" not in sets


def test_seeds_are_averaged_split_by_split() -> None:
    cells = [
        finished_cell("gcn", "texas", tests, seed)
        for seed, tests in enumerate(([60, 70], [70, 90]))
    ]
    merged = average_seeds(cells)["gcn", "texas"].result()
    assert [split.test for split in merged.splits] == [65, 80]
    assert merged.std("test") == pytest.approx(10.6066, abs=1e-4)


def test_rows_are_sorted_by_rank_and_the_best_of_a_set_is_bold() -> None:
    cells = [
        *FOUR,
        finished_cell("mlp", "texas", [81, 83]),
        finished_cell("mlp", "cornell", [71, 72]),
    ]
    page = page_of(cells)
    rows = page[page.index("| system | average rank |") :].splitlines()[2:5]
    assert rows == [
        "| MLP | 1.00 | **82.00** | **71.50** | 76.75 | 1.0 |",
        "| DJ-GNN | 2.50 | 81.00 | 70.50 | 75.75 | 1.0 |",
        "| GCN | 2.50 | 65.00 | 71.00 | 68.00 | 1.0 |",
    ]
    assert "Command: djgnn bench untuned" in page


def test_differences_are_the_row_minus_the_reference() -> None:
    page = page_of(FOUR)
    assert "| GCN | 0 | 0 | -7.75 | -16.00 | +0.50 |" in page
    assert "| texas | 81.00 ± 1.41 | GCN | 65.00 | +16.00 |" in page


def test_a_system_that_failed_is_last_on_that_set_and_shown(
    run, tmp_path: Path, monkeypatch
) -> None:
    from djgnn.bench import pool

    real = pool.build

    def broken(recipe, graph, device):
        if getattr(recipe, "model", "") == "gcn":
            raise MemoryError("too big")
        return real(recipe, graph, device)

    monkeypatch.setattr(pool, "build", broken)
    run(UntunedOptions("mlp,gcn", datasets="own", splits="0-1", epochs=1))
    page = (tmp_path / "t" / "table.md").read_text()
    assert "| GCN | 2.00 | out of memory (2 of 2) |" in page
    assert "Last on the sets where it failed: gcn." in page
    assert "gcn on own, split 0: out of memory: MemoryError: too big" in page


def test_seeds_travel_to_another_machine_and_back(run, folder: Path, tmp_path: Path) -> None:
    board = UntunedOptions(
        "mlp,gcn", datasets="own", splits="0-1", seeds="0-2", epochs=2, docs=tmp_path / "docs"
    )
    cells, results = tmp_path / "cells.jsonl", tmp_path / "results.jsonl"
    assert run(board, export=cells) == {"exported_cells": 6, "exported_splits": 12}
    arguments = ["--out", str(results), "--workers", "0", "--data", str(folder), "--device", "cpu"]
    assert worker(arguments, io.StringIO(cells.read_text())) == 0
    assert len(run(board, imports=[results])["cells"]) == 6
    page = (tmp_path / "docs" / "table.md").read_text()
    assert "Seeds: 0, 1, 2." in page
    lines = (tmp_path / "docs" / "results.jsonl").read_text().splitlines()
    assert [json.loads(line)["seed"] for line in lines] == [0, 1, 2] * 2
    assert {file.name for file in (tmp_path / "docs").iterdir()} == {
        "table.md", "results.jsonl", "critical-difference.svg",
    }  # fmt: skip


def test_variants_of_a_file_are_compared_with_the_first(run, tmp_path: Path) -> None:
    file = tmp_path / "variants.yaml"
    file.write_text(
        "djgnn:\ndjgnn:narrow: {hidden_channels: 2}\n"
        "djgnn:author: {hidden_channels: 2}\ngcn:wide: {hidden_channels: 80}\n"
    )
    cells = run(UntunedOptions(variants=file, datasets="own", splits="0", epochs=1))["cells"]
    assert [cell["model"] for cell in cells] == [
        "djgnn",
        "djgnn:narrow",
        "djgnn:author",
        "gcn:wide",
    ]
    assert cells[1]["config"]["model"]["hidden_channels"] == 2
    assert cells[1]["config"]["preset"] == "default"
    assert cells[2]["config"]["preset"] == "author"
    assert cells[3]["config"]["options"]["hidden_channels"] == 80
    page = (tmp_path / "t" / "table.md").read_text()
    assert "# Variants of a model" in page
    assert "| DJ-GNN (narrow) |" in page
    assert "The row minus DJ-GNN, in points" in page
    assert "djgnn:narrow: hidden\\_channels = 2" in page


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("djgnn:narrow: 3\n", "must have options to change"),
        ("djgnn:narrow: {nothing: 3}\n", "nothing"),
        ("nothing:narrow: {lr: 3}\n", "must be one of djgnn"),
    ],
)
def test_wrong_variants_are_refused(run, tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "variants.yaml"
    file.write_text(text)
    with pytest.raises(InputError, match=message):
        run(UntunedOptions(variants=file, datasets="own"))
