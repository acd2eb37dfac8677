"""What the JSON of runs and benchmarks must be like; fields that are not named are left alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from djgnn.errors import InputError

MISSING = object()
RUN = "restore the file or run `djgnn fit` again"
BENCH = "give what `djgnn bench` wrote"


@dataclass(frozen=True)
class Rule:
    """What a field must be: in words, and as a test."""

    wants: str
    fits: Callable[[Any], bool]
    optional: bool = False


def _text(value: Any) -> bool:
    """Unicode text without halves of characters, which no file can hold."""
    try:
        return isinstance(value, str) and value.encode("utf-8") is not None
    except UnicodeEncodeError:
        return False


def _whole(value: Any, low: int = 0) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value < 2**64


def _within(value: Any, low: float, high: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high


def _map(value: Any, fits: Callable[[Any], bool]) -> bool:
    return isinstance(value, dict) and all(_text(k) and fits(v) for k, v in value.items())


def _score(value: Any) -> bool:
    return value is None or _within(value, 0, 100)


def _figure(value: Any) -> bool:
    """A score of a benchmark, whose JSON says NaN where there is none."""
    return _score(value) or (isinstance(value, float) and math.isnan(value))


def _cost(value: Any) -> bool:
    return value is None or _within(value, 0, 1e15) or (value != value)


TEXT = Rule("text", _text)
NUMBER = Rule("a number", lambda v: _within(v, -1e300, 1e300))
COUNT = Rule("a whole number, not negative", _whole)
SEED = Rule("a whole number", lambda v: _whole(v, -(2**64)))
SCORE = Rule("a score from 0 to 100, or null", _score)
FIGURE = Rule("a score from 0 to 100, null or NaN", _figure, optional=True)
COST = Rule("a number, not negative, or null", _cost, optional=True)
NAMES = Rule("a list of texts", lambda v: isinstance(v, list) and all(map(_text, v)))
OBJECT = Rule("an object", lambda v: isinstance(v, dict))
OBJECTS = Rule(
    "a list of objects",
    lambda v: isinstance(v, list) and all(isinstance(item, dict) for item in v),
    optional=True,
)
VERSIONS = Rule("an object of texts", lambda v: _map(v, _text))
ANY_SEED = Rule("a whole number or null", lambda v: v is None or SEED.fits(v), optional=True)
ANY_TEXT = replace(TEXT, optional=True)

CARD: dict[str, Rule] = {
    "data": OBJECT,
    "data.name": TEXT,
    "data.sha256": TEXT,
    "data.num_nodes": COUNT,
    "data.num_edges": COUNT,
    "data.num_features": COUNT,
    "data.classes": NAMES,
    "metric": Rule("accuracy or roc_auc", lambda v: v in ("accuracy", "roc_auc")),
    "protocol": TEXT,
    "seed": SEED,
    "interrupted": Rule("true or false", lambda v: isinstance(v, bool)),
    "result": OBJECT,
    "result.split": COUNT,
    "result.validation": SCORE,
    "result.test": SCORE,
    "result.oracle_test": SCORE,
    "result.epoch": COUNT,
    "result.seconds": Rule("a number, not negative", lambda v: _within(v, 0, 1e15)),
    "calibration": OBJECT,
    "calibration.temperature": Rule("a positive number", lambda v: _within(v, 1e-6, 1e300)),
    "structure_gate": Rule("an object of scores, or null", lambda v: v is None or _map(v, _score)),
    "alpha": Rule("an object of numbers", lambda v: _map(v, lambda a: _within(a, -1e15, 1e15))),
    "versions": VERSIONS,
}
CELL: dict[str, Rule] = {
    "model": TEXT,
    "dataset": TEXT,
    "preset": ANY_TEXT,
    "seed": ANY_SEED,
    "metric": ANY_TEXT,
    "splits": OBJECTS,
    "seconds": COST,
    "peak_memory_mib": COST,
    "failures": OBJECTS,
}
RECORD: dict[str, Rule] = {
    "label": TEXT,
    "dataset": TEXT,
    "seed": ANY_SEED,
    "metric": ANY_TEXT,
    "status": TEXT,
    "result": Rule("an object or null", lambda v: v is None or isinstance(v, dict)),
    "seconds": COST,
    "peak_memory_mib": COST,
}
FIGURES: dict[str, Rule] = dict.fromkeys(("validation", "test", "oracle_test"), FIGURE)
FAILURE: dict[str, Rule] = {"status": TEXT}


def check_card(path: str | Path, card: Mapping[str, Any]) -> None:
    """Refuse the card of a run that lacks a field or has a wrong one.

    Raises:
        InputError: With the file, the field, what was expected and the remedy.
    """
    check_fields(path, card, CARD, RUN)


def check_cell(path: str | Path, cell: Mapping[str, Any]) -> None:
    """Refuse a cell of a benchmark that a page cannot show.

    Raises:
        InputError: With the file, the field, what was expected and the remedy.
    """
    check_fields(path, cell, CELL, BENCH)
    for name, rules in (("splits", FIGURES), ("failures", FAILURE)):
        for number, part in enumerate(cell.get(name, [])):
            check_fields(path, part, rules, BENCH, f"{name}[{number}].")


def check_record(path: str | Path, record: Mapping[str, Any]) -> None:
    """The same for the record of one split, which has figures if it is done.

    Raises:
        InputError: With the file, the field, what was expected and the remedy.
    """
    check_fields(path, record, RECORD, BENCH)
    if record["status"] == "done":
        check_fields(path, record, {"result": OBJECT}, BENCH)
        check_fields(path, record["result"], FIGURES, BENCH, "result.")


def check_fields(
    path: str | Path,
    values: Mapping[str, Any],
    rules: Mapping[str, Rule],
    remedy: str,
    within: str = "",
) -> None:
    """Hold every field with a rule against it; a dot leads into an object checked before.

    Raises:
        InputError: For the first that does not fit.
    """
    for name, rule in rules.items():
        value: Any = values
        for part in name.split("."):
            value = value.get(part, MISSING)
        if value is MISSING and rule.optional:
            continue
        if value is MISSING or not rule.fits(value):
            got = "nothing" if value is MISSING else _short(value)
            raise InputError(
                f"{path}: damaged, {within}{name} must be {rule.wants}; {remedy} (got {got})"
            )


def _short(value: Any) -> str:
    if isinstance(value, dict | list):
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)}"
    text = ascii(value) if not isinstance(value, int) or abs(value) < 10**40 else "a huge number"
    return text if len(text) <= 60 else text[:59] + "…"
