"""A whole table: from a request to a plan of cells, and from finished cells to its page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from djgnn.bench.cell import Recipe
from djgnn.bench.compose import Page, compose
from djgnn.bench.document import write_document
from djgnn.bench.paper import paper_table
from djgnn.bench.plan import DataFacts, finished_cells, gather_facts
from djgnn.bench.spec import MODELS, CellSpec, make_spec, read_recipe
from djgnn.bench.store import Store
from djgnn.bench.suites import SUITES, stand_in_remarks
from djgnn.errors import InputError

BEST, SEARCH = "best.yaml", "search.json"


@dataclass(frozen=True)
class TableRequest:
    """What a table is asked to be.

    Args:
        suite: ``"table1"``, ``"table2"`` or ``"filtered"``.
        models: Rows: models, or ``djgnn:PRESET``.
        datasets: Columns; ``None`` means the suite's.
        splits: Which splits; ``None`` means all. Splits that a set does not have are left out.
        epochs: Most epochs of every model; ``None``: as configured.
        preset: The DJ-GNN's preset where a row does not name one.
        seed: Seed of weights and dropout.
        tuned: A folder of searches whose best configurations are used instead.
        budget_free: Allow models without a search, or with unequal budgets, beside tuned ones.
    """

    suite: str
    models: tuple[str, ...] = MODELS
    datasets: tuple[str, ...] | None = None
    splits: tuple[int, ...] | None = None
    epochs: int | None = None
    preset: str = "default"
    seed: int = 0
    tuned: Path | None = None
    budget_free: bool = False


@dataclass(frozen=True)
class Budget:
    """What a search spent, and how; ``None`` where its card does not say."""

    trials: int
    data_sha256: str | None
    splits: tuple[int, ...] | None
    epochs: int | None
    sampler: str | None
    pruner: str | None


Budgets = dict[tuple[str, str], Budget | None]


@dataclass(frozen=True)
class TablePlan:
    """The cells of a table, the facts of its data sets, and what must be said about them."""

    request: TableRequest
    specs: tuple[CellSpec, ...]
    facts: dict[str, DataFacts]
    remarks: tuple[str, ...]


def plan_table(request: TableRequest, data: str | Path | None = None) -> TablePlan:
    """Find the data sets and settle every cell's configuration.

    Raises:
        InputError: For unknown models, sets that are named and cannot be had, or unequal budgets.
    """
    suite = SUITES[request.suite]
    wanted = request.datasets or (*suite.datasets, *suite.stand_ins)
    facts, refused = gather_facts(wanted, data)
    if request.datasets and refused:
        raise InputError(next(iter(refused.values())))
    if not facts:
        raise InputError(
            f"{suite.name}: none of its data sets is here; {next(iter(refused.values()))}"
        )
    remarks = stand_in_remarks(suite, list(facts), list(refused))
    specs: list[CellSpec] = []
    budgets: Budgets = {}
    for dataset, fact in facts.items():
        splits = chosen_splits(request.splits, fact)
        for label in dict.fromkeys(request.models):
            recipe, budgets[label, dataset] = _tuned(request, label, dataset)
            specs.append(
                make_spec(
                    label,
                    dataset,
                    splits,
                    seed=request.seed,
                    preset=request.preset,
                    epochs=request.epochs,
                    recipe=recipe,
                )
            )
    remarks += _budget_remarks(request, budgets, facts)
    return TablePlan(request, tuple(specs), facts, tuple(remarks))


def chosen_splits(wanted: Sequence[int] | None, fact: DataFacts) -> tuple[int, ...]:
    """The wanted splits that a data set has.

    Raises:
        InputError: If it has none of them.
    """
    there = range(len(fact.sizes))
    chosen = tuple(split for split in (there if wanted is None else wanted) if split in there)
    if not chosen:
        raise InputError(f"splits: {fact.name} has 0 to {len(there) - 1} (got {wanted})")
    return chosen


def write_table(
    plan: TablePlan, store: Store, *, protocol: str, reference: str, command: str
) -> list[Path]:
    """Write the page of a table from what is finished, and the cells as JSON lines."""
    cells = finished_cells(plan.specs, plan.facts, store)
    page = Page(
        title=SUITES[plan.request.suite].title,
        cells=cells,
        facts=plan.facts,
        paper=paper_table(plan.request.suite),
        protocol=protocol,
        reference=reference,
        command=command,
        remarks=plan.remarks,
        unfinished=len(plan.specs) - len(cells),
    )
    return [store.write_results(cells), *write_document(compose(page), store.folder)]


def _tuned(request: TableRequest, label: str, dataset: str) -> tuple[Recipe | None, Budget | None]:
    """The best configuration of a search, and what the search was."""
    if request.tuned is None:
        return None, None
    folder = search_folder(request.tuned, label, dataset)
    if not (folder / BEST).is_file():
        if request.budget_free:
            return None, None
        raise InputError(
            f"{folder}: has no finished search; run `djgnn bench tune --model {label} --dataset "
            f"{dataset}`, or pass --budget-free to use its published settings"
        )
    recipe = read_recipe(label.partition(":")[0], folder / BEST)
    try:
        search: dict[str, Any] = json.loads((folder / SEARCH).read_text("utf-8"))
        splits = search.get("splits")
        budget = Budget(
            trials=int(search["trials"]),
            data_sha256=search.get("data_sha256"),
            splits=None if splits is None else tuple(splits),
            epochs=search.get("epochs", recipe.training.epochs),
            sampler=search.get("sampler"),
            pruner=search.get("pruner"),
        )
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{folder / SEARCH}: is not the card of a search ({error})") from error
    return recipe, budget


def search_folder(root: str | Path, label: str, dataset: str) -> Path:
    """Where the search of a model on a data set lies."""
    return Path(root).expanduser() / f"{label.replace(':', '-')}-{dataset}"


def _budget_remarks(
    request: TableRequest, budgets: Budgets, facts: Mapping[str, DataFacts]
) -> list[str]:
    """Say what the configurations cost; refuse unequal budgets unless they were asked for."""
    if request.tuned is None:
        return [
            "Every model runs with its published settings, or its defaults where none were "
            "published; the budgets behind them are not equal."
        ]
    counts = sorted({-1 if budget is None else budget.trials for budget in budgets.values()})
    unlike = _differences(budgets, facts)
    said = [f"The searches are NOT alike: {'; '.join(unlike)}."] if unlike else []
    if len(counts) == 1 and counts[0] >= 0:
        alike = "" if unlike else " The searches are alike but for their spaces."
        best = f"Every configuration is the best of {counts[0]} trials, chosen on validation."
        return [best + alike, *said]
    shown = ", ".join("no search" if n < 0 else f"{n} trials" for n in counts)
    if not request.budget_free:
        raise InputError(
            f"{request.tuned}: the searches do not have the same number of trials; continue the "
            f"shorter ones, or pass --budget-free and have the table say so (got {shown})"
        )
    return [f"The budgets are NOT equal: {shown}.", *said]


def _differences(budgets: Budgets, facts: Mapping[str, DataFacts]) -> list[str]:
    """In what the searches differ: in splits and data set by set, for sets have their own."""
    searches = {cell: budget for cell, budget in budgets.items() if budget is not None}
    found = []
    for name in ("epochs", "sampler", "pruner"):
        values = {str(getattr(budget, name)) for budget in searches.values()}
        if len(values) > 1:
            found.append(f"{name} {', '.join(sorted(values))}")
    for dataset, fact in facts.items():
        here = {label: b for (label, name), b in searches.items() if name == dataset}
        if len({budget.splits for budget in here.values()}) > 1:
            shown = (f"{label} {_splits(budget.splits)}" for label, budget in here.items())
            found.append(f"splits on {dataset} ({', '.join(shown)})")
        other = [label for label, budget in here.items() if budget.data_sha256 != fact.sha256]
        if other:
            found.append(f"{dataset} is not the data that was searched on ({', '.join(other)})")
    return found


def _splits(splits: tuple[int, ...] | None) -> str:
    return "unknown" if splits is None else " ".join(map(str, splits))
