"""The paper's tables, and ours: from a request to a plan of cells, with their budgets."""

import json
import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import yaml

from djgnn.bench.cell import Recipe
from djgnn.bench.spec import MODELS, CellSpec, DataFacts, gather_facts, make_spec, read_recipe
from djgnn.checking import Natural, Text, check_file
from djgnn.errors import InputError

BEST, SEARCH = "best.yaml", "search.json"
PAPER_SPLITS = 10
BESIDE = {
    "tuned_gcn": "Tuned GCN",
    "tuned_gat": "Tuned GAT",
    "tuned_sage": "Tuned GraphSAGE",
    "dir_gnn": "Dir-GNN",
    "hops_mlp": "MLP on hops",
    "boosting": "Gradient boosting",
    "stack": "Stack of MLP, GCN, LINKX",
}
"""Titles of models that the paper does not have."""


@dataclass(frozen=True)
class Suite:
    """A table that can be run: its title and its data sets, in order.

    `stand_ins` are sets of the same family that are run beside the others, which may be missing.
    """

    title: str
    datasets: tuple[str, ...]
    stand_ins: tuple[str, ...] = ()


_WEB = ("texas", "wisconsin", "cornell_old", "cornell", "actor")
_WIKIPEDIA = ("squirrel", "squirrel_filtered", "chameleon", "chameleon_filtered")
_OTHERS = ("fb100_cornell5", "fb100_reed98", "twitch_de", "twitch_engb")
_UNTUNED = (
    *("texas", "wisconsin", "cornell", "actor"),
    *_WIKIPEDIA,
    *("cora", "citeseer", "pubmed", "minesweeper", "tolokers"),
    *_OTHERS,
)
_SEARCHED = (
    *("texas", "wisconsin", "cornell", "actor"),
    *("chameleon_filtered", "squirrel_filtered", "cora", "citeseer"),
)
SUITES = {
    "table1": Suite(
        "Table 1: the nine Geom-GCN sets, the corrected Cornell, the filtered Wikipedia graphs",
        (*_WEB, *_WIKIPEDIA, "citeseer", "pubmed", "cora"),
    ),
    "table2": Suite(
        "Table 2: large graphs",
        ("penn94", "arxiv-year", "ogbn-arxiv"),
        _OTHERS,
    ),
    "filtered": Suite(
        "Wikipedia graphs without duplicated nodes", ("chameleon_filtered", "squirrel_filtered")
    ),
    "untuned": Suite("Untuned: every system with one configuration for all sets", _UNTUNED),
    "equal-budget": Suite("Equal budget: the same number of trials for every system", _SEARCHED),
    "ablation": Suite("Variants of a model, each with one configuration for all sets", _UNTUNED),
}


@dataclass(frozen=True)
class TablePlan:
    """The cells of a table, the facts of its data sets, and what must be said about them."""

    suite: str
    specs: tuple[CellSpec, ...]
    facts: dict[str, DataFacts]
    remarks: tuple[str, ...]


class Budget(TypedDict):
    """What a search spent, and how, as its card says."""

    trials: Natural
    data_sha256: NotRequired[Text | None]
    splits: NotRequired[list[Natural] | None]
    epochs: NotRequired[Natural | None]
    sampler: NotRequired[Text | None]
    pruner: NotRequired[Text | None]


Budgets = dict[tuple[str, str], Budget | None]
"""By label and data set; ``None`` without a search."""


def plan_table(
    suite: str,
    models: Sequence[str] = MODELS,
    datasets: Sequence[str] = (),
    *,
    splits: Sequence[int] | None = None,
    tuned: Path | None = None,
    budget_free: bool = False,
    data: str | Path | None = None,
    **options: Any,
) -> TablePlan:
    """Find the data sets and choose every cell's configuration.

    Args:
        suite: ``"table1"``, ``"table2"`` or ``"filtered"``.
        models: Rows: models, or ``djgnn:PRESET``.
        datasets: Columns; the suite's by default.
        splits: Which splits; ``None`` means all. Splits that a set does not have are left out.
        tuned: A folder of searches whose best configurations are used instead.
        budget_free: Allow models without a search, or with unequal budgets, beside tuned ones.
        data: Folder with data sets, looked in first.
        **options: `epochs`, `preset` and `seed` of every cell, see :func:`~.spec.make_spec`.

    Raises:
        InputError: For unknown models, sets that are named and cannot be had, or unequal budgets.
    """
    facts, remarks = suite_facts(suite, datasets, data)
    specs: list[CellSpec] = []
    budgets: Budgets = {}
    for dataset, fact in facts.items():
        chosen = chosen_splits(splits, fact)
        for label in dict.fromkeys(models):
            recipe, budgets[label, dataset] = _tuned(tuned, label, dataset, budget_free)
            specs.append(make_spec(label, dataset, chosen, recipe=recipe, **options))
    remarks += _budget_remarks(tuned, budgets, facts, budget_free)
    return TablePlan(suite, tuple(specs), facts, tuple(remarks))


def suite_facts(
    suite: str, datasets: Sequence[str] = (), data: str | Path | None = None
) -> tuple[dict[str, DataFacts], list[str]]:
    """The facts of the named data sets, by default of those of a suite that are here; remarks.

    Raises:
        InputError: If one that is named cannot be had, or none is here.
    """
    own = SUITES[suite]
    facts, refused = gather_facts(datasets or (*own.datasets, *own.stand_ins), data)
    if refused and (datasets or not facts):
        reason = next(iter(refused.values()))
        none = f"{suite}: none of its data sets is here; "
        raise InputError(reason if datasets else none + reason)
    absent = "not on this machine and cannot be downloaded; not run."
    remarks = [f"{name}: {absent}" for name in refused]
    stand_ins = [name for name in facts if name in own.stand_ins]
    if stand_ins:
        remarks.append(
            f"{', '.join(stand_ins)}: stand-ins of the same family, not the paper's sets; "
            "their figures compare models with each other and with nothing in the paper."
        )
    return facts, remarks


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


def search_folder(root: str | Path, label: str, dataset: str) -> Path:
    """Where the search of a model on a data set lies."""
    return Path(root).expanduser() / f"{label.replace(':', '-')}-{dataset}"


def _tuned(
    root: Path | None, label: str, dataset: str, budget_free: bool
) -> tuple[Recipe | None, Budget | None]:
    """The best configuration of a search, and what the search was."""
    if root is None:
        return None, None
    folder = search_folder(root, label, dataset)
    if not (folder / BEST).is_file():
        if budget_free:
            return None, None
        raise InputError(
            f"{folder}: has no finished search; run `djgnn bench tune` for {label} on "
            f"{dataset}, or set budget_free to use its published settings"
        )
    recipe = read_recipe(label.partition(":")[0], folder / BEST)
    try:
        card = json.loads((folder / SEARCH).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{folder / SEARCH}: is not the card of a search ({error})") from error
    check_file(card, Budget, folder / SEARCH, "give the folder that `djgnn bench tune` wrote")
    budget: Any = {"epochs": recipe.training.epochs, **card}
    return recipe, budget


def _budget_remarks(
    root: Path | None, budgets: Budgets, facts: Mapping[str, DataFacts], budget_free: bool
) -> list[str]:
    """Say what the configurations cost; refuse unequal budgets unless they were asked for."""
    if root is None:
        return [
            "Every model runs with its published settings, or its defaults where none were "
            "published; the budgets behind them are not equal."
        ]
    counts = sorted({-1 if budget is None else budget["trials"] for budget in budgets.values()})
    unlike = _differences(budgets, facts)
    said = [f"The searches are NOT alike: {'; '.join(unlike)}."] if unlike else []
    if len(counts) == 1 and counts[0] >= 0:
        alike = "" if unlike else " The searches are alike but for their spaces."
        best = f"Every configuration is the best of {counts[0]} trials, chosen on validation."
        return [best + alike, *said]
    shown = ", ".join("no search" if n < 0 else f"{n} trials" for n in counts)
    if not budget_free:
        raise InputError(
            f"{root}: the searches do not have the same number of trials; continue the "
            f"shorter ones, or set budget_free and have the table say so (got {shown})"
        )
    return [f"The budgets are NOT equal: {shown}.", *said]


def _differences(budgets: Budgets, facts: Mapping[str, DataFacts]) -> list[str]:
    """In what the searches differ: in splits and data set by set, for sets have their own."""
    searches = {cell: budget for cell, budget in budgets.items() if budget is not None}
    found = []
    for name in ("epochs", "sampler", "pruner"):
        values = sorted({str(budget.get(name)) for budget in searches.values()})
        found += [f"{name} {', '.join(values)}"] if len(values) > 1 else []
    for dataset, fact in facts.items():
        here = {label: budget for (label, name), budget in searches.items() if name == dataset}
        listed = {label: budget.get("splits") for label, budget in here.items()}
        splits = {k: "unknown" if v is None else " ".join(map(str, v)) for k, v in listed.items()}
        if len(set(splits.values())) > 1:
            shown = ", ".join(f"{label} {text}" for label, text in splits.items())
            found.append(f"splits on {dataset} ({shown})")
        other = ", ".join(label for label, b in here.items() if b.get("data_sha256") != fact.sha256)
        found += [f"{dataset} is not the data that was searched on ({other})"] if other else []
    return found


@dataclass(frozen=True)
class Printed:
    """A figure of the paper: mean and standard deviation in percent, ``None`` where unknown."""

    mean: float
    std: float | None = None

    def __str__(self) -> str:
        return f"{self.mean:.2f}" + ("" if self.std is None else f" ± {self.std:.2f}")


@dataclass(frozen=True)
class PaperTable:
    """One of the paper's tables.

    `printed` and `corrected` go by (model, data set); a corrected figure of ``None`` says that the
    printed one is wrong and the right one is not known. `notes` says why, by (model, data set).
    """

    datasets: tuple[str, ...]
    titles: dict[str, str]
    printed: dict[tuple[str, str], Printed]
    corrected: dict[tuple[str, str], Printed | None]
    notes: dict[tuple[str, str], str]
    footnotes: tuple[str, ...]

    def right(self, model: str, dataset: str) -> Printed | None:
        """The corrected figure if there is a correction, else the printed one."""
        key = (model, dataset)
        return self.corrected[key] if key in self.corrected else self.printed.get(key)


@cache
def paper_table(name: str) -> PaperTable:
    """A table of the paper: ``"table1"`` or ``"table2"``; for any other name one without figures.

    Example:
        >>> table = paper_table("table1")
        >>> table.printed["ggcn", "chameleon"].mean, table.right("ggcn", "chameleon").mean
        (77.14, 71.14)
    """
    text = resources.files("djgnn.bench").joinpath("paper.yaml").read_text("utf-8")
    tables: dict[str, Any] = yaml.safe_load(text)
    values = tables.get(name, {"datasets": [], "rows": {}, "corrections": [], "footnotes": []})
    rows = [item for table in tables.values() for item in table["rows"].items()]
    datasets = tuple(values["datasets"])
    printed = {
        (model, dataset): Printed(*cell)
        for model, row in values["rows"].items()
        for dataset, cell in zip(datasets, row["values"], strict=True)
        if cell is not None
    }
    wrong = [
        ((row["model"], dataset), cell, row["note"])
        for row in values["corrections"]
        for dataset, cell in row["values"].items()
    ]
    return PaperTable(
        datasets=datasets,
        titles={**BESIDE, **{model: row["title"] for model, row in rows}},
        printed=printed,
        corrected={key: None if cell is None else Printed(*cell) for key, cell, _ in wrong},
        notes={key: note for key, _, note in wrong},
        footnotes=tuple(values["footnotes"]),
    )


def thin_claims(table: PaperTable, datasets: Container[str]) -> list[str]:
    """The paper's best figures on some sets that lead by less than one standard error, in words.

    The standard error of a gap is that of two independent means of ten splits each, which is all
    the printed standard deviations allow.
    """
    found = []
    for dataset in (name for name in table.datasets if name in datasets):
        column = ((c.mean, model) for (model, name), c in table.printed.items() if name == dataset)
        row = sorted(column, reverse=True)
        if len(row) < 2:
            continue
        (best, first), (other, second) = row[:2]
        spreads = [table.printed[model, dataset].std or 0.0 for model in (first, second)]
        error = math.sqrt(sum(s**2 for s in spreads) / PAPER_SPLITS)
        if best - other < error:
            names = (table.titles[first], table.titles[second])
            found.append(
                f"The paper's lead of {names[0]} over {names[1]} on {dataset} "
                f"({best:.2f} against {other:.2f}) is smaller "
                f"than one standard error ({error:.2f})."
            )
    return found
