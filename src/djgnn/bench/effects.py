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
from djgnn.bench.page import origins, without_score
from djgnn.bench.spec import CellSpec, DataFacts, gather_facts, make_spec
from djgnn.bench.statistics import corrected_t
from djgnn.bench.store import FinishedCell, Store, finished_cells
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
    """The cells of the study: as configured, and on the directed sets once per direction."""

    models: tuple[str, ...]
    plain: dict[tuple[str, str], CellSpec]
    treated: dict[tuple[str, str, str], CellSpec]
    facts: dict[str, DataFacts]

    @property
    def specs(self) -> tuple[CellSpec, ...]:
        """All of them, each once."""
        every = (*self.plain.values(), *self.treated.values())
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
    plain, treated = {}, {}
    for dataset, fact in facts.items():
        chosen = chosen_splits(splits, fact)
        for model in models:
            # Both versions of a set run with the settings of one, or the settings would count too.
            settings = make_spec(
                model, twin.get(dataset, dataset), chosen, epochs=epochs, preset=preset
            )
            options: dict[str, Any] = {"seed": seed, "recipe": settings.recipe()}
            plain[model, dataset] = make_spec(model, dataset, chosen, **options)
            own = model.partition(":")[0] == "djgnn"
            edges = ("pump_adjacency", "homophilic_adjacency") if own else ("adjacency",)
            for way in VARIANTS if dataset in DIRECTED else ():
                changes = dict.fromkeys(edges, way)
                treated[model, dataset, way] = make_spec(
                    model, dataset, chosen, changes=changes, **options
                )
    return EffectsPlan(tuple(models), plain, treated, facts)


def measure_effects(plan: EffectsPlan, store: Store) -> dict[str, list[Effect]]:
    """The effects by title: those of two finished cells with test scores on every split.

    Oracle and direction are paired by split; two versions of a data set have other nodes.
    """
    pairs = [(TITLES[0], spec, spec, "oracle_test") for spec in plan.plain.values()]
    places = [(model, dataset) for model in plan.models for dataset in plan.facts]
    for place in (place for place in places if (*place, VARIANTS[0]) in plan.treated):
        given, symmetric = (plan.treated[*place, way] for way in VARIANTS)
        pairs.append((TITLES[1], given, symmetric, "test"))
    for before, after, title in PAIRS:
        for model in plan.models:
            if before in plan.facts and after in plan.facts:
                specs = (plan.plain[model, before], plan.plain[model, after])
                pairs.append((title, *specs, "test"))
    found: dict[str, list[Effect]] = {}
    for title, *both, key in pairs:
        cells = [store.cell(spec, plan.facts[spec.dataset].sha256) for spec in both]
        first, second = (cell if cell is not None and cell.scored else None for cell in cells)
        if first is not None and second is not None:
            found.setdefault(title, []).append(_effect(plan, first, second, key))
    return found


def _effect(plan: EffectsPlan, before: FinishedCell, after: FinishedCell, key: str) -> Effect:
    """Two cells, of the second the figure `key`; other nodes are not paired.

    The splits of a data set overlap, so that every error is the corrected one.
    """

    def error(values: Any, cell: FinishedCell) -> float:
        fact, splits = plan.facts[cell.spec.dataset], cell.spec.splits
        return corrected_t(values, fact.test_to_train(splits), fact.node_worth(splits))[2]

    first = np.array([record.figures().test for record in before.records])
    second = np.array([getattr(record.figures(), key) for record in after.records])
    if before.spec.dataset == after.spec.dataset:
        size = error(second - first, after)
    else:
        size = math.hypot(error(first, before), error(second, after))
    means = (float(first.mean()), float(second.mean()))
    return Effect(after.spec.label, after.spec.dataset, *means, size)


def write_effects(
    plan: EffectsPlan, store: Store, *, command: str, page: Path | None = None
) -> list[Path]:
    """Write the page of the study from what is finished, and the cells as JSON lines."""
    cells = finished_cells(plan.specs, plan.facts, store)
    document = compose_effects(plan, store, cells, command)
    files = [store.write_results(cells), *write_document(document, store.folder, "protocol")]
    if page is not None:
        with atomic_write(page) as stream:
            stream.write(render(document, "md").encode("utf-8"))
        files.append(page)
    return files


def compose_effects(
    plan: EffectsPlan, store: Store, cells: Sequence[FinishedCell], command: str
) -> Document:
    """The page: one table per effect."""
    measured = measure_effects(plan, store)
    parts = [(TITLES[0], ORACLE, ("validation", "oracle")), (TITLES[1], DIRECTION, VARIANTS)]
    for (before, after, title), explained in zip(PAIRS, VERSIONS, strict=True):
        parts += [(title, explained, (before, after))] if title in measured else []
    sections = [_section(*part, measured.get(part[0], [])) for part in parts]
    codes, packages, devices = origins(cells)
    remarks = [
        f"{cell.spec.label} on {cell.spec.dataset}, split {failure.split}: {failure.outcome}"
        for cell in cells
        for failure in cell.failures
    ]
    remarks += [
        *without_score(cells),
        f"Command: {command}",
        f"Devices: {', '.join(devices)}. Another device draws other random numbers, so the same "
        "cell on another page (the reproduction ran on CPUs) may differ by chance.",
        f"Code: {codes}",
        f"Versions: {packages}",
    ]
    left = len(plan.specs) - len(cells)
    if left:
        remarks.append(f"Not finished: {left} more cells. Run the command again.")
    sections.append(Section("Failures and provenance", remarks=tuple(remarks)))
    return Document("What the protocol does to the figures", (INTRODUCTION,), tuple(sections))


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
