"""Labels: which mean unknown, which are the same, in what order they come; and split columns."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from djgnn.errors import DoubtfulLabelWarning, InputError
from djgnn.graph.table_files import row_error

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import ArrayLike, NDArray

WHOLE = re.compile(r"^([+-]?\d+)\.0*$")
PARTS = {
    **dict.fromkeys(("train", "training", "tr"), 0),
    **dict.fromkeys(("val", "valid", "validation", "dev"), 1),
    **dict.fromkeys(("test", "testing", "te"), 2),
}
# Words for a missing label in other programs. One of them could be a class: only a warning.
MISSING = frozenset(("na", "n/a", "nan", "null", "none", "nil", "?", "unknown", "missing"))


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


def read_labels(
    where: str, column: pl.Series, unknown: Sequence[str]
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Classes from a column of a node table: the distinct values in their order.

    Args:
        where: The file, for messages.
        column: The labels.
        unknown: What means unknown besides an empty cell and NaN.

    Returns:
        The class of every node, -1 = unknown; and the names of the classes.

    Raises:
        InputError: If treating ``-1`` as unknown leaves fewer than two classes.
    """
    import polars as pl

    text = column.cast(pl.String)
    words = text.unique().drop_nulls().to_list()
    met, none = set(map(plain_number, words)), set(map(plain_number, unknown))
    missing = text.is_null() | text.is_in([word for word in words if plain_number(word) in none])
    if column.dtype.is_float():
        missing |= column.is_nan().fill_null(True)
    names = class_order(text.filter(~missing).unique().to_list())
    if len(names) < 2 and "-1" in none & met:
        raise InputError(
            f"{where}: column {column.name!r}: -1 means unknown, and without it fewer than two "
            f"classes are left; if -1 is a class, say with `unknown=` that only an empty cell is "
            f"unknown, '' (got classes {names})"
        )
    unmet = [word for word in unknown if plain_number(word) not in met | {"", "-1"}]
    for doubt in _doubts(names, unmet):
        message = f"{where}: column {column.name!r}: {doubt}"
        warnings.warn(message, DoubtfulLabelWarning, stacklevel=4)
    known = text.set(missing, None).cast(pl.Enum(names))
    return known.to_physical().cast(pl.Int64).fill_null(-1).to_numpy(), tuple(names)


def _doubts(classes: Sequence[str], unmet: Sequence[str]) -> Iterator[str]:
    """Which classes look like one or like a missing label; which words for unknown never occur."""
    alike: dict[str, str] = {}
    for word in classes:
        other = alike.setdefault(plain_number(word.strip()), word)
        if other != word:
            yield f"{other!r} and {word!r} are taken for two classes; write them alike if not"
        if word.casefold() in MISSING:
            yield (
                f"{word!r} is taken for a class and looks like a missing label; name it with "
                "`unknown=` if it is one"
            )
    for word in unmet:
        yield f"no cell is {word!r}, which was to mean unknown; check `unknown=`"


def read_split(where: str, column: pl.Series, y: NDArray[np.int64] | None) -> dict[str, Any]:
    """Masks of one split from a column of train / val / test; an empty cell is in no part.

    A test node without a label is left out, as there is nothing to score.

    Raises:
        InputError: At an unknown word, or a training or validation node without a label.
    """
    import polars as pl

    text = column.cast(pl.String).fill_null("").str.strip_chars().str.to_lowercase()
    codes = text.replace_strict(PARTS | {"": -1}, default=-2, return_dtype=pl.Int64).to_numpy()
    if (codes == -2).any():
        row = int(np.argmax(codes == -2))
        raise row_error(where, row, column, "must be train, val, test or empty")
    if (codes == -1).all():
        return {}
    if y is None:
        raise InputError(
            f"{where}: column {column.name!r} gives a split but there are no labels; name the "
            "label column with `label=` (got none)"
        )
    bare = (codes >= 0) & (codes < 2) & (y < 0)
    if bare.any():
        row = int(np.argmax(bare))
        raise row_error(where, row, column, "this node has no label; leave its split empty")
    keys = ("train_mask", "val_mask", "test_mask")
    return {key: (codes == part) & (y >= 0) for part, key in enumerate(keys)}
