"""The equal-budget leaderboard: the same number of random trials for every system and data set.

Random trials do not depend on each other, so they are known beforehand, as cells: they can be run
anywhere and in any order. The best trial by validation score is then run on all splits.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from djgnn.bench.search import Search, make_search, need_optuna
from djgnn.bench.spec import CellSpec, DataFacts
from djgnn.bench.store import FinishedCell, Store
from djgnn.bench.tables import TablePlan, chosen_splits, suite_facts
from djgnn.errors import InputError

EPOCHS = 500
SMALL = 1000
"""Data sets with fewer nodes are searched on two splits, the others on one."""


@dataclass(frozen=True)
class Contest:
    """One system on one data set: its trials, and the splits that the best one is run on.

    A trial whose parameters make no configuration is ``None``.
    """

    search: Search
    trials: tuple[CellSpec | None, ...]
    splits: tuple[int, ...]

    def finished(self, store: Store) -> list[FinishedCell] | None:
        """The trials that make a configuration, if all are there."""
        specs = [trial for trial in self.trials if trial is not None]
        cells = [store.cell(spec, self.search.data_sha256) for spec in specs]
        found = [cell for cell in cells if cell is not None]
        return found if len(found) == len(specs) else None

    def best(self, store: Store) -> CellSpec | None:
        """The cell of the best trial on all splits; ``None`` before all are there.

        The best has the largest mean validation score, the earliest of equals. Trials that failed
        are used up; ``None`` if all did.
        """
        cells = [cell for cell in self.finished(store) or [] if cell.complete]
        scored = [cell for cell in cells if np.isfinite(cell.result().mean("validation"))]
        if not scored:
            return None
        found = max(scored, key=lambda cell: cell.result().mean("validation"))
        config = dict(found.spec.config)
        if "source" in config:
            place = self.trials.index(found.spec)
            count = len(self.trials)
            config["source"] = f"best of {count} trials on validation, trial {place}"
        return replace(found.spec, config=config, splits=self.splits, evaluate=True)


@dataclass(frozen=True)
class Budget:
    """The leaderboard before anything is run."""

    contests: tuple[Contest, ...]
    facts: dict[str, DataFacts]
    seeds: tuple[int, ...]
    remarks: tuple[str, ...]

    def finals(self, store: Store) -> list[CellSpec]:
        """The cells of the finished searches' best trials, one per seed."""
        best = [contest.best(store) for contest in self.contests]
        found = [spec for spec in best if spec is not None]
        return [replace(spec, seed=seed) for spec in found for seed in self.seeds]

    def specs(self, store: Store) -> list[CellSpec]:
        """All cells that are known by now: trials, and the best of the finished searches."""
        trials = [trial for contest in self.contests for trial in contest.trials]
        return [*(spec for spec in trials if spec is not None), *self.finals(store)]

    def plan(self, store: Store) -> TablePlan:
        """What the page shows: the finals, the time of the searches, and those without a result."""
        said, seconds = list(self.remarks), dict[str, float]()
        for contest in self.contests:
            search, cells = contest.search, contest.finished(store)
            name = f"{search.label} on {search.dataset}"
            if cells is None:
                said.append(f"The search of {name} is not finished.")
            elif contest.best(store) is None:
                said.append(f"No trial of {name} could be trained.")
            spent = sum(cell.result().seconds for cell in cells or [])
            seconds[search.label] = seconds.get(search.label, 0.0) + spent
        shown = ", ".join(f"{label} {spent:,.0f}" for label, spent in seconds.items())
        said.append(f"Seconds of all trials together: {shown}.")
        return TablePlan("equal-budget", tuple(self.finals(store)), self.facts, tuple(said))


def plan_budget(
    models: Sequence[str],
    datasets: Sequence[str] = (),
    *,
    trials: int = 20,
    splits: Sequence[int] | None = None,
    seeds: Sequence[int] = (0,),
    epochs: int | None = None,
    data: str | Path | None = None,
) -> Budget:
    """Draw the trials of every system on every data set.

    Args:
        models: See :func:`~.tables.plan_table`, as for `datasets` and `data`.
        trials: How many each system has for each data set.
        splits: Which splits the best trial is run on; ``None`` means all.
        seeds: The best trial is run with each; trials are run with seed 0.
        epochs: Most epochs, :data:`EPOCHS` by default.

    Raises:
        InputError: For an unknown model, a data set that cannot be had, or a missing package.
    """
    facts, said = suite_facts("equal-budget", datasets, data)
    contests = []
    for dataset, fact in facts.items():
        searched = (0, 1) if sum(fact.sizes[0]) < SMALL and len(fact.sizes) > 1 else (0,)
        options: dict[str, Any] = {
            "sampler": "random",
            "pruner": "none",
            "data_sha256": fact.sha256,
        }
        for label in dict.fromkeys(models):
            search = make_search(label, dataset, searched, epochs=epochs or EPOCHS, **options)
            cells = draw_trials(search, trials)
            contests.append(Contest(search, cells, chosen_splits(splits, fact)))
    said.append(
        f"Every configuration is the best of {trials} random trials (seed 0) by mean validation "
        f"score, on splits 0 and 1 of sets with fewer than {SMALL:,} nodes and on split 0 of the "
        f"others, with at most {epochs or EPOCHS} epochs. A trial "
        "never reads a test label of its split; splits share nodes, so a node that a configuration "
        "was chosen on is a test node of other splits."
    )
    return Budget(tuple(contests), facts, tuple(seeds), tuple(said))


def draw_trials(search: Search, trials: int) -> tuple[CellSpec | None, ...]:
    """The cells of a random search's trials, the same as `djgnn bench tune` draws."""
    lib = need_optuna()
    study = lib.create_study(sampler=search.sampler_of(0))
    found: list[CellSpec | None] = []
    for place in range(trials):
        study.sampler = search.sampler_of(place)
        try:
            found.append(search.spec(search.suggest(study.ask())))
        except InputError:
            found.append(None)
    return tuple(found)
