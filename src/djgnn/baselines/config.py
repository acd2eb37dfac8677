"""`BaselineConfig`: model, options, training and where they come from, to and from YAML."""

import copy
import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module, resources
from pathlib import Path
from typing import Any, Self, cast, get_type_hints

import yaml

from djgnn.baselines.base import Baseline, Options
from djgnn.checking import check_names
from djgnn.graph.files import read_configuration
from djgnn.training.config import TrainConfig, current

_CLASSES = {
    "mlp": "mlp.MLP",
    "gcn": "gcn.GCN",
    "gat": "gat.GAT",
    "graphsage": "graphsage.GraphSAGE",
    "gcnii": "gcnii.GCNII",
    "mixhop": "mixhop.MixHop",
    "pairnorm": "pairnorm.PairNormGCN",
    "linkx": "linkx.LINKX",
    "gprgnn": "gprgnn.GPRGNN",
    "h2gcn": "h2gcn.H2GCN",
    "geom_gcn": "geom_gcn.GeomGCN",
    "ggcn": "ggcn.GGCN",
    "cgnn": "cgnn.CGNN",
    "fsgnn": "fsgnn.FSGNN",
    "graff": "graff.GRAFF",
    "acmii_gcn": "acmii_gcn.ACMIIGCN",
    "ordered_gnn": "ordered_gnn.OrderedGNN",
    "asgc": "asgc.ASGC",
    "tuned_gcn": "tuned.TunedGCN",
    "tuned_gat": "tuned.TunedGAT",
    "tuned_sage": "tuned.TunedSAGE",
    "dir_gnn": "dir_gnn.DirGNN",
    "hops_mlp": "hops_mlp.HopsMLP",
    "stack": "stack.Stack",
    "boosting": "boosting.Boosting",
}
BASELINES = tuple(_CLASSES)
_COMMON_TRAINING = TrainConfig(
    epochs=1000,
    lr=0.01,
    weight_decay=5e-4,
    label_smoothing=None,
    select=None,
    patience=100,
    pump_weight=0.0,
)


def model_class(model: str) -> type[Baseline]:
    """The class of a baseline, imported when asked for.

    Raises:
        ValueError: If there is no such baseline.
    """
    if model not in _CLASSES:
        raise ValueError(f"model must be one of djgnn, {', '.join(BASELINES)} (got '{model}')")
    file, _, name = _CLASSES[model].partition(".")
    return cast(type[Baseline], getattr(import_module(f"djgnn.baselines.{file}"), name))


@cache
def options_of(model: str) -> type[Options]:
    """The dataclass of a baseline's options.

    Raises:
        ValueError: If there is no such baseline.

    Example:
        >>> options_of("gcn")(num_layers=3).dropout
        0.5
    """
    return cast(type[Options], get_type_hints(model_class(model))["options"])


@dataclass(frozen=True)
class BaselineConfig:
    """All settings of a baseline's run.

    Args:
        model: Its name, one of `BASELINES`.
        options: Fields of its :class:`Options`; missing ones take their defaults.
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
    training: TrainConfig = _COMMON_TRAINING
    source: str = "defaults of djgnn"

    def __post_init__(self) -> None:
        kind = options_of(self.model)
        for key in self.options:
            if key not in kind.__dataclass_fields__:
                raise ValueError(_unknown(self.model, key))
        object.__setattr__(self, "options", dataclasses.asdict(kind(**self.options)))

    def replace(self, **changes: Any) -> Self:
        """A copy with options or fields of the training changed, by plain name.

        The source says what was changed.

        Raises:
            ValueError: For a name that neither has, or a value that is not allowed.

        Example:
            >>> BaselineConfig("gcn", source="a paper").replace(lr=0.1, dropout=0.0).source
            'a paper; changed: lr=0.1, dropout=0.0'
        """
        for key in changes:
            if key not in self.options and key not in TrainConfig.__dataclass_fields__:
                raise ValueError(_unknown(self.model, key))
        options = {key: changes.get(key, value) for key, value in self.options.items()}
        training = {key: value for key, value in changes.items() if key not in options}
        said = ", ".join(f"{key}={value}" for key, value in changes.items())
        return type(self)(
            self.model,
            options,
            dataclasses.replace(self.training, **training),
            f"{self.source}; changed: {said}" if said else self.source,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values only, for YAML and JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The inverse of :meth:`to_dict`; missing fields take the model's defaults.

        Raises:
            ValueError: For an unknown section or field, or a value that is not allowed.
        """
        check_names(cls, values)
        model, given = str(values.get("model", "")), values.get("training") or {}
        given = current(given)
        check_names(TrainConfig, given)
        training = {**model_class(model).training_defaults, **given}
        return cls(
            model,
            values.get("options") or {},
            dataclasses.replace(_COMMON_TRAINING, **training),
            str(values.get("source", cls.source)),
        )

    def to_yaml(self) -> str:
        """The configuration as text."""
        return str(yaml.safe_dump(self.to_dict(), sort_keys=False))

    @classmethod
    def read_yaml(cls, path: str | Path) -> Self:
        """Read a configuration file.

        Raises:
            InputError: If it is not readable, not YAML, or not a configuration.
        """
        return read_configuration(path, cls.from_dict)


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
    file = _file(model)
    values: dict[str, Any] = {"model": model}
    if dataset in file.get("datasets", {}):
        own = file["datasets"][dataset]
        values["source"] = own.get("source", file.get("source"))
        for section in ("options", "training"):
            values[section] = {**file.get(section, {}), **own.get(section, {})}
    return BaselineConfig.from_dict(values).replace(**changes)


def published(model: str) -> list[str]:
    """Data sets for which a baseline's published settings are known.

    Example:
        >>> "texas" in published("gcnii")
        True
    """
    return sorted(_file(model).get("datasets", {}))


def search_space(model: str) -> dict[str, Any]:
    """What a search may vary: names of options or training, with their values or range.

    Args:
        model: A baseline, or ``"djgnn"``, whose names are those of its own configuration.

    Returns:
        Name to ``{"values": [...]}`` or ``{"low": a, "high": b, "log": bool}``.

    Raises:
        ValueError: If there is no such model.

    Example:
        >>> search_space("gcn")["dropout"]
        {'values': [0.0, 0.2, 0.4, 0.5, 0.6, 0.8]}
    """
    if model != "djgnn":
        model_class(model)
    return dict(copy.deepcopy(_file(model)["space"]))


@cache
def _file(model: str) -> dict[str, Any]:
    """Published settings and search space of a model; nothing for an unknown one."""
    if model not in (*BASELINES, "djgnn"):
        return {}
    file = resources.files("djgnn.baselines").joinpath("configurations", f"{model}.yaml")
    return dict(yaml.safe_load(file.read_text("utf-8")))


def _unknown(model: str, key: str) -> str:
    own, training = (", ".join(k.__dataclass_fields__) for k in (options_of(model), TrainConfig))
    return f"{model} has no option '{key}'; it has {own}; its training has {training}"
