"""Labels as people write them: which mean unknown, which are the same, how they are ordered."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from djgnn.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

WHOLE = re.compile(r"^([+-]?\d+)\.0*$")


def class_order(names: Sequence[str]) -> list[str]:
    """Class names in their order: by number if all are numbers, else by text.

    Example:
        >>> class_order(["10", "9"]), class_order(["b", "a", "10"])
        (['9', '10'], ['10', 'a', 'b'])
    """
    try:
        values = {name: float(name) for name in names}
    except ValueError:
        return sorted(names)
    if not all(np.isfinite(value) for value in values.values()):
        return sorted(names)
    return sorted(names, key=lambda name: (values[name], name))


def plain_number(text: str) -> str:
    """A whole number written as a float without its fraction; anything else as it is.

    Example:
        >>> plain_number("-1.0"), plain_number("1.5"), plain_number("a.0")
        ('-1', '1.5', 'a.0')
    """
    return WHOLE.sub(r"\1", text)


def is_unknown(value: Any) -> bool:
    """Whether a label means unknown: None, NaN, NA, -1 or nothing, also as text.

    Example:
        >>> [is_unknown(label) for label in (None, float("nan"), -1, "-1.0", "", 0, "a")]
        [True, True, True, True, True, False, False]
    """
    try:
        return bool(value is None or value != value or plain_number(str(value)) in ("", "-1"))
    except TypeError:  # pandas.NA has no truth value
        return True


def one_per_node(y: ArrayLike, num_nodes: int) -> NDArray[Any]:
    """Labels of any type as an array of objects ``[n]``.

    Raises:
        InputError: If there is not one per node.
    """
    values = np.asarray(y, dtype=object)
    if values.shape != (num_nodes,):
        raise InputError(
            f"y: must have one label per node, [{num_nodes}] (got {list(values.shape)})"
        )
    return values


def codes_of(labels: Sequence[Any] | NDArray[Any], classes: Sequence[Any]) -> NDArray[np.int64]:
    """The number of each label among the classes, -1 for one that is not there.

    Example:
        >>> codes_of([1, 1.0, "1", "b"], [0, 1]).tolist()
        [1, 1, 1, -1]
    """
    known = {label: code for code, label in enumerate(classes)}
    words = {plain_number(str(label)): code for label, code in known.items()}
    found = [known.get(v, words.get(plain_number(str(v)), -1)) for v in labels]
    return np.array(found, dtype=np.int64)
