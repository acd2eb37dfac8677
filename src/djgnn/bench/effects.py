"""How much each choice of protocol moves the figures: four comparisons, measured.

Oracle against validation needs no runs of its own; the others run the same model twice, with one
thing changed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from djgnn.bench.document import Document, Grid, Section, to_markdown, write_document
from djgnn.bench.findings import node_worth, scored, unscored
from djgnn.bench.plan import DataFacts, finished_cells, gather_facts
from djgnn.bench.spec import CellSpec, make_spec
from djgnn.bench.statistics import corrected_t
from djgnn.bench.store import FinishedCell, Store
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
ORACLE = (
    "The epoch is chosen by the validation score (ours), or by the test score itself (the figures "
    "that the DJ-GNN's authors published). The oracle cannot be reached by anyone who does not "
    "hold the test labels; the smaller the test set and the noisier the curve, the more it gains, "
    "and it does not gain the same for every model."
)
DIRECTION = (
    "These sets are directed. A model may hear the nodes it points at (given) or both ends of "
    "every edge (symmetric); papers rarely say which. An MLP sees no edges and cannot change."
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
        found: list[CellSpec] = []
        for spec in (*self.plain.values(), *self.treated.values()):
            if spec not in found:
                found.append(spec)
        return tuple(found)


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
    """Settle the cells of the study on the data sets that are here.

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
            for way in VARIANTS if dataset in DIRECTED else ():
                changes = direction(model, way)
                treated[model, dataset, way] = make_spec(
                    model, dataset, chosen, changes=changes, **options
                )
    return EffectsPlan(tuple(models), plain, treated, facts)


def direction(model: str, way: str) -> dict[str, str]:
    """The options that make a model see the graph as given, or with every edge both ways.

    Example:
        >>> direction("gcn", "symmetric")
        {'adjacency': 'symmetric'}
    """
    if model.partition(":")[0] == "djgnn":
        return {"pump_adjacency": way, "homophilic_adjacency": way}
    return {"adjacency": way}


def oracle_effects(plan: EffectsPlan, store: Store) -> list[Effect]:
    """The largest test score of all epochs less the one chosen on validation, paired by split."""
    found = []
    for (model, dataset), spec in plan.plain.items():
        cell = _complete(store, spec, plan)
        if cell is not None:
            figures = [record.figures() for record in cell.records]
            honest, oracle = [f.test for f in figures], [f.oracle_test for f in figures]
            found.append(_paired(model, dataset, honest, oracle, plan.facts[dataset], spec.splits))
    return found


def direction_effects(plan: EffectsPlan, store: Store) -> list[Effect]:
    """Symmetric less as given, paired by split."""
    found = []
    for model in plan.models:
        for dataset in plan.facts:
            specs = [plan.treated.get((model, dataset, way)) for way in VARIANTS]
            cells = [None if s is None else _complete(store, s, plan) for s in specs]
            given, symmetric = (None if c is None else _tests(c) for c in cells)
            if given is not None and symmetric is not None:
                splits = plan.plain[model, dataset].splits
                fact = plan.facts[dataset]
                found.append(_paired(model, dataset, given, symmetric, fact, splits))
    return found


def version_effects(plan: EffectsPlan, store: Store) -> dict[str, list[Effect]]:
    """One version of a data set less the other; other nodes, so nothing is paired."""
    found: dict[str, list[Effect]] = {}
    for before, after, title in PAIRS:
        for model in plan.models:
            specs = [plan.plain.get((model, name)) for name in (before, after)]
            cells = [None if s is None else _complete(store, s, plan) for s in specs]
            first, second = cells
            if first is not None and second is not None:
                effect = _unpaired(model, first, second, plan.facts)
                found.setdefault(title, []).append(effect)
    return found


def write_effects(
    plan: EffectsPlan, store: Store, *, command: str, page: Path | None = None
) -> list[Path]:
    """Write the page of the study from what is finished, and the cells as JSON lines."""
    cells = finished_cells(plan.specs, plan.facts, store)
    document = compose_effects(plan, store, command)
    files = [store.write_results(cells), *write_document(document, store.folder, "protocol")]
    if page is not None:
        with atomic_write(page) as stream:
            stream.write(to_markdown(document).encode("utf-8"))
        files.append(page)
    return files


def compose_effects(plan: EffectsPlan, store: Store, command: str) -> Document:
    """The page: one table per effect."""
    cells = finished_cells(plan.specs, plan.facts, store)
    failures = [
        f"{cell.spec.label} on {cell.spec.dataset}, split {failure.split}: {failure.outcome}"
        for cell in cells
        for failure in cell.failures
    ]
    sections = [
        _section(
            "Oracle less validation", ORACLE, ("validation", "oracle"), oracle_effects(plan, store)
        ),
        _section("Symmetric less as given", DIRECTION, VARIANTS, direction_effects(plan, store)),
    ]
    measured = version_effects(plan, store)
    for (before, after, title), explained in zip(PAIRS, VERSIONS, strict=True):
        if title in measured:
            sections.append(_section(title, explained, (before, after), measured[title]))
    records = [record for cell in cells for record in cell.records]
    packages = sorted({f"{k} {v}" for record in records for k, v in record.versions.items()})
    codes = sorted({record.code for record in records})
    devices = sorted({record.device for record in records})
    remarks = [
        *unscored(cells),
        f"Command: {command}",
        f"Devices: {', '.join(devices)}. Another device draws other random numbers, so the same "
        "cell on another page (the reproduction ran on CPUs) may differ by chance.",
        f"Code: {', '.join(codes)}",
        f"Versions: {', '.join(packages)}",
    ]
    left = len(plan.specs) - len(cells)
    if left:
        remarks.append(f"Not finished: {left} more cells. Run the command again.")
    sections.append(Section("Failures and provenance", remarks=tuple(failures + remarks)))
    text = (
        "Test scores in percent, means over the splits. The error is one standard error of the "
        "difference: of paired splits, corrected for their overlap (Nadeau and Bengio), where both "
        "protocols saw the same nodes; of two means, each corrected likewise, where they did not. "
        "An effect smaller than its error is marked with ~. Both versions of a set run with the "
        "settings of the one in the paper.",
    )
    return Document("What the protocol does to the figures", text, tuple(s for s in sections if s))


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
    header = ("model", "set", *sides, "effect", "error")
    mean = float(np.mean([effect.size for effect in effects])) if effects else math.nan
    text = (
        (explained, f"Mean effect over {len(effects)} rows: {mean:+.2f}.")
        if effects
        else ("No cells yet.",)
    )
    return Section(title, text, Grid(header, rows))


def _complete(store: Store, spec: CellSpec, plan: EffectsPlan) -> FinishedCell | None:
    cell = store.cell(spec, plan.facts[spec.dataset].sha256)
    return cell if cell is not None and scored(cell) else None


def _tests(cell: FinishedCell) -> list[float]:
    return [record.figures().test for record in cell.records]


def _paired(
    model: str,
    dataset: str,
    before: list[float],
    after: list[float],
    fact: DataFacts,
    splits: Sequence[int],
) -> Effect:
    difference = np.array(after) - np.array(before)
    error = corrected_t(difference, fact.test_to_train(splits), node_worth(fact, splits))[2]
    return Effect(model, dataset, float(np.mean(before)), float(np.mean(after)), error)


def _unpaired(
    model: str, before: FinishedCell, after: FinishedCell, facts: Mapping[str, DataFacts]
) -> Effect:
    """Two means of other nodes; the splits of each overlap, so each error is the corrected one."""

    def error(cell: FinishedCell) -> float:
        fact, splits = facts[cell.spec.dataset], cell.spec.splits
        return corrected_t(_tests(cell), fact.test_to_train(splits), node_worth(fact, splits))[2]

    first, second = (float(np.mean(_tests(cell))) for cell in (before, after))
    size = math.hypot(error(before), error(after))
    return Effect(model, after.spec.dataset, first, second, size)
