"""The page of a table: ranks, paired tests, words and warnings, and ours beside the paper's."""

from collections.abc import Iterable, Sequence

import numpy as np

from djgnn.bench.document import Document, Grid, Section, draw_diagram
from djgnn.bench.spec import DataFacts, code_version
from djgnn.bench.standings import (
    Cells,
    Facts,
    compare_models,
    failure_lines,
    leaders,
    rank_cells,
    warnings,
)
from djgnn.bench.statistics import sentence, verdicts
from djgnn.bench.store import FinishedCell
from djgnn.bench.tables import SUITES, PaperTable, Printed, TablePlan, paper_table, thin_claims
from djgnn.graph.checks import METRIC_NAMES

FIGURE = "critical-difference.svg"
NOTHING = "-"
INTRODUCTION = (
    "Mean ± sample standard deviation over the splits, in percent (accuracy, unless another score "
    "is named). Every model is read at the epoch of its best validation score; test labels are "
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
    """Make the page of a plan's finished cells; the protocol ``"oracle"`` adds its own table.

    `reference` is the model that the others are compared with, `command` is what made the page.
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
    if ranking := rank_cells(cells):
        rows = tuple((title_of(paper, m), f"{rank:.2f}") for m, rank in ranking.ranks.items())
        grid = Grid(("model", "average rank"), rows)
        figure = draw_diagram(ranking.ranks, ranking.num_sets)
        sections.append(Section("Statistics: ranks", ranking.text, grid, figure, FIGURE))
    sections += _tests(cells, reference, plan.facts)
    sections.append(Section("Remarks", remarks=tuple(remarks(plan, cells))))
    sections.append(provenance(plan.facts, finished, command))
    text = (INTRODUCTION, *unfinished(len(plan.specs) - len(cells)))
    return Document(SUITES[plan.suite].title, text, tuple(sections))


def unfinished(left: int) -> list[str]:
    """How many cells are not finished, in words."""
    return [f"Not finished: {left} more cells. Run the command again."] if left > 0 else []


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


def agrees(cell: FinishedCell, right: Printed | None) -> bool | None:
    """Whether ours is within 2 points or one standard deviation of the corrected figure.

    The standard deviation is the printed one, ours where none is printed. ``None`` where either
    figure is missing.
    """
    if right is None or not cell.scored:
        return None
    spread = right.std if right.std is not None else cell.result().std("test")
    return abs(cell.mean("test") - right.mean) <= max(2.0, spread)


def _overview(paper: PaperTable, facts: Facts, cells: Cells, key: str, title: str) -> Section:
    labels = list(dict.fromkeys(label for label, _ in cells))
    datasets = list(dict.fromkeys(name for _, name in cells))
    rows = [
        (title_of(paper, label), *(score_of(cells.get((label, d)), key) for d in datasets))
        for label in labels
    ]
    strong = set()
    for column, dataset in enumerate(datasets, start=1):
        held = [cells.get((label, dataset)) for label in labels]
        means = [np.nan if cell is None else cell.mean(key) for cell in held]
        strong |= {(row, column) for row in leaders(means)}
    note = "The largest mean of a column is bold; whether that means anything, see Statistics."
    grid = Grid(("model", *set_titles(datasets, facts)), tuple(rows), frozenset(strong))
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
                title_of(paper, label),
                NOTHING if printed is None else str(printed),
                ("unknown" if right is None else str(right)) if key in paper.corrected else NOTHING,
                score_of(cell, "test"),
                NOTHING if within is None else f"{gap:+.2f}",
                {None: NOTHING, True: "yes", False: "no"}[within],
                score_of(cell, "oracle_test"),
                score_of(cell, "validation"),
                f"{result.parameters:,}",
                f"{cell.seconds_per_split:.1f}",
                f"{result.peak_memory_mib:.0f}",
                str(len(result.splits)),
            )
        )
        if key in paper.notes:
            remarks.append(f"{title_of(paper, label)}: {paper.notes[key]}")
        remarks += failure_lines([cell])
    if fact.counterpart:
        remarks.append(f"Read beside {fact.counterpart}.")
    grid = Grid(tuple(header.split(",")), tuple(rows))
    return Section(f"{fact.name} ({METRIC_NAMES[fact.metric]})", grid=grid, remarks=tuple(remarks))


def _tests(cells: Cells, reference: str, facts: Facts) -> list[Section]:
    """A row per other model and data set, a sentence per model."""
    words = {1: "better", -1: "worse", 0: "cannot tell"}
    rows, sentences = [], []
    for other in dict.fromkeys(label for label, _ in cells if label != reference):
        found = {}
        for dataset in dict.fromkeys(name for _, name in cells):
            if pair := compare_models(reference, other, dataset, cells, facts):
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


def remarks(plan: TablePlan, cells: Cells) -> list[str]:
    """Warnings, what is left out, where the figures come from, and what the plan says."""
    paper = paper_table(plan.suite)
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


def provenance(facts: Facts, cells: Sequence[FinishedCell], command: str) -> Section:
    """What made the figures: command, code, packages, data and settings."""
    codes, packages, _ = origins(cells)
    found = [f"Command: {command}"] if command else []
    found += [f"Code: {codes}", f"Versions: {packages}"]
    found += [f"Data {name}: {fact.sha256}" for name, fact in facts.items()]
    return Section("Provenance", remarks=(*found, *_sources(cells)))


def _sources(cells: Iterable[FinishedCell]) -> list[str]:
    """Where the settings of every model come from, data sets with the same source together."""
    found: dict[str, dict[str, dict[str, None]]] = {}
    for cell in cells:
        source = cell.spec.config.get("source")
        if source:
            of_label = found.setdefault(cell.spec.label, {})
            of_label.setdefault(source, {})[cell.spec.dataset] = None
    return [
        f"Settings of {label}: "
        + "; ".join(
            source if len(sources) == 1 else f"{', '.join(datasets)}: {source}"
            for source, datasets in sources.items()
        )
        for label, sources in found.items()
    ]


def title_of(paper: PaperTable, label: str) -> str:
    """How a row is called: the title of its model, and its variant."""
    model, _, variant = label.partition(":")
    title = paper.titles.get(model, model)
    return f"{title} ({variant})" if variant else title


def set_titles(datasets: Iterable[str], facts: Facts) -> list[str]:
    """How columns are called: the data set, and its metric unless it is accuracy."""
    metrics = {name: METRIC_NAMES[facts[name].metric] for name in datasets}
    return [name if kind == "accuracy" else f"{name} ({kind})" for name, kind in metrics.items()]


def score_of(cell: FinishedCell | None, key: str, spread: bool = True) -> str:
    """Mean and deviation, or the mean alone; for a cell with failures, how many and which."""
    if cell is None:
        return NOTHING
    if not cell.complete:
        kinds = " and ".join(dict.fromkeys(f.status for f in cell.failures))
        return f"{kinds} ({len(cell.failures)} of {len(cell.records)})"
    if not np.isfinite(cell.mean(key)):
        return "no score"
    mean = f"{cell.mean(key):.2f}"
    return f"{mean} ± {cell.result().std(key):.2f}" if spread else mean
