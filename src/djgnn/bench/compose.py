"""From the finished cells of a table to its page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from djgnn.bench.critical_difference import draw_diagram
from djgnn.bench.document import Document, Grid, Section
from djgnn.bench.findings import (
    Cells,
    index_cells,
    leaders,
    rank_models,
    rows_of_tests,
    say,
    scored,
    unscored,
    warnings,
)
from djgnn.bench.paper import PaperTable, Printed, thin_claims
from djgnn.bench.plan import DataFacts
from djgnn.bench.spec import code_version
from djgnn.bench.store import FinishedCell

FIGURE = "critical-difference.svg"
NOTHING = "-"


@dataclass(frozen=True)
class Page:
    """What the page of a table is made of.

    Args:
        title: Its title.
        cells: The finished cells.
        facts: Facts of the data sets.
        paper: The paper's table.
        protocol: ``"oracle"`` adds a table of the largest test scores.
        reference: The model that the others are compared with.
        command: What made the page.
        remarks: What else must be said: sets that are missing, stand-ins, unequal budgets.
        unfinished: Number of cells that are not there yet.
    """

    title: str
    cells: Sequence[FinishedCell]
    facts: Mapping[str, DataFacts]
    paper: PaperTable
    protocol: str = "validation"
    reference: str = "djgnn"
    command: str = ""
    remarks: Sequence[str] = field(default_factory=tuple)
    unfinished: int = 0


def compose(page: Page) -> Document:
    """Make the page: overview, one table per data set, statistics, remarks, provenance."""
    cells = index_cells(page.cells)
    sections = [_overview(page, cells, "test", "Test score, epoch chosen on validation")]
    if page.protocol == "oracle":
        title = "Oracle: largest test score of all epochs, never comparable with the table above"
        sections.append(_overview(page, cells, "oracle_test", title))
    for dataset in dict.fromkeys(name for _, name in cells):
        sections.append(_of_dataset(page, cells, dataset))
    sections += _statistics(page, cells)
    sections.append(Section("Remarks", remarks=tuple(_remarks(page, cells))))
    sections.append(_provenance(page))
    text = [
        "Mean ± sample standard deviation over the splits, in percent (accuracy, or ROC-AUC where "
        "named). Every model is read at the epoch of its best validation score; test labels are "
        "read once, when it is finished. Where an oracle figure is shown it is the largest test "
        "score of all epochs, which peeks at the test labels."
    ]
    if page.unfinished:
        text.append(f"Not finished: {page.unfinished} more cells. Run the command again.")
    return Document(page.title, tuple(text), tuple(sections))


def _overview(page: Page, cells: Cells, key: str, title: str) -> Section:
    labels = list(dict.fromkeys(label for label, _ in cells))
    datasets = list(dict.fromkeys(name for _, name in cells))
    rows, strong = [], set()
    for label in labels:
        rows.append((_title(page, label), *(_score(cells.get((label, d)), key) for d in datasets)))
    for column, dataset in enumerate(datasets, start=1):
        means = [_mean(cells.get((label, dataset)), key) for label in labels]
        strong |= {(row, column) for row in leaders(means)}
    metric = {d: page.facts[d].metric for d in datasets}
    header = ("model", *(d if metric[d] == "accuracy" else f"{d} (ROC-AUC)" for d in datasets))
    note = "The largest mean of a column is bold; whether that means anything, see Statistics."
    return Section(title, grid=Grid(header, tuple(rows), frozenset(strong)), remarks=(note,))


def _of_dataset(page: Page, cells: Cells, dataset: str) -> Section:
    """Paper against ours, both protocols, and the cost."""
    header = (
        "model",
        "paper",
        "corrected",
        "ours",
        "difference",
        "within",
        "oracle",
        "validation",
        "parameters",
        "s per split",
        "peak MiB",
        "splits",
    )
    rows, remarks = [], list(page.facts[dataset].remarks)
    for (label, name), cell in cells.items():
        if name != dataset:
            continue
        rows.append(_long_row(page, label, cell))
        note = page.paper.notes.get((cell.spec.model, dataset))
        if note:
            remarks.append(f"{_title(page, label)}: {note}")
        for failure in cell.failures:
            remarks.append(f"{label}, split {failure.split}: {failure.outcome}")
    beside = page.facts[dataset].counterpart
    if beside:
        remarks.append(f"Read beside {beside}.")
    metric = "ROC-AUC" if page.facts[dataset].metric == "roc_auc" else "accuracy"
    return Section(f"{dataset} ({metric})", grid=Grid(header, tuple(rows)), remarks=tuple(remarks))


def _long_row(page: Page, label: str, cell: FinishedCell) -> tuple[str, ...]:
    key = (cell.spec.model, cell.spec.dataset)
    printed, right = page.paper.printed.get(key), page.paper.right(*key)
    result = cell.result()
    gap = difference(cell, right)
    corrected = NOTHING
    if key in page.paper.corrected:
        corrected = "unknown" if right is None else _printed(right)
    return (
        _title(page, label),
        NOTHING if printed is None else _printed(printed),
        corrected,
        _score(cell, "test"),
        NOTHING if gap is None else f"{gap:+.2f}",
        NOTHING if gap is None else ("yes" if agrees(cell, right) else "no"),
        _score(cell, "oracle_test"),
        _score(cell, "validation"),
        f"{result.parameters:,}",
        f"{result.seconds / len(cell.records):.1f}",
        f"{result.peak_memory_mib:.0f}",
        str(len(result.splits)),
    )


def difference(cell: FinishedCell, right: Printed | None) -> float | None:
    """Ours less the paper's corrected figure; ``None`` where either is missing."""
    return cell.result().mean("test") - right.mean if right and scored(cell) else None


def agrees(cell: FinishedCell, right: Printed | None) -> bool:
    """Whether ours is within 2 points or one standard deviation of the corrected figure.

    The standard deviation is the printed one, ours where none is printed.
    """
    gap = difference(cell, right)
    if gap is None or right is None:
        return False
    spread = right.std if right.std is not None else cell.result().std("test")
    return abs(gap) <= max(2.0, spread)


def _statistics(page: Page, cells: Cells) -> list[Section]:
    sections = []
    ranking = rank_models(cells)
    if ranking is not None:
        order = sorted(ranking.ranks, key=lambda label: ranking.ranks[label])
        rows = tuple((_title(page, label), f"{ranking.ranks[label]:.2f}") for label in order)
        text = [
            f"Average ranks over {len(ranking.datasets)} sets (1 is best). Friedman's test that "
            f"all are alike: p = {ranking.friedman_p:.4f}. Two models whose ranks differ by less "
            f"than {ranking.critical_difference:.2f} cannot be told apart (Nemenyi, 0.05)."
        ]
        if ranking.left_out:
            names = ", ".join(ranking.left_out)
            text.append(f"Not ranked, some set unfinished, failed or without a score: {names}.")
        figure = draw_diagram(ranking.ranks, len(ranking.datasets))
        grid = Grid(("model", "average rank"), rows)
        sections.append(Section("Statistics: ranks", tuple(text), grid, figure, FIGURE))
    tests = rows_of_tests(cells, page.reference, page.facts)
    if tests:
        header = (
            "against",
            "set",
            "difference",
            "standard error",
            "Cohen's d",
            "Cliff's delta",
            "p (corrected t)",
            "p (Wilcoxon)",
            page.reference,
        )
        text = [
            "Paired by split. The verdict is that of Nadeau and Bengio's corrected t test at 0.05; "
            "p values are adjusted by Holm over the sets of a pair."
        ]
        sections.append(
            Section(
                f"Statistics: {page.reference} against the others",
                tuple(text),
                Grid(header, tuple(tests)),
                remarks=tuple(say(cells, page.reference, page.facts)),
            )
        )
    return sections


def _remarks(page: Page, cells: Cells) -> list[str]:
    found = [f"Warning: {text}" for text in warnings(cells, page.facts)]
    found += [f"Warning: {text}" for text in thin_claims(page.paper, page.facts)]
    found += unscored(page.cells)
    compared = [
        (cell, right)
        for cell in page.cells
        if (right := page.paper.right(cell.spec.model, cell.spec.dataset)) is not None
        and (scored(cell) or cell.failures)
    ]
    if compared:
        held = sum(agrees(cell, right) for cell, right in compared)
        found.append(
            f"{held} of {len(compared)} cells are within 2 points or one standard deviation (the "
            "printed one, ours where none is printed) of the paper's corrected figure."
        )
    others = sum(
        record.code != code_version()
        for cell in page.cells
        for record in cell.records
    )
    if others:
        found.append(f"{others} splits were run by another version of the code, see Provenance.")
    devices = sorted({record.device for cell in page.cells for record in cell.records})
    if len(devices) > 1:
        found.append(f"Seconds and memory come from different devices: {', '.join(devices)}.")
    return [*found, *page.remarks, *page.paper.footnotes]


def _provenance(page: Page) -> Section:
    codes = sorted({record.code for cell in page.cells for record in cell.records})
    records = [record for cell in page.cells for record in cell.records]
    packages = sorted({f"{k} {v}" for record in records for k, v in record.versions.items()})
    data = [f"{name}: {fact.sha256}" for name, fact in page.facts.items()]
    remarks = [f"Command: {page.command}"] if page.command else []
    remarks += [f"Code: {', '.join(codes)}", f"Versions: {', '.join(packages)}"]
    remarks += [f"Data {line}" for line in data]
    remarks += _sources(page)
    return Section("Provenance", remarks=tuple(remarks))


def _sources(page: Page) -> list[str]:
    """Where the settings of every model come from, data sets with the same source together."""
    found: dict[str, dict[str, list[str]]] = {}
    for cell in page.cells:
        source = cell.spec.config.get("source")
        if source:
            found.setdefault(cell.spec.label, {}).setdefault(source, []).append(cell.spec.dataset)
    return [
        f"Settings of {label}: "
        + "; ".join(f"{', '.join(datasets)}: {source}" for source, datasets in sources.items())
        for label, sources in found.items()
    ]


def _title(page: Page, label: str) -> str:
    model, _, variant = label.partition(":")
    title = page.paper.titles.get(model, model)
    return f"{title} ({variant})" if variant else title


def _mean(cell: FinishedCell | None, key: str) -> float:
    return cell.result().mean(key) if cell is not None and cell.complete else np.nan


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


def _printed(value: Printed) -> str:
    return f"{value.mean:.2f}" + ("" if value.std is None else f" ± {value.std:.2f}")
