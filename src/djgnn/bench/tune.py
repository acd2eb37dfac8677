"""Search for a configuration: trials on validation scores alone, shared, stopped and resumed.

The first N trials of a study count, in the order of their numbers, which the storage gives out
once each. A trial that comes too late for its number is dropped before it trains. So any number of
processes on any number of machines together train N trials; a trial whose process died is retried
and counts once.
"""

from __future__ import annotations

import csv
import io
import json
import os
import socket
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml

from djgnn.bench import search as searches
from djgnn.bench.pool import Runner, Worker
from djgnn.bench.record import SplitRecord
from djgnn.bench.search import Search, need_optuna, open_study
from djgnn.bench.spec import CellSpec, gather_facts
from djgnn.bench.store import Store, make_folder
from djgnn.bench.tables import BEST, SEARCH
from djgnn.errors import InputError
from djgnn.graph.files import atomic_write
from djgnn.training.provenance import versions

if TYPE_CHECKING:
    import optuna

Run = Callable[[CellSpec, int], SplitRecord]
OnTrial = Callable[[Any], None]
HISTORY = "history.csv"
POLL = 0.5
"""Seconds between two looks at trials that other processes are running."""


class TrialFailedError(RuntimeError):
    """The configuration of a trial cannot be trained; the trial is used up."""


def run_search(
    search: Search,
    url: str,
    trials: int,
    folder: str | Path,
    *,
    workers: int = 0,
    device: str = "auto",
    data: str | Path | None = None,
    follow: OnTrial | None = None,
    any_code: bool = False,
) -> None:
    """Run trials until as many as asked for are finished, here or in other processes.

    Args:
        search: What to search.
        url: Where the trials are kept and shared.
        trials: How many there are to be, in all processes together.
        folder: Where the splits of trials are kept; one that is there is not run again.
        workers: Number of child processes; 0 trains in this one.
        device: ``"auto"``, ``"cpu"`` or ``"cuda"``.
        data: Folder with data sets, looked in first.
        follow: Called with every trial finished here.
        any_code: Take figures of other versions of the code too.
    """
    shared = (search, url, trials, Store(folder, any_code), follow)
    open_study(search, url)  # refuses a wrong address before anything is trained
    if workers == 0:
        _run_trials(*shared, Runner(device, data).run)
        return
    facts, refused = gather_facts([search.dataset], data)
    if refused:
        raise InputError(refused[search.dataset])
    pool = [Worker(facts, device, data) for _ in range(min(workers, trials))]
    with ThreadPoolExecutor(len(pool)) as threads:
        running = [threads.submit(_run_trials, *shared, worker.run) for worker in pool]
        try:
            for future in running:
                future.result()
        finally:
            for worker in pool:
                worker.close()


def _run_trials(
    search: Search, url: str, trials: int, store: Store, follow: OnTrial | None, run: Run
) -> None:
    """Run one trial after another until the study has enough."""
    lib, study = need_optuna(), open_study(search, url)

    def objective(trial: optuna.Trial) -> float:
        place = sum(t.number < trial.number for t in counted_trials(study))
        if place >= trials:
            trial.set_user_attr("surplus", True)
            raise lib.TrialPruned
        if "place" not in trial.user_attrs:  # a retried trial keeps that of the first attempt
            trial.set_user_attr("place", place)
        trial.set_user_attr("process", f"{socket.gethostname()}:{os.getpid()}")
        study.sampler = search.sampler_of(place_of(trial))
        try:
            return _score(search, trial, store, run)
        except (lib.TrialPruned, TrialFailedError):
            raise
        except BaseException:  # interrupted, or an error that is not the configuration's
            frozen = study.get_trials()[trial.number]
            if not frozen.state.is_finished():
                lib.storages.RetryHeartbeatStaleTrialCallback()(study, frozen)
            raise

    def finished(_: optuna.Study, trial: optuna.trial.FrozenTrial) -> None:
        if follow is not None and "surplus" not in trial.user_attrs:
            follow(trial)

    while True:
        lib.storages.fail_stale_trials(study)
        begun = [t for t in counted_trials(study)[:trials] if t.state.name != "WAITING"]
        if len(begun) < trials:
            study.optimize(objective, 1, catch=(TrialFailedError,), callbacks=[finished])
        elif all(t.state.is_finished() for t in begun):
            return
        else:
            time.sleep(POLL)


def counted_trials(study: optuna.Study) -> list[optuna.trial.FrozenTrial]:
    """The trials of a study that count, by number.

    Those do not that were retried, that came when there were enough, or whose process died before
    their first heartbeat.
    """
    found = study.get_trials(deepcopy=False)
    history = need_optuna().storages.RetryHeartbeatStaleTrialCallback.retry_history
    dropped = {number for t in found for number in history(t)}
    late = datetime.now() - timedelta(seconds=searches.GRACE)
    for t in found:
        silent = t.state.name == "RUNNING" and "process" not in t.user_attrs
        if "surplus" in t.user_attrs or (silent and (t.datetime_start or late) <= late):
            dropped.add(t.number)
    return [t for t in found if t.number not in dropped]


def finished_trials(study: optuna.Study, trials: int) -> list[optuna.trial.FrozenTrial]:
    """The finished ones of the first `trials` that count, in order."""
    found = [t for t in counted_trials(study)[:trials] if t.state.is_finished()]
    return sorted(found, key=place_of)


def place_of(trial: optuna.Trial | optuna.trial.FrozenTrial) -> int:
    """Which of the trials asked for it is, from 0; numbers of the study may have gaps."""
    return int(trial.user_attrs.get("place", trial.number))


def _score(search: Search, trial: optuna.Trial, store: Store, run: Run) -> float:
    """Train on split after split; returns the mean validation score.

    Raises:
        TrialFailedError: If a split fails, or the parameters are not a configuration.
        TrialPruned: If the others are better.
    """

    def fail(reason: str) -> TrialFailedError:
        trial.set_user_attr("reason", reason)
        return TrialFailedError(reason)

    try:
        spec = search.spec(search.suggest(trial))
    except InputError as error:
        raise fail(str(error)) from error
    known = store.cell(spec, search.data_sha256) is not None
    scores: list[float] = []
    for step, split in enumerate(search.splits):
        record = store.find(spec, split, search.data_sha256)
        if record is None or not record.done:
            record = run(spec, split)
            store.put(record)
        if not np.isfinite(record.validation):
            raise fail(record.reason or "the validation score is not a number")
        scores.append(record.validation)
        trial.set_user_attr(f"code_{split}", record.code)
        trial.set_user_attr(f"validation_{split}", record.validation)
        trial.report(float(np.mean(scores)), step)
        if not known and step + 1 < len(search.splits) and trial.should_prune():
            trial.set_user_attr("reason", f"pruned after split {split}")
            raise need_optuna().TrialPruned
    return float(np.mean(scores))


def write_search(search: Search, url: str, trials: int, folder: str | Path) -> dict[str, Any]:
    """Write the best configuration, the card and the history of a search; returns the card.

    The best is the complete trial with the largest mean validation score, the earliest of equals.

    Raises:
        RuntimeError: If no trial is complete.
    """
    finished = finished_trials(open_study(search, url), trials)
    states = [t.state.name.lower() for t in finished]
    if "complete" not in states:
        reasons = {t.user_attrs.get("reason", "") for t in finished} - {""}
        raise RuntimeError(f"no trial of the search is complete: {'; '.join(sorted(reasons))}")
    complete = [t for t in finished if t.state.name == "COMPLETE"]
    best = max(complete, key=lambda t: (t.value, -place_of(t)))
    codes = {str(t.user_attrs.get(f"code_{s}", "")) for t in finished for s in search.splits}
    card: dict[str, Any] = {
        "study": search.name,
        "model": search.label,
        "dataset": search.dataset,
        "trials": len(finished),
        **{state: states.count(state) for state in ("complete", "pruned", "fail")},
        "best_trial": place_of(best),
        "validation_mean": best.value,
        "params": best.params,
        "epochs": search.base["training"]["epochs"],
        **{k: getattr(search, k) for k in ("splits", "sampler", "pruner", "seed", "space")},
        "data_sha256": search.data_sha256,
        "code": ", ".join(sorted(codes - {""})),
        "versions": {**versions(), "optuna": need_optuna().__version__},
    }
    config = dict(search.spec(best.params).config)
    said = f"best of {len(finished)} trials on validation, trial {place_of(best)}"
    if "source" in config:
        config["source"] = said
    text = f"# {search.label} on {search.dataset}: {said}\n"
    contents = {
        HISTORY: _history(search, finished),
        SEARCH: json.dumps(card, indent=1, allow_nan=False) + "\n",
        BEST: text + yaml.safe_dump(config, sort_keys=False),
    }
    make_folder(Path(folder))
    for name, content in contents.items():
        with atomic_write(Path(folder) / name) as file:
            file.write(content.encode("utf-8"))
    return card


def _history(search: Search, finished: Sequence[Any]) -> str:
    """A row per trial: state, score, parameters, score of every split, reason."""
    splits, options = [f"validation_{s}" for s in search.splits], list(search.space)
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["trial", "state", "validation_mean", *options, *splits, "seconds", "reason"])
    for t in finished:
        value = t.value if t.state.name == "COMPLETE" else ""
        drawn = [t.params.get(name, "") for name in options]
        scores = [t.user_attrs.get(name, "") for name in splits]
        spent = f"{t.duration.total_seconds():.1f}" if t.duration else ""
        reason = t.user_attrs.get("reason", "")
        writer.writerow([place_of(t), t.state.name.lower(), value, *drawn, *scores, spent, reason])
    return stream.getvalue()
