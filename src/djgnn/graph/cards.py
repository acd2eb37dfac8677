"""Cards: what is known about a data set before it is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True)
class Card:
    """Facts about one data set.

    Args:
        name: Its name here; the file is ``<name>.npz``.
        title: What nodes, edges and classes are.
        paper_name: Its name in the paper's tables, ``None`` if it is in none.
        metric: ``accuracy`` or ``roc_auc``.
        direction: ``directed``, or ``symmetric`` if every edge is there both ways.
        num_nodes: Number of nodes.
        num_edges: Number of directed edges as stored.
        num_features: Number of feature columns.
        num_classes: Number of classes.
        num_splits: Number of stored splits.
        source: Repository and path it comes from.
        loader: ``"CLASS:NAME"`` of the class that downloads it, ``None`` if there is none.
        counterpart: The data set whose results belong beside this one's.
        oddities: What a reader of a result must know.

    Example:
        >>> known()["texas"].oddities[0]
        'Class 1 has a single node.'
    """

    name: str
    title: str
    paper_name: str | None
    metric: str
    direction: str
    num_nodes: int
    num_edges: int
    num_features: int
    num_classes: int
    num_splits: int
    source: str
    loader: str | None
    counterpart: str | None
    oddities: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """The card as plain values, as `Graph.card` carries it."""
        return asdict(self) | {"oddities": list(self.oddities)}


@cache
def known() -> Mapping[str, Card]:
    """Every data set the registry knows, by name.

    Example:
        >>> known()["minesweeper"].metric
        'roc_auc'
    """
    import yaml

    text = resources.files("djgnn.graph").joinpath("cards.yaml").read_text(encoding="utf-8")
    return MappingProxyType({name: _card(name, e) for name, e in yaml.safe_load(text).items()})


def canonical(name: str) -> str:
    """The known name that differs from `name` in case, ``-`` and ``_`` only, else `name`.

    Example:
        >>> canonical("Roman_Empire"), canonical("mine")
        ('roman-empire', 'mine')
    """
    if name in known():
        return name
    folded = _fold(name)
    return next((other for other in known() if _fold(other) == folded), name)


def _fold(name: str) -> str:
    return name.casefold().replace("_", "-")


def _card(name: str, entry: dict[str, Any]) -> Card:
    keys = ("num_nodes", "num_edges", "num_features", "num_classes", "num_splits")
    facts = {"counterpart": None} | entry
    facts |= dict(zip(keys, facts.pop("counts"), strict=True))
    facts["oddities"] = tuple(facts["oddities"])
    return Card(name=name, **facts)
