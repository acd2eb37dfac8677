"""Searches: exactly the trials asked for, stopped and resumed."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from djgnn.bench import pool
from djgnn.bench import search as search_module
from djgnn.bench.search import Search, make_search, open_study
from djgnn.bench.spec import read_recipe
from djgnn.bench.tune import finished_trials, run_search
from djgnn.cli.tables import TuneOptions, run_tune
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


def test_two_processes_on_one_file_never_run_a_trial_twice(
    tiny: Graph, folder: Path, tmp_path: Path, monkeypatch
) -> None:
    """Threads with connections of their own; each would run every trial it is let to."""
    search, url = search_of(tiny, sampler="random"), f"sqlite:///{tmp_path}/s.db"
    scored: list[int] = []

    def score(search, trial, store, run):
        scored.append(trial.number)
        return float(trial.number)

    monkeypatch.setattr("djgnn.bench.tune._score", score)
    took: list[int] = []

    def run() -> None:
        run_search(
            search, url, 12, tmp_path, device="cpu", data=folder,
            follow=lambda trial: took.append(trial.number),
        )  # fmt: skip

    open_study(search, url)
    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(scored) == len(set(scored)) == 12
    assert sorted(took) == sorted(scored)
    finished = finished_trials(open_study(search, url), 12)
    assert sorted(t.number for t in finished) == sorted(scored)
    assert max(t.value for t in finished) == max(scored)


KILLED = """
import sys, time
from djgnn.bench import search, tune

def score(of, trial, store, run):
    of.suggest(trial)
    print("begun", flush=True)
    time.sleep(600)

search.BEAT, tune._score = 1, score
plan = search.make_search("mlp", "own", (0, 1), epochs=2, data_sha256=sys.argv[1])
tune.run_search(plan, sys.argv[2], 2, sys.argv[3], device="cpu", data=sys.argv[4])
"""


def test_the_trial_of_a_killed_process_is_retried(
    tiny: Graph, folder: Path, tmp_path: Path, monkeypatch
) -> None:
    search, url = search_of(tiny), f"sqlite:///{tmp_path}/s.db"
    arguments = [sys.executable, "-c", KILLED, tiny.content_hash, url, tmp_path, folder]
    process = subprocess.Popen(list(map(str, arguments)), stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"begun\n"
    process.kill()
    process.communicate()
    (left,) = open_study(search, url).trials
    monkeypatch.setattr(search_module, "BEAT", 1)
    monkeypatch.setattr(search_module, "GRACE", 1)
    run_search(search, url, 2, tmp_path, device="cpu", data=folder)
    finished = finished_trials(open_study(search, url), 2)
    assert [t.state.name for t in finished] == ["COMPLETE", "COMPLETE"]
    assert left.number not in [t.number for t in finished]
    assert left.params in [t.params for t in finished]


def test_a_trial_that_runs_elsewhere_is_waited_for(
    tiny: Graph, folder: Path, tmp_path: Path, monkeypatch
) -> None:
    search, url = search_of(tiny), f"sqlite:///{tmp_path}/s.db"
    monkeypatch.setattr(search_module, "BEAT", 1)
    monkeypatch.setattr(search_module, "GRACE", 2)
    begun, go = threading.Event(), threading.Event()

    def score(*_: object) -> float:
        begun.set()
        assert go.wait(60)
        return 1.0

    monkeypatch.setattr("djgnn.bench.tune._score", score)

    def run() -> None:
        run_search(search, url, 1, tmp_path, device="cpu", data=folder)

    elsewhere, here = threading.Thread(target=run), threading.Thread(target=run)
    elsewhere.start()
    assert begun.wait(60)
    here.start()
    time.sleep(3)  # longer than without a heartbeat
    assert here.is_alive()
    go.set()
    here.join()
    elsewhere.join()
    assert [t.number for t in open_study(search, url).trials] == [0]


def test_an_interrupted_trial_is_run_again(folder: Path, tmp_path: Path, monkeypatch) -> None:
    run_tune(options_for(folder, tmp_path / "whole", 3, splits="0"))
    real, calls = pool.Runner.run, []

    def interrupted(self, spec, split):
        calls.append(split)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(self, spec, split)

    monkeypatch.setattr(pool.Runner, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_tune(options_for(folder, tmp_path / "parts", 3, splits="0"))
    run_tune(options_for(folder, tmp_path / "parts", 3, splits="0"))
    assert len(calls) == 4
    assert history(tmp_path / "parts") == history(tmp_path / "whole")


def test_trials_in_child_processes(folder: Path, tmp_path: Path) -> None:
    options = options_for(folder, tmp_path / "children", 3, splits="0", sampler="random")
    card = run_tune(replace(options, workers=2))["searches"][0]
    assert (card["trials"], card["complete"]) == (3, 3)
    run_tune(replace(options, out=tmp_path / "here"))
    assert history(tmp_path / "children") == history(tmp_path / "here")


def test_failures_use_up_a_trial_and_say_why(folder: Path, tmp_path: Path, monkeypatch) -> None:
    real, calls = pool.build, []

    def sometimes(recipe, graph, device):
        calls.append(recipe)
        if len(calls) == 1:
            raise MemoryError("too big")
        return real(recipe, graph, device)

    monkeypatch.setattr(pool, "build", sometimes)
    card = run_tune(options_for(folder, tmp_path, 2))["searches"][0]
    assert (card["fail"], card["complete"]) == (1, 1)
    assert history(tmp_path)[0]["reason"] == "MemoryError: too big"


def test_hopeless_trials_are_pruned_between_splits(tiny: Graph, tmp_path: Path) -> None:
    study = open_study(search_of(tiny), f"sqlite:///{tmp_path}/s.db")
    values = iter([80.0, 81.0, 82.0, 83.0, 84.0, 90.0, 10.0])
    pruned = []

    def objective(trial):
        value = next(values)
        trial.report(value, 0)
        pruned.append(trial.should_prune())
        return value

    study.optimize(objective, n_trials=7)
    assert pruned == [False] * 6 + [True]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sampler": "grid"}, "sampler must be one of tpe, random"),
        ({"pruner": "all"}, "pruner must be one of median, hyperband, none"),
        ({"model": "nothing"}, "model: must be one of"),
        ({"storage": "postgresql://nobody@127.0.0.1:1/none"}, "storage: cannot be opened"),
        ({"storage": "postgresql://me:S3cr@etPw@127.0.0.1:1/x"}, "in a password as %40, %3A"),
        ({"storage": "postgresql://me:pw@127.0.0.1:port/x"}, "storage: not an address"),
    ],
)
def test_wrong_options_are_named(
    folder: Path, tmp_path: Path, change: dict, message: str, monkeypatch
) -> None:
    monkeypatch.setattr(search_module, "OPENING", 1)
    with pytest.raises(InputError, match=message):
        run_tune(replace(options_for(folder, tmp_path, 1), **change))


def other_code(monkeypatch) -> None:
    for module in ("search", "store", "record"):
        monkeypatch.setattr(f"djgnn.bench.{module}.code_version", lambda: "9.9+other")


def test_trials_of_other_code_count_only_if_allowed(
    folder: Path, tmp_path: Path, monkeypatch
) -> None:
    options = options_for(folder, tmp_path, 2, splits="0")
    first = run_tune(options)["searches"][0]
    rows, real, ran = history(tmp_path), pool.Runner.run, []
    monkeypatch.setattr(
        pool.Runner, "run", lambda self, spec, s: ran.append(s) or real(self, spec, s)
    )
    other_code(monkeypatch)
    allowed = run_tune(replace(options, any_code=True))["searches"][0]
    assert (ran, allowed["code"], history(tmp_path)) == ([], first["code"], rows)
    again = run_tune(options)["searches"][0]
    assert (ran, again["code"], again["trials"]) == ([0, 0], "9.9+other", 2)


def test_a_study_of_any_code_goes_on(tiny: Graph, tmp_path: Path, monkeypatch) -> None:
    search, url = search_of(tiny, any_code=True), f"sqlite:///{tmp_path}/s.db"
    open_study(search, url).optimize(lambda trial: 50.0, n_trials=1)
    other_code(monkeypatch)
    assert len(open_study(search_of(tiny, any_code=True), url).trials) == 1
    assert not open_study(search_of(tiny), url).trials


def test_studies_from_before_the_code_counted_keep_their_name() -> None:
    search = Search("mlp", "own", (0,), {"a": 1}, {}, data_sha256="d")
    assert search.name == "mlp-own-ca50ac8474"


def test_another_search_has_another_name(tiny: Graph) -> None:
    search = search_of(tiny)
    assert search.name == search_of(tiny).name
    others = [search_of(tiny, seed=1), search_of(tiny, pruner="none"), replace(search, splits=(0,))]
    assert len({search.name, *(other.name for other in others)}) == 4
