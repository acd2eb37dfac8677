"""What the estimator's arguments may be."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import check_random_state

from djgnn.errors import InputError
from djgnn.graph import Graph

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def factors(given: str | Mapping[Any, float], classes: NDArray[Any]) -> Any:
    """The weights of the classes in their order; a label that is not named counts 1."""
    if isinstance(given, str):
        return given
    unknown = set(given) - set(classes.tolist())
    if unknown:
        raise ValueError(f"class_weight names {next(iter(unknown))!r}, which is no label in y")
    return tuple(float(given.get(label, 1.0)) for label in classes.tolist())


def check_graph(graph: Any) -> None:
    """Refuse what is no graph."""
    if not isinstance(graph, Graph):
        raise InputError(
            "graph: must be a djgnn.graph.Graph; djgnn.graph.from_frames and read_tables make one "
            f"(got {type(graph).__name__})"
        )


def seed_of(given: Any) -> int:
    """A seed from what scikit-learn takes for a `random_state`."""
    if given is None or isinstance(given, np.random.RandomState):
        return int(check_random_state(given).randint(2**31))
    try:
        seed = operator.index(given)
    except TypeError as error:
        raise InputError(
            f"random_state: must be a whole number, None or a RandomState (got {given!r})"
        ) from error
    if not 0 <= seed < 2**63:
        raise InputError(f"random_state: must be at least 0 and below 2**63 (got {seed})")
    return seed


def node_weights(given: ArrayLike | None, known: NDArray[np.bool_]) -> NDArray[np.float64] | None:
    """The weights of the nodes whose label is known."""
    if given is None:
        return None
    values = np.asarray(given, dtype=np.float64)
    if values.shape != known.shape:
        raise InputError(
            f"sample_weight: must have one weight per node, [{known.size}] "
            f"(got {list(values.shape)})"
        )
    kept = values[known]
    if not np.isfinite(kept).all() or (kept < 0).any() or kept.sum() <= 0:
        raise InputError(
            "sample_weight: must be finite, not negative, and positive for some node of known label"
        )
    return kept
