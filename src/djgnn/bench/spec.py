"""`CellSpec`: what a cell of a table runs, as plain values; what identifies it and its data."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Self

import msgspec

import djgnn
from djgnn.baselines import BASELINES, BaselineConfig, baseline_config
from djgnn.bench.cell import Recipe, model_of
from djgnn.checking import shorten
from djgnn.errors import InputError, printable
from djgnn.graph import Graph
from djgnn.model.config import PRESETS
from djgnn.training.config import GATE, REMOVED, RunConfig, resolve

MODELS = ("djgnn", *BASELINES)
USUAL_METRIC, CLASSES = "accuracy", "classes="
NOT_COMPUTED_WITH = ("source", "preset")
"""Sections of a configuration that say where it comes from and change no number."""


@dataclass(frozen=True)
class CellSpec:
    """A model with its configuration, a data set, a seed, and which splits.

    Args:
        label: How the row is called: a model, or ``djgnn:PRESET``.
        dataset: Name of the data set.
        config: The configuration as plain values.
        splits: Which splits.
        seed: Seed of weights and dropout.
        evaluate: Whether test labels are read once a model is finished; a search does not.
    """

    label: str
    dataset: str
    config: Mapping[str, Any] = field(hash=False)
    splits: tuple[int, ...]
    seed: int = 0
    evaluate: bool = True

    def __post_init__(self) -> None:
        for name in (self.label, self.dataset):
            if not isinstance(name, str) or printable(name) != name:
                raise InputError(
                    "cell: names of rows and data sets are text without control characters; rename "
                    f"it (got {shorten(name)})"
                )

    @property
    def model(self) -> str:
        """The model behind the label."""
        return self.label.partition(":")[0]

    def recipe(self) -> Recipe:
        """The configuration as the model wants it.

        Raises:
            InputError: If it is not one of this model.
        """
        kind = RunConfig if self.model == "djgnn" else BaselineConfig
        try:
            found: Recipe = kind.from_dict(self.config)
            if model_of(found) != self.model:
                raise ValueError(f"it is one of {model_of(found)}")
        except (TypeError, ValueError) as error:
            raise InputError(f"{self.model}: not a configuration of this model: {error}") from error
        return found

    def key(self, split: int, data_sha256: str, code: str) -> str:
        """What identifies the result of one split: everything that can change it.

        `data_sha256` is what identifies the data, see :func:`data_key`.
        """
        return self.keys(split, data_sha256, code)[0]

    def keys(self, split: int, data_sha256: str, code: str) -> list[str]:
        """The key, and those that records of older versions have.

        Options that are ``None``, and removed ones with the value that changed nothing, do not
        count: neither an option that is added later nor one that is removed changes a key.
        """
        said = {k: v for k, v in self.config.items() if k not in NOT_COMPUTED_WITH}
        gone = {**REMOVED, GATE: False}
        forms = (*(_counting(said, each) for each in (gone, REMOVED, {})), said)
        rest = (self.seed, self.evaluate, data_sha256, code)
        contents = ([[self.model, self.dataset, form, *rest], split] for form in forms)
        texts = (json.dumps(content, sort_keys=True, allow_nan=False) for content in contents)
        return [hashlib.sha256(text.encode()).hexdigest()[:24] for text in texts]

    def to_json(self) -> str:
        """One line."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, line: str) -> Self:
        """The inverse of :meth:`to_json`.

        Raises:
            InputError: If it is not such a specification.
        """
        try:
            spec = msgspec.json.decode(line, type=cls)
        except (msgspec.DecodeError, RecursionError, UnicodeEncodeError) as error:
            raise InputError(
                f"cell: must have label, dataset, config and splits (got {line[:80]!r}: {error})"
            ) from error
        spec.recipe()
        return spec


@cache
def code_version() -> str:
    """The version of this package and a hash of its source, such as ``1.0.0+1f2e3d4c``."""
    root, digest = Path(djgnn.__file__).parent, hashlib.sha256()
    for file in sorted(f for f in root.rglob("*") if f.suffix in (".py", ".yaml")):
        digest.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes())
    return f"{djgnn.__version__}+{digest.hexdigest()[:8]}"


def data_key(graph: Graph) -> str:
    """What identifies the data of a result: its hash, and the metric unless it is accuracy.

    The number of classes follows if it is not that of the labels.

    Example:
        >>> import numpy as np
        >>> nodes = {"edge_index": np.zeros((2, 0), dtype=np.int64), "num_nodes": 2}
        >>> plain = Graph(**nodes, y=np.array([0, 1]))
        >>> data_key(plain) == plain.content_hash
        True
        >>> other = Graph(**nodes, y=np.array([0, 1]), card={"metric": "roc_auc"})
        >>> data_key(other).partition("+")[1:]
        ('+', 'roc_auc')
    """
    parts = [graph.content_hash]
    if graph.metric != USUAL_METRIC:
        parts.append(graph.metric)
    if graph.num_classes != int(graph.labels.max()) + 1:
        parts.append(f"{CLASSES}{graph.num_classes}")
    return "+".join(parts)


@dataclass(frozen=True)
class DataFacts:
    """What is known of a data set; `sizes` are train, validation, test nodes per split.

    `sha256` is what identifies its data, see :func:`data_key`.
    """

    name: str
    sha256: str
    metric: str
    sizes: tuple[tuple[int, int, int], ...]
    remarks: tuple[str, ...] = ()
    counterpart: str = ""

    @classmethod
    def of(cls, graph: Graph) -> Self:
        """Read them off a graph."""
        splits = [graph.split(split) for split in range(graph.num_splits)]
        return cls(
            name=graph.name,
            sha256=data_key(graph),
            metric=graph.metric,
            sizes=tuple((int(s.train.sum()), int(s.val.sum()), int(s.test.sum())) for s in splits),
            remarks=tuple(str(text) for text in graph.card.get("oddities", ())),
            counterpart=str(graph.card.get("counterpart") or ""),
        )

    def overlap(self, splits: Sequence[int]) -> tuple[float, float]:
        """What a test over splits that overlap needs, see :func:`~.statistics.corrected_t`.

        Returns:
            Test nodes divided by training nodes; what one test node is worth in percent of
            accuracy, 0 for ROC-AUC, which has finer steps.
        """
        train, test = (sum(self.sizes[s][part] for s in splits) for part in (0, 2))
        worth = 100 * len(splits) / test if self.metric == "accuracy" and test else 0.0
        return test / train if train else 0.0, worth


def gather_facts(
    names: Sequence[str], data: str | Path | None = None
) -> tuple[dict[str, DataFacts], dict[str, str]]:
    """The facts of data sets, by their registered name, and why the others cannot be had."""
    found, refused = {}, {}
    for name in names:
        try:
            graph = Graph.load(name, data=data)
            if not graph.num_splits:
                raise InputError(f"{graph.name}: has no splits to run over; add masks to its file")
            found[graph.name] = DataFacts.of(graph)
        except InputError as error:
            refused[name] = str(error)
    return found, refused


def make_spec(
    label: str,
    dataset: str,
    splits: tuple[int, ...],
    *,
    seed: int = 0,
    preset: str = "default",
    epochs: int | None = None,
    recipe: Recipe | None = None,
    changes: Mapping[str, Any] | None = None,
) -> CellSpec:
    """The cell of a model on a data set, with its published settings unless told otherwise.

    Args:
        label: A model, or ``djgnn:PRESET``.
        dataset: Name of the data set.
        splits: Which splits.
        seed: Seed of weights and dropout.
        preset: The DJ-GNN's preset where the label has none.
        epochs: Most epochs; ``None``: as configured.
        recipe: A configuration to use instead, such as a search's best one.
        changes: Options to change, by plain name.

    Raises:
        InputError: For an unknown model, preset or option.

    Example:
        >>> spec = make_spec("djgnn:author", "texas", (0, 1), epochs=5)
        >>> spec.model, spec.config["model"]["num_jumps"], spec.config["training"]["epochs"]
        ('djgnn', 20, 5)
    """
    model, variant = _parse_label(label)
    wanted_changes = {**(changes or {}), **({} if epochs is None else {"epochs": epochs})}
    try:
        if recipe is None and model == "djgnn":
            recipe = resolve(variant or preset, dataset)
        recipe = recipe or baseline_config(model, dataset)
        # As JSON gives it back, so that a key is the same on both sides.
        config = json.loads(json.dumps(recipe.replace(**wanted_changes).to_dict(), allow_nan=False))
    except InputError:
        raise
    except (TypeError, ValueError) as error:
        raise InputError(f"configuration: {error}") from error
    return CellSpec(label, dataset, config, splits, seed)


def default_recipe(label: str, preset: str = "default") -> Recipe:
    """The configuration of a model that is the same for every data set.

    Raises:
        InputError: For an unknown model or preset.
    """
    model, variant = _parse_label(label)
    return resolve(variant or preset) if model == "djgnn" else baseline_config(model)


def read_recipe(model: str, path: str | Path) -> Recipe:
    """A configuration file of a model.

    Raises:
        InputError: If it is not one.
    """
    found: Recipe = (RunConfig if model == "djgnn" else BaselineConfig).read_yaml(path)
    if model_of(found) != model:
        raise InputError(f"{path}: is a configuration of {model_of(found)}, not of {model}")
    return found


def _parse_label(label: str) -> tuple[str, str]:
    """The model and the preset of a label; an empty preset if there is none."""
    model, _, variant = label.partition(":")
    if model not in MODELS:
        raise InputError(f"model: must be one of {', '.join(MODELS)} (got '{label}')")
    if variant and (model != "djgnn" or variant not in PRESETS):
        wanted = ", ".join(f"djgnn:{name}" for name in PRESETS)
        raise InputError(f"model: only the DJ-GNN has presets, {wanted} (got '{label}')")
    return model, variant


def _counting(values: Any, removed: Mapping[str, Any]) -> Any:
    """The options that count: not those that are ``None`` or have their value in `removed`.

    Example:
        >>> _counting({"training": {"lr": 0.1, "patience": None, "old": 1}}, {"old": 1})
        {'training': {'lr': 0.1}}
    """
    if not isinstance(values, Mapping):
        return values
    return {
        key: _counting(value, removed)
        for key, value in values.items()
        if value is not None and not (key in removed and removed[key] == value)
    }
