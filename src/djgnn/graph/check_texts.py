"""The texts of a graph: names of nodes and classes, and the facts of its card."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from djgnn.errors import InputError

METRICS = ("accuracy", "roc_auc")
TEXTS = ("name", "title", "paper_name", "direction", "source", "loader", "counterpart")
LISTS = ("oddities", "features")


def check_names(value: Any, key: str) -> tuple[str, ...] | None:
    """Distinct names that can be written."""
    if value is None:
        return None
    names = tuple(map(str, value))
    if len(set(names)) != len(names):
        seen: set[str] = set()
        twice = next(v for v in names if v in seen or seen.add(v))  # type: ignore[func-returns-value]
        raise InputError(f"{key}: {twice!r} occurs twice; names must be distinct")
    for place, name in enumerate(names):
        _text(name, f"{key}[{place}]")
    return names


def _text(value: str, where: str) -> None:
    """Half a surrogate pair can be held in memory but never be written."""
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"{where}: has a character that cannot be written as UTF-8; rename it "
            f"(got {value[:80]!r}, character {error.start})"
        ) from error


def check_card(card: Any) -> Mapping[str, Any]:
    """A mapping whose known facts are of their types; other facts are left alone."""
    if not isinstance(card, Mapping):
        raise InputError(f"card: must be a mapping of facts (got {type(card).__name__})")
    metric = card.get("metric", "accuracy")
    if metric not in METRICS:
        raise InputError(f"card['metric']: must be one of {', '.join(METRICS)} (got {metric!r})")
    for key in TEXTS:
        if not isinstance(card.get(key, ""), str | None):
            raise InputError(f"card[{key!r}]: must be text (got {card[key]!r:.80})")
        _text(card.get(key) or "", f"card[{key!r}]")
    for key in LISTS:
        texts = card.get(key, ())
        if not isinstance(texts, list | tuple) or not all(isinstance(t, str) for t in texts):
            raise InputError(f"card[{key!r}]: must be a list of texts (got {texts!r:.80})")
        for place, text in enumerate(texts):
            _text(text, f"card[{key!r}][{place}]")
    return MappingProxyType(dict(card))
