"""`SplitRecord`: what is known of one split of a cell, finished or failed, as one line of JSON."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, NotRequired, TypedDict

from msgspec import Meta

from djgnn.bench.spec import CellSpec, metric_of
from djgnn.checking import Natural, NonNegative, Score, Seed, Text, check_file, json_values
from djgnn.errors import InputError
from djgnn.graph.files import read_limited
from djgnn.training.selection import SplitResult

FORMAT = "djgnn-split-1"
BEGIN = f'{{"format": "{FORMAT}"'  # of every line that is written
MOST_BYTES = 2**30
STATES = ("done", "failed", "out of memory", "out of time")
Sizes = Annotated[
    list[Natural], Meta(min_length=3, max_length=3, description="three whole numbers")
]


class Figures(TypedDict):
    """Scores in percent and costs of one split, as JSON has them."""

    validation: NotRequired[Score | None]
    test: NotRequired[Score | None]
    oracle_test: NotRequired[Score | None]
    seconds: NotRequired[NonNegative | None]
    epoch: NotRequired[Natural]


class RecordFile(TypedDict):
    """The line of a :class:`SplitRecord`."""

    key: Text
    label: Text
    dataset: Text
    seed: Natural
    split: Natural
    status: Text
    reason: Text
    result: Figures | None
    parameters: Natural
    sizes: Sizes
    peak_memory_mib: NonNegative | None
    seconds: NonNegative | None
    device: Text
    metric: Text
    config: dict[str, Any]
    data_sha256: Text
    code: Text
    versions: dict[str, Text]
    finished: NotRequired[Text]


class SplitLine(TypedDict):
    """The least that a page needs of a line of a split, whatever version wrote it."""

    label: Text
    dataset: Text
    seed: NotRequired[Seed | None]
    metric: NotRequired[Text]
    status: Text
    result: Figures | None
    seconds: NotRequired[NonNegative | None]
    peak_memory_mib: NotRequired[NonNegative | None]


class Failure(TypedDict):
    """A split without figures."""

    status: Text


class CellFile(TypedDict):
    """The least that a page needs of what ``djgnn bench run --json`` prints."""

    model: Text
    dataset: Text
    preset: NotRequired[Text]
    seed: NotRequired[Seed | None]
    metric: NotRequired[Text]
    splits: NotRequired[list[Figures]]
    seconds: NotRequired[NonNegative | None]
    peak_memory_mib: NotRequired[NonNegative | None]
    failures: NotRequired[list[Failure]]


@dataclass(frozen=True)
class SplitRecord:
    """One split of a cell.

    `result` has the figures if `status` is ``"done"``, `reason` says why not otherwise. A search's
    records have no test figures. `sizes` counts training, validation and test nodes. `data_sha256`
    is what identifies the data, see :func:`djgnn.bench.spec.data_key`. `finished` says when, in
    UTC; older records do not know.
    """

    key: str
    label: str
    dataset: str
    seed: int
    split: int
    status: str
    reason: str
    result: Mapping[str, float | None] | None
    parameters: int
    sizes: tuple[int, int, int]
    peak_memory_mib: float
    seconds: float
    device: str
    metric: str
    config: Mapping[str, Any]
    data_sha256: str
    code: str
    versions: Mapping[str, str]
    finished: str = ""

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
        return _number((self.result or {}).get("validation"))

    def figures(self) -> SplitResult:
        """The figures; NaN for those that a search did not compute.

        Raises:
            ValueError: If the split has none.
        """
        if self.result is None:
            raise ValueError(f"split {self.split} has no figures (got {self.status})")
        of = self.result
        return SplitResult(
            split=self.split,
            validation=_number(of.get("validation")),
            test=_number(of.get("test")),
            oracle_test=_number(of.get("oracle_test")),
            epoch=int(_number(of.get("epoch"))),
            seconds=_number(of.get("seconds")),
        )

    def content_key(self) -> str:
        """What identifies the split whatever the code: its key without the code's version."""
        return self._spec("test" in (self.result or {})).key(self.split, self.data_sha256, "")

    def check(self) -> None:
        """Compare the key with what the record says.

        Raises:
            ValueError: If the key belongs to something else, or the metric is not that of the data.
        """
        ways = ("test" in self.result,) if self.result is not None else (True, False)
        possible = (self._spec(way).keys(self.split, self.data_sha256, self.code) for way in ways)
        if not any(self.key in keys for keys in possible):
            raise ValueError(
                "its key is not that of its model, configuration, data, seed, split and code "
                f"(got {self.key!r})"
            )
        if self.metric != metric_of(self.data_sha256):
            raise ValueError(f"its metric is not that of its data (got {self.metric!r})")

    def _spec(self, evaluate: bool) -> CellSpec:
        return CellSpec(
            self.label, self.dataset, self.config, (self.split,), self.seed, evaluate=evaluate
        )

    def to_json(self) -> str:
        """One line."""
        values = {"format": FORMAT, **dataclasses.asdict(self)}
        if not self.finished:
            del values["finished"]
        return json.dumps(values, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, line: str) -> SplitRecord:
        """The inverse of :meth:`to_json`.

        Raises:
            ValueError: If it is not a record, or its key is not that of what it says.
        """
        values = json.loads(line, parse_constant=_no_number)
        if not isinstance(values, dict) or values.pop("format", None) != FORMAT:
            raise ValueError(f"it has no format {FORMAT!r}")
        names = {f.name for f in dataclasses.fields(cls)}
        wrong = names ^ (set(values) | {"finished"})
        if wrong:
            raise ValueError(f"fields are missing or unknown: {', '.join(sorted(wrong))}")
        check_file(values, RecordFile, "record", "take the file from where it was written")
        if "test" in (values["result"] or {}) and "epoch" not in values["result"]:
            raise ValueError("its result has no epoch")
        values["sizes"] = tuple(values["sizes"])
        record = cls(**values)
        if record.status not in STATES or record.done != (record.result is not None):
            raise ValueError(f"its status is not possible (got {record.status!r})")
        record.check()
        return record


def now() -> str:
    """The time, in UTC and to the microsecond: as text it sorts like the time itself."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def plain_result(result: SplitResult | None, **values: float) -> dict[str, float | None]:
    """Figures for a record; what is not a number becomes ``None``, which JSON can say."""
    plain: dict[str, float | None] = json_values(result.to_dict() if result is not None else values)
    return plain


def read_records(path: str | Path) -> Iterator[SplitRecord]:
    """The records of a file of JSON lines; a last line cut short by a kill is left out.

    Raises:
        InputError: If a line is no record.
    """
    try:
        lines = read_limited(path, MOST_BYTES).decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is no text, so no file of records; name another") from error
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            yield SplitRecord.from_json(line)
        except (AttributeError, RecursionError, TypeError, ValueError) as error:
            cut = isinstance(error, json.JSONDecodeError) and number == len(lines)
            if cut and (line.startswith(BEGIN) or BEGIN.startswith(line)):
                return  # no line feed after it: it was being written
            raise InputError(
                f"{path}: line {number} is no record of a split; delete it ({error})"
            ) from error


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is no number of JSON")


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)
