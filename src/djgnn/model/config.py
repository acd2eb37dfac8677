"""`ModelConfig`: every choice of the architecture, and the presets `author`, `paper`, `default`."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np
import yaml

PRESETS = ("default", "author", "paper")
_CHOICES = {
    "support": ("shell", "paper", "author", "cumulative"),
    "scale": ("unit", "volume", "learned"),
    "source": ("adjacency", "identity"),
    "trace_form": ("max", "min"),
    "pump_adjacency": ("given", "symmetric"),
    "homophilic_adjacency": ("given", "symmetric"),
    "engine": ("auto", "kdtree", "blockwise", "triton"),
}
_LEAST = {
    "hidden_channels": 1,
    "num_jumps": 1,
    "num_centers": 1,
    "hb_layers": 1,
    "classifier_layers": 1,
    "refresh_every": 1,
}
_SWITCHES = ("homophilic", "structure", "recompute")
MOST_LAYERS = 64


@dataclass(frozen=True)
class ModelConfig:
    """Choices of the architecture; the defaults are the preset ``default``.

    Args:
        hidden_channels: Width of every branch.
        num_jumps: Number of jumps K.
        num_centers: Number of columns p of U.
        dropout: On the embedding of every branch, and between layers of the homophilic one.
        support: Which ranks a branch keeps, see :func:`djgnn.filters.branch_ranks`.
        scale: Factor of the distances: ``"unit"`` 1, ``"volume"`` 1/vol(G), ``"learned"``.
        source: ``"adjacency"`` f(A), or ``"identity"`` f(I), the ablation of App. A.
        trace_form: Trace ratio to maximise (``"max"``) or minimise (``"min"``).
        pump_adjacency: What the pump and the structure branch see, ``"given"`` or ``"symmetric"``.
        homophilic_adjacency: What the homophilic branch sees.
        homophilic: Whether there is a homophilic branch.
        hb_layers: Its layers, 2 (published code) or 1 (paper).
        structure: Whether there is a structure branch.
        structure_dropout: Share of the nodes hidden from the structure branch at each step.
        classifier_layers: 1 for a linear classifier, more for an MLP.
        engine: Neighbour search, see :mod:`djgnn.jumps.engines`.
        refresh_every: Search at every so many changes of U, and keep old ranks in between; above 1
            it is an approximation. In mini-batches: before every so many of an epoch.
        recompute: Compute the branches twice, forth and back, instead of keeping them in memory.

    Raises:
        ValueError: For a value that is not allowed.
    """

    hidden_channels: int = 64
    num_jumps: int = 5
    num_centers: int = 5
    dropout: float = 0.5
    support: str = "shell"
    scale: str = "learned"
    source: str = "adjacency"
    trace_form: str = "max"
    pump_adjacency: str = "given"
    homophilic_adjacency: str = "given"
    homophilic: bool = True
    hb_layers: int = 2
    structure: bool = True
    structure_dropout: float = 0.0
    classifier_layers: int = 1
    engine: str = "auto"
    refresh_every: int = 1
    recompute: bool = False

    def __post_init__(self) -> None:
        plain_values(self)
        for key, allowed in _CHOICES.items():
            if getattr(self, key) not in allowed:
                raise ValueError(
                    f"{key} must be one of {', '.join(allowed)} (got '{getattr(self, key)}')"
                )
        for key, least in _LEAST.items():
            value = getattr(self, key)
            if not is_count(value, least):
                raise ValueError(
                    f"{key} must be a whole number of at least {least} (got {value!r})"
                )
        if self.classifier_layers > MOST_LAYERS or self.hb_layers > MOST_LAYERS:
            raise ValueError(f"classifier_layers and hb_layers must be at most {MOST_LAYERS}")
        for key in _SWITCHES:
            if not isinstance(getattr(self, key), bool):
                raise ValueError(f"{key} must be true or false (got {getattr(self, key)!r})")
        for key in ("dropout", "structure_dropout"):
            value = getattr(self, key)
            if not (is_number(value) and 0 <= value < 1):
                raise ValueError(f"{key} must be at least 0 and below 1 (got {value!r})")

    def replace(self, **changes: Any) -> ModelConfig:
        """A copy with some fields changed.

        Raises:
            ValueError: For a field that does not exist.
        """
        check_fields(type(self), changes)
        return dataclasses.replace(self, **changes)

    def treatment(self) -> dict[str, Any]:
        """The options of :func:`djgnn.model.graph_operators` that this configuration fixes."""
        return {
            "pump_adjacency": self.pump_adjacency,
            "homophilic_adjacency": self.homophilic_adjacency,
            "twins": self.source == "adjacency",
        }


def plain_values(config: Any) -> None:
    """Put Python's numbers in place of NumPy's in a frozen dataclass."""
    for f in dataclasses.fields(config):
        value = getattr(config, f.name)
        if isinstance(value, np.generic):
            object.__setattr__(config, f.name, value.item())


def is_number(value: Any) -> bool:
    """Whether a value is a number, and no truth value."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_count(value: Any, least: int) -> bool:
    """Whether a value is a whole number of at least `least`, and of a size to count with."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < 2**31


def check_fields(kind: Any, changes: dict[str, Any]) -> None:
    """Refuse names that are no field of the dataclass `kind`."""
    known = [f.name for f in dataclasses.fields(kind)]
    for key in changes:
        if key not in known:
            raise ValueError(f"{kind.__name__} has no option '{key}'; it has {', '.join(known)}")


def preset(name: str) -> dict[str, Any]:
    """The options of a preset, by sections ``model`` and ``training``.

    Raises:
        ValueError: If there is no such preset.
    """
    if name not in PRESETS:
        raise ValueError(f"preset must be one of {', '.join(PRESETS)} (got '{name}')")
    text = resources.files("djgnn.model").joinpath("presets", f"{name}.yaml").read_text("utf-8")
    loaded: dict[str, Any] = yaml.safe_load(text)
    return loaded
