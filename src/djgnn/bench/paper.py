"""The paper's Tables 1 and 2 as printed, with the known errors and their corrections."""

from __future__ import annotations

import math
from collections.abc import Container
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import yaml

PAPER_SPLITS = 10
BESIDE = {
    "tuned_gcn": "Tuned GCN",
    "tuned_gat": "Tuned GAT",
    "tuned_sage": "Tuned GraphSAGE",
    "dir_gnn": "Dir-GNN",
}
"""Titles of models that the paper does not have."""


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

    title: str
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
    """A table of the paper: ``"table1"``, ``"table2"``, or ``"filtered"``, which is empty.

    Example:
        >>> table = paper_table("table1")
        >>> table.printed["ggcn", "chameleon"].mean, table.right("ggcn", "chameleon").mean
        (77.14, 71.14)
    """
    text = resources.files("djgnn.bench").joinpath("paper.yaml").read_text("utf-8")
    values: dict[str, Any] = yaml.safe_load(text)[name]
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
        title=values["title"],
        datasets=datasets,
        titles={**BESIDE, **{model: row["title"] for model, row in values["rows"].items()}},
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
