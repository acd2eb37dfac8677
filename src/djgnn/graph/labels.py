"""Labels as people write them: which mean unknown, which are the same, how they are ordered."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from djgnn.errors import InputError

WHOLE = re.compile(r"^([+-]?\d+)\.0*$")
MOST_FRACTIONS = 100


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


def one_per_node(y: Any, size: int, rows: str = "one label per node") -> NDArray[Any]:
    """Labels of any type as an array ``[size]`` of their type, without one as objects.

    Args:
        y: An array, a column, a list, a tensor, or a series of a data frame.
        size: How many there must be.
        rows: What they are, for messages.

    Raises:
        InputError: If there are more or fewer, or several per node.
    """
    y = y.detach().cpu().numpy() if hasattr(y, "detach") else y
    values = np.asarray(y) if hasattr(y, "dtype") else np.asarray(y, dtype=object)
    values = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
    if values.shape != (size,):
        several = "; several labels per node are not supported" if values.ndim > 1 else ""
        raise InputError(f"y: must have {rows}, [{size}]{several} (got {list(values.shape)})")
    return values


def in_order(y: Any, names: Sequence[str]) -> NDArray[Any]:
    """Labels in the order of the nodes, given one per node or as a mapping from names.

    A series of pandas whose index has the names is such a mapping.

    Raises:
        InputError: If there is not one label per node, or one is of a node that is not there.

    Example:
        >>> in_order({"b": 1}, ("a", "b")).tolist()
        [None, 1]
    """
    if not isinstance(y, Mapping) and not _is_by_name(y, names):
        return one_per_node(y, len(names))
    given = {str(node): label for node, label in y.items()}
    strangers = given.keys() - set(names)
    if strangers:
        raise InputError(
            f"y: {min(strangers)!r} is not a node of the graph; name the nodes as the graph does, "
            f"as {names[0]!r} ({len(strangers)} such entries)"
        )
    return as_objects([given.get(name) for name in names])


def _is_by_name(y: Any, names: Sequence[str]) -> bool:
    """Whether labels are a series whose index has the names of the nodes, in another order.

    Raises:
        InputError: If the index has some of the names, some twice, or may as well count rows.
    """
    index: Any = getattr(y, "index", None)
    if not hasattr(index, "tolist") or not hasattr(y, "items") or np.ndim(y) != 1:
        return False
    keys: list[Any] = index.tolist()
    given, rows = [str(key) for key in keys], [str(row) for row in range(len(names))]
    text = any(isinstance(key, str) for key in keys)
    if given == list(names) or (given == rows and not text):
        return False
    met, once = set(given) & set(names), len(set(given)) == len(given)
    if once and len(met) == len(given) == len(names):
        if text or met != set(rows) or list(names) == rows:
            return True
        problem = "has the names of the nodes, but may as well count rows"
    elif text and met:
        problem = f"has {len(met)} of {len(names)} nodes" if once else "has a node twice"
    else:
        return False
    raise InputError(
        f"y: its index {problem}; give y.to_dict() to go by name, others being unknown, or "
        f"y.to_numpy() to go by the order of the nodes (got {given[0]!r}, ..)"
    )


def as_objects(values: Sequence[Any]) -> NDArray[Any]:
    """A list as an array of objects of one dimension, whatever they are."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def unknown_among(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Which labels of an array mean unknown, see :func:`is_unknown`."""
    if values.dtype.kind in "biuf":
        return np.asarray((values != values) | ((values == -1) & (values.dtype.kind != "b")))
    return np.array([is_unknown(label) for label in values.tolist()], dtype=np.bool_)


def encode(values: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Codes for labels, -1 where they mean unknown; and the labels that the codes stand for.

    The labels keep the type they came in; numbers and truth values among objects become plain ones.

    Raises:
        InputError: For labels that are neither numbers nor truth values nor text, of both kinds, or
            measurements.

    Example:
        >>> encode(np.array([7, 2, -1, 7], dtype=np.int8))
        (array([ 1,  0, -1,  1]), array([2, 7], dtype=int8))
    """
    unknown = unknown_among(values)
    known, texts = values[~unknown], 0
    if known.dtype == object:
        texts = sum(isinstance(label, str) for label in known)
        if 0 < texts < known.size:
            odd = next(label for label in known if not isinstance(label, str))
            raise InputError(
                "y: labels are partly text and partly not; write all of them as text, as with "
                f"y.astype(str) (got {type(odd).__name__} {odd!r} beside text)"
            )
        known = known if texts else np.array(known.tolist())
    if known.dtype.kind not in ("biufUO" if texts else "biufU"):
        raise InputError(
            "y: labels must be numbers, truth values or text; write others as text, as with "
            f"y.astype(str) (got {type(values[~unknown][0]).__name__})"
        )
    classes, found = np.unique(known, return_inverse=True)
    many = classes.size > min(known.size / 2, MOST_FRACTIONS)
    if many and classes.dtype.kind == "f" and (classes != np.rint(classes)).any():
        raise InputError(
            "y: looks like a measurement and not like classes; this is a classifier: make classes "
            "of it, as with np.digitize, or write them as text "
            f"(got {classes.size} different numbers for {known.size} nodes, {classes[0]}, ..)"
        )
    codes = np.full(values.size, -1, dtype=np.int64)
    codes[~unknown] = found
    return codes, classes


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
