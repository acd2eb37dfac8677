"""`Search`: what a search for a configuration is, and the Optuna study that holds its trials."""

from __future__ import annotations

import hashlib
import json
import re
import time
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from djgnn.baselines import search_space
from djgnn.bench.spec import CellSpec, code_version, default_recipe, make_spec
from djgnn.checking import check_fields
from djgnn.errors import InputError

if TYPE_CHECKING:
    import optuna

STARTUP = 5
"""Trials that are never pruned, so that there is something to compare with."""
BEAT, GRACE, RETRIES = 20, 120, 2
"""Seconds between two heartbeats of a trial and without one before it is retried; how often."""
OPENING = 8
"""Attempts to open a storage: two processes may be making its tables at the same moment."""


def need_optuna() -> Any:
    """The package, without its messages and its warnings that heartbeats may change.

    Raises:
        InputError: If it is not installed.
    """
    try:
        import optuna
    except ImportError as error:
        raise InputError(
            "search: needs optuna; `pip install djgnn[search]` (got no such package)"
        ) from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
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
    sampler: Literal["tpe", "random"] = "tpe"
    pruner: Literal["median", "hyperband", "none"] = "median"
    seed: int = 0
    data_sha256: str = ""
    code: str = ""

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def name(self) -> str:
        """The study's name: the same for the same search in every process."""
        said = {key: value for key, value in asdict(self).items() if (key, value) != ("code", "")}
        text = json.dumps(said, sort_keys=True, allow_nan=False)
        return f"{self.label}-{self.dataset}-{hashlib.sha256(text.encode()).hexdigest()[:10]}"

    def spec(self, params: Mapping[str, Any]) -> CellSpec:
        """The cell of a trial; it never reads a test label of its splits.

        Raises:
            InputError: If the parameters make no configuration.
        """
        base = CellSpec(self.label, self.dataset, self.base, self.splits, self.seed, evaluate=False)
        of = (self.label, self.dataset, self.splits)
        return replace(base, config=make_spec(*of, recipe=base.recipe(), changes=params).config)

    def sampler_of(self, number: int) -> optuna.samplers.BaseSampler:
        """The sampler of one trial, seeded by its number: a resumed search draws the same."""
        samplers, seed = need_optuna().samplers, self.seed * 1_000_003 + number
        # Parameters one by one, when they are asked for: by then the number is known.
        tpe = partial(samplers.TPESampler, constant_liar=True, multivariate=False)
        chosen: optuna.samplers.BaseSampler
        chosen = (tpe if self.sampler == "tpe" else samplers.RandomSampler)(seed=seed)
        return chosen

    def suggest(self, trial: optuna.Trial) -> dict[str, Any]:
        """Draw the parameters of a trial, option by option."""
        for name, kind in self.space.items():
            if "values" in kind:
                trial.suggest_categorical(name, list(kind["values"]))
                continue
            ends = (kind["low"], kind["high"])
            whole = all(isinstance(end, int) for end in ends)
            suggest: Any = trial.suggest_int if whole else trial.suggest_float
            suggest(name, *ends, log=bool(kind.get("log", False)))
        return trial.params


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
    model = label.partition(":")[0]
    try:
        base = default_recipe(label, preset)
        space = search_space(model)
        config = make_spec(label, dataset, splits, epochs=epochs, recipe=base).config
        code = "" if any_code else code_version()
        return Search(label, dataset, splits, config, space, code=code, **options)
    except InputError:
        raise
    except ValueError as error:
        raise InputError(f"search: {error}") from error


def open_study(search: Search, url: str) -> optuna.Study:
    """The study of a search in a storage; both are made if they are not there.

    A trial whose process gives no heartbeat for :data:`GRACE` seconds is retried. The sampler is
    to be replaced by that of the trial, see :meth:`Search.sampler_of`. A storage is called such as
    ``sqlite:///file`` or ``postgresql://...``.

    Raises:
        InputError: If the address is wrong or the storage cannot be opened.
    """
    lib = need_optuna()
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError, SQLAlchemyError

    try:
        broken = "@" in (make_url(url).host or "")
    except (ArgumentError, ValueError):
        broken = True
    if broken:  # nothing of it is repeated, it has a password
        raise InputError(
            "storage: not an address such as postgresql://user:password@host:5432/name; write @, "
            ":, / and % in a password as %40, %3A, %2F, %25"
        ) from None
    url = re.sub("^postgres(ql)?://", "postgresql+psycopg2://", url)
    pruner = lib.pruners.NopPruner()
    if search.pruner == "median" and len(search.splits) > 1:
        pruner = lib.pruners.MedianPruner(n_startup_trials=STARTUP)
    elif search.pruner == "hyperband" and len(search.splits) > 1:
        pruner = lib.pruners.HyperbandPruner(max_resource=len(search.splits))
    for attempt in range(1, OPENING + 1):
        try:
            storage = lib.storages.RDBStorage(
                url,
                {"connect_args": {"timeout": 60}} if url.startswith("sqlite:") else {},
                heartbeat_interval=BEAT,
                grace_period=GRACE,
                heartbeat_stale_trial_callback=lib.storages.RetryHeartbeatStaleTrialCallback(
                    RETRIES
                ),
            )
            study: optuna.Study = lib.create_study(
                storage=storage,
                study_name=search.name,
                direction="maximize",
                load_if_exists=True,
                sampler=search.sampler_of(0),
                pruner=pruner,
            )
            return study
        except (ImportError, SQLAlchemyError) as error:
            if isinstance(error, ImportError) or attempt == OPENING:
                reason = " ".join(str(getattr(error, "orig", error)).split())[:200]
                raise InputError(
                    "storage: cannot be opened; check the address, the password and that the "
                    f"server runs (got {reason})"
                ) from error
            time.sleep(0.05 * 2**attempt)
    raise AssertionError("not reached")
