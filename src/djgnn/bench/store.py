"""The folder of a table run: one file per finished split, one line per finished cell.

    OUT/splits/KEY.json             a split, done or failed; written at once or not at all
    OUT/results.jsonl               one line per cell, once all its splits are there
    OUT/table.md, .html, .tex       what is made of them

KEY says everything that can change a number: model, configuration, data, seed, code. So a result is
found again whatever table asked for it, and never mistaken for another one.
"""

import json
import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import msgspec

from djgnn.bench.cell import CellResult
from djgnn.bench.record import FORMAT, MOST_BYTES, Figures, SplitRecord, read_records
from djgnn.bench.spec import CellSpec, DataFacts, code_version
from djgnn.errors import DamagedRecordWarning, InputError
from djgnn.graph.files import atomic_write, read_limited

SPLITS, RESULTS = "splits", "results.jsonl"
_ORIGIN, _FAILED = ("code", "device", "versions"), ("status", "reason")
_OF_CELL = ("dataset", "seed", "config", "metric", "parameters", "peak_memory_mib", "data_sha256")
"""What all splits of a cell share, as its line has it."""
Unit = tuple[CellSpec, int]
"""One split of one cell."""


@dataclass(frozen=True)
class FinishedCell:
    """A cell whose splits are all there, done or failed."""

    spec: CellSpec
    records: tuple[SplitRecord, ...]

    @property
    def failures(self) -> tuple[SplitRecord, ...]:
        """The splits without figures."""
        return tuple(record for record in self.records if not record.done)

    @property
    def complete(self) -> bool:
        """Whether every split has figures."""
        return not self.failures

    @property
    def scored(self) -> bool:
        """Whether every split has a test score; one without test nodes has none."""
        return math.isfinite(self.mean("test"))

    def mean(self, key: str) -> float:
        """Mean of a figure over the splits; NaN unless every split has it."""
        return self.result().mean(key) if self.complete else math.nan

    @property
    def seconds_per_split(self) -> float:
        """Mean seconds of a split, building the model included."""
        return self.result().seconds / len(self.records)

    def result(self) -> CellResult:
        """The figures of the splits that have some."""
        done = [record for record in self.records if record.done]
        first = (done or list(self.records))[0]
        return CellResult(
            model=self.spec.label,
            dataset=self.spec.dataset,
            preset=str(self.spec.config.get("preset", "baseline")),
            protocol="validation",
            seed=self.spec.seed,
            metric=first.metric,
            splits=tuple(record.figures() for record in done),
            seconds=sum(record.seconds for record in self.records),
            peak_memory_mib=max(record.peak_memory_mib for record in self.records),
            parameters=first.parameters,
            data_sha256=first.data_sha256,
            versions=dict(first.versions),
            config=dict(self.spec.config),
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON: the figures, the failures, and what made them.

        The device, the code and the versions of the cell are those of all its splits; where these
        differ, a sorted list of them, and every split has its own.
        """
        done = [record for record in self.records if record.done]
        alike = all(_origin(record) == _origin(self.records[0]) for record in self.records)
        values = self.result().to_dict()
        for split, record in zip(values["splits"], done, strict=True):
            split.update({} if alike else _origin(record))
        packages = dict.fromkeys(name for record in self.records for name in record.versions)
        return {
            **values,
            "code": _distinct(record.code for record in self.records),
            "device": _distinct(record.device for record in self.records),
            "versions": {
                name: _distinct(r.versions[name] for r in self.records if name in r.versions)
                for name in packages
            },
            "failures": [
                {name: getattr(f, name) for name in ("split", *_FAILED)}
                | ({} if alike else _origin(f))
                for f in self.failures
            ],
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The inverse of :meth:`to_dict`, but for the sizes of the splits, which it does not have.

        A split gets its share of the cell's seconds.

        Raises:
            ValueError: If the values are not those of a cell.
        """
        try:
            outcomes = sorted((*values["splits"], *values["failures"]), key=lambda o: o["split"])
            if not outcomes:
                raise KeyError("no splits")
            shared = {name: values[name] for name in _OF_CELL}
            spec = CellSpec(
                str(values["model"]),
                shared["dataset"],
                shared["config"],
                tuple(outcome["split"] for outcome in outcomes),
                shared["seed"],
            )
            records = []
            for o in outcomes:
                origin = {name: o.get(name, values[name]) for name in _ORIGIN}
                figures = {name: o[name] for name in Figures.__annotations__ if name in o}
                record = {
                    **{"format": FORMAT, "label": spec.label, "split": o["split"], **shared},
                    **{"status": "done", "reason": "", **{k: o[k] for k in _FAILED if k in o}},
                    **{"sizes": (0, 0, 0), "seconds": values["seconds"] / len(outcomes), **origin},
                    "key": spec.key(o["split"], shared["data_sha256"], origin["code"]),
                    "result": None if "status" in o else figures,
                }
                records.append(msgspec.convert(record, SplitRecord))
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{type(error).__name__}: {error}") from error
        return cls(spec, tuple(records))


class Store:
    """The results in a folder, by key.

    Args:
        folder: Where; made if it is not there.
        any_code: Take figures of other versions of the code where this one's are missing: of
            several the latest, by the time in the record, then by version and key.

    A file that is not a record, or not the one its name says, is ignored with a warning.

    Raises:
        InputError: If the folder cannot be made.
    """

    def __init__(self, folder: str | Path, any_code: bool = False) -> None:
        self.folder = Path(folder).expanduser()
        self.any_code = any_code
        make_folder(self.folder / SPLITS)
        self._records: dict[str, SplitRecord] = {}
        self._content: dict[str, SplitRecord] = {}
        for file in sorted((self.folder / SPLITS).glob("[!.]*.json")):
            self.get(file.stem)

    def get(self, key: str) -> SplitRecord | None:
        """The record of a key, if there is one; another process may have just written it."""
        held, file = self._records.get(key), self.folder / SPLITS / f"{key}.json"
        if (held is None or not held.done) and file.is_file():
            try:
                records = list(read_records(file))
                if [record.key for record in records] != [key]:
                    raise InputError(f"{file}: does not hold the record of its name; delete it")
                self._keep(records[0])
            except InputError as error:
                warnings.warn(f"not used: {error}", DamagedRecordWarning, stacklevel=2)
        return self._records.get(key)

    def find(self, spec: CellSpec, split: int, data_sha256: str) -> SplitRecord | None:
        """The record of a split of a cell; of other code if that is allowed and it has figures."""
        record = self.get(spec.key(split, data_sha256, code_version()))
        if record is None and self.any_code:
            record = self._content.get(spec.key(split, data_sha256, ""))
        return record

    def put(self, record: SplitRecord) -> bool:
        """Keep a record; figures are never replaced. Returns whether it was kept."""
        held = self.get(record.key)
        if held is not None and held.done:
            return False
        with atomic_write(self.folder / SPLITS / f"{record.key}.json") as file:
            file.write((record.to_json() + "\n").encode("utf-8"))
        self._keep(record)
        return True

    def _keep(self, record: SplitRecord) -> None:
        self._records[record.key] = record
        if record.done:
            content = record.content_key()
            # The latest counts; records without a time come first.
            of_content = (self._content.get(content, record), record)
            self._content[content] = max(of_content, key=lambda r: (r.finished, r.code, r.key))

    def import_records(self, files: Iterable[str | Path]) -> int:
        """Keep the records of files written elsewhere; returns how many were new.

        Raises:
            InputError: If a line is not a record, or its key is not that of what it says.
        """
        found = [record for file in files for record in read_records(file)]
        return sum(self.put(record) for record in found)

    def cell(self, spec: CellSpec, data_sha256: str) -> FinishedCell | None:
        """The cell, if all its splits are there."""
        found = (self.find(spec, split, data_sha256) for split in spec.splits)
        records = tuple(record for record in found if record is not None)
        return FinishedCell(spec, records) if len(records) == len(spec.splits) else None

    def write_results(self, cells: Sequence[FinishedCell]) -> Path:
        """Write one line per cell."""
        target = self.folder / RESULTS
        with atomic_write(target) as file:
            for cell in cells:
                line = json.dumps(cell.to_dict(), ensure_ascii=False, allow_nan=False)
                file.write(f"{line}\n".encode())
        return target


def read_cells(path: str | Path) -> list[FinishedCell]:
    """The cells of a `results.jsonl`.

    Raises:
        InputError: If a line is not a cell.
    """
    found = []
    for number, line in enumerate(read_limited(path, MOST_BYTES).splitlines(), start=1):
        try:
            found.append(FinishedCell.from_dict(json.loads(line)))
        except (RecursionError, ValueError) as error:
            raise InputError(
                f"{path}: line {number} is not a cell; give the results.jsonl of a table ({error})"
            ) from error
    return found


def missing_units(
    specs: Sequence[CellSpec],
    facts: Mapping[str, DataFacts],
    store: Store,
    retry_failed: bool = False,
) -> list[Unit]:
    """The splits without a record, or with a failed one that is to be retried, cell by cell.

    One that two cells share comes once.
    """
    units: dict[str, Unit] = {}
    for spec, split in [(cell, number) for cell in specs for number in cell.splits]:
        sha256 = facts[spec.dataset].sha256
        record = store.find(spec, split, sha256)
        if record is None or (retry_failed and not record.done):
            units.setdefault(spec.key(split, sha256, code_version()), (spec, split))
    return list(units.values())


def finished_cells(
    specs: Sequence[CellSpec], facts: Mapping[str, DataFacts], store: Store
) -> list[FinishedCell]:
    """The cells whose splits are all there, in the order of the plan."""
    cells = (store.cell(spec, facts[spec.dataset].sha256) for spec in specs)
    return [cell for cell in cells if cell is not None]


def make_folder(folder: Path) -> None:
    """Make a folder unless it is there.

    Raises:
        InputError: If it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"{folder}: cannot be made; name a folder that can be written to "
            f"(got {error.strerror or error})"
        ) from error


def _origin(record: SplitRecord) -> dict[str, Any]:
    """What made a record."""
    return {name: getattr(record, name) for name in _ORIGIN}


def _distinct(values: Iterable[str]) -> str | list[str]:
    """The value if all are the same, else a sorted list of them."""
    several = sorted(set(values))
    return several[0] if len(several) == 1 else several
