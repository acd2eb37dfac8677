"""What finished cells say about each other: ranks, paired comparisons, leads not to be claimed."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from djgnn.bench.document import draw_diagram
from djgnn.bench.record import SplitRecord
from djgnn.bench.spec import DataFacts
from djgnn.bench.statistics import (
    LEVEL,
    Paired,
    average_ranks,
    compare,
    critical_difference,
    friedman,
    settle_ties,
)
from djgnn.bench.store import FinishedCell
from djgnn.checking import json_values

Cells = Mapping[tuple[str, str], FinishedCell]
"""Finished cells by label and data set."""
Facts = Mapping[str, DataFacts]


def average_seeds(cells: Iterable[FinishedCell]) -> dict[tuple[str, str], FinishedCell]:
    """The cells by label and data set; those that differ in their seed as one cell.

    The figures of a split are means over its seeds; a split that failed with one seed has failed.
    """
    groups: dict[tuple[str, str], list[FinishedCell]] = {}
    for cell in cells:
        groups.setdefault((cell.spec.label, cell.spec.dataset), []).append(cell)
    found = {}
    for key, group in groups.items():
        splits: dict[int, list[SplitRecord]] = {}
        for record in (record for cell in group for record in cell.records):
            splits.setdefault(record.split, []).append(record)
        averaged = tuple(_average(records) for records in splits.values())
        found[key] = group[0] if len(group) == 1 else FinishedCell(group[0].spec, averaged)
    return found


def _average(records: list[SplitRecord]) -> SplitRecord:
    """The records of one split as one."""
    failed = [record for record in records if not record.done]
    if failed:
        return failed[0]
    figures = [record.figures() for record in records]
    names = ("validation", "test", "oracle_test", "seconds")
    means = {name: float(np.mean([getattr(of, name) for of in figures])) for name in names}
    epoch = round(float(np.mean([of.epoch for of in figures])))
    result = json_values({"split": records[0].split, **means, "epoch": epoch})
    seconds = float(np.mean([record.seconds for record in records]))
    peak = max(record.peak_memory_mib for record in records)
    return msgspec.structs.replace(records[0], result=result, seconds=seconds, peak_memory_mib=peak)


@dataclass(frozen=True)
class Ranking:
    """Average ranks by label, best first; what they mean, in words; the diagram (SVG)."""

    ranks: dict[str, float]
    text: tuple[str, ...]
    figure: str


def rank_cells(cells: Cells) -> Ranking | None:
    """Rank the models that are finished on every data set; ``None`` for fewer than two.

    A model that failed on a data set is last there. A data set where no model has a test score
    does not count, and a model without a score that did not fail is not ranked.
    """
    labels = list(dict.fromkeys(label for label, _ in cells))
    datasets = list(dict.fromkeys(name for (_, name), cell in cells.items() if cell.scored))
    there = {key for key, cell in cells.items() if cell.scored or cell.failures}
    kept = [label for label in labels if all((label, d) in there for d in datasets)]
    if len(kept) < 2 or not datasets:
        return None

    def score(cell: FinishedCell) -> float:
        return cell.result().mean("test") if cell.scored else -1.0

    scores = np.array([[score(cells[m, d]) for m in kept] for d in datasets])
    ranks = dict(zip(kept, average_ranks(scores).tolist(), strict=True))
    difference = critical_difference(len(kept), len(datasets))
    text = [
        f"Average ranks over {len(datasets)} sets (1 is best). Friedman's test that "
        f"all are alike: p = {friedman(scores):.4f}. Two models whose ranks differ by less "
        f"than {difference:.2f} cannot be told apart (Nemenyi, {LEVEL})."
    ]
    failed = ", ".join(m for m in kept if any(cells[m, d].failures for d in datasets))
    if failed:
        text.append(f"Last on the sets where it failed: {failed}.")
    left_out = ", ".join(label for label in labels if label not in kept)
    if left_out:
        text.append(f"Not ranked, some set unfinished or without a score: {left_out}.")
    best_first = {label: ranks[label] for label in sorted(ranks, key=lambda label: ranks[label])}
    return Ranking(best_first, tuple(text), draw_diagram(ranks, len(datasets)))


def compare_cells(a: FinishedCell, b: FinishedCell, facts: Facts) -> Paired | None:
    """Two cells of one data set on the splits both have figures for; ``None`` without any."""
    tests = [{r.split: r.figures().test for r in cell.records if r.done} for cell in (a, b)]
    splits = sorted(tests[0].keys() & tests[1].keys())
    if not splits:
        return None
    first, second = ([of[split] for split in splits] for of in tests)
    return compare(first, second, *facts[a.spec.dataset].overlap(splits))


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


def warnings(cells: Cells, facts: Facts) -> list[str]:
    """Every data set whose best mean is shared, or leads the next by no more than one error."""
    found = []
    for dataset in dict.fromkeys(name for _, name in cells):
        column = [cell for (_, name), cell in cells.items() if name == dataset and cell.scored]
        column.sort(key=lambda cell: -cell.result().mean("test"))
        names = [cell.spec.label for cell in column]
        means = [cell.result().mean("test") for cell in column]
        shared = len(leaders(means))
        pair = compare_cells(column[0], column[1], facts) if len(column) > 1 else None
        if shared > 1:
            found.append(
                f"{dataset}: {', '.join(names[: shared - 1])} and {names[shared - 1]} "
                f"share the largest mean ({means[0]:.2f}); do not claim it for one of them."
            )
        elif pair is not None and pair.within_one_error:
            error = f"one standard error ({pair.standard_error:.2f})"
            if pair.num_splits == 1:
                error = "any standard error, for there is one split only"
            elif not np.isfinite(pair.standard_error):
                error = "any standard error, for all splits differ by the same"
            found.append(
                f"{dataset}: {names[0]} ({means[0]:.2f}) leads {names[1]} ({means[1]:.2f}) "
                f"by less than {error}; do not claim it."
            )
    return found
