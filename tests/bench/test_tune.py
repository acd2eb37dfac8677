"""Searches: exactly the trials asked for, stopped and resumed, run elsewhere and taken in."""

from __future__ import annotations

import csv
import io
import json
import threading
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from djgnn.bench import runner as runners
from djgnn.bench import slots as slot_module
from djgnn.bench.search import Search, make_search
from djgnn.bench.slots import Slots
from djgnn.bench.spec import read_recipe
from djgnn.bench.store import Store
from djgnn.bench.tune import best_trial, work
from djgnn.bench.worker import main as worker
from djgnn.cli.tune import TuneOptions, run_tune
from djgnn.errors import InputError
from djgnn.graph import Graph

pytest.importorskip("optuna")


def search_of(graph: Graph, **options: object) -> Search:
    return make_search("mlp", "own", (0, 1), epochs=2, data_sha256=graph.content_hash, **options)


def options_for(folder: Path, out: Path, trials: int, **more: object) -> TuneOptions:
    plain = {"splits": "0-1", "epochs": 2, "workers": 0, "data": folder, "quiet": True}
    named = {"model": "mlp", "dataset": "own", "trials": trials, "out": out}
    return TuneOptions(**{**named, **plain, **more})


def history(out: Path) -> list[dict[str, str]]:
    with (out / "mlp-own" / "history.csv").open() as file:
        return [{k: v for k, v in r.items() if k != "seconds"} for r in csv.DictReader(file)]


def test_a_resumed_search_is_the_search_that_was_not_stopped(folder: Path, tmp_path: Path) -> None:
    run_tune(options_for(folder, tmp_path / "whole", 4, splits="0"))
    for trials in (1, 3, 4):
        run_tune(options_for(folder, tmp_path / "parts", trials, splits="0"))
    assert history(tmp_path / "parts") == history(tmp_path / "whole")
    assert len(history(tmp_path / "parts")) == 4


def test_the_best_configuration_can_be_run(folder: Path, tmp_path: Path) -> None:
    card = run_tune(options_for(folder, tmp_path, 4))["searches"][0]
    assert (card["trials"], card["complete"] + card["pruned"]) == (4, 4)
    rows = [r for r in history(tmp_path) if r["state"] == "complete"]
    best = max(rows, key=lambda r: (float(r["validation_mean"]), -int(r["trial"])))
    assert int(best["trial"]) == card["best_trial"]
    recipe = read_recipe("mlp", tmp_path / "mlp-own" / "best.yaml")
    assert recipe.training.lr == pytest.approx(float(best["lr"]))
    assert recipe.options["hidden_channels"] == int(best["hidden_channels"])
    assert yaml.safe_load((tmp_path / "mlp-own/best.yaml").read_text())["training"]["epochs"] == 2
    scores = [float(best["validation_0"]), float(best["validation_1"])]
    assert float(best["validation_mean"]) == pytest.approx(sum(scores) / 2)


def test_a_search_keeps_no_test_figure(folder: Path, tmp_path: Path) -> None:
    run_tune(options_for(folder, tmp_path, 2))
    records = [json.loads(f.read_text()) for f in (tmp_path / "splits").iterdir()]
    assert records
    assert all(set(r["result"]) == {"split", "validation", "epoch", "seconds"} for r in records)


def test_a_random_search_is_run_elsewhere_and_taken_in(
    folder: Path, tmp_path: Path, monkeypatch
) -> None:
    options = options_for(folder, tmp_path / "here", 3, sampler="random")
    cells, results = tmp_path / "cells.jsonl", tmp_path / "results.jsonl"
    assert run_tune(replace(options, export=cells))["exported_splits"] == 6
    arguments = ["--out", str(results), "--workers", "0", "--data", str(folder), "--device", "cpu"]
    assert worker(arguments, io.StringIO(cells.read_text())) == 0
    run_tune(replace(options, out=tmp_path / "there"))
    monkeypatch.setattr(runners.Runner, "run", None)  # nothing may be run any more
    run_tune(replace(options, imports=[results]))
    assert history(tmp_path / "here") == history(tmp_path / "there")
    with pytest.raises(InputError, match="only a random search can be run elsewhere"):
        run_tune(replace(options, sampler="tpe", export=cells))


def test_two_workers_on_one_file_never_run_a_trial_twice(
    tiny: Graph, folder: Path, tmp_path: Path, monkeypatch
) -> None:
    """Threads with connections of their own; each would take every slot it is let to."""
    search, url = search_of(tiny, sampler="random"), f"sqlite:///{tmp_path}/s.db"
    monkeypatch.setattr(
        "djgnn.bench.tune._run_trial",
        lambda search, trial, store, runner: (float(trial.number), _state("COMPLETE"), ""),
    )
    took: dict[str, list[int]] = {"a": [], "b": []}

    def run(name: str) -> None:
        work(search, url, 12, tmp_path, "cpu", folder, lambda t: took[name].append(t.number))

    Slots(search, url, 12)
    threads = [threading.Thread(target=run, args=(name,)) for name in took]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(took["a"] + took["b"]) == list(range(12))
    assert best_trial(Slots(search, url, 12).finished()).number == 11


def test_what_a_dead_worker_left_is_run_again(tiny: Graph, folder: Path, tmp_path: Path) -> None:
    search, url = search_of(tiny), f"sqlite:///{tmp_path}/s.db"
    dead = Slots(search, url, 2)
    dead.me = {**dead.me, "born": "1"}  # a process of this number that lives no more
    left = dead.claim()
    params = search.suggest(left)
    assert work(search, url, 2, tmp_path, "cpu", folder) == 2
    finished = Slots(search, url, 2).finished()
    assert [t.number for t in finished] == [0, 1]
    assert finished[0].params == params
    assert not dead.finish(left, 99.0, _state("COMPLETE"), "")  # it comes too late


def test_another_machine_is_given_time(tiny: Graph, tmp_path: Path, monkeypatch) -> None:
    search, url = search_of(tiny), f"sqlite:///{tmp_path}/s.db"
    far = Slots(search, url, 1)
    far.me = {**far.me, "host": "elsewhere"}
    assert far.claim() is not None
    assert Slots(search, url, 1).claim() is None
    monkeypatch.setattr(slot_module, "GRACE", -1.0)
    assert Slots(search, url, 1).claim() is not None


def test_signs_of_life_go_on_after_an_error(tiny: Graph, tmp_path: Path, monkeypatch) -> None:
    slots = Slots(search_of(tiny), f"sqlite:///{tmp_path}/s.db", 1)
    trial = slots.claim()
    before = slots.storage.get_trial(trial._trial_id).user_attrs["beat"]
    real, calls, beaten = slots.storage.set_trial_user_attr, [], threading.Event()

    def sometimes(*arguments: object) -> None:
        calls.append(arguments)
        if len(calls) < 3:
            raise OSError("the storage is away")
        real(*arguments)
        beaten.set()

    monkeypatch.setattr(slots.storage, "set_trial_user_attr", sometimes)
    monkeypatch.setattr(slot_module, "BEAT", 0.01)
    with slots.alive(trial):
        assert beaten.wait(30)
    assert slots.storage.get_trial(trial._trial_id).user_attrs["beat"] > before


def test_failures_use_up_a_trial_and_say_why(folder: Path, tmp_path: Path, monkeypatch) -> None:
    real, calls = runners.build, []

    def sometimes(recipe, graph, device):
        calls.append(recipe)
        if len(calls) == 1:
            raise MemoryError("too big")
        return real(recipe, graph, device)

    monkeypatch.setattr(runners, "build", sometimes)
    card = run_tune(options_for(folder, tmp_path, 2))["searches"][0]
    assert (card["fail"], card["complete"]) == (1, 1)
    assert history(tmp_path)[0]["reason"] == "MemoryError: too big"


def test_hopeless_trials_are_pruned_between_splits(tiny: Graph, tmp_path: Path) -> None:
    search = search_of(tiny)
    study = Slots(search, f"sqlite:///{tmp_path}/s.db", 6).study
    for value in (80.0, 81.0, 82.0, 83.0, 84.0):
        trial = study.ask()
        trial.report(value, 0)
        study.tell(trial, value)
    good, bad = study.ask(), study.ask()
    good.report(90.0, 0)
    bad.report(10.0, 0)
    assert bad.should_prune()
    assert not good.should_prune()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"trials": 0}, "--trials: must be at least 1"),
        ({"sampler": "grid"}, "sampler: must be one of tpe, random"),
        ({"pruner": "all"}, "pruner: must be one of median, hyperband, none"),
        ({"model": "nothing"}, "model must be one of"),
        ({"storage": "postgresql://nobody@127.0.0.1:1/none"}, "storage: cannot be opened"),
        ({"storage": "postgresql://me:S3cr@etPw@127.0.0.1:1/x"}, "in a password as %40, %3A"),
        ({"storage": "postgresql://me:pw@127.0.0.1:port/x"}, "storage: no address"),
    ],
)
def test_wrong_options_are_named(
    folder: Path, tmp_path: Path, change: dict, message: str, monkeypatch
) -> None:
    monkeypatch.setattr(slot_module, "OPENING", 1)
    with pytest.raises(InputError, match=message):
        run_tune(replace(options_for(folder, tmp_path, 1), **change))


def other_code(monkeypatch) -> None:
    for module in ("search", "store", "runner"):
        monkeypatch.setattr(f"djgnn.bench.{module}.code_version", lambda model: "9.9+other")


def test_trials_of_other_code_count_only_if_allowed(
    folder: Path, tmp_path: Path, monkeypatch
) -> None:
    options = options_for(folder, tmp_path, 2, splits="0")
    first = run_tune(options)["searches"][0]
    rows, real, ran = history(tmp_path), runners.Runner.run, []
    monkeypatch.setattr(
        runners.Runner, "run", lambda self, spec, s: ran.append(s) or real(self, spec, s)
    )
    other_code(monkeypatch)
    allowed = run_tune(replace(options, any_code=True))["searches"][0]
    assert (ran, allowed["code"], history(tmp_path)) == ([], first["code"], rows)
    again = run_tune(options)["searches"][0]
    assert (ran, again["code"], again["trials"]) == ([0, 0], "9.9+other", 2)


def test_a_study_of_any_code_goes_on(tiny: Graph, tmp_path: Path, monkeypatch) -> None:
    search, url = search_of(tiny, any_code=True), f"sqlite:///{tmp_path}/s.db"
    slots = Slots(search, url, 1)
    slots.finish(slots.claim(), 50.0, _state("COMPLETE"), "")
    other_code(monkeypatch)
    assert len(Slots(search_of(tiny, any_code=True), url, 1).finished()) == 1
    assert not Slots(search_of(tiny), url, 1).finished()


def test_studies_from_before_the_code_counted_keep_their_name() -> None:
    search = Search("mlp", "own", (0,), {"a": 1}, {}, data_sha256="d")
    assert search.name == "mlp-own-ca50ac8474"


def test_another_search_has_another_name(tiny: Graph) -> None:
    search = search_of(tiny)
    assert search.name == search_of(tiny).name
    others = [search_of(tiny, seed=1), search_of(tiny, pruner="none"), replace(search, splits=(0,))]
    assert len({search.name, *(other.name for other in others)}) == 4
    assert Store  # the folder is not part of the name


def _state(name: str):
    import optuna

    return optuna.trial.TrialState[name]
