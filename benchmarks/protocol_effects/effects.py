"""How much each choice of protocol moves the figures: four comparisons, measured.

Oracle against validation needs no runs of its own; the others run the same model twice, with one
thing changed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from djgnn.bench.document import Document, Grid, Section, render, write_document
from djgnn.bench.page import origins, unfinished, without_score
from djgnn.bench.spec import CellSpec, DataFacts, gather_facts, make_spec
from djgnn.bench.standings import failure_lines
from djgnn.bench.statistics import corrected_t
from djgnn.bench.store import Store, finished_cells
from djgnn.bench.tables import chosen_splits
from djgnn.errors import InputError
from djgnn.graph.files import atomic_write

DIRECTED = ("texas", "wisconsin", "cornell_old", "actor", "squirrel", "chameleon")
"""Sets that are not symmetric as given."""
PAIRS = (
    ("cornell", "cornell_old", "Two Cornells: the uncorrected file less the corrected one"),
    ("chameleon_filtered", "chameleon", "Chameleon: the original less the filtered version"),
    ("squirrel_filtered", "squirrel", "Squirrel: the original less the filtered version"),
)
VARIANTS = ("given", "symmetric")
TITLES = ("Oracle less validation", "Symmetric less as given")
INTRODUCTION = (
    "Test scores in percent, means over the splits. The error is one standard error of the "
    "difference: of paired splits, corrected for their overlap (Nadeau and Bengio), where both "
    "protocols saw the same nodes; of two means, each corrected likewise, where they did not. "
    "An effect smaller than its error is marked with ~. Both versions of a set run with the "
    "settings of the one in the paper."
)
ORACLE = (
    "The epoch is chosen by the validation score (ours), or by the test score itself (the figures "
    "that the DJ-GNN's authors published). The oracle cannot be reached by anyone who does not "
    "hold the test labels; the smaller the test set and the noisier the curve, the more it gains, "
    "and it does not gain the same for every model."
)
DIRECTION = (
    "These sets are directed. A node may receive messages from the targets of its edges (given) or "
    "along both directions of every edge (symmetric); papers rarely say which. An MLP uses no "
    "edges and cannot change."
)
VERSIONS = (
    "The file in most papers has the features and labels of texas; the corrected one has its own.",
    "Most nodes of the original have a twin with the same neighbours and mostly the same label, "
    "some of them in the test set. In the filtered version most duplicates are gone (10% of its "
    "nodes have a twin, of the original's 81%), but it is smaller, too, 890 nodes of 2,277, with "
    "other splits: the difference is not the duplicates' alone.",
    "As for chameleon: 3% of 2,223 nodes have a twin, of the original's 5,201 nodes 80%.",
)


@dataclass(frozen=True)
class EffectsPlan:
    """Pairs of cells: a title, the cell before, the one after, and the figure to read of that."""

    pairs: tuple[tuple[str, CellSpec, CellSpec, str], ...]
    facts: dict[str, DataFacts]

    @property
    def specs(self) -> tuple[CellSpec, ...]:
        """All cells, each once."""
        every = [spec for _, *both, _ in self.pairs for spec in both]
        return tuple(spec for i, spec in enumerate(every) if spec not in every[:i])


@dataclass(frozen=True)
class Effect:
    """A figure under two protocols; `error` is one standard error of the difference."""

    model: str
    dataset: str
    before: float
    after: float
    error: float

    @property
    def size(self) -> float:
        """How far the second protocol moves the figure."""
        return self.after - self.before


def plan_effects(
    models: Sequence[str],
    splits: tuple[int, ...] | None = None,
    *,
    epochs: int | None = None,
    preset: str = "default",
    seed: int = 0,
    data: str | Path | None = None,
) -> EffectsPlan:
    """Choose the cells of the study on the data sets that are here.

    Raises:
        InputError: For an unknown model, or if none of the data sets is here.
    """
    names = dict.fromkeys((*DIRECTED, *(name for pair in PAIRS for name in pair[:2])))
    facts, refused = gather_facts(list(names), data)
    if not facts:
        raise InputError(f"effects: no data set is here; {next(iter(refused.values()))}")
    twin = {before: after for before, after, _ in PAIRS}

    def cell(model: str, dataset: str, way: str | None = None) -> CellSpec:
        # Both versions of a set run with the settings of one, or the settings would count too.
        chosen, named = chosen_splits(splits, facts[dataset]), twin.get(dataset, dataset)
        recipe = make_spec(model, named, chosen, epochs=epochs, preset=preset).recipe()
        own = model.partition(":")[0] == "djgnn"
        edges = ("pump_adjacency", "homophilic_adjacency") if own else ("adjacency",)
        changes = {} if way is None else dict.fromkeys(edges, way)
        return make_spec(model, dataset, chosen, seed=seed, recipe=recipe, changes=changes)

    plain = {(model, dataset): cell(model, dataset) for dataset in facts for model in models}
    pairs = [(TITLES[0], spec, spec, "oracle_test") for spec in plain.values()]
    for model, dataset in ((m, d) for m in models for d in facts if d in DIRECTED):
        given, symmetric = (cell(model, dataset, way) for way in VARIANTS)
        pairs.append((TITLES[1], given, symmetric, "test"))
    for before, after, title in PAIRS:
        if before in facts and after in facts:
            pairs += [(title, plain[m, before], plain[m, after], "test") for m in models]
    return EffectsPlan(tuple(pairs), facts)


def measure_effects(plan: EffectsPlan, store: Store) -> dict[str, list[Effect]]:
    """The effects by title: those of two finished cells with test scores on every split.

    Oracle and direction are paired by split; two versions of a data set have other nodes.
    """

    def error(values: Any, spec: CellSpec) -> float:
        """The splits of a data set overlap, so that every error is the corrected one."""
        return corrected_t(values, *plan.facts[spec.dataset].overlap(spec.splits))[2]

    found: dict[str, list[Effect]] = {}
    for title, before, after, key in plan.pairs:
        cells = [store.cell(spec, plan.facts[spec.dataset].sha256) for spec in (before, after)]
        scored = [cell for cell in cells if cell is not None and cell.scored]
        if len(scored) < 2:
            continue
        first = np.array([record.figures().test for record in scored[0].records])
        second = np.array([getattr(record.figures(), key) for record in scored[1].records])
        if before.dataset == after.dataset:
            size = error(second - first, after)
        else:
            size = math.hypot(error(first, before), error(second, after))
        means = (float(first.mean()), float(second.mean()))
        found.setdefault(title, []).append(Effect(after.label, after.dataset, *means, size))
    return found


def write_effects(
    plan: EffectsPlan, store: Store, *, command: str, page: Path | None = None
) -> list[Path]:
    """Write the page, one table per effect, from what is finished, and the cells as JSON lines."""
    cells, measured = finished_cells(plan.specs, plan.facts, store), measure_effects(plan, store)
    parts = [(TITLES[0], ORACLE, ("validation", "oracle")), (TITLES[1], DIRECTION, VARIANTS)]
    for (before, after, title), explained in zip(PAIRS, VERSIONS, strict=True):
        parts += [(title, explained, (before, after))] if title in measured else []
    sections = [_section(*part, measured.get(part[0], [])) for part in parts]
    codes, packages, devices = origins(cells)
    remarks = [
        *failure_lines(cells),
        *without_score(cells),
        f"Command: {command}",
        f"Devices: {', '.join(devices)}. Another device draws other random numbers, so the same "
        "cell on another page (the reproduction ran on CPUs) may differ by chance.",
        f"Code: {codes}",
        f"Versions: {packages}",
        *unfinished(len(plan.specs) - len(cells)),
    ]
    sections.append(Section("Failures and provenance", remarks=tuple(remarks)))
    document = Document("What the protocol does to the figures", (INTRODUCTION,), tuple(sections))
    files = [store.write_results(cells), *write_document(document, store.folder, "protocol")]
    if page is not None:
        with atomic_write(page) as stream:
            stream.write(render(document, "md").encode("utf-8"))
    return [*files, *([] if page is None else [page])]


def _section(
    title: str, explained: str, sides: Sequence[str], effects: Sequence[Effect]
) -> Section:
    rows = tuple(
        (
            effect.model,
            effect.dataset,
            f"{effect.before:.2f}",
            f"{effect.after:.2f}",
            f"{effect.size:+.2f}{' ~' if abs(effect.size) < effect.error else ''}",
            f"{effect.error:.2f}" if math.isfinite(effect.error) else "-",
        )
        for effect in effects
    )
    text: tuple[str, ...] = ("No cells yet.",)
    if effects:
        mean = float(np.mean([effect.size for effect in effects]))
        text = (explained, f"Mean effect over {len(effects)} rows: {mean:+.2f}.")
    return Section(title, text, Grid(("model", "set", *sides, "effect", "error"), rows))
