"""`Options`: what a baseline can be told, checked field by field."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from importlib import import_module
from typing import Any

BASELINES = (
    "mlp",
    "gcn",
    "gat",
    "graphsage",
    "gcnii",
    "mixhop",
    "pairnorm",
    "linkx",
    "gprgnn",
    "h2gcn",
    "geom_gcn",
    "ggcn",
    "cgnn",
    "fsgnn",
    "graff",
    "acmii_gcn",
    "ordered_gnn",
    "asgc",
    "tuned_gcn",
    "tuned_gat",
    "tuned_sage",
    "dir_gnn",
)
ADJACENCIES = ("symmetric", "given", "transposed")
FEATURES = ("raw", "row", "identity")


def option(
    default: Any,
    *,
    least: float | None = None,
    most: float | None = None,
    below: float | None = None,
    choices: tuple[Any, ...] | None = None,
) -> Any:
    """A field of an `Options` class with the values it may take.

    Args:
        default: Its value if none is given; its type is the type of the option.
        least: Smallest value.
        most: Largest value.
        below: What every value stays below.
        choices: All values there are.
    """
    limits = {"least": least, "most": most, "below": below, "choices": choices}
    return dataclasses.field(default=default, metadata=limits)


def rate(default: float) -> Any:
    """A field for a probability of dropping something."""
    return option(default, least=0.0, below=1.0)


def count(default: int, least: int = 1) -> Any:
    """A field for a whole number."""
    return option(default, least=least)


@dataclass(frozen=True)
class Options:
    """Options of every baseline; each model's file adds its own.

    Args:
        adjacency: Whom a node hears: ``"given"`` those it points at (A H), ``"transposed"`` those
            that point at it, ``"symmetric"`` both.
        features: ``"raw"``, ``"row"`` (each row divided by its sum), or ``"identity"`` (each node
            is its own feature, the given ones are ignored).

    Raises:
        ValueError: For a value that is not allowed.
    """

    adjacency: str = option("symmetric", choices=ADJACENCIES)
    features: str = option("raw", choices=FEATURES)

    def __post_init__(self) -> None:
        for f in dataclasses.fields(self):
            value = _checked(f.name, getattr(self, f.name), f.default, dict(f.metadata))
            object.__setattr__(self, f.name, value)


def _checked(name: str, value: Any, default: Any, limits: dict[str, Any]) -> Any:
    if limits.get("choices") is not None:
        if value not in limits["choices"]:
            allowed = ", ".join(str(choice) for choice in limits["choices"])
            raise ValueError(f"{name} must be one of {allowed} (got {value!r})")
        return value
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise ValueError(f"{name} must be true or false (got {value!r})")
        return value
    numeric = isinstance(value, int | float) and not isinstance(value, bool)
    whole = isinstance(default, int)
    if not numeric or (whole and value != int(value)):
        kind = "a whole number" if whole else "a number"
        raise ValueError(f"{name} must be {kind} (got {value!r})")
    least, most, below = (limits.get(key) for key in ("least", "most", "below"))
    if (
        not abs(value) < float("inf")
        or (least is not None and value < least)
        or (most is not None and value > most)
        or (below is not None and value >= below)
    ):
        bounds = (("at least", least), ("at most", most), ("below", below))
        said = " and ".join(f"{word} {bound}" for word, bound in bounds if bound is not None)
        raise ValueError(f"{name} must be {said or 'finite'} (got {value!r})")
    return int(value) if whole else float(value)


def options_of(model: str) -> type[Options]:
    """The `Options` class of a baseline.

    Raises:
        ValueError: If there is no such baseline.
    """
    kind: type[Options] = module_of(model).Options
    return kind


def module_of(model: str) -> Any:
    """The file of a baseline.

    Raises:
        ValueError: If there is no such baseline.
    """
    if model not in BASELINES:
        raise ValueError(f"model must be one of djgnn, {', '.join(BASELINES)} (got '{model}')")
    return import_module(f"djgnn.baselines.{model}")
