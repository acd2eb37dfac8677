"""`RunConfig`: the whole recipe of a run, from preset, data set and overrides, to and from YAML."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, Literal, Self

import yaml

from djgnn.checking import Count, NonNegative, Positive, Rate, check_fields, check_names
from djgnn.graph.files import read_configuration
from djgnn.model.config import ModelConfig, preset

REMOVED: dict[str, Any] = {
    "trace_form": "max",
    "structure_dropout": 0.0,
    "structure_weight_decay": None,
    "refresh": "exact",
    "refresh_every": 1,
    "step_per_batch": None,
    "recompute": False,
}
"""Options of version 0.1 and the values that a configuration file may still have for them."""
FIRST, LEAST_PATIENCE, FAST_PATIENCE, MOST_PATIENCE = 5, 25, 30, 50
SOON, CATCH_UP_SOON = 10, 2
LEAST_GAIN, MOST_GAIN, BEHIND, CATCH_UP, LEAST_SHARE = 0.005, 0.02, 0.1, 4, 0.75
GATE = "structure_gate"
"""An option that only version 0.1 has: what the gate decided is in the file, as ``structure``."""
SMALL_DECAY, LARGE_DECAY, MANY_NODES = 5e-5, 5e-4, 5000
"""Weight decay where there are many training nodes, where there are few, and what many are."""


_OLD_MODEL: dict[str, Any] = {"experts": ()}
_OLD_TRAINING: dict[str, Any] = {"label_smoothing": None, "select": None}


@dataclass(frozen=True)
class Pace:
    """How a network with many training nodes is trained otherwise than one with few.

    Args:
        growth: How many times its first learning rate it ends with, see
            :func:`djgnn.training.loop.grown`.
        fast: Whether it waits for at most 30 epochs instead of 50.
        soon: Whether it is given up after 25 epochs if it is behind another expert, and twice what
            it gained in the last ten would not catch up.
    """

    growth: float = 1.0
    fast: bool = False
    soon: bool = False


USUAL = Pace()


@dataclass(frozen=True)
class TrainConfig:
    """How a model is trained.

    Args:
        epochs: Most epochs to run.
        lr: Learning rate of Adam; experts of some branches take a multiple of it and of the decay
            (:meth:`djgnn.model.branches.Branch.rates`).
        weight_decay: Decay of every weight; ``"auto"`` for 5e-5 where there are at least 5,000
            training nodes, and 5e-4 where there are fewer.
        label_smoothing: Share of a label that all classes have in common, in the loss.
        select: What the best epoch is: the one of the best validation ``"score"`` (then lower
            loss), or of the lowest validation ``"loss"`` (then better score); ``None``: the score.
        patience: Stop after this many epochs without a better one; ``None``: never. ``"auto"``:
            see :meth:`ends`.
        class_weight: Factor of each class in the loss: ``None`` 1, ``"balanced"``, or one number
            per class.
        pump_weight: Factor lambda of trace ratio plus orthogonality in the loss.
        decoupled: The paper's mode for large graphs: train the pump alone, then fix the filters.
        pump_epochs: Epochs of the pump alone, when decoupled.
        pump_lr: Its learning rate.
        batch_size: Nodes of a mini-batch, for a DJ-GNN that does not fit otherwise
            (:mod:`djgnn.training.minibatch`). An epoch sees every node once and makes one step
            along the sum of the batches' gradients. ``None``, or as many as there are nodes: no
            batches.

    Raises:
        ValueError: For a value that is not allowed.

    Example:
        >>> TrainConfig(epochs=200, patience=50).lr
        0.01
    """

    epochs: Count = 1000
    lr: Positive = 0.01
    weight_decay: NonNegative | Literal["auto"] = "auto"
    label_smoothing: Rate | None = 0.1
    select: Literal["score", "loss"] | None = "loss"
    patience: Count | Literal["auto"] | None = "auto"
    class_weight: Literal["balanced"] | tuple[NonNegative, ...] | None = None
    pump_weight: NonNegative = 1.0
    decoupled: bool = False
    pump_epochs: Count = 100
    pump_lr: Positive = 0.03
    batch_size: Count | None = None

    def __post_init__(self) -> None:
        check_fields(self)

    def ends(
        self,
        losses: Sequence[float],
        best: int,
        rival: float = math.inf,
        hopeless: float = math.inf,
        chance: float = math.inf,
        pace: Pace = USUAL,
    ) -> bool:
        """Whether training has waited long enough.

        With ``patience="auto"`` it continues while the validation loss falls by half a percent in
        as many epochs as it has taken so far, but at least in 25 and at most in 50. After its first
        50 epochs an expert that is more than a tenth behind another must gain two percent in 25,
        and so much that four times as much again would catch up.

        Args:
            losses: On validation, of all epochs so far.
            best: The best epoch.
            rival: The lowest validation loss of other experts.
            hopeless: So many times the rival's loss a training must be below after 25 epochs, and
                before, from the sixth on, so many times more as the square of 25 / epochs.
            chance: The loss of predicting the class shares. A training that has not improved on it
                has 50 epochs to do so: some networks stay there for long. After them it is behind,
                too, if it has improved on it by less than three quarters of what the rival has.
            pace: How long it is waited for, if not as above.
        """
        if len(losses) >= self.epochs:
            return True
        if self.patience != "auto":
            return self.patience is not None and len(losses) - 1 - best >= self.patience
        early = max(1.0, LEAST_PATIENCE / len(losses)) ** 2
        if len(losses) > FIRST and losses[best] > early * hopeless * rival:
            return True
        if len(losses) < MOST_PATIENCE and (1 - LEAST_GAIN) * chance < losses[best] < math.inf:
            return False
        goal = (1 + BEHIND) * rival
        if chance > rival and chance < math.inf:
            goal = min(goal, chance - LEAST_SHARE * (chance - rival))
        first, window, times = MOST_PATIENCE, LEAST_PATIENCE, CATCH_UP
        if pace.soon:
            first, window, times = LEAST_PATIENCE, SOON, CATCH_UP_SOON
        behind = losses[best] > goal and len(losses) > first
        gain, most = LEAST_GAIN, FAST_PATIENCE if pace.fast else MOST_PATIENCE
        if behind:
            gain, most = MOST_GAIN, LEAST_PATIENCE
            before = min(losses[:-window])
            if losses[best] - times * (before - losses[best]) > goal:
                return True
        mark = last_gain(losses, gain)
        return len(losses) - 1 - mark >= min(max(mark, LEAST_PATIENCE), most)

    def compares(self, epochs: int, hopeless: float = math.inf, pace: Pace = USUAL) -> bool:
        """Whether :meth:`ends` depends on the rival after so many epochs."""
        first = LEAST_PATIENCE if pace.soon else MOST_PATIENCE
        far = epochs > first or (epochs > FIRST and hopeless < math.inf)
        return self.patience == "auto" and far

    def decay(self, train_nodes: int) -> float:
        """The weight decay for so many training nodes."""
        if self.weight_decay == "auto":
            return SMALL_DECAY if train_nodes >= MANY_NODES else LARGE_DECAY
        return self.weight_decay


@dataclass(frozen=True)
class RunConfig:
    """A model configuration, a training configuration, and where they came from.

    Example:
        >>> config = RunConfig().replace(num_jumps=3, lr=0.02)  # by plain name, of either section
        >>> RunConfig.from_dict(config.to_dict()) == config
        True
    """

    model: ModelConfig = field(default_factory=ModelConfig)
    training: TrainConfig = field(default_factory=TrainConfig)
    preset: str = "default"

    def replace(self, **changes: Any) -> Self:
        """A copy with fields of either section changed, by plain name.

        Raises:
            ValueError: For a name that neither section has.
        """
        sections: dict[str, dict[str, Any]] = {"model": {}, "training": {}}
        for key, value in changes.items():
            sections[_section(key)][key] = value
        return dataclasses.replace(
            self,
            model=self.model.replace(**sections["model"]),
            training=dataclasses.replace(self.training, **sections["training"]),
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values only, for YAML and JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The inverse of :meth:`to_dict`; missing fields take their defaults.

        Raises:
            ValueError: For an unknown section or field, or a value that is not allowed.
        """
        unknown = set(values) - {"model", "training", "preset"}
        if unknown:
            raise ValueError(
                f"unknown section '{min(unknown)}'; a configuration has model, training, preset"
            )
        parts: list[Any] = []
        old = GATE in (values.get("training") or {})  # written by version 0.1
        for kind, name in ((ModelConfig, "model"), (TrainConfig, "training")):
            kept = current(values.get(name) or {})
            if old:
                kept = {**(_OLD_MODEL if kind is ModelConfig else _OLD_TRAINING), **kept}
            check_names(kind, kept)
            parts.append(kind(**kept))
        return cls(parts[0], parts[1], str(values.get("preset", "default")))

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


def resolve(name: str = "default", dataset: str | None = None, **changes: Any) -> RunConfig:
    """The configuration of a run.

    For the presets ``author`` and ``paper`` the paper's values for the data set come after those of
    the preset, then the changes. The presets ``default`` and ``full`` (which has the plain experts
    too) are one configuration for every data set.

    Args:
        name: Preset, ``"default"``, ``"full"``, ``"author"`` or ``"paper"``.
        dataset: A data set with a named configuration, see :func:`named_configurations`; any
            other name, or ``None``, leaves the preset as it is.
        **changes: Fields to set, by plain name; ``None`` values are skipped.

    Example:
        >>> resolve("author", "texas").model.num_jumps
        20
    """
    config = RunConfig.from_dict({**preset(name), "preset": name})
    if name in ("author", "paper") and dataset in named_configurations():
        file = _configurations().joinpath(f"{dataset}.yaml")
        own = yaml.safe_load(file.read_text("utf-8"))
        config = config.replace(**own["model"], **own["training"])
    return config.replace(**{key: value for key, value in changes.items() if value is not None})


def last_gain(losses: Sequence[float], gain: float) -> int:
    """The last epoch whose loss was lower by that share than at the one found before it.

    Example:
        >>> last_gain([1.0, 0.9, 0.899, 0.8, 0.85], 0.01)
        3
    """
    mark = 0
    for epoch, loss in enumerate(losses):
        if loss < (1 - gain) * losses[mark]:
            mark = epoch
    return mark


def current(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options without those of version 0.1 whose values changed nothing."""
    return {k: v for k, v in options.items() if k != GATE and (k not in REMOVED or v != REMOVED[k])}


def named_configurations() -> list[str]:
    """Data sets with a configuration, from the paper's last table.

    Example:
        >>> "texas" in named_configurations()
        True
    """
    return sorted(f.name[:-5] for f in _configurations().iterdir() if f.name.endswith(".yaml"))


def _configurations() -> Any:
    return resources.files("djgnn.training").joinpath("configurations")


def _section(key: str) -> str:
    for section, kind in (("model", ModelConfig), ("training", TrainConfig)):
        if key in {f.name for f in dataclasses.fields(kind)}:
            return section
    raise ValueError(f"there is no option '{key}' in a model or training configuration")
