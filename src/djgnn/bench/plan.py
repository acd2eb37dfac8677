"""A plan: cells to run, the facts of their data sets, and the one way to run what is missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from djgnn.bench.pool import Limits, Lost, Unit, run_units
from djgnn.bench.record import SplitRecord
from djgnn.bench.spec import CellSpec, code_version, data_key, split_sizes
from djgnn.bench.store import FinishedCell, Store
from djgnn.errors import InputError
from djgnn.graph import Graph
from djgnn.training.inputs import choose_device


@dataclass(frozen=True)
class DataFacts:
    """What a plan needs to know of a data set; `sizes` are train, validation, test per split.

    `sha256` is what identifies its data, see :func:`djgnn.bench.spec.data_key`.
    """

    name: str
    sha256: str
    metric: str
    sizes: tuple[tuple[int, int, int], ...]
    remarks: tuple[str, ...] = ()
    counterpart: str = ""

    @classmethod
    def of(cls, graph: Graph) -> DataFacts:
        """Read them off a graph."""
        return cls(
            name=graph.name,
            sha256=data_key(graph),
            metric=graph.metric,
            sizes=tuple(split_sizes(graph, split) for split in range(graph.num_splits)),
            remarks=tuple(str(text) for text in graph.card.get("oddities", ())),
            counterpart=str(graph.card.get("counterpart") or ""),
        )

    def test_to_train(self, splits: Sequence[int]) -> float:
        """Test nodes divided by training nodes, over the given splits."""
        train, test = (sum(self.sizes[s][part] for s in splits) for part in (0, 2))
        return test / train if train else 0.0

    def node_worth(self, splits: Sequence[int]) -> float:
        """What one test node is worth in percent of accuracy; 0 for ROC-AUC, of finer steps."""
        nodes = sum(self.sizes[split][2] for split in splits)
        return 100 * len(splits) / nodes if self.metric == "accuracy" and nodes else 0.0


def gather_facts(
    names: Sequence[str], data: str | Path | None = None
) -> tuple[dict[str, DataFacts], dict[str, str]]:
    """The facts of data sets, by their registered name, and why the others cannot be had."""
    found, refused = {}, {}
    for name in names:
        try:
            graph = Graph.load(name, data=data)
            if not graph.num_splits:
                raise InputError(f"{graph.name}: has no splits to run over; add masks to its file")
            found[graph.name] = DataFacts.of(graph)
        except InputError as error:
            refused[name] = str(error)
    return found, refused


def missing_units(
    specs: Sequence[CellSpec],
    facts: Mapping[str, DataFacts],
    store: Store,
    retry_failed: bool = False,
) -> list[Unit]:
    """The splits that are still to be run, cell by cell; one that two cells share comes once."""
    units: dict[str, Unit] = {}
    for spec in specs:
        for split in store.missing(spec, facts[spec.dataset].sha256, retry_failed):
            key = spec.key(split, facts[spec.dataset].sha256, code_version())
            units.setdefault(key, (spec, split))
    return list(units.values())


def run_plan(
    specs: Sequence[CellSpec],
    facts: Mapping[str, DataFacts],
    store: Store,
    *,
    workers: int = 1,
    device: str = "auto",
    data: str | Path | None = None,
    limits: Limits | None = None,
    retry_failed: bool = False,
    follow: Callable[[int, int, SplitRecord], None] | None = None,
) -> list[FinishedCell]:
    """Run the splits that are missing, keep each at once, and return the finished cells.

    Killed at any point, it leaves finished splits only; started again, it repeats none of them.

    Args:
        specs: The cells.
        facts: Facts of every data set among them.
        store: Where results are kept and looked for.
        workers: Number of processes; 0 runs in this one.
        device: ``"auto"``, ``"cpu"`` or ``"cuda"``.
        data: Folder with data sets, looked in first.
        limits: How long things may take.
        retry_failed: Run failed splits again.
        follow: Called after every split with the number of splits run, of all, and its record.
    """
    units = missing_units(specs, facts, store, retry_failed)
    for cell in finished_cells(specs, facts, store):
        store.write_cell(cell)
    lost = lost_records(facts, choose_device(device).type if units else device)
    run = run_units(units, workers=workers, device=device, data=data, limits=limits, lost=lost)
    for number, record in enumerate(run, start=1):
        store.put(record)
        model = record.label.partition(":")[0]
        changed = [s for s in specs if (s.model, s.dataset) == (model, record.dataset)]
        for cell in finished_cells(changed, facts, store):
            store.write_cell(cell)
        if follow is not None:
            follow(number, len(units), record)
    return finished_cells(specs, facts, store)


def finished_cells(
    specs: Sequence[CellSpec], facts: Mapping[str, DataFacts], store: Store
) -> list[FinishedCell]:
    """The cells whose splits are all there, in the order of the plan."""
    cells = (store.cell(spec, facts[spec.dataset].sha256) for spec in specs)
    return [cell for cell in cells if cell is not None]


def lost_records(facts: Mapping[str, DataFacts], device: str) -> Lost:
    """A maker of records for splits whose process ended before it could write one."""

    def lost(unit: Unit, status: str, reason: str, seconds: float) -> SplitRecord:
        spec, split = unit
        fact = facts[spec.dataset]
        outcome = {"status": status, "reason": reason, "result": None, "parameters": 0}
        cost = {"peak_memory_mib": 0.0, "seconds": seconds}
        place = {"sizes": fact.sizes[split], "device": device}
        return SplitRecord.of(spec, split, fact.sha256, **outcome, **cost, **place)

    return lost
