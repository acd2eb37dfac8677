"""A plan: cells to run, the facts of their data sets, and the one way to run what is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from djgnn.bench.pool import Limits, Unit, run_units
from djgnn.bench.record import SplitRecord, now
from djgnn.bench.runner import identity
from djgnn.bench.spec import CellSpec, data_key
from djgnn.bench.store import FinishedCell, Store
from djgnn.errors import InputError
from djgnn.graph import Graph
from djgnn.training.inputs import choose_device
from djgnn.training.provenance import versions

Follow = Callable[[int, int, SplitRecord], None]


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
        parts = [graph.split(i) for i in range(graph.num_splits)]
        sizes = [tuple(int(m.sum()) for m in (p.train, p.val, p.test)) for p in parts]
        return cls(
            name=graph.name,
            sha256=data_key(graph),
            metric=graph.metric,
            sizes=tuple((a, b, c) for a, b, c in sizes),
            remarks=tuple(str(text) for text in graph.card.get("oddities", ())),
            counterpart=str(graph.card.get("counterpart") or ""),
        )

    def test_to_train(self, splits: Sequence[int]) -> float:
        """Test nodes divided by training nodes, over the given splits."""
        train, test = (sum(self.sizes[s][part] for s in splits) for part in (0, 2))
        return test / train if train else 0.0


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
            units.setdefault(_key((spec, split), facts), (spec, split))
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
    follow: Follow | None = None,
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
    for spec in specs:
        _write_if_finished(store, spec, facts)
    where = choose_device(device).type if units else device
    lost = lost_records(facts, where)
    run = run_units(units, workers=workers, device=device, data=data, limits=limits, lost=lost)
    of_key = {_key(unit, facts): unit for unit in units}
    for number, record in enumerate(run, start=1):
        store.put(record)
        if record.key in of_key:
            _write_if_finished(store, of_key[record.key][0], facts)
        if follow is not None:
            follow(number, len(units), record)
    for spec in specs:  # cells that share their splits with another
        _write_if_finished(store, spec, facts)
    return finished_cells(specs, facts, store)


def finished_cells(
    specs: Sequence[CellSpec], facts: Mapping[str, DataFacts], store: Store
) -> list[FinishedCell]:
    """The cells whose splits are all there, in the order of the plan."""
    cells = (store.cell(spec, facts[spec.dataset].sha256) for spec in specs)
    return [cell for cell in cells if cell is not None]


def lost_records(
    facts: Mapping[str, DataFacts], device: str
) -> Callable[[Unit, str, str, float], SplitRecord]:
    """A maker of records for splits whose process ended before it could write one."""

    def lost(unit: Unit, status: str, reason: str, seconds: float) -> SplitRecord:
        spec, split = unit
        fact = facts[spec.dataset]
        return SplitRecord(
            **identity(spec, split, fact.sha256),
            status=status,
            reason=reason,
            result=None,
            parameters=0,
            sizes=fact.sizes[split],
            peak_memory_mib=0.0,
            seconds=seconds,
            device=device,
            metric=fact.metric,
            versions=versions(),
            finished=now(),
        )

    return lost


def shared_splits(cells: Sequence[FinishedCell]) -> Iterator[int]:
    """The splits on which all of the cells have figures."""
    kept = [{r.split for r in cell.records if r.done} for cell in cells]
    yield from sorted(set.intersection(*kept)) if kept else ()


def _key(unit: Unit, facts: Mapping[str, DataFacts]) -> str:
    spec, split = unit
    key: str = identity(spec, split, facts[spec.dataset].sha256)["key"]
    return key


def _write_if_finished(store: Store, spec: CellSpec, facts: Mapping[str, DataFacts]) -> None:
    cell = store.cell(spec, facts[spec.dataset].sha256)
    if cell is not None:
        store.write_cell(cell)
