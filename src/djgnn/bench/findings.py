"""What the cells of a table say about the models: ranks, paired tests, words and warnings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from djgnn.bench.plan import DataFacts, shared_splits
from djgnn.bench.statistics import (
    Paired,
    average_ranks,
    compare,
    critical_difference,
    friedman,
    sentence,
    verdicts,
)
from djgnn.bench.store import FinishedCell

Cells = Mapping[tuple[str, str], FinishedCell]
"""Finished cells by label and data set."""


@dataclass(frozen=True)
class Ranking:
    """Average ranks over the data sets that every ranked model finished."""

    ranks: dict[str, float]
    datasets: tuple[str, ...]
    left_out: tuple[str, ...]
    friedman_p: float
    critical_difference: float


def index_cells(cells: Sequence[FinishedCell]) -> dict[tuple[str, str], FinishedCell]:
    """Cells by label and data set."""
    return {(cell.spec.label, cell.spec.dataset): cell for cell in cells}


def compare_cells(
    a: FinishedCell, b: FinishedCell, facts: Mapping[str, DataFacts], key: str = "test"
) -> Paired | None:
    """Two cells of one data set on the splits both have figures for; ``None`` without any."""
    splits = list(shared_splits([a, b]))
    if not splits:
        return None
    first, second = (
        [getattr(record.figures(), key) for record in cell.records if record.split in splits]
        for cell in (a, b)
    )
    return compare(first, second, facts[a.spec.dataset].test_to_train(splits))


def compare_models(
    cells: Cells, a: str, b: str, facts: Mapping[str, DataFacts]
) -> dict[str, Paired]:
    """Two models on every data set that both finished."""
    found = {}
    for dataset in dict.fromkeys(name for _, name in cells):
        first, second = cells.get((a, dataset)), cells.get((b, dataset))
        if first is not None and second is not None and first.complete and second.complete:
            pair = compare_cells(first, second, facts)
            if pair is not None:
                found[dataset] = pair
    return found


def rank_models(cells: Cells, alpha: float = 0.05) -> Ranking | None:
    """Average ranks of the models that finished every data set; ``None`` for fewer than two."""
    labels = list(dict.fromkeys(label for label, _ in cells))
    datasets = tuple(dict.fromkeys(name for _, name in cells))
    kept = [
        label
        for label in labels
        if all((label, d) in cells and cells[label, d].complete for d in datasets)
    ]
    if len(kept) < 2:
        return None
    scores = np.array([[cells[m, d].result().mean("test") for m in kept] for d in datasets])
    ranks = dict(zip(kept, average_ranks(scores).tolist(), strict=True))
    return Ranking(
        ranks=ranks,
        datasets=datasets,
        left_out=tuple(label for label in labels if label not in kept),
        friedman_p=friedman(scores),
        critical_difference=critical_difference(len(kept), len(datasets), alpha),
    )


def say(cells: Cells, reference: str, facts: Mapping[str, DataFacts]) -> list[str]:
    """One sentence for every other model: where the reference is better, where not."""
    others = dict.fromkeys(label for label, _ in cells if label != reference)
    return [
        sentence(reference, other, found)
        for other in others
        if (found := compare_models(cells, reference, other, facts))
    ]


def rows_of_tests(
    cells: Cells, reference: str, facts: Mapping[str, DataFacts]
) -> list[tuple[str, ...]]:
    """A row per other model and data set: gap, error, effects, p values, verdict."""
    words = {1: "better", -1: "worse", 0: "cannot tell"}
    rows: list[tuple[str, ...]] = []
    for other in dict.fromkeys(label for label, _ in cells if label != reference):
        found = compare_models(cells, reference, other, facts)
        for dataset, (verdict, p_t, p_rank) in verdicts(found).items():
            pair = found[dataset]
            rows.append(
                (
                    other,
                    dataset,
                    f"{pair.difference:+.2f}",
                    _short(pair.standard_error),
                    _short(pair.cohen_d),
                    f"{pair.cliff_delta:+.2f}",
                    f"{p_t:.3f}",
                    f"{p_rank:.3f}",
                    words[verdict],
                )
            )
    return rows


def warnings(cells: Cells, facts: Mapping[str, DataFacts]) -> list[str]:
    """Every data set whose best mean leads the next by less than one standard error."""
    found = []
    for dataset in dict.fromkeys(name for _, name in cells):
        column = [
            (cell.result().mean("test"), cell)
            for (_, name), cell in cells.items()
            if name == dataset and cell.complete
        ]
        column.sort(key=lambda entry: -entry[0])
        for (best, first), (next_, second) in list(pairwise(column))[:1]:
            pair = compare_cells(first, second, facts)
            if pair is not None and pair.within_one_error:
                error = (
                    f"one standard error ({pair.standard_error:.2f})"
                    if np.isfinite(pair.standard_error)
                    else "any standard error, for there is one split only"
                )
                found.append(
                    f"{dataset}: {first.spec.label} ({best:.2f}) leads {second.spec.label} "
                    f"({next_:.2f}) by less than {error}; do not claim it."
                )
    return found


def _short(value: float) -> str:
    return f"{value:.2f}" if np.isfinite(value) else "-"
