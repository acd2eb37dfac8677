"""Leaderboards: every system by average rank over many data sets, and how the others compare."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from djgnn.bench.document import Document, Grid, Section, draw_diagram
from djgnn.bench.page import (
    FIGURE,
    NOTHING,
    provenance,
    remarks,
    score_of,
    set_titles,
    title_of,
    unfinished,
)
from djgnn.bench.spec import MODELS, default_recipe, make_spec
from djgnn.bench.standings import (
    Cells,
    average_seeds,
    compare_models,
    failure_lines,
    leaders,
    rank_cells,
)
from djgnn.bench.statistics import verdicts
from djgnn.bench.store import FinishedCell
from djgnn.bench.tables import SUITES, TablePlan, chosen_splits, paper_table, suite_facts
from djgnn.graph.files import read_configuration
from djgnn.model.config import PRESETS

Rows = Mapping[str, Mapping[str, Any]]
"""By label, the options that its configuration changes."""
PLAIN = ("mlp", "gcn", "linkx", "boosting")
"""What anyone would try first."""
UNTUNED = (MODELS[0], f"{MODELS[0]}:full", *MODELS[1:])
"""Rows of the untuned leaderboard: the DJ-GNN without and with plain experts, then the others."""
INTRODUCTION = (
    "Mean test score over the splits in percent (accuracy, or ROC-AUC where named), seeds averaged "
    "first. Every model is read at the epoch of its best validation score; test labels are read "
    "once, when it is finished. results.jsonl has every split with its configuration."
)


def read_variants(path: str | Path) -> Rows:
    """Rows from a YAML file: labels such as ``djgnn:narrow``, each with the options it changes.

    Raises:
        InputError: If it is not such a file.
    """

    def build(values: dict[str, Any]) -> Rows:
        for label, changes in values.items():
            if not isinstance(changes or {}, Mapping):
                raise ValueError(f"{label} must have options to change (got {changes!r})")
        return {label: changes or {} for label, changes in values.items()}

    return read_configuration(path, build)


def plan_untuned(
    rows: Rows,
    datasets: Sequence[str] = (),
    *,
    splits: Sequence[int] | None = None,
    seeds: Sequence[int] = (0,),
    epochs: int | None = None,
    data: str | Path | None = None,
) -> TablePlan:
    """Every row with one configuration for all data sets: its model's defaults, and its changes.

    Args:
        rows: Models, or ``djgnn:PRESET``; with changes also ``MODEL:NAME``.
        datasets: See :func:`~.tables.plan_table`, as for `splits` and `data`.
        seeds: Every split is run with each.
        epochs: Most epochs; ``None``: as configured.

    Raises:
        InputError: For an unknown model or option, or a data set that cannot be had.
    """
    suite = "ablation" if any(rows.values()) else "untuned"
    facts, said = suite_facts(suite, datasets, data)
    specs = []
    for label, changes in rows.items():
        model, _, variant = label.partition(":")
        name = model if changes and variant not in PRESETS else label
        recipe = default_recipe(name)
        for dataset, fact in facts.items():
            cell = (name, dataset, chosen_splits(splits, fact))
            made = make_spec(*cell, epochs=epochs, recipe=recipe, changes=changes)
            specs += [replace(made, label=label, seed=seed) for seed in seeds]
    said.append("Every row has one configuration for all sets: its defaults, never tuned to a set.")
    said += [
        f"{label}: {', '.join(f'{key} = {value}' for key, value in changes.items())}"
        for label, changes in rows.items()
        if changes
    ]
    specs.sort(key=lambda spec: list(facts).index(spec.dataset))
    return TablePlan(suite, tuple(specs), facts, tuple(said))


def compose_leaderboard(
    plan: TablePlan,
    finished: Sequence[FinishedCell],
    reference: str = "djgnn",
    command: str = "",
) -> Document:
    """Make the page of a plan's finished cells, one per seed.

    `reference` is the system that the others are compared with, `command` is what made the page.
    """
    cells = average_seeds(finished)
    ranking = rank_cells(cells)
    ranks = ranking.ranks if ranking else {}
    board = Board(
        plan,
        cells,
        labels=tuple(dict.fromkeys([*ranks, *(label for label, _ in cells)])),
        datasets=tuple(name for name in plan.facts if any(name == of for _, of in cells)),
        ranks=ranks,
    )
    standings = Section("Standings", grid=board.standings())
    if ranking:
        figure = draw_diagram(ranking.ranks, ranking.num_sets)
        standings = replace(standings, text=ranking.text, figure=figure, figure_name=FIGURE)
    sections = [standings]
    if any(label == reference for label, _ in cells):
        sections += [board.differences(reference), board.gaps(reference)]
    said = (_seeds(finished), *failure_lines(cells.values()), *remarks(plan, cells))
    sections += [
        board.deviations(),
        board.time(finished),
        Section("Remarks", remarks=said),
        provenance(plan.facts, finished, command),
    ]
    text = (INTRODUCTION, *unfinished(len(plan.specs) - len(finished)))
    return Document(SUITES[plan.suite].title, text, tuple(sections))


@dataclass(frozen=True)
class Board:
    """The tables of a leaderboard: a row per label, best first, and a column per data set."""

    plan: TablePlan
    cells: Cells
    labels: tuple[str, ...]
    datasets: tuple[str, ...]
    ranks: Mapping[str, float]

    def title(self, label: str) -> str:
        """How a row is called."""
        return title_of(paper_table(self.plan.suite), label)

    def mean(self, label: str, dataset: str) -> float:
        """The test score of a system on a set; NaN without one."""
        cell = self.cells.get((label, dataset))
        return np.nan if cell is None else cell.mean("test")

    def standings(self) -> Grid:
        """Average rank, test scores and their mean, seconds; the best of each set in bold."""
        rows, strong = [], set()
        for label in self.labels:
            found = [self.cells.get((label, dataset)) for dataset in self.datasets]
            scores = (score_of(cell, "test", spread=False) for cell in found)
            rank = f"{self.ranks[label]:.2f}" if label in self.ranks else NOTHING
            mean = np.mean([self.mean(label, dataset) for dataset in self.datasets])
            seconds = np.mean([cell.seconds_per_split for cell in found if cell is not None])
            shown = f"{mean:.2f}" if np.isfinite(mean) else NOTHING
            rows.append((self.title(label), rank, *scores, shown, f"{seconds:.1f}"))
        for column, dataset in enumerate(self.datasets, start=2):
            means = [self.mean(label, dataset) for label in self.labels]
            strong |= {(row, column) for row in leaders(means)}
        names = set_titles(self.datasets, self.plan.facts)
        header = ("system", "average rank", *names, "mean", "s per split")
        return Grid(header, tuple(rows), frozenset(strong))

    def differences(self, reference: str) -> Section:
        """Every other row minus the reference, and which differences the splits can tell."""
        rows: list[tuple[str, ...]] = []
        strong = set()
        for label in self.labels:
            if label == reference:
                continue
            pairs = {
                name: compare_models(label, reference, name, self.cells, self.plan.facts)
                for name in self.datasets
            }
            found = {name: pair for name, pair in pairs.items() if pair is not None}
            signs = {name: sign for name, (sign, _, _) in verdicts(found).items()}
            strong |= {
                (len(rows), column)
                for column, name in enumerate(self.datasets, start=4)
                if signs.get(name)
            }
            counts = (str(list(signs.values()).count(sign)) for sign in (1, -1))
            mean = np.mean([pair.difference for pair in found.values()]) if found else np.nan
            gaps = [np.nan if pair is None else pair.difference for pair in pairs.values()]
            shown = (f"{gap:+.2f}" if np.isfinite(gap) else NOTHING for gap in (mean, *gaps))
            rows.append((self.title(label), *counts, *shown))
        text = (
            f"The row minus {self.title(reference)}, in points, paired by split. Bold: the splits "
            "can tell (Nadeau and Bengio's corrected t test at 0.05, Holm over the sets of a row); "
            "better and worse count those."
        )
        header = ("system", "better", "worse", "mean", *self.datasets)
        grid = Grid(header, tuple(rows), frozenset(strong))
        return Section(f"Difference to {self.title(reference)}", (text,), grid)

    def gaps(self, reference: str) -> Section:
        """The reference against the best of the others on every set, and the best plain system."""
        rows: list[tuple[str, ...]] = []
        strong = set()
        others = [label for label in self.labels if label != reference]
        plain = [label for label in others if label in PLAIN]
        groups = [others, *([plain] if plain else [])]
        for dataset in self.datasets:
            row = [dataset, score_of(self.cells.get((reference, dataset)), "test")]
            for group in groups:
                places = leaders([self.mean(label, dataset) for label in group])
                best = group[places[0]] if places else ""
                pair = compare_models(reference, best, dataset, self.cells, self.plan.facts)
                if pair is None:
                    row += [NOTHING] * 4
                    continue
                if pair.difference < -pair.standard_error:
                    strong.add((len(rows), len(row) + 2))
                score = f"{self.mean(best, dataset):.2f}"
                gap, error = f"{pair.difference:+.2f}", f"{pair.standard_error:.2f}"
                row += [self.title(best), score, gap, error]
            rows.append(tuple(row))
        header, columns = ["set", self.title(reference)], ("its mean", "difference", "error")
        for kind, _ in zip(("best other", "best plain"), groups, strict=False):
            header += [kind, *columns]
        text = (
            f"Differences are {self.title(reference)} minus the other, with the corrected standard "
            "error; bold: behind by more than one."
        )
        text += f" Plain are {', '.join(self.title(label) for label in plain)}." if plain else ""
        grid = Grid(tuple(header), tuple(rows), frozenset(strong))
        return Section(f"{self.title(reference)} against the best of the others", (text,), grid)

    def deviations(self) -> Section:
        """Sample standard deviations."""
        rows = []
        for label in self.labels:
            cells = (self.cells.get((label, dataset)) for dataset in self.datasets)
            known = (c.result() if c is not None and c.scored else None for c in cells)
            shown = (NOTHING if r is None else f"{r.std('test'):.2f}" for r in known)
            rows.append((self.title(label), *shown))
        title = "Standard deviation over the splits"
        return Section(title, grid=Grid(("system", *self.datasets), tuple(rows)))

    def time(self, finished: Sequence[FinishedCell]) -> Section:
        """Seconds of a split, building the model included, and of everything that was run."""
        rows = []
        for label in self.labels:
            cells = (self.cells.get((label, dataset)) for dataset in self.datasets)
            shown = (NOTHING if cell is None else f"{cell.seconds_per_split:.1f}" for cell in cells)
            total = sum(c.result().seconds for c in finished if c.spec.label == label)
            rows.append((self.title(label), *shown, f"{total:,.0f}"))
        grid = Grid(("system", *self.datasets, "all splits and seeds"), tuple(rows))
        return Section("Seconds per split", grid=grid)


def _seeds(finished: Sequence[FinishedCell]) -> str:
    """The seeds of every row, in words."""
    of_label: dict[str, set[int]] = {}
    for cell in finished:
        of_label.setdefault(cell.spec.label, set()).add(cell.spec.seed)
    rows: dict[str, list[str]] = {}
    for label, seeds in of_label.items():
        rows.setdefault(", ".join(map(str, sorted(seeds))), []).append(label)
    shown = (
        f"{seeds} ({', '.join(labels)})" if len(rows) > 1 else seeds
        for seeds, labels in rows.items()
    )
    return f"Seeds: {'; '.join(shown)}."
