"""Search for a configuration: trials on validation scores alone, shared, stopped and resumed."""

from __future__ import annotations

import csv
import io
import json
import multiprocessing
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml

from djgnn.bench.runner import Runner
from djgnn.bench.search import Search, need_optuna
from djgnn.bench.slots import Slots
from djgnn.bench.spec import CellSpec
from djgnn.bench.store import Store
from djgnn.bench.tables import BEST, SEARCH
from djgnn.graph.files import atomic_write
from djgnn.training.provenance import versions

if TYPE_CHECKING:
    import optuna

HISTORY = "history.csv"


def work(
    search: Search,
    url: str,
    trials: int,
    folder: str | Path,
    device: str = "auto",
    data: str | Path | None = None,
    follow: Callable[[Any], None] | None = None,
    any_code: bool = False,
) -> int:
    """Run trials until none is left; returns how many this worker finished.

    Args:
        search: What to search.
        url: Where the trials are kept and shared.
        trials: How many there are to be, in all processes together.
        folder: Where the splits of trials are kept; one that is there is not run again.
        device: ``"auto"``, ``"cpu"`` or ``"cuda"``.
        data: Folder with data sets, looked in first.
        follow: Called with every trial finished here.
        any_code: Take figures of other versions of the code too.
    """
    slots, runner = Slots(search, url, trials), Runner(device, data)
    store = Store(folder, any_code)
    count = 0
    while (trial := slots.claim()) is not None:
        with slots.alive(trial):
            value, state, reason = _run_trial(search, trial, store, runner)
        if slots.finish(trial, value, state, reason):
            count += 1
            if follow is not None:
                follow(slots.storage.get_trial(trial._trial_id))
    return count


def _run_trial(
    search: Search, trial: optuna.Trial, store: Store, runner: Runner
) -> tuple[float | None, Any, str]:
    """Train on split after split; returns mean validation score, state and reason of a failure."""
    states = need_optuna().trial.TrialState
    try:
        spec = search.spec(search.suggest(trial))
    except ValueError as error:
        return None, states.FAIL, str(error)
    known = not _missing(spec, search, store)
    scores: list[float] = []
    reported = trial.storage.get_trial(trial._trial_id).intermediate_values
    for step, split in enumerate(search.splits):
        record = store.find(spec, split, search.data_sha256)
        if record is None or not record.done:
            record = runner.run(spec, split)
            store.put(record)
        if not np.isfinite(record.validation):
            return None, states.FAIL, record.reason or "the validation score is not a number"
        scores.append(record.validation)
        trial.set_user_attr(f"code_{split}", record.code)
        trial.set_user_attr(f"validation_{split}", record.validation)
        if step not in reported:
            trial.report(float(np.mean(scores)), step)
        if not known and step + 1 < len(search.splits) and trial.should_prune():
            return None, states.PRUNED, f"pruned after split {split}"
    return float(np.mean(scores)), states.COMPLETE, ""


def run_workers(
    search: Search,
    url: str,
    trials: int,
    folder: str | Path,
    workers: int,
    device: str = "auto",
    data: str | Path | None = None,
    any_code: bool = False,
) -> None:
    """Run trials in several processes; one that is killed costs its trial and is replaced."""
    context = multiprocessing.get_context("spawn")
    place = None if data is None else str(data)
    arguments = (search, url, trials, str(folder), device, place, None, any_code)
    slots = Slots(search, url, trials)

    def start() -> Any:
        process = context.Process(target=serve, args=arguments, daemon=True)
        process.start()
        return process

    live = [start() for _ in range(min(workers, trials))]
    try:
        while live:
            process = live.pop(0)
            process.join(0.2)
            if process.exitcode is None:
                live.append(process)
            elif process.exitcode < 0:
                reason = f"killed by signal {-process.exitcode}, most likely for its memory"
                slots.fail_worker(process.pid, reason)
                live.append(start())
            elif process.exitcode:
                raise RuntimeError("a worker of the search failed; its message is above")
    finally:
        for process in live:
            process.kill()
            process.join()


def serve(*arguments: Any) -> None:
    """A worker process's life."""
    import torch

    from djgnn.bench.pool import die_with_the_parent

    die_with_the_parent()
    torch.set_num_threads(1)
    work(*arguments)


def export_specs(search: Search, trials: int, store: Store) -> list[CellSpec]:
    """The cells of a random search that are missing, for a machine without optuna.

    Trial i of a random search depends on the seed and on i alone, so its cells can be run anywhere
    and taken in: the search then finds every split of the trial in its folder.
    """
    found = []
    for number in range(trials):
        spec = search.spec(search.random_params(number))
        splits = _missing(spec, search, store)
        if splits:
            found.append(
                CellSpec(spec.label, spec.dataset, spec.config, splits, spec.seed, evaluate=False)
            )
    return found


def best_trial(trials: Sequence[Any]) -> Any:
    """The complete trial with the best mean validation score, the earliest of equals.

    Raises:
        RuntimeError: If no trial is complete.
    """
    complete = [t for t in trials if t.state.name == "COMPLETE"]
    if not complete:
        reasons = {t.user_attrs.get("reason", "") for t in trials} - {""}
        raise RuntimeError(f"no trial of the search is complete: {'; '.join(sorted(reasons))}")
    return max(complete, key=lambda t: (t.value, -t.number))


def write_search(search: Search, url: str, trials: int, folder: str | Path) -> dict[str, Any]:
    """Write the best configuration, the card and the history of a search; returns the card."""
    finished = Slots(search, url, trials).finished()
    best = best_trial(finished)
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    states = [t.state.name.lower() for t in finished]
    card: dict[str, Any] = {
        "study": search.name,
        "model": search.label,
        "dataset": search.dataset,
        "trials": len(finished),
        **{state: states.count(state) for state in ("complete", "pruned", "fail")},
        "best_trial": best.number,
        "validation_mean": best.value,
        "params": best.params,
        "splits": list(search.splits),
        "epochs": search.base["training"]["epochs"],
        "sampler": search.sampler,
        "pruner": search.pruner,
        "seed": search.seed,
        "space": search.space,
        "data_sha256": search.data_sha256,
        "code": _codes(finished),
        "versions": {**versions(), "optuna": need_optuna().__version__},
    }
    config = dict(search.spec(best.params).config)
    said = f"best of {len(finished)} trials on validation, trial {best.number}"
    if "source" in config:
        config["source"] = said
    text = f"# {search.label} on {search.dataset}: {said}\n"
    contents = {
        BEST: text + yaml.safe_dump(config, sort_keys=False),
        SEARCH: json.dumps(card, indent=1, allow_nan=False) + "\n",
        HISTORY: _history(search, finished),
    }
    for name in (HISTORY, SEARCH, BEST):
        with atomic_write(place / name) as file:
            file.write(contents[name].encode("utf-8"))
    return card


def _codes(finished: Sequence[Any]) -> str:
    """The versions of the code that made the scores; several with ``any_code``."""
    marks = (t.user_attrs.items() for t in finished)
    return ", ".join(sorted({str(v) for of in marks for k, v in of if k.startswith("code_")}))


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
        writer.writerow([t.number, t.state.name.lower(), value, *drawn, *scores, spent, reason])
    return stream.getvalue()


def _missing(spec: CellSpec, search: Search, store: Store) -> tuple[int, ...]:
    return tuple(store.missing(spec, search.data_sha256))
