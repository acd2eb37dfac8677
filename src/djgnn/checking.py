"""The one way values are checked: types with limits, held against what came in by msgspec.

Configurations are frozen dataclasses that call :func:`check_fields` in ``__post_init__``; the
shapes of JSON files are ``TypedDict`` classes that :func:`check_file` walks. Both say what a field
must be in words, and what came instead.
"""

import dataclasses
import math
import types
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import msgspec
import numpy as np
from msgspec import Meta

from djgnn.errors import InputError

T = TypeVar("T")

Text = Annotated[str, Meta(description="text")]
Number = Annotated[float, Meta(ge=-1e300, le=1e300, description="a number")]
NonNegative = Annotated[float, Meta(ge=0, le=1e300, description="a number of at least 0")]
Positive = Annotated[float, Meta(gt=0, le=1e300, description="a positive number")]
Share = Annotated[float, Meta(ge=0, le=1, description="a number from 0 to 1")]
Rate = Annotated[float, Meta(ge=0, lt=1, description="at least 0 and below 1")]
Count = Annotated[
    int, Meta(ge=1, lt=2**31, description="a whole number of at least 1 and below 2^31")
]
Natural = Annotated[int, Meta(ge=0, le=2**63 - 1, description="a whole number, not negative")]
Seed = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1, description="a whole number")]
Score = Annotated[float, Meta(ge=0, le=100, description="a score from 0 to 100")]


def check_fields(config: Any) -> None:
    """Hold every field of a frozen dataclass against its annotation, and normalise its value.

    NumPy's numbers become Python's, lists become tuples where the annotation says so.

    Args:
        config: The instance, in its ``__post_init__``.

    Raises:
        ValueError: For the first field that does not fit.
    """
    for name, hint in _hints(config.__class__).items():
        value = getattr(config, name)
        if isinstance(value, np.generic):
            value = value.item()
        try:
            value = msgspec.convert(value, hint)
        except (msgspec.ValidationError, OverflowError):
            raise ValueError(f"{name} must be {describe(hint)} (got {shorten(value)})") from None
        object.__setattr__(config, name, value)


def check_names(kind: type, names: Mapping[str, Any]) -> None:
    """Refuse names that are not fields of the dataclass `kind`.

    Raises:
        ValueError: For the first unknown name, with all known ones.
    """
    known = [f.name for f in dataclasses.fields(kind)]
    for name in names:
        if name not in known:
            raise ValueError(f"{kind.__name__} has no option '{name}'; it has {', '.join(known)}")


def check_file(
    values: Any, kind: type, place: str | Path, remedy: str, *, within: str = ""
) -> None:
    """Hold what was read from a file against a ``TypedDict``; fields it does not name may be there.

    Args:
        values: What JSON or YAML gave.
        kind: The ``TypedDict``; nested ones are walked, ``NotRequired`` fields may be absent.
        place: The file, for messages.
        remedy: What its reader should do.
        within: Where in the file `values` stands, such as ``"splits[3]."``.

    Raises:
        InputError: For the first field that does not fit: *place: problem; remedy (got x)*.

    Example:
        >>> from typing import TypedDict
        >>> class Card(TypedDict):
        ...     seed: Seed
        >>> check_file({"seed": "a"}, Card, "card.json", "run `djgnn fit` again")
        Traceback (most recent call last):
        djgnn.errors.InputError: card.json: damaged, seed must be a whole number; run `djgnn fit`
        again (got 'a')
    """

    def refuse(name: str, wanted: str, got: str) -> InputError:
        return InputError(f"{place}: damaged, {name} must be {wanted}; {remedy} (got {got})")

    if not isinstance(values, dict):
        raise refuse(within.rstrip(".") or "it", "an object", shorten(values))
    for name, given in _hints(kind).items():
        hint, optional = given, get_origin(given) is NotRequired
        if optional:
            (hint,) = get_args(given)
        here = f"{within}{name}"
        if name not in values:
            if optional:
                continue
            raise refuse(here, describe(hint), "nothing")
        value = values[name]
        if is_typeddict(hint):
            check_file(value, hint, place, remedy, within=f"{here}.")
            continue
        if get_origin(hint) is list and is_typeddict(get_args(hint)[0]):
            if not isinstance(value, list):
                raise refuse(here, "a list of objects", shorten(value))
            for number, item in enumerate(value):
                check_file(item, get_args(hint)[0], place, remedy, within=f"{here}[{number}].")
            continue
        either = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else ()
        parts = [part for part in either if is_typeddict(part)]
        if parts and isinstance(value, dict):  # an object or null
            check_file(value, parts[0], place, remedy, within=f"{here}.")
            continue
        try:
            msgspec.convert(value, hint)
            _check_text(value)
        except (msgspec.ValidationError, OverflowError, UnicodeEncodeError):
            raise refuse(here, describe(hint), shorten(value)) from None


def describe(hint: Any) -> str:
    """What a value of an annotation must be, in words.

    Example:
        >>> describe(Count | None), describe(Literal["a", "b"]), describe(bool)
        ('a whole number of at least 1 and below 2^31, or null', 'one of a, b', 'true or false')
    """
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        for meta in arguments[1:]:
            if isinstance(meta, Meta) and meta.description:
                return meta.description
        return describe(arguments[0])
    if origin in (Union, types.UnionType):
        words = [describe(part) for part in arguments if part is not type(None)]
        return " or ".join(words) + (", or null" if type(None) in arguments else "")
    if origin is Literal:
        choices = ", ".join(str(choice) for choice in arguments)
        return f"one of {choices}" if len(arguments) > 1 else choices
    if is_typeddict(hint):
        return "an object"
    if origin in (list, tuple):
        return f"a list, each {describe(arguments[0])}"
    if origin in (dict, Mapping):
        return f"an object, each value {describe(arguments[1])}"
    plain = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
    plain |= {dict: "an object", list: "a list"}
    return plain.get(hint, getattr(hint, "__name__", str(hint)))


def shorten(value: Any) -> str:
    """A value for a message: quoted, cut, without control characters."""
    if isinstance(value, dict | list):
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)}"
    text = ascii(value) if not isinstance(value, int) or abs(value) < 10**40 else "a huge number"
    return text if len(text) <= 60 else text[:59] + "…"


def json_values(value: Any) -> Any:
    """The same values as JSON can hold them: NaN and infinities become ``None``.

    NumPy's numbers and arrays become Python's numbers and lists, tuples become lists.

    Example:
        >>> json_values({"test": float("nan"), "splits": (1, float("inf")), "u": np.ones(2)})
        {'test': None, 'splits': [1, None], 'u': [1.0, 1.0]}
    """
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {key: json_values(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [json_values(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def _check_text(value: Any) -> None:
    """Refuse halves of characters, which no file can hold.

    Raises:
        UnicodeEncodeError: If there are any.
    """
    if isinstance(value, str):
        value.encode("utf-8")
    elif isinstance(value, dict):
        for key, item in value.items():
            _check_text(key)
            _check_text(item)
    elif isinstance(value, list):
        for item in value:
            _check_text(item)
