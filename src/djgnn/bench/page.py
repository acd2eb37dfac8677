"""The page of a table: ranks, paired tests, words and warnings, and ours beside the paper's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from djgnn.bench.document import Document, Grid, Section, draw_diagram
from djgnn.bench.spec import DataFacts, code_version
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
from djgnn.bench.tables import SUITES, PaperTable, Printed, TablePlan, paper_table, thin_claims

Cells = Mapping[tuple[str, str], FinishedCell]
"""Finished cells by label and data set."""
Facts = Mapping[str, DataFacts]
FIGURE = "critical-difference.svg"
NOTHING = "-"
INTRODUCTION = (
    "Mean ± sample standard deviation over the splits, in percent (accuracy, or ROC-AUC where "
    "named). Every model is read at the epoch of its best validation score; test labels are "
    "read once, when it is finished. Where an oracle figure is shown it is the largest test "
    "score of all epochs, which peeks at the test labels."
)


def compose(
    plan: TablePlan,
    finished: Sequence[FinishedCell],
    protocol: str = "validation",
    reference: str = "djgnn",
    command: str = "",
) -> Document:
    """Make the page: overview, one table per data set, statistics, remarks, provenance.

    Args:
        plan: The table.
        finished: Its finished cells.
        protocol: ``"oracle"`` adds a table of the largest test scores.
        reference: The model that the others are compared with.
        command: What made the page.
    """
    cells = {(cell.spec.label, cell.spec.dataset): cell for cell in finished}
    paper = paper_table(plan.suite)
    title = "Test score, epoch chosen on validation"
    sections = [_overview(paper, plan.facts, cells, "test", title)]
    if protocol == "oracle":
        title = "Oracle: largest test score of all epochs, never comparable with the table above"
        sections.append(_overview(paper, plan.facts, cells, "oracle_test", title))
    for dataset in dict.fromkeys(name for _, name in cells):
        sections.append(_of_dataset(paper, plan.facts[dataset], cells))
    sections += [*_ranks(paper, cells), *_tests(cells, reference, plan.facts)]
    sections.append(Section("Remarks", remarks=tuple(_remarks(paper, plan, cells))))
    codes, packages, _ = origins(finished)
    provenance = [f"Command: {command}"] if command else []
    provenance += [f"Code: {codes}", f"Versions: {packages}"]
    provenance += [f"Data {name}: {fact.sha256}" for name, fact in plan.facts.items()]
    sections.append(Section("Provenance", remarks=(*provenance, *_sources(finished))))
    text, left = [INTRODUCTION], len(plan.specs) - len(cells)
    if left:
        text.append(f"Not finished: {left} more cells. Run the command again.")
    return Document(SUITES[plan.suite].title, tuple(text), tuple(sections))


def without_score(cells: Iterable[FinishedCell]) -> list[str]:
    """The finished cells without a test score, in words."""
    return [
        f"{cell.spec.label} on {cell.spec.dataset}: a split has no test score (no test nodes, or "
        "of one class only); left out of ranks and tests."
        for cell in cells
        if cell.complete and not cell.scored
    ]


def origins(cells: Iterable[FinishedCell]) -> tuple[str, str, list[str]]:
    """The versions of the code, the packages and the devices behind some cells."""
    records = [record for cell in cells for record in cell.records]
    packages = {f"{k} {v}" for record in records for k, v in record.versions.items()}
    codes = {record.code for record in records}
    devices = sorted({record.device for record in records})
    return ", ".join(sorted(codes)), ", ".join(sorted(packages)), devices


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


def agrees(cell: FinishedCell, right: Printed | None) -> bool | None:
    """Whether ours is within 2 points or one standard deviation of the corrected figure.

    The standard deviation is the printed one, ours where none is printed. ``None`` where either
    figure is missing.
    """
    if right is None or not cell.scored:
        return None
    spread = right.std if right.std is not None else cell.result().std("test")
    return abs(cell.result().mean("test") - right.mean) <= max(2.0, spread)


def _overview(paper: PaperTable, facts: Facts, cells: Cells, key: str, title: str) -> Section:
    labels = list(dict.fromkeys(label for label, _ in cells))
    datasets = list(dict.fromkeys(name for _, name in cells))
    rows = [
        (_title(paper, label), *(_score(cells.get((label, d)), key) for d in datasets))
        for label in labels
    ]
    strong = set()
    for column, dataset in enumerate(datasets, start=1):
        held = [cells.get((label, dataset)) for label in labels]
        means = [c.result().mean(key) if c is not None and c.complete else np.nan for c in held]
        strong |= {(row, column) for row in leaders(means)}
    shown = (d if facts[d].metric == "accuracy" else f"{d} (ROC-AUC)" for d in datasets)
    note = "The largest mean of a column is bold; whether that means anything, see Statistics."
    grid = Grid(("model", *shown), tuple(rows), frozenset(strong))
    return Section(title, grid=grid, remarks=(note,))


def _of_dataset(paper: PaperTable, fact: DataFacts, cells: Cells) -> Section:
    """Paper against ours, both protocols, and the cost."""
    header = "model,paper,corrected,ours,difference,within,oracle,validation,parameters,"
    header += "s per split,peak MiB,splits"
    rows, remarks = [], list(fact.remarks)
    for (label, dataset), cell in cells.items():
        if dataset != fact.name:
            continue
        key = (cell.spec.model, dataset)
        printed, right, result = paper.printed.get(key), paper.right(*key), cell.result()
        within = agrees(cell, right)
        gap = 0.0 if right is None else result.mean("test") - right.mean
        rows.append(
            (
                _title(paper, label),
                NOTHING if printed is None else str(printed),
                ("unknown" if right is None else str(right)) if key in paper.corrected else NOTHING,
                _score(cell, "test"),
                NOTHING if within is None else f"{gap:+.2f}",
                {None: NOTHING, True: "yes", False: "no"}[within],
                _score(cell, "oracle_test"),
                _score(cell, "validation"),
                f"{result.parameters:,}",
                f"{result.seconds / len(cell.records):.1f}",
                f"{result.peak_memory_mib:.0f}",
                str(len(result.splits)),
            )
        )
        if key in paper.notes:
            remarks.append(f"{_title(paper, label)}: {paper.notes[key]}")
        remarks += [f"{label}, split {lost.split}: {lost.outcome}" for lost in cell.failures]
    if fact.counterpart:
        remarks.append(f"Read beside {fact.counterpart}.")
    metric = "ROC-AUC" if fact.metric == "roc_auc" else "accuracy"
    grid = Grid(tuple(header.split(",")), tuple(rows))
    return Section(f"{fact.name} ({metric})", grid=grid, remarks=tuple(remarks))


def _ranks(paper: PaperTable, cells: Cells, alpha: float = 0.05) -> list[Section]:
    """Average ranks of the models with scores on every data set; nothing for fewer than two.

    A data set where no model has a test score does not count.
    """
    labels = list(dict.fromkeys(label for label, _ in cells))
    there = {key: None for key, cell in cells.items() if cell.scored}
    datasets = list(dict.fromkeys(name for _, name in there))
    kept = [label for label in labels if all((label, d) in there for d in datasets)]
    if len(kept) < 2 or not datasets:
        return []
    scores = np.array([[cells[m, d].result().mean("test") for m in kept] for d in datasets])
    ranks = dict(zip(kept, average_ranks(scores).tolist(), strict=True))
    order = sorted(ranks, key=lambda label: ranks[label])
    rows = tuple((_title(paper, label), f"{ranks[label]:.2f}") for label in order)
    difference = critical_difference(len(kept), len(datasets), alpha)
    text = [
        f"Average ranks over {len(datasets)} sets (1 is best). Friedman's test that "
        f"all are alike: p = {friedman(scores):.4f}. Two models whose ranks differ by less "
        f"than {difference:.2f} cannot be told apart (Nemenyi, {alpha})."
    ]
    left_out = ", ".join(label for label in labels if label not in kept)
    if left_out:
        text.append(f"Not ranked, some set unfinished, failed or without a score: {left_out}.")
    grid, figure = Grid(("model", "average rank"), rows), draw_diagram(ranks, len(datasets), alpha)
    return [Section("Statistics: ranks", tuple(text), grid, figure, FIGURE)]


def _tests(cells: Cells, reference: str, facts: Facts) -> list[Section]:
    """A row per other model and data set, a sentence per model."""
    words = {1: "better", -1: "worse", 0: "cannot tell"}
    rows, sentences = [], []
    for other in dict.fromkeys(label for label, _ in cells if label != reference):
        found = {}
        for dataset in dict.fromkeys(name for _, name in cells):
            both = [cells.get((label, dataset)) for label in (reference, other)]
            scored = [cell for cell in both if cell is not None and cell.scored]
            if len(scored) == 2 and (pair := compare_cells(scored[0], scored[1], facts)):
                found[dataset] = pair
        if found:
            sentences.append(sentence(reference, other, found))
        for dataset, (verdict, p_t, p_rank) in verdicts(found).items():
            pair = found[dataset]
            error, effect = (
                f"{value:.2f}" if np.isfinite(value) else NOTHING
                for value in (pair.standard_error, pair.cohen_d)
            )
            sizes = (f"{pair.difference:+.2f}", error, effect, f"{pair.cliff_delta:+.2f}")
            rows.append((other, dataset, *sizes, f"{p_t:.3f}", f"{p_rank:.3f}", words[verdict]))
    if not rows:
        return []
    header = "against,set,difference,standard error,Cohen's d,Cliff's delta,p (corrected t),"
    grid = Grid((*f"{header}p (Wilcoxon)".split(","), reference), tuple(rows))
    text = (
        "Paired by split. The verdict is that of Nadeau and Bengio's corrected t test at 0.05; "
        "p values are adjusted by Holm over the sets of a pair."
    )
    title = f"Statistics: {reference} against the others"
    return [Section(title, (text,), grid, remarks=tuple(sentences))]


def _remarks(paper: PaperTable, plan: TablePlan, cells: Cells) -> list[str]:
    found = [f"Warning: {text}" for text in warnings(cells, plan.facts)]
    found += [f"Warning: {text}" for text in thin_claims(paper, plan.facts)]
    found += without_score(cells.values())
    compared = [
        bool(agrees(cell, right))
        for cell in cells.values()
        if (right := paper.right(cell.spec.model, cell.spec.dataset)) is not None
        and (cell.scored or cell.failures)
    ]
    if compared:
        found.append(
            f"{sum(compared)} of {len(compared)} cells are within 2 points or one standard "
            "deviation (the printed one, ours where none is printed) of the paper's corrected "
            "figure."
        )
    others = sum(r.code != code_version() for cell in cells.values() for r in cell.records)
    if others:
        found.append(f"{others} splits were run by another version of the code, see Provenance.")
    devices = origins(cells.values())[2]
    if len(devices) > 1:
        found.append(f"Seconds and memory come from different devices: {', '.join(devices)}.")
    return [*found, *plan.remarks, *paper.footnotes]


def _sources(cells: Iterable[FinishedCell]) -> list[str]:
    """Where the settings of every model come from, data sets with the same source together."""
    found: dict[str, dict[str, list[str]]] = {}
    for cell in cells:
        source = cell.spec.config.get("source")
        if source:
            found.setdefault(cell.spec.label, {}).setdefault(source, []).append(cell.spec.dataset)
    return [
        f"Settings of {label}: "
        + "; ".join(f"{', '.join(datasets)}: {source}" for source, datasets in sources.items())
        for label, sources in found.items()
    ]


def _title(paper: PaperTable, label: str) -> str:
    model, _, variant = label.partition(":")
    title = paper.titles.get(model, model)
    return f"{title} ({variant})" if variant else title


def _score(cell: FinishedCell | None, key: str) -> str:
    """Mean and deviation; for a cell with failures, how many and of what kind."""
    if cell is None:
        return NOTHING
    if not cell.complete:
        kinds = " and ".join(dict.fromkeys(f.status for f in cell.failures))
        return f"{kinds} ({len(cell.failures)} of {len(cell.records)})"
    result = cell.result()
    if not np.isfinite(result.mean(key)):
        return "no score"
    return f"{result.mean(key):.2f} ± {result.std(key):.2f}"
