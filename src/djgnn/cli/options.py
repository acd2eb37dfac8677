"""What several commands parse alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from djgnn.baselines.config import BaselineConfig, baseline_config
from djgnn.errors import InputError
from djgnn.training.config import RunConfig, resolve


def configuration(
    preset: str, dataset: str | None, config: Path | None, change: list[str] | None
) -> RunConfig:
    """The configuration of a DJ-GNN run from the options of the command line.

    Raises:
        InputError: For an unknown preset or option, or a value that is not allowed.
    """
    try:
        base = RunConfig.read_yaml(config) if config else resolve(preset, dataset)
        return base.replace(**parse_changes(change))
    except InputError:
        raise
    except (ArithmeticError, TypeError, ValueError) as error:
        raise InputError(f"configuration: {error}") from error


def baseline_configuration(
    model: str, dataset: str | None, change: list[str] | None
) -> BaselineConfig:
    """A baseline's published settings for a data set, else its defaults, with changes.

    Raises:
        InputError: For an unknown option or a value that is not allowed.
    """
    changes = parse_changes(change)
    try:
        return baseline_config(model, dataset, **changes)
    except (TypeError, ValueError) as error:
        raise InputError(f"configuration: {error}") from error


def parse_changes(change: list[str] | None) -> dict[str, Any]:
    """``KEY=VALUE`` pairs; values as in YAML (numbers, true, null, text).

    Raises:
        InputError: If a pair is not one.

    Example:
        >>> parse_changes(["lr=0.01", "support=author", "patience=null"])
        {'lr': 0.01, 'support': 'author', 'patience': None}
    """
    changes: dict[str, Any] = {}
    for pair in change or []:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise InputError(f"--set: must be KEY=VALUE (got '{pair}')")
        try:
            changes[key.strip()] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise InputError(f"--set {key}: is not a value: {error} (got '{value}')") from error
    return changes


def parse_splits(text: str, count: int, name: str) -> list[int]:
    """``0-9`` or ``0,2,5`` or both; everything there is for an empty text.

    Raises:
        InputError: If it is not such a list, or a split does not exist.

    Example:
        >>> parse_splits("0-2,7", 10, "cora")
        [0, 1, 2, 7]
    """
    if not text:
        return list(range(count))
    chosen: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise InputError(f"--splits: must be like 0-9 or 0,2,5 (got '{text}')")
        chosen += range(int(first), int(last if dash else first) + 1)
    if not chosen or max(chosen) >= count:
        raise InputError(f"--splits: {name} has splits 0 to {count - 1} (got '{text}')")
    return list(dict.fromkeys(chosen))
