"""Whole tables: resumed, retried, taken in from elsewhere, and what their page says."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from djgnn.bench import pool
from djgnn.bench.document import write_document
from djgnn.bench.page import compose
from djgnn.bench.pool import run_plan
from djgnn.bench.spec import DataFacts, make_spec
from djgnn.bench.store import Store, finished_cells, missing_units
from djgnn.bench.tables import plan_table
from djgnn.bench.worker import main as worker
from djgnn.cli.tables import RunOptions, TableOptions, run_table
from djgnn.errors import InputError
from djgnn.graph import Graph, write_npz

TABLE = TableOptions("mlp,gcn", datasets="own", splits="0-1", epochs=2)
OWN = ("table1", ("mlp", "gcn"), ("own",))


@pytest.fixture
def run(folder: Path, tmp_path: Path):
    """Run a table in this process into a folder of its own."""

    def run(table: TableOptions = TABLE, **options: object) -> dict:
        chosen = RunOptions(tmp_path / "t", folder, "cpu", 0, quiet=True, **options)
        return run_table("table1", table, chosen)

    return run


def figures(folder: Path) -> dict[str, object]:
    """Everything of a table's results that a second run must repeat."""
    return {
        line["model"] + line["dataset"]: [
            {k: v for k, v in split.items() if k != "seconds"} for split in line["splits"]
        ]
        for line in map(json.loads, (folder / "results.jsonl").read_text().splitlines())
    }


def test_a_finished_split_is_never_run_again(run, tmp_path: Path, monkeypatch) -> None:
    run(replace(TABLE, splits="0"))
    before = {f: f.stat().st_mtime_ns for f in (tmp_path / "t" / "splits").iterdir()}
    ran = []
    real = pool.Runner.run
    monkeypatch.setattr(
        pool.Runner, "run", lambda self, spec, s: ran.append(s) or real(self, spec, s)
    )
    run()
    assert ran == [1, 1]
    assert all(f.stat().st_mtime_ns == at for f, at in before.items())
    first = figures(tmp_path / "t")
    run()
    assert ran == [1, 1]
    assert figures(tmp_path / "t") == first


def test_failures_are_kept_shown_and_retried(run, tmp_path: Path, monkeypatch) -> None:
    real = pool.build

    def broken(recipe, graph, device):
        if getattr(recipe, "model", "") == "gcn":
            raise MemoryError("too big")
        return real(recipe, graph, device)

    monkeypatch.setattr(pool, "build", broken)
    run()
    page = (tmp_path / "t" / "table.md").read_text()
    assert "out of memory (2 of 2)" in page
    assert "gcn on own, split 0: out of memory: MemoryError: too big" in page
    assert "out of memory" in (tmp_path / "t" / "table.html").read_text()
    monkeypatch.setattr(pool, "build", real)
    assert len(run()["cells"][1]["failures"]) == 2
    assert run(retry_failed=True)["cells"][1]["failures"] == []
    assert "out of memory" not in (tmp_path / "t" / "table.md").read_text()


def test_results_of_another_machine_are_taken_in(
    run, folder: Path, tmp_path: Path, capsys, monkeypatch
) -> None:
    specs, results = tmp_path / "cells.jsonl", tmp_path / "results.jsonl"
    assert run(export=specs) == {"exported_cells": 2, "exported_splits": 4}
    arguments = ["--out", str(results), "--workers", "0", "--data", str(folder), "--device", "cpu"]
    assert worker(arguments, io.StringIO(specs.read_text())) == 0
    whole = results.read_text()
    results.write_text(whole[:-40])  # as a kill leaves it
    assert worker(arguments, io.StringIO(specs.read_text())) == 0
    assert "1 splits to run" in capsys.readouterr().err
    assert len(results.read_text().splitlines()) == 4
    monkeypatch.setattr(pool.Runner, "run", None)  # nothing is left to run
    cells = run(imports=[results])["cells"]
    assert [len(cell["splits"]) for cell in cells] == [2, 2]
    assert run(export=specs)["exported_splits"] == 0


def test_other_code_counts_only_if_allowed(run, tmp_path: Path, monkeypatch) -> None:
    run()
    for module in ("store", "record", "page"):
        monkeypatch.setattr(f"djgnn.bench.{module}.code_version", lambda: "9.9+other")
    assert run(export=tmp_path / "cells.jsonl")["exported_splits"] == 4
    assert run(export=tmp_path / "cells.jsonl", any_code=True)["exported_splits"] == 0
    run(any_code=True)
    page = (tmp_path / "t" / "table.md").read_text()
    assert "4 splits were run by another version of the code" in page


def test_the_worker_refuses_what_is_not_a_cell(capsys) -> None:
    assert worker(["--workers", "0"], io.StringIO('{"label": "gcn"}\n')) == 2
    assert "line 1: cell: must have" in capsys.readouterr().err


def test_page_sets_ours_beside_the_paper(tiny: Graph, tmp_path: Path) -> None:
    for name in ("texas", "cora"):
        write_npz(tiny, tmp_path / f"{name}.npz")
    plan = plan_table("table1", ("djgnn", "mlp"), ("texas", "cora"), epochs=2, data=tmp_path)
    store = Store(tmp_path / "t")
    run_plan(plan.specs, plan.facts, store, workers=0, device="cpu", data=tmp_path)
    cells = finished_cells(plan.specs, plan.facts, store)
    write_document(compose(plan, cells, "oracle", "djgnn", "djgnn <here>"), store.folder)
    page = (store.folder / "table.md").read_text()
    row = next(line for line in page.splitlines() if line.startswith("| MLP | 87.16"))
    places = [place.strip() for place in row.strip("|").split("|")]
    assert places[1:3] == ["87.16 ± 0.37", "75.69 ± 2.00"]
    ours = float(places[3].split()[0])
    assert float(places[4]) == pytest.approx(ours - 75.69, abs=0.011)
    assert float(places[6].split()[0]) >= ours
    assert "MLP: Cora and Pubmed are swapped." in page
    assert "## Oracle: largest test score of all epochs, never comparable" in page
    assert "DJ-GNN against" not in page
    assert "djgnn against" in page
    assert "Command: djgnn &lt;here&gt;" in page
    assert "critical-difference.svg" in page
    html = (store.folder / "table.html").read_text()
    assert "<svg" in html
    assert not any(word in html for word in ("src=", "<link", "@import", "<script"))


def test_a_lead_within_one_error_is_warned_about(run, tmp_path: Path) -> None:
    run(replace(TABLE, splits="0"))
    page = (tmp_path / "t" / "table.md").read_text()
    assert "Warning: own:" in page
    assert "do not claim it" in page


def test_stand_ins_are_called_so(tiny: Graph, tmp_path: Path, no_network, empty_cache) -> None:
    write_npz(tiny, tmp_path / "fb100_reed98.npz")
    plan = plan_table("table2", ("mlp",), epochs=1, data=tmp_path)
    assert list(plan.facts) == ["fb100_reed98"]
    assert any("penn94: not on this machine" in remark for remark in plan.remarks)
    assert any("fb100_reed98: stand-ins" in remark for remark in plan.remarks)
    assert plan.facts["fb100_reed98"].metric == "roc_auc"


def test_named_sets_must_be_here(folder: Path, no_network, empty_cache) -> None:
    with pytest.raises(InputError, match="nowhere"):
        plan_table("table1", ("mlp",), ("own", "nowhere"), data=folder)


def tuned(root: Path, model: str, trials: int, graph: Graph, **changes: object) -> None:
    place = root / f"{model}-own"
    place.mkdir(parents=True, exist_ok=True)
    recipe = make_spec(model, "own", (0,), epochs=2, changes={"dropout": 0.1}).recipe()
    (place / "best.yaml").write_text(recipe.to_yaml())
    card = {"trials": trials, "splits": [0], "sampler": "tpe", "pruner": "median", "epochs": 2}
    card = {**card, "data_sha256": graph.content_hash, **changes}
    (place / "search.json").write_text(json.dumps(card))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"sampler": "random"}, "sampler random, tpe"),
        ({"pruner": "none"}, "pruner median, none"),
        ({"epochs": 3}, "epochs 2, 3"),
        ({"splits": [0, 1]}, "splits on own (mlp 0, gcn 0 1)"),
        ({"splits": None}, "splits on own (mlp 0, gcn unknown)"),
        ({"data_sha256": "other"}, "own is not the data that was searched on (gcn)"),
    ],
)
def test_searches_that_are_not_alike_are_said(
    tiny: Graph, folder: Path, tmp_path: Path, change: dict, said: str
) -> None:
    tuned(tmp_path, "mlp", 20, tiny)
    tuned(tmp_path, "gcn", 20, tiny)
    plan = partial(plan_table, *OWN, splits=(0, 1), epochs=2, tuned=tmp_path, data=folder)
    assert plan().remarks[-1] == (
        "Every configuration is the best of 20 trials, chosen on validation. The searches are "
        "alike but for their spaces."
    )
    tuned(tmp_path, "gcn", 20, tiny, **change)
    assert plan().remarks[-2:] == (
        "Every configuration is the best of 20 trials, chosen on validation.",
        f"The searches are NOT alike: {said}.",
    )


def test_unequal_budgets_are_refused_or_said(tiny: Graph, folder: Path, tmp_path: Path) -> None:
    tuned(tmp_path, "mlp", 20, tiny)
    plan = partial(plan_table, *OWN, splits=(0, 1), epochs=2, tuned=tmp_path, data=folder)
    with pytest.raises(InputError, match="has no finished search; run `djgnn bench tune"):
        plan()
    tuned(tmp_path, "gcn", 5, tiny)
    with pytest.raises(InputError, match=r"same number of trials.*got 5 trials, 20 trials"):
        plan()
    free = plan(budget_free=True)
    assert "The budgets are NOT equal: 5 trials, 20 trials." in free.remarks
    assert free.specs[0].config["options"]["dropout"] == 0.1
    tuned(tmp_path, "gcn", 20, tiny)
    assert any("best of 20 trials" in remark for remark in plan().remarks)


def test_late_splits_are_ended_and_recorded(tiny: Graph, folder: Path, tmp_path: Path) -> None:
    facts, store = {"own": DataFacts.of(tiny)}, Store(tmp_path)
    spec = make_spec("mlp", "own", (0,))
    options = {"workers": 1, "device": "cpu", "data": folder}
    run_plan([spec], facts, store, total_limit=0.05, **options)
    assert missing_units([spec], facts, store) == [(spec, 0)]  # not begun is not failed
    run_plan([spec], facts, store, split_limit=0.05, **options)
    cell = store.cell(spec, facts["own"].sha256)
    assert cell.failures[0].outcome == "out of time: ended after 0.05 seconds"
    assert cell.failures[0].sizes == facts["own"].sizes[0]
