"""What the parameters of `DJClassifier` stand for: a seed, a configuration, folds or a split."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from djgnn.errors import InputError
from djgnn.graph import Graph, random_splits
from djgnn.training.config import RunConfig, resolve
from djgnn.training.folds import with_splits
from djgnn.training.stored import StoredModel

# Parameters that stand for an option of the model or of its training.
NAMED = (
    "num_jumps", "hidden_channels", "dropout", "lr", "weight_decay", "epochs", "patience", "select",
)  # fmt: skip


def seed_of(given: Any) -> int:
    """A seed from what scikit-learn takes for a `random_state`."""
    if given is None or isinstance(given, np.random.RandomState):
        return int(check_random_state(given).randint(2**31))
    if not isinstance(given, int | np.integer) or not 0 <= given < 2**63:
        raise InputError(
            f"random_state: must be a whole number of at least 0 and below 2**63, None or a "
            f"RandomState (got {given!r})"
        )
    return int(given)


def config_of(
    preset: str,
    named: Mapping[str, Any],
    options: Mapping[str, Any] | None,
    class_weight: str | Mapping[Any, float] | None,
    classes: NDArray[Any],
) -> RunConfig:
    """The configuration that parameters stand for.

    Args:
        preset: Where it begins.
        named: Options that are parameters, see ``NAMED``; ``None`` changes nothing.
        options: Others, by name.
        class_weight: Of every label, by label; one that is not named counts 1.
        classes: The labels.

    Raises:
        InputError: For an option or a value that is not allowed.
    """
    weight: Any = class_weight
    if isinstance(weight, Mapping):
        unknown = set(weight) - set(classes.tolist())
        if unknown:
            raise InputError(f"class_weight: {next(iter(unknown))!r} is not a label in y")
        weight = tuple(float(weight.get(label, 1.0)) for label in classes.tolist())
    given = {name: value for name, value in named.items() if value is not None}
    if weight is not None:
        given["class_weight"] = weight
    if "folds" in (options or {}):
        raise InputError("options: folds is a parameter; give DJClassifier(folds=...)")
    try:
        return resolve(preset).replace(**dict(options or {})).replace(**given)
    except (TypeError, ValueError) as error:
        raise InputError(f"options: {error}") from error


def splits_of(
    graph: Graph, config: RunConfig, folds: Any, validation_size: float, seed: int
) -> tuple[Graph, RunConfig]:
    """The graph with its folds or its split, and the configuration that learns from them.

    Args:
        graph: With a split of its own, or none.
        config: What to train.
        folds: How many; ``None`` for the rule of :func:`djgnn.training.folds.with_splits`.
        validation_size: Share of the labels to set aside where there are no folds.
        seed: Of folds and split.

    Raises:
        InputError: If there cannot be so many folds, no class has two nodes, or the share is not
            between 0 and 1.
    """
    whole = isinstance(folds, int | np.integer) and not isinstance(folds, bool)
    if folds is not None and not (whole and folds >= 1):
        raise InputError(f"folds: must be None or a whole number of at least 1 (got {folds!r})")
    if graph.num_splits and folds not in (None, 1):
        raise InputError(
            "folds: the graph has a split of its own, which is kept; leave folds out, or give the "
            f"labels to learn from as y (got {folds})"
        )
    y = graph.labels[graph.labels >= 0]
    if y.size > 1 and np.bincount(y).max() == 1 and not graph.num_splits:
        raise InputError(
            "y: the labels are all different, so no class has two nodes to learn from one and "
            f"check on the other; give classes, and some nodes of each (got {y.size} labels)"
        )
    if not 0 < validation_size < 1:
        raise InputError(f"validation_size: must be between 0 and 1 (got {validation_size!r})")
    found, config = with_splits(graph, config, None if folds is None else int(folds), seed)
    if graph.num_splits or config.model.folds:
        return found, config
    share = validation_size
    return random_splits(graph, train=1 - share, val=share, random_state=seed), config


def arguments_of(stored: StoredModel) -> dict[str, Any]:
    """Arguments of the constructor that train as a run was trained."""
    preset, mine = stored.config.preset, stored.config.to_dict()
    usual = resolve(preset).to_dict()
    options = {
        name: value
        for section in ("model", "training")
        for name, value in mine[section].items()
        if value != usual[section][name]
    }
    named = {n: options.pop(n) for n in (*NAMED, "folds") if options.get(n) is not None}
    return {"preset": preset, **named, "options": options or None}
