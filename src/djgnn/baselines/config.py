"""`BaselineConfig`: model, options, training and where they come from, to and from YAML."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from djgnn.baselines.options import module_of, options_of
from djgnn.graph.plain_yaml import read_configuration
from djgnn.model.config import check_fields
from djgnn.training.config import TrainConfig

_SECTIONS = ("model", "options", "training", "source")


def _plain_training() -> TrainConfig:
    return TrainConfig(
        epochs=1000, weight_decay=5e-4, patience=100, pump_weight=0.0, structure_gate=False
    )


@dataclass(frozen=True)
class BaselineConfig:
    """The whole recipe of a baseline's run.

    Args:
        model: Its name, one of `BASELINES`.
        options: What its `Options` class knows; missing ones take their defaults.
        training: How it is trained.
        source: Where the settings come from.

    Raises:
        ValueError: For an unknown model or option, or a value that is not allowed.

    Example:
        >>> BaselineConfig("mlp", {"hidden_channels": 16}).options["hidden_channels"]
        16
    """

    model: str
    options: Mapping[str, Any] = field(default_factory=dict)
    training: TrainConfig = field(default_factory=_plain_training)
    source: str = "defaults of djgnn"

    def __post_init__(self) -> None:
        kind = options_of(self.model)
        for key in self.options:
            if key not in {f.name for f in dataclasses.fields(kind)}:
                raise ValueError(_unknown(self.model, key))
        full = dataclasses.asdict(kind(**self.options))
        object.__setattr__(self, "options", full)

    def replace(self, **changes: Any) -> BaselineConfig:
        """A copy with options or fields of the training changed, by plain name.

        The source says what was changed.

        Raises:
            ValueError: For a name that neither has, or a value that is not allowed.

        Example:
            >>> BaselineConfig("gcn", source="a paper").replace(lr=0.1, dropout=0.0).source
            'a paper; changed: lr=0.1, dropout=0.0'
        """
        of_training = {f.name for f in dataclasses.fields(TrainConfig)}
        training, options = {}, {}
        for key, value in changes.items():
            if key in self.options:
                options[key] = value
            elif key in of_training:
                training[key] = value
            else:
                raise ValueError(_unknown(self.model, key))
        said = ", ".join(f"{key}={value}" for key, value in changes.items())
        return BaselineConfig(
            self.model,
            {**self.options, **options},
            dataclasses.replace(self.training, **training),
            f"{self.source}; changed: {said}" if said else self.source,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values only, for YAML and JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> BaselineConfig:
        """The inverse of :meth:`to_dict`; missing fields take the model's defaults.

        Raises:
            ValueError: For an unknown section or field, or a value that is not allowed.
        """
        for key in values:
            if key not in _SECTIONS:
                known = ", ".join(_SECTIONS)
                raise ValueError(f"unknown section '{key}'; a configuration has {known}")
        model, training = str(values.get("model", "")), values.get("training") or {}
        check_fields(TrainConfig, training)
        base = default_training(model)
        return cls(
            model,
            values.get("options") or {},
            dataclasses.replace(base, **training),
            str(values.get("source", cls.source)),
        )

    def to_yaml(self) -> str:
        """The configuration as text."""
        text: str = yaml.safe_dump(self.to_dict(), sort_keys=False)
        return text

    @classmethod
    def read_yaml(cls, path: str | Path) -> BaselineConfig:
        """Read a configuration file.

        Raises:
            InputError: If it is not readable, not YAML, or not a configuration.
        """
        return read_configuration(path, cls.from_dict)


def default_training(model: str) -> TrainConfig:
    """How a baseline is trained if nothing else is said: as its file says, else as all.

    Raises:
        ValueError: If there is no such baseline.
    """
    own: dict[str, Any] = getattr(module_of(model), "TRAINING", {})
    return dataclasses.replace(_plain_training(), **own)


def baseline_config(model: str, dataset: str | None = None, **changes: Any) -> BaselineConfig:
    """The published settings of a baseline for a data set, else its defaults.

    Args:
        model: Its name.
        dataset: A data set with published settings, see :func:`published`; any other name, or
            ``None``, gives the model's defaults.
        **changes: Options or fields of the training to set, by plain name.

    Example:
        >>> baseline_config("mlp", lr=0.02).training.lr
        0.02
    """
    config = BaselineConfig(model, training=default_training(model))
    if dataset in published(model):
        file = _folder("configurations").joinpath(model, f"{dataset}.yaml")
        config = BaselineConfig.from_dict({"model": model, **yaml.safe_load(file.read_text())})
    return config.replace(**changes)


def published(model: str) -> list[str]:
    """Data sets for which a baseline's published settings are known."""
    folder = _folder("configurations").joinpath(model)
    if not folder.is_dir():
        return []
    return sorted(f.name[:-5] for f in folder.iterdir() if f.name.endswith(".yaml"))


def search_space(model: str) -> dict[str, Any]:
    """What a search may vary: names of options or training, with their values or range.

    Args:
        model: A baseline, or ``"djgnn"``, whose names are those of its own configuration.

    Returns:
        Name to ``{"values": [...]}`` or ``{"low": a, "high": b, "log": bool}``.

    Raises:
        ValueError: If the model has no space.
    """
    file = _folder("spaces").joinpath(f"{model}.yaml")
    if not file.is_file():
        module_of(model)
        raise ValueError(f"there is no search space for '{model}'")
    space: dict[str, Any] = yaml.safe_load(file.read_text("utf-8"))
    return space


def _folder(name: str) -> Any:
    return resources.files("djgnn.baselines").joinpath(name)


def _unknown(model: str, key: str) -> str:
    own = ", ".join(f.name for f in dataclasses.fields(options_of(model)))
    training = ", ".join(f.name for f in dataclasses.fields(TrainConfig))
    return f"{model} has no option '{key}'; it has {own}; its training has {training}"
