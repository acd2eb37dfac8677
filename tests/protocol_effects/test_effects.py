"""The study of protocol effects, on generated graphs under the names of the real ones."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
from effects import measure_effects, plan_effects, write_effects

from djgnn.bench.pool import run_plan
from djgnn.bench.store import Store
from djgnn.graph import heterophilic_sbm, random_splits, write_npz

STUDY = str(Path(__file__).resolve().parents[2] / "benchmarks" / "protocol_effects")
SETS = ("texas", "cornell", "cornell_old")


@pytest.fixture
def plan(tmp_path: Path, no_network, empty_cache):
    for seed, name in enumerate(SETS):
        graph = random_splits(heterophilic_sbm(40, hub_size=1, random_state=seed), num_splits=2)
        write_npz(graph, tmp_path / f"{name}.npz")
    return plan_effects(("gcn", "mlp"), epochs=3, data=tmp_path)


def test_effects_are_differences_of_the_cells(plan, tmp_path: Path) -> None:
    store = Store(tmp_path / "out")
    run_plan(plan.specs, plan.facts, store, workers=0, device="cpu", data=tmp_path)

    def tests(spec, key="test"):
        return store.cell(spec, plan.facts[spec.dataset].sha256).result().mean(key)

    plain = {
        (spec.label, spec.dataset): spec for title, spec, _, key in plan.pairs if key != "test"
    }
    treated = {(a.label, a.dataset): (a, b) for title, a, b, _ in plan.pairs if "Symm" in title}
    assert set(plan.facts) == set(SETS)
    oracles, directions, cornells = measure_effects(plan, store).values()
    oracle = {(e.model, e.dataset): e for e in oracles}
    assert len(oracle) == 6
    spec = plain["gcn", "texas"]
    assert oracle["gcn", "texas"].size == pytest.approx(tests(spec, "oracle_test") - tests(spec))
    assert all(effect.size >= 0 for effect in oracle.values())

    ways = {(e.model, e.dataset): e for e in directions}
    assert set(ways) == {(m, d) for m in ("gcn", "mlp") for d in ("texas", "cornell_old")}
    assert ways["mlp", "texas"].size == 0.0  # it does not see the graph
    given, symmetric = treated["gcn", "texas"]
    assert ways["gcn", "texas"].size == pytest.approx(tests(symmetric) - tests(given))

    old, new = (plain["gcn", name] for name in ("cornell_old", "cornell"))
    assert cornells[0].size == pytest.approx(tests(old) - tests(new))
    errors = []
    for spec in (old, new):  # two splits that overlap; at least one test node
        train, _, test = plan.facts[spec.dataset].sizes[0]
        spread = store.cell(spec, plan.facts[spec.dataset].sha256).result().std("test")
        errors.append(max(spread, 100 / test) * np.sqrt(1 / 2 + test / train))
    assert cornells[0].error == pytest.approx(np.hypot(*errors))

    page = tmp_path / "page.md"
    write_effects(plan, store, command="the command", page=page)
    text = page.read_text()
    assert "Oracle less validation" in text
    assert "Two Cornells" in text
    assert "Command: the command" in text
    assert "Devices: cpu." in text
    assert (store.folder / "protocol.html").is_file()


def test_an_unfinished_study_says_so(plan, tmp_path: Path) -> None:
    store = Store(tmp_path / "out")
    files = write_effects(plan, store, command="c")
    assert "more cells. Run the command again." in files[1].read_text()
    assert "No cells yet." in files[1].read_text()


def test_a_cell_that_two_effects_share_runs_once(plan, tmp_path: Path) -> None:
    store, ran = Store(tmp_path / "out"), []
    run_plan(
        [s for s in plan.specs if s.label == "gcn" and s.dataset == "texas"],
        plan.facts, store, workers=0, device="cpu", data=tmp_path,
        follow=lambda number, total, record: ran.append(record.key),
    )  # fmt: skip
    # As configured is symmetric: two different cells, two splits each.
    assert len(ran) == len(set(ran)) == 4


def test_the_command_exports_runs_writes_its_page_and_names_wrong_options(
    plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*flags: object) -> tuple[str, str]:
        given = ("--data", tmp_path, "--out", tmp_path / "out", "--json", *flags)
        quick = ("--epochs", 1, "--workers", 0, "--device", "cpu")
        monkeypatch.setattr(sys, "argv", [STUDY, *map(str, (*given, *quick))])
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(STUDY, run_name="__main__")
        shown = capsys.readouterr()
        assert ended.value.code == (2 if shown.err else 0)
        return shown

    # Three sets as configured, two also as given and symmetric: as configured, so not run twice.
    exported = json.loads(run("--models", "mlp", "--export", tmp_path / "cells.jsonl").out)
    assert exported == {"exported_cells": 5, "exported_splits": 10}
    page = tmp_path / "page.md"
    cells = json.loads(run("--models", "mlp", "--splits", 0, "--page", page).out)["cells"]
    assert [len(cell["splits"]) for cell in cells] == [1] * 7
    assert "Command: python benchmarks/protocol" in page.read_text()
    assert "error: model: must be one of djgnn" in run("--models", "nothing").err
