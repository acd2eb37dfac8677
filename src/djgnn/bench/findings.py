"""What the cells of a table say about the models: ranks, paired tests, words and warnings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from djgnn.bench.plan import DataFacts
from djgnn.bench.statistics import (
    Paired,
    average_ranks,
    compare,
    critical_difference,
    friedman,
    sentence,
    settle_ties,
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


def scored(cell: FinishedCell) -> bool:
    """Whether every split has a test score; one without test nodes has none."""
    return cell.complete and bool(np.isfinite(cell.result().mean("test")))


def unscored(cells: Sequence[FinishedCell]) -> list[str]:
    """The finished cells without a test score, in words."""
    return [
        f"{cell.spec.label} on {cell.spec.dataset}: a split has no test score (no test nodes, or "
        "of one class only); left out of ranks and tests."
        for cell in cells
        if cell.complete and not scored(cell)
    ]


def node_worth(fact: DataFacts, splits: Sequence[int]) -> float:
    """What one test node is worth in percent of accuracy; 0 for ROC-AUC, which has finer steps."""
    nodes = sum(fact.sizes[split][2] for split in splits)
    return 100 * len(splits) / nodes if fact.metric == "accuracy" and nodes else 0.0


def compare_cells(
    a: FinishedCell, b: FinishedCell, facts: Mapping[str, DataFacts], key: str = "test"
) -> Paired | None:
    """Two cells of one data set on the splits both have figures for; ``None`` without any."""
    done = ({record.split for record in cell.records if record.done} for cell in (a, b))
    splits = sorted(set.intersection(*done))
    if not splits:
        return None
    first, second = (
        [getattr(record.figures(), key) for record in cell.records if record.split in splits]
        for cell in (a, b)
    )
    fact = facts[a.spec.dataset]
    return compare(first, second, fact.test_to_train(splits), node_worth(fact, splits))


def compare_models(
    cells: Cells, a: str, b: str, facts: Mapping[str, DataFacts]
) -> dict[str, Paired]:
    """Two models on every data set where both have test scores."""
    found = {}
    for dataset in dict.fromkeys(name for _, name in cells):
        first, second = cells.get((a, dataset)), cells.get((b, dataset))
        if first is not None and second is not None and scored(first) and scored(second):
            pair = compare_cells(first, second, facts)
            if pair is not None:
                found[dataset] = pair
    return found


def rank_models(cells: Cells, alpha: float = 0.05) -> Ranking | None:
    """Average ranks of the models with scores on every data set; ``None`` for fewer than two.

    A data set where no model has a test score does not count.
    """
    labels = list(dict.fromkeys(label for label, _ in cells))
    there = {key for key, cell in cells.items() if scored(cell)}
    datasets = tuple(dict.fromkeys(name for key in cells if key in there for name in key[1:]))
    kept = [label for label in labels if all((label, d) in there for d in datasets)]
    if len(kept) < 2 or not datasets:
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


def leaders(means: Sequence[float]) -> list[int]:
    """Places of the largest mean, several where they tie; NaN never leads.

    Example:
        >>> leaders([0.3, float("nan"), 0.1 + 0.2])
        [0, 2]
    """
    values = settle_ties(means)
    if not np.isfinite(values).any():
        return []
    return [int(place) for place in np.flatnonzero(values == np.nanmax(values))]


def warnings(cells: Cells, facts: Mapping[str, DataFacts]) -> list[str]:
    """Every data set whose best mean is shared, or leads the next by no more than one error."""
    found = []
    for dataset in dict.fromkeys(name for _, name in cells):
        column = [cell for (_, name), cell in cells.items() if name == dataset and scored(cell)]
        column.sort(key=lambda cell: -cell.result().mean("test"))
        means = [cell.result().mean("test") for cell in column]
        first = leaders(means)
        if len(first) > 1:
            names = [column[place].spec.label for place in first]
            found.append(
                f"{dataset}: {', '.join(names[:-1])} and {names[-1]} share the largest mean "
                f"({means[0]:.2f}); do not claim it for one of them."
            )
        elif len(column) > 1:
            pair = compare_cells(column[0], column[1], facts)
            if pair is not None and pair.within_one_error:
                found.append(_thin_lead(dataset, column, means, pair))
    return found


def _thin_lead(
    dataset: str, column: Sequence[FinishedCell], means: Sequence[float], pair: Paired
) -> str:
    """The warning for a lead of the first over the second that is no more than its error."""
    error = f"one standard error ({pair.standard_error:.2f})"
    if pair.num_splits == 1:
        error = "any standard error, for there is one split only"
    elif not np.isfinite(pair.standard_error):
        error = "any standard error, for all splits differ by the same"
    return (
        f"{dataset}: {column[0].spec.label} ({means[0]:.2f}) leads {column[1].spec.label} "
        f"({means[1]:.2f}) by less than {error}; do not claim it."
    )


def _short(value: float) -> str:
    return f"{value:.2f}" if np.isfinite(value) else "-"
