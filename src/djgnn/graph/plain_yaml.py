"""YAML files as plain values: no tags, no aliases, no more than a configuration needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import yaml

from djgnn.errors import InputError
from djgnn.graph.files import read_limited

Built = TypeVar("Built")

LARGEST = 2**20
DEEPEST = 20
LONGEST = 1000


def read_mapping(path: str | Path) -> dict[str, Any]:
    """Read a YAML file that holds one mapping.

    Tags that name Python objects are refused by the safe loader. Aliases are refused as well: a
    few lines of them can stand for more values than any machine can hold or print.

    Args:
        path: The file, at most 1 MiB, with no value of more than 1000 characters.

    Raises:
        InputError: With file, line and remedy.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp(), "c.yaml")
        >>> _ = file.write_text("model: {num_jumps: 5}")
        >>> read_mapping(file)
        {'model': {'num_jumps': 5}}
    """
    file = Path(path).expanduser()
    content = read_limited(path, LARGEST)
    try:
        text = content.decode("utf-8")
        _check_events(file, text)
        values = yaml.safe_load(text)
    except UnicodeDecodeError as error:
        raise InputError(f"{file}: is not UTF-8 text; save it as UTF-8 (got {error})") from error
    except (yaml.YAMLError, ValueError, TypeError, RecursionError, OverflowError) as error:
        if isinstance(error, InputError):
            raise
        mark = getattr(error, "problem_mark", None)
        line = f"line {mark.line + 1}: " if mark is not None else ""
        what = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise InputError(
            f"{file}: {line}is not plain YAML; write KEY: VALUE lines without tags (got {what})"
        ) from error
    if not isinstance(values, dict) or not all(isinstance(key, str) for key in values):
        raise InputError(
            f"{file}: must hold named sections such as 'model:' and 'training:' "
            f"(got {type(values).__name__})"
        )
    return values


def read_configuration(path: str | Path, build: Callable[[dict[str, Any]], Built]) -> Built:
    """Read a YAML file and build a configuration from it.

    Args:
        path: The file.
        build: Makes the configuration, or raises what the values are to blame for.

    Raises:
        InputError: If it is not readable, not plain YAML, or not a configuration.
    """
    values = read_mapping(path)
    try:
        return build(values)
    except (ArithmeticError, TypeError, ValueError) as error:
        raise InputError(
            f"{path}: is not a usable configuration; compare with the config.yaml of a run "
            f"(got {str(error)[:300]})"
        ) from error


def _check_events(file: Path, text: str) -> None:
    depth = 0
    events: Iterator[Any] = yaml.parse(text, Loader=yaml.SafeLoader)
    for event in events:
        line = getattr(event.start_mark, "line", 0) + 1
        if isinstance(event, yaml.AliasEvent):
            raise InputError(
                f"{file}: line {line}: has an alias; write the value itself (got *{event.anchor})"
            )
        if isinstance(event, yaml.ScalarEvent) and len(event.value) > LONGEST:
            raise InputError(
                f"{file}: line {line}: a value has more than {LONGEST} characters; "
                f"shorten it (got {len(event.value)}, {event.value[:40]!r}...)"
            )
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise InputError(
                f"{file}: line {line}: is nested more than {DEEPEST} deep; "
                f"a configuration has sections and values (got depth {depth})"
            )
