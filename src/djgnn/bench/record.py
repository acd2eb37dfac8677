"""`SplitRecord`: what is known of one split of a cell, finished or failed, as one line of JSON."""

import math
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NotRequired, Self, TypedDict

import msgspec

from djgnn.bench.spec import CLASSES, USUAL_METRIC, CellSpec, DataFacts, code_version
from djgnn.checking import Natural, NonNegative, Score, Text
from djgnn.errors import InputError
from djgnn.graph.files import read_limited
from djgnn.training.provenance import versions
from djgnn.training.selection import SplitResult

FORMAT = "djgnn-split-1"
BEGIN = '{"format"'
"""How every line begins that is written."""
MOST_BYTES = 2**30


class Figures(TypedDict):
    """Scores in percent and costs of one split, as JSON has them."""

    split: NotRequired[Natural]
    validation: NotRequired[Score | None]
    test: NotRequired[Score | None]
    oracle_test: NotRequired[Score | None]
    seconds: NotRequired[NonNegative | None]
    epoch: NotRequired[Natural]


class SplitRecord(msgspec.Struct, frozen=True, tag_field="format", tag=FORMAT, omit_defaults=True):
    """One split of a cell; the annotations are what a line of a file is held against.

    `result` has the figures if `status` is ``"done"``, `reason` says why not otherwise. A search's
    records have no test figures. `sizes` counts training, validation and test nodes. `data_sha256`
    is what identifies the data, see :func:`djgnn.bench.spec.data_key`. `finished` is the time in
    UTC, as text that sorts like it; older records lack it.
    """

    key: Text
    label: Text
    dataset: Text
    seed: Natural
    split: Natural
    status: Literal["done", "failed", "out of memory", "out of time"]
    reason: Text
    result: Figures | None
    parameters: Natural
    sizes: tuple[Natural, Natural, Natural]
    peak_memory_mib: NonNegative
    seconds: NonNegative
    device: Text
    metric: Text
    config: dict[str, Any]
    data_sha256: Text
    code: Text
    versions: dict[str, Text]
    finished: Text = ""

    @classmethod
    def of(
        cls, spec: CellSpec, split: int, facts: DataFacts, *, status: Any = "done", **outcome: Any
    ) -> Self:
        """The record of a split that ended now; `outcome` has the fields the others do not give."""
        absent = {"reason": "", "result": None, "parameters": 0, "peak_memory_mib": 0.0}
        return cls(
            key=spec.key(split, facts.sha256, code_version()),
            label=spec.label,
            dataset=spec.dataset,
            seed=spec.seed,
            split=split,
            status=status,
            sizes=facts.sizes[split],
            metric=facts.metric,
            config=dict(spec.config),
            data_sha256=facts.sha256,
            code=code_version(),
            versions=versions(),
            finished=datetime.now(UTC).isoformat(timespec="microseconds"),
            **{**absent, **outcome},
        )

    @property
    def done(self) -> bool:
        """Whether there are figures."""
        return self.status == "done"

    @property
    def outcome(self) -> str:
        """The status in words, with the reason of a failure."""
        return f"{self.status}: {self.reason}" if self.reason else self.status

    @property
    def validation(self) -> float:
        """The validation score, NaN where there is none."""
        return self.figures().validation if self.done else math.nan

    def figures(self) -> SplitResult:
        """The figures; NaN for those that a search did not compute.

        Raises:
            ValueError: If the split has none.
        """
        if self.result is None:
            raise ValueError(f"split {self.split} has no figures (got {self.status})")
        names = ("validation", "test", "oracle_test", "seconds")
        known: dict[str, Any] = {k: v for k, v in self.result.items() if v is not None}
        absent: dict[str, Any] = {**dict.fromkeys(names, math.nan), "epoch": 0}
        return SplitResult(**{**absent, **known, "split": self.split})

    def content_key(self) -> str:
        """What identifies the split whatever the code: its key without the code's version."""
        return self._spec("test" in (self.result or {})).key(self.split, self.data_sha256, "")

    def _spec(self, evaluate: bool) -> CellSpec:
        return CellSpec(self.label, self.dataset, self.config, (self.split,), self.seed, evaluate)

    def to_json(self) -> str:
        """One line."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, line: str) -> Self:
        """The inverse of :meth:`to_json`.

        Raises:
            ValueError: If it is not a record, or its key is not that of what it says.
        """
        record = msgspec.json.decode(line, type=cls)
        result = record.result
        if record.done != (result is not None):
            raise ValueError(f"its status is not possible (got {record.status!r})")
        if result is not None and "test" in result and "epoch" not in result:
            raise ValueError("its result has no epoch")
        tested = (True, False) if result is None else ("test" in result,)
        of = (record.split, record.data_sha256, record.code)
        if not any(record.key in record._spec(evaluate).keys(*of) for evaluate in tested):
            raise ValueError(
                "its key is not that of its model, configuration, data, seed, split and code "
                f"(got {record.key!r})"
            )
        said = [p for p in record.data_sha256.split("+")[1:] if not p.startswith(CLASSES)]
        if record.metric != (*said, USUAL_METRIC)[0]:
            raise ValueError(f"its metric is not that of its data (got {record.metric!r})")
        return record


def read_records(path: str | Path) -> Iterator[SplitRecord]:
    """The records of a file of JSON lines; a last line cut short by a kill is left out.

    Raises:
        InputError: If a line is not a record.
    """
    try:
        lines = read_limited(path, MOST_BYTES).decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not text, so not a file of records; name another") from error
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            yield SplitRecord.from_json(line)
        except (RecursionError, ValueError) as error:
            cut = number == len(lines) and not isinstance(error, msgspec.ValidationError)
            if cut and (line.startswith(BEGIN) or BEGIN.startswith(line)):
                return  # no line feed after it: it was being written
            raise InputError(
                f"{path}: line {number} is not a record of a split; delete it ({error})"
            ) from error
