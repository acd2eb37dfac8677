"""Options that several commands share, and what they mean. No heavy imports at the top."""

import functools
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, TypeAlias, cast

import typer

from djgnn.errors import InputError

File: TypeAlias = Path | None
Text: TypeAlias = str | None
Texts: TypeAlias = list[str] | None
Whole: TypeAlias = int | None


def option(text: str, *flags: str, **more: Any) -> Any:
    """An option of a command with its help."""
    return typer.Option(*flags, help=text, **more)


Data = Annotated[File, option("Folder with <name>.npz files, looked in first.")]
Device = Annotated[str, option("auto, cpu or cuda.")]
Seed = Annotated[int, option("Seed of splits, weights and dropout.", min=0, max=2**62)]
Quiet = Annotated[bool, option("Print nothing but results and errors.", "--quiet")]
Json = Annotated[bool, option("Print one JSON object.", "--json")]
Run = Annotated[Path, typer.Argument(help="A folder written by `djgnn fit`.")]
Preset = Annotated[
    str, option("default, full (with plain experts), author (published code), paper.")
]


@dataclass(frozen=True)
class Recipe:
    """The configuration of a model: a preset or a file, and what is changed in it."""

    preset: Annotated[
        Text,
        option(
            "default: networks; full: with class shares, label propagation and boosting; author: "
            "the published code; paper: its text. Own graphs have full, --dataset has default."
        ),
    ] = None
    config: Annotated[File, option("YAML configuration; replaces the preset.")] = None
    change: Annotated[Texts, option("Change one option, KEY=VALUE; may be repeated.", "--set")] = (
        None
    )
    epochs: Annotated[Whole, option("Most epochs.", min=1)] = None
    patience: Annotated[
        Whole, option("Stop after so many epochs without a better validation score.", min=1)
    ] = None
    jumps: Annotated[Whole, option("Number of jumps K (num_jumps).", min=1)] = None
    batch_size: Annotated[Whole, option("Train in mini-batches of so many nodes.")] = None
    class_weight: Annotated[
        Text, option("'balanced': all classes weigh the same in the loss, rare ones too.")
    ] = None
    select: Annotated[
        Text, option("Epochs are chosen by the validation 'loss' or 'score' (of --metric).")
    ] = None

    def changes(self) -> dict[str, Any]:
        """The options to set, by name; values of ``--set`` as in YAML (numbers, true, null, text).

        Raises:
            InputError: If a pair is not one.

        Example:
            >>> Recipe(change=["lr=0.01", "support=author", "patience=null"], jumps=3).changes()
            {'lr': 0.01, 'support': 'author', 'patience': None, 'num_jumps': 3}
        """
        import yaml

        found: dict[str, Any] = {}
        for pair in self.change or []:
            key, equals, value = pair.partition("=")
            if not equals or not key:
                raise InputError(f"--set: must be KEY=VALUE (got '{pair}')")
            if key.strip() == "folds":
                raise InputError(f"--set folds: is an option of `djgnn fit`; give --folds {value}")
            try:
                found[key.strip()] = yaml.safe_load(value)
            except yaml.YAMLError as error:
                raise InputError(f"--set {key}: is not a value: {error} (got '{value}')") from error
        same = ("epochs", "patience", "batch_size", "class_weight", "select")
        own = {name: getattr(self, name) for name in same}
        own["num_jumps"] = self.jumps
        return found | {key: value for key, value in own.items() if value is not None}

    def resolve(self, dataset: str | None, model: str = "djgnn") -> Any:
        """The `RunConfig` of a DJ-GNN, or a baseline's published settings, with the changes.

        Raises:
            InputError: For an unknown preset or option, or a value that is not allowed.
        """
        from djgnn.training.config import RunConfig, resolve

        try:
            if model != "djgnn":
                from djgnn.baselines.config import baseline_config
                from djgnn.bench.spec import read_recipe

                if self.config is None:
                    return baseline_config(model, dataset, **self.changes())
                return read_recipe(model, self.config).replace(**self.changes())
            base = RunConfig.read_yaml(self.config) if self.config else None
            preset = self.preset or ("full" if dataset is None else "default")
            return (base or resolve(preset, dataset)).replace(**self.changes())
        except InputError:
            raise
        except (ArithmeticError, TypeError, ValueError) as error:
            raise InputError(f"configuration: {error}") from error


@dataclass(frozen=True)
class FitOptions:
    """How `djgnn fit` runs, and where it writes."""

    out: Annotated[Path, option("Folder for the run; must not exist yet.")]
    split: Annotated[int, option("Which stored split.")] = 0
    folds: Annotated[
        int | None,
        option(
            "Members of every expert, each of which learns from the labels outside of one fold; 4 "
            "for an own graph with fewer than 20,000 labels, 1 sets a part of them aside.",
            min=1,
        ),
    ] = None
    coverage: Annotated[
        float | None,
        option(
            "How often the column `set` must have the right class, from 0 to 1; 0.9, or 0.95 or "
            "0.99 where the model is right more often than that."
        ),
    ] = None
    coverage_by: Annotated[
        str, option("'all': of all nodes together; 'class': of every class by itself.")
    ] = "all"
    importance: Annotated[
        bool | None,
        option(
            "Measure what each column of the node table is worth; by default where that takes "
            "seconds.",
            "--importance/--no-importance",
        ),
    ] = None
    seed: Seed = 0
    device: Device = "auto"
    overwrite: Annotated[bool, option("Replace a run that is there.", "--overwrite")] = False
    resume: Annotated[bool, option("Continue a run that was stopped.", "--resume")] = False
    checkpoint_every: Annotated[float, option("Seconds between two checkpoints.", min=0)] = 10.0
    report: Annotated[bool, option("Write the run's page, report.html.")] = True
    record: Annotated[
        bool, option("Keep snapshots of training for the report's player.", "--record")
    ] = False
    quiet: Quiet = False
    as_json: Json = False


def with_options(command: Callable[..., Any], **defaults: Any) -> Callable[..., Any]:
    """Replace every parameter of a command that is a dataclass by options, one per field.

    Args:
        command: Its dataclass parameters are built from the options.
        **defaults: Values of options that differ from those of their fields.

    Example:
        >>> @with_options
        ... def show(recipe: Recipe, seed: int = 0) -> None: ...
        >>> list(inspect.signature(show).parameters)[-2:]
        ['select', 'seed']
    """
    parameters: dict[str, inspect.Parameter] = {}
    groups: dict[str, Any] = {}
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        parts, kind = [parameter], parameter.annotation
        if is_dataclass(kind):
            groups[parameter.name] = kind
            parts = list(inspect.signature(cast(Any, kind), eval_str=True).parameters.values())
        for part in parts:
            default = defaults.get(part.name, part.default)
            parameters[part.name] = part.replace(kind=part.KEYWORD_ONLY, default=default)

    @functools.wraps(command)
    def run(**values: Any) -> Any:
        built = {
            name: kind(**{field.name: values.pop(field.name) for field in fields(kind)})
            for name, kind in groups.items()
        }
        return command(**built, **values)

    run.__signature__ = inspect.Signature(list(parameters.values()))  # type: ignore[attr-defined]
    run.__annotations__ = {name: p.annotation for name, p in parameters.items()}
    return run


def check_choice(flag: str, value: Any, choices: Iterable[str]) -> None:
    """Refuse a value of an option that is not one of its choices.

    Raises:
        InputError: With all of them.
    """
    if value not in choices:
        raise InputError(f"{flag}: must be one of {', '.join(choices)} (got {value!r})")
