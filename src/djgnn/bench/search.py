"""`Search`: what a search for a configuration is, and how one trial's configuration is drawn."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from djgnn.baselines import baseline_config, search_space
from djgnn.bench.cell import Recipe
from djgnn.bench.code_version import code_version
from djgnn.bench.spec import CellSpec, make_spec, recipe_from
from djgnn.errors import InputError
from djgnn.training.config import resolve

if TYPE_CHECKING:
    import optuna

SAMPLERS = ("tpe", "random")
PRUNERS = ("median", "hyperband", "none")
STARTUP = 5
"""Trials that are never pruned, so that there is something to compare with."""


def need_optuna() -> Any:
    """The package, quiet.

    Raises:
        InputError: If it is not installed.
    """
    try:
        import optuna
    except ImportError as error:
        raise InputError(
            "search: needs optuna; `pip install djgnn[search]` (got no such package)"
        ) from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


@dataclass(frozen=True)
class Search:
    """A search on one data set: everything but the number of trials, which may grow.

    Args:
        label: A model, or ``djgnn:PRESET``.
        dataset: Name of the data set.
        splits: Splits whose validation scores are averaged.
        base: The configuration that trials change, as plain values.
        space: Options to vary: ``{"values": [...]}`` or ``{"low", "high", "log"}``.
        sampler: ``"tpe"`` or ``"random"``.
        pruner: ``"median"``, ``"hyperband"`` or ``"none"``; between splits.
        seed: Seed of the sampler, of weights and of dropout.
        data_sha256: What identifies the data, see :func:`djgnn.bench.spec.data_key`.
        code: Version of the code whose trials count; ``""`` counts those of every version.
    """

    label: str
    dataset: str
    splits: tuple[int, ...]
    base: Mapping[str, Any] = field(hash=False)
    space: Mapping[str, Any] = field(hash=False)
    sampler: str = "tpe"
    pruner: str = "median"
    seed: int = 0
    data_sha256: str = ""
    code: str = ""

    def __post_init__(self) -> None:
        for key, allowed in (("sampler", SAMPLERS), ("pruner", PRUNERS)):
            if getattr(self, key) not in allowed:
                raise InputError(
                    f"{key}: must be one of {', '.join(allowed)} (got '{getattr(self, key)}')"
                )

    @property
    def name(self) -> str:
        """The study's name: the same for the same search, whoever asks for it."""
        said = {key: value for key, value in asdict(self).items() if (key, value) != ("code", "")}
        text = json.dumps(said, sort_keys=True, allow_nan=False)
        return f"{self.label}-{self.dataset}-{hashlib.sha256(text.encode()).hexdigest()[:10]}"

    def spec(self, params: Mapping[str, Any]) -> CellSpec:
        """The cell of a trial; it never reads a test label.

        Raises:
            InputError: If the parameters make no configuration.
        """
        model = self.label.partition(":")[0]
        base = recipe_from(model, self.base)
        spec = make_spec(
            self.label, self.dataset, self.splits, seed=self.seed, recipe=base, changes=params
        )
        return CellSpec(
            spec.label, spec.dataset, spec.config, spec.splits, spec.seed, evaluate=False
        )

    def make_sampler(self, number: int) -> optuna.samplers.BaseSampler:
        """The sampler of one trial, seeded by its number: a resumed search goes on as it would."""
        samplers = need_optuna().samplers
        seed = self.seed * 1_000_003 + number
        sampler: optuna.samplers.BaseSampler
        if self.sampler == "random":
            sampler = samplers.RandomSampler(seed=seed)
        else:
            sampler = samplers.TPESampler(seed=seed, constant_liar=True)
        return sampler

    def make_pruner(self) -> optuna.pruners.BasePruner:
        """The pruner; a step is a split."""
        pruners = need_optuna().pruners
        pruner: optuna.pruners.BasePruner
        if self.pruner == "none" or len(self.splits) < 2:
            pruner = pruners.NopPruner()
        elif self.pruner == "hyperband":
            pruner = pruners.HyperbandPruner(max_resource=len(self.splits))
        else:
            pruner = pruners.MedianPruner(n_startup_trials=STARTUP)
        return pruner

    def suggest(self, trial: optuna.Trial) -> dict[str, Any]:
        """Draw the parameters of a trial, option by option."""
        return {name: _suggest(trial, name, kind) for name, kind in self.space.items()}

    def random_params(self, number: int) -> dict[str, Any]:
        """What the random sampler gives trial `number`, without a study."""
        study = need_optuna().create_study(sampler=self.make_sampler(number))
        return self.suggest(study.ask())


def make_search(
    label: str,
    dataset: str,
    splits: tuple[int, ...],
    *,
    epochs: int | None = None,
    preset: str = "default",
    any_code: bool = False,
    **options: Any,
) -> Search:
    """The search of a model: from its defaults, the same for every data set, over its space.

    Published settings of the data set are not the base: they are the outcome of someone's search,
    with a budget of its own. Unless `any_code`, only trials of this version of the code count: the
    search of another version is another study.

    Raises:
        InputError: For an unknown model or preset, or a model without a space.
    """
    model, _, variant = label.partition(":")
    base: Recipe
    try:
        if (
            model == "djgnn"
        ):  # one training per trial, as for every model; the branch is in the space
            base = resolve(variant or preset).replace(structure_gate=False)
        else:
            base = baseline_config(model)
        space = search_space(model)
    except ValueError as error:
        raise InputError(f"search: {error}") from error
    config = make_spec(label, dataset, splits, epochs=epochs, recipe=base).config
    code = "" if any_code else code_version(model)
    return Search(label, dataset, splits, config, space, code=code, **options)


def _suggest(trial: optuna.Trial, name: str, kind: Mapping[str, Any]) -> Any:
    if "values" in kind:
        return trial.suggest_categorical(name, list(kind["values"]))
    low, high, log = kind["low"], kind["high"], bool(kind.get("log", False))
    if isinstance(low, int) and isinstance(high, int):
        return trial.suggest_int(name, low, high, log=log)
    return trial.suggest_float(name, float(low), float(high), log=log)
