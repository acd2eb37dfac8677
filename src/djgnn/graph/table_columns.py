"""Where a column becomes labels, a split or weights; and which features give the label away."""

import math
import re
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from djgnn.errors import DoubtfulLabelWarning, GiveawayWarning, InputError
from djgnn.graph.cells import GAPS, blank, check_rows
from djgnn.graph.checks import MASKS
from djgnn.graph.labels import class_order, plain_number
from djgnn.graph.number_cells import Usual, parse_numbers, read_numbers
from djgnn.graph.table_rules import UNKNOWN

PARTS = {
    **dict.fromkeys(("train", "training", "tr"), 0),
    **dict.fromkeys(("val", "valid", "validation", "dev"), 1),
    **dict.fromkeys(("test", "testing", "te"), 2),
}
# Words for a missing label in other programs. One of them could be a class: only a warning.
MISSING = GAPS | {"nil", "?", "-", "--", "n.a.", "unknown", "missing", "unlabeled", "unlabelled"}
MISSING |= {"none given", "not given", "not available", "not labeled", "not labelled"}
MOST_CLASSES = 100
MOST_REAL = 20
GIVEAWAY = 0.98
FEWEST = 20  # nodes with a label, and without one, that say something about a column
NEARLY_EMPTY = 0.95


def read_weights(
    where: str,
    column: pl.Series,
    kept: NDArray[np.bool_] | None = None,
    semicolons: bool = False,
) -> NDArray[np.float64]:
    """The weights of an edge table, numbers of zero or more.

    Args:
        where: The file, for the message.
        column: The weights.
        kept: Which edges count; all by default.
        semicolons: Whether they separate the cells of the file, as where a comma is decimal.

    Raises:
        InputError: At the first cell that is not.
    """
    numbers, _ = read_numbers(column, None, Usual("," if semicolons else "."))
    good = (numbers >= 0).fill_null(False)
    good = good if kept is None else good | pl.Series(~kept)
    remedy = "correct it, or use no weights, `weight=` ''"
    check_rows(where, column, ~good, f"a weight is a number of zero or more; {remedy}")
    return numbers.to_numpy()


def read_labels(
    where: str, column: pl.Series, unknown: Sequence[str] | None
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Classes from a column of a node table: the distinct values in their order.

    Args:
        where: The file, for messages.
        column: The labels; spaces around them do not count.
        unknown: What means unknown besides an empty cell; by default -1, NA, null and the like.

    Returns:
        The class of every node, -1 = unknown; and the names of the classes.

    Raises:
        InputError: If treating ``-1`` as unknown leaves fewer than two classes, or if these are no
            classes but numbers, or more than 100.
    """
    column = column.fill_nan(None) if column.dtype.is_float() else column
    text = column.cast(pl.String).str.strip_chars()
    text = text.set(text == "", None)
    words = text.unique().drop_nulls().to_list()
    met, none = set(map(plain_number, words)), set(map(plain_number, unknown or UNKNOWN))
    if unknown is None:
        none |= {word for word in met if word.lower() in GAPS}
    missing = text.is_null() | text.is_in([word for word in words if plain_number(word) in none])
    names = class_order(text.filter(~missing).unique().to_list())
    if len(names) < 2 and "-1" in none & met:
        raise InputError(
            f"{where}: column {column.name!r}: -1 means unknown, and without it fewer than two "
            f"classes are left; if -1 is a class, say with `unknown=` that only an empty cell is "
            f"unknown, '' (got classes {names})"
        )
    _check_classes(where, column.name, names)
    unmet = [word for word in unknown or () if plain_number(word) not in met | {"", "-1"}]
    taken = text.filter(missing) if unknown is None else text.clear()
    for doubt in (*_doubts(names, unmet), *_doubts_of_gaps(taken, names)):
        message = f"{where}: column {column.name!r}: {doubt}"
        warnings.warn(message, DoubtfulLabelWarning, stacklevel=4)
    known = text.set(missing, None).cast(pl.Enum(names))
    return known.to_physical().cast(pl.Int64).fill_null(-1).to_numpy(), tuple(names)


def _check_classes(where: str, column: str, classes: Sequence[str]) -> None:
    """Refuse a target that is a number, or of too many classes.

    Raises:
        InputError: With how to mend it.
    """
    numbers = parse_numbers(pl.Series(classes, dtype=pl.String))
    real = numbers.null_count() == 0 and bool((numbers != numbers.round()).any())
    if len(classes) <= (MOST_REAL if real else MOST_CLASSES):
        return
    problem = f"holds {len(classes)} classes, more than {MOST_CLASSES}"
    remedy = "join the rare ones into one, or name another column with `label=`"
    if numbers.null_count() == 0:
        problem = f"holds {len(classes)} different numbers, a quantity and not classes"
        remedy = "cut it into a few ranges in a column of its own, and name that with `label=`"
    raise InputError(
        f"{where}: column {column!r} {problem}; {remedy} (got {', '.join(classes[:3])}, ...)"
    )


def warn_of_giveaways(where: str, frame: pl.DataFrame, y: NDArray[np.int64]) -> None:
    """Warn of each column that alone gives the label of nearly all labelled nodes.

    Every labelled node is guessed by the commonest class of the other labelled nodes with the same
    value. Of many different numbers, each class must have a range of its own.

    Args:
        where: The file, for the message.
        frame: The feature columns.
        y: The class of every node, -1 = unknown.
    """
    labelled = y >= 0
    classes = pl.Series("class", y[labelled])
    total = len(classes)
    if total < FEWEST:
        return
    sizes = classes.value_counts()["count"].to_list()
    orders = math.lgamma(total + 1) - sum(math.lgamma(size + 1) for size in (*sizes, len(sizes)))
    by_chance = orders < math.log(1000 * max(frame.width, 1))
    for column in frame.get_columns():
        values = _filled(column.filter(labelled)).alias("value")
        if 3 * values.n_unique() <= total:
            right = _share_guessed(values, classes)
        else:
            right = float(not by_chance and _in_ranges(values, classes))
        if right >= GIVEAWAY and 1 - right < 0.5 * (1 - max(sizes) / total):
            warnings.warn(
                f"{where}: column {column.name!r} alone gives the label of {right:.0%} of the "
                f"labelled nodes; leave it out with `columns=` {column.name}=drop if it is not "
                "known in advance",
                GiveawayWarning,
                stacklevel=4,
            )


def _share_guessed(values: pl.Series, classes: pl.Series) -> float:
    """Share of nodes whose class is the commonest of the other nodes with the same value."""
    counts = pl.DataFrame([values, classes]).drop_nulls().group_by("value", "class").len()
    counts = counts.sort("len", descending=True)
    best = counts.group_by("value").agg(
        first=pl.col("len").first(), second=pl.col("len").slice(1, 1).sum()
    )
    # Without the node itself its class must still be the commonest.
    right = best.filter(pl.col("first") - 1 > pl.col("second"))["first"]
    return int(right.sum()) / len(values)


def _in_ranges(values: pl.Series, classes: pl.Series) -> bool:
    """Whether values are numbers, nearly all there, and no two classes overlap in them."""
    if not (values.dtype.is_numeric() or values.dtype == pl.String):
        return False
    for size in (1000, len(values)):  # mostly the first ones will do
        numbers = parse_numbers(values.head(size))
        table = pl.DataFrame([numbers, classes.head(size)]).drop_nulls()
        ends = table.group_by("class").agg(low=pl.min("value"), high=pl.max("value")).sort("low")
        apart = bool((ends["low"][1:] > ends["high"][:-1]).all())
        if not apart or table.height < GIVEAWAY * len(numbers):
            return False
    return True


def there_for_labelled(column: pl.Series, labelled: NDArray[np.bool_]) -> bool:
    """Whether a column says something of nodes with a label alone.

    Nearly all others then have no value, or all have the same, which most labelled nodes do not
    have. Only whether there is a label counts, never which.

    Args:
        column: The cells.
        labelled: Which nodes have a label; with fewer than 20 on either side the answer is no.

    Example:
        >>> labelled = np.arange(60) < 30
        >>> score, size = np.where(labelled, np.arange(60) % 7, np.nan), np.arange(60) % 7
        >>> [there_for_labelled(pl.Series(values), labelled) for values in (score, size)]
        [True, False]
    """
    count = int(labelled.sum())
    if min(count, labelled.size - count) < FEWEST:
        return False
    others = column.filter(~labelled)
    for part in (others.gather_every(len(others) // 1000 or 1), others):  # mostly a sample will do
        cells = _filled(part)
        empty = cells.null_count() >= NEARLY_EMPTY * len(cells)
        if not empty and cells.n_unique() > 1:
            return False
    same = _filled(column.filter(labelled)).eq_missing(None if empty else cells[0])
    return 2 * int(same.sum()) < count


def _filled(column: pl.Series) -> pl.Series:
    """The cells, missing where a word or a number that is none says so."""
    if column.dtype == pl.String:
        return blank(column)
    return column.fill_nan(None) if column.dtype.is_float() else column


def _doubts(classes: Sequence[str], unmet: Sequence[str]) -> Iterator[str]:
    """Which classes look like one, missing or a quantity; which words for unknown never occur."""
    alike: dict[str, str] = {}
    for word in classes:
        other = alike.setdefault(plain_number(word).casefold(), word)
        if other != word:
            yield f"{other!r} and {word!r} are taken for two classes; write them alike if not"
        if word.casefold() in MISSING:
            yield (
                f"{word!r} is taken for a class and looks like a missing label; name it with "
                "`unknown=` if it is one"
            )
    whole = sorted(
        int(word) for word in map(plain_number, classes) if re.fullmatch(r"-?\d{1,9}", word)
    )
    if MOST_REAL < len(whole) == len(classes):
        span = whole[-1] - whole[0] + 1
        codes = whole[0] in (0, 1) and span == len(whole)  # 0, 1, ..., as programs number classes
        if not codes and span < 2 * len(whole):
            yield (
                f"{len(whole)} whole numbers from {whole[0]} to {whole[-1]} are taken for classes "
                "and look like a quantity; cut it into a few ranges if it is one"
            )
    for word in unmet:
        yield f"no cell is {word!r}, which was to mean unknown; check `unknown=`"


def _doubts_of_gaps(cells: pl.Series, classes: Sequence[str]) -> Iterator[str]:
    """Which words taken for unknown may be a class.

    ``None`` as in none, low, high; any word beside empty cells; -1 beside other words, where all
    classes are whole numbers.
    """
    counts = dict(cells.value_counts().iter_rows())
    empty = counts.pop(None, 0)
    whole = len(counts) > 1 and all(plain_number(name).isdigit() for name in classes)
    for word, count in sorted(counts.items()):
        if empty or word.lower() == "none" or (whole and plain_number(word) == "-1"):
            others = [repr(other) for other in counts if other != word] or ["''"]
            yield (
                f"{count} cells {word!r} are taken for unknown; if it is a class, name only what "
                f"is unknown, `unknown=` {', '.join(others)}"
            )


def read_split(where: str, column: pl.Series, y: NDArray[np.int64] | None) -> dict[str, Any]:
    """Masks of one split from a column of train / val / test; an empty cell is in no part.

    A test node without a label is left out, as there is nothing to score.

    Raises:
        InputError: At an unknown word, or a training or validation node without a label.
    """
    text = column.cast(pl.String).fill_null("").str.strip_chars().str.to_lowercase()
    codes = text.replace_strict(PARTS | {"": -1}, default=-2, return_dtype=pl.Int64).to_numpy()
    check_rows(where, column, codes == -2, "must be train, val, test or empty")
    if (codes == -1).all():
        return {}
    if y is None:
        raise InputError(
            f"{where}: column {column.name!r} gives a split but there are no labels; name the "
            "label column with `label=` (got none)"
        )
    bare = (codes >= 0) & (codes < 2) & (y < 0)
    check_rows(where, column, bare, "this node has no label; leave its split empty")
    return {key: (codes == part) & (y >= 0) for part, key in enumerate(MASKS)}
