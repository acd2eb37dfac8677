"""Sets of classes that hold the right one as often as promised: conformal prediction."""

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from djgnn import checking
from djgnn.errors import InputError
from djgnn.graph import Graph
from djgnn.training.held_out import held_out
from djgnn.training.loop import Fitted

Shares = NDArray[np.float32]
Scores = NDArray[np.float64]
Judged = tuple[Shares, NDArray[np.int64], Scores]
"""Probabilities, labels and draws of some nodes."""
Scope = Literal["all", "class"]
Limit = Annotated[float, Meta(ge=-1, le=1, description="a number from -1 to 1")]
Between = Annotated[float, Meta(gt=0, lt=1, description="above 0 and below 1")]
GROUPS = 10
"""Groups of nodes, for each of which thresholds come from the others, to measure coverage."""


class SetsCard(TypedDict):
    """The field `sets` of a card.

    `nodes` were calibrated on, from `source`; `held_out_nodes` were not, nor were those that
    `thresholds` were fitted on when they were looked at. `empty` is the share of sets without a
    class. `plain_` is of the classes of largest probability with one limit for all nodes (LAC).
    """

    coverage: checking.Share
    by: Scope
    method: checking.Text
    thresholds: list[Limit]
    source: Literal["folds", "validation"]
    nodes: checking.Natural
    held_out_nodes: checking.Natural
    held_out_coverage: checking.Share | None
    mean_size: checking.NonNegative | None
    empty: NotRequired[checking.Share | None]
    plain_coverage: checking.Share | None
    plain_mean_size: checking.NonNegative | None
    class_coverage: NotRequired[dict[str, checking.Share | None]]


@dataclass(frozen=True)
class Promise:
    """What sets are wanted: a coverage, of all nodes together or of every class.

    Raises:
        ValueError: For a value that is not allowed.
    """

    coverage: Between = 0.9
    coverage_by: Scope = "all"

    def __post_init__(self) -> None:
        checking.check_fields(self)


USUAL = (0.9, 0.95, 0.99)
"""Coverages to choose from where none was asked for."""


def usual_promise(shares: Shares, y: NDArray[np.int64]) -> Promise:
    """The least of the usual coverages with which no set is empty, or as few as possible.

    That is 0.9, or more where the model is right more often than that. Few nodes cannot support a
    promise close to 1.

    Shapes:
        shares ``[m, classes]``, y ``[m]``; of nodes that were not learned from.
    """
    right, found = int((shares.argmax(axis=1) == y).sum()), USUAL[0]
    for more in USUAL[1:]:
        if _rank(y.size, found) > right or _rank(y.size, more) > y.size:
            break
        found = more
    return Promise(found)


def _rank(nodes: int, coverage: float) -> int:
    """Which of the sorted scores of some nodes is the threshold."""
    return math.ceil((nodes + 1) * coverage - 1e-9)


def draws(names: Sequence[str]) -> Scores:
    """A number from 0 to 1 for each node, by its name alone.

    Example:
        >>> bool(draws(["a", "b"])[1] == draws(["b"])[0])
        True
    """
    hashed = hashlib.blake2b
    found = [hashed(n.encode("utf-8", "replace"), digest_size=8).digest() for n in names]
    return np.frombuffer(b"".join(found), ">u8") / 2.0**64


def adaptive_scores(shares: Shares, draw: Scores) -> Scores:
    r"""How far down the list of a node's classes each class is (APS, Romano et al., 2020).

    .. math::
        s(c) = \sum_{d \text{ before } c} p_d + u\, p_c, \qquad s(\text{likeliest}) = -p

    Below 0 are the likeliest classes alone, the surest first: sets that promise less than the model
    is right anyway have one class, or none where it is least sure. u smooths the steps, and is a
    number of the node, so that its set is the same every time.

    Shapes:
        shares and result ``[n, classes]``, draw ``[n]``.
    """
    order, cost = _costs(shares, draw)
    found = np.empty_like(cost)
    np.put_along_axis(found, order, cost, axis=1)
    return found


def _costs(shares: Shares, draw: Scores) -> tuple[NDArray[np.int64], Scores]:
    """The classes of nodes, the likeliest first, and their scores in that order."""
    p = shares.astype(np.float64)
    order = np.argsort(-p, axis=1, kind="stable")
    ranked = np.take_along_axis(p, order, axis=1)
    cost = np.cumsum(ranked, axis=1) - (1 - draw[:, None]) * ranked
    cost = np.clip(cost, 0, 1)
    cost[:, 0] = -ranked[:, 0]
    return order, cost


def plain_scores(shares: Shares, draw: Scores) -> Scores:
    """How unlikely each class of a node is, 1 - p; the likeliest costs -p (LAC)."""
    found = np.clip(1 - shares.astype(np.float64), 0, 1)
    found[np.arange(len(found)), shares.argmax(axis=1)] = -shares.max(axis=1)
    return found


def thresholds(scores: Scores, y: NDArray[np.int64], promise: Promise) -> Scores:
    r"""What the score of each class may be at most, ``[classes]``.

    Of m scores of right classes the one of rank :math:`\lceil (m + 1)\, c \rceil`; where there are
    too few for that it is 1, which every class keeps to. By class it is at least 0, so that the
    likeliest class is in every set.

    Shapes:
        scores ``[m, classes]``, y ``[m]``; of nodes that were not learned from.
    """
    num_classes = scores.shape[1]
    own = scores[np.arange(y.size), y]

    def limit(chosen: Scores) -> float:
        rank = _rank(chosen.size, promise.coverage)
        return float(np.sort(chosen)[rank - 1]) if rank <= chosen.size else 1.0

    if promise.coverage_by == "all":
        return np.full(num_classes, limit(own))
    return np.array([max(limit(own[y == c]), 0.0) for c in range(num_classes)])


def sets_card(
    graph: Graph, fitted: Fitted, split: int, promise: Promise | None = None
) -> dict[str, Any] | None:
    """Thresholds of a run, and what its sets are like on nodes that these did not come from.

    They come from folds, else from the validation nodes. Coverage and sizes are measured in ten
    groups of these, with thresholds from the other nine, or on the test nodes if there are any.
    Without a promise it is :func:`usual_promise`.

    Returns:
        See :class:`SetsCard`; ``None`` where no labelled node is left to calibrate on.
    """
    held, names = held_out(graph, fitted, split), graph.names()
    nodes, labels, shares = held.nodes, held.y, held.shares
    if held.source != "folds":
        nodes = np.flatnonzero(graph.split(split).val)
        labels = np.asarray(graph.y)[nodes]
        shares = fitted.calibration.probabilities(fitted.logits.cpu().numpy()[nodes])
    if not labels.size:
        return None
    promise = promise or usual_promise(shares, labels)
    own = (shares, labels, draws([names[i] for i in nodes.tolist()]))
    others = None
    if held.source == "test":
        others = (held.shares, held.y, draws([names[i] for i in held.nodes.tolist()]))
    inside, covered = _measured(own, others, promise, adaptive_scores)
    plain_inside, plain_covered = _measured(own, others, promise, plain_scores)
    found: dict[str, Any] = {
        "coverage": promise.coverage,
        "by": promise.coverage_by,
        "method": "APS",
        "thresholds": thresholds(adaptive_scores(shares, own[2]), labels, promise).tolist(),
        "source": "folds" if held.source == "folds" else "validation",
        "nodes": int(labels.size),
        "held_out_nodes": int(covered.size),
        "held_out_coverage": _mean(covered),
        "mean_size": _mean(inside.sum(axis=1)),
        "empty": _mean(inside.sum(axis=1) == 0),
        "plain_coverage": _mean(plain_covered),
        "plain_mean_size": _mean(plain_inside.sum(axis=1)),
    }
    if promise.coverage_by == "class":
        judged = labels if others is None else held.y
        found["class_coverage"] = {
            name: _mean(covered[judged == c]) for c, name in enumerate(graph.classes())
        }
    return found


def _measured(
    own: Judged,
    others: Judged | None,
    promise: Promise,
    scored: Callable[[Shares, Scores], Scores],
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Sets of held-out nodes, ``[m, classes]``, and whether each has the right class."""
    scores, y = scored(own[0], own[2]), own[1]
    if others is not None:
        inside = scored(others[0], others[2]) <= thresholds(scores, y, promise)
        y = others[1]
    else:
        inside = np.ones(scores.shape, dtype=np.bool_)
        group = np.random.default_rng(0).permutation(y.size) % GROUPS
        for g in range(min(GROUPS, y.size)):
            rest, here = group != g, group == g
            inside[here] = scores[here] <= thresholds(scores[rest], y[rest], promise)
    return inside, inside[np.arange(y.size), y]


def _mean(values: NDArray[Any]) -> float | None:
    return float(values.mean()) if values.size else None


def coded_sets(
    card: dict[str, Any] | None, shares: Shares, names: Sequence[str], classes: Sequence[str]
) -> tuple[list[str], NDArray[np.int64]]:
    r"""The different sets of nodes as text, and which of them each node has.

    The classes of a set are joined with ``|``, the likeliest first. A ``|`` or a backslash in the
    name of a class has a backslash before it.

    Args:
        card: The field `sets` of a card; without it there is no set.
        shares: Calibrated probabilities.
        names: Of the nodes.
        classes: Names of the columns.

    Shapes:
        shares ``[n, classes]``, places ``[n]``.

    Raises:
        InputError: If there is not one threshold per class.

    Example:
        >>> card = {"thresholds": [0.8, 0.8, 0.8]}
        >>> coded_sets(card, np.array([[0.2, 0.7, 0.1]]), ["n"], ["a", "b|c", "d"])[0]
        ['b\\|c|a']
    """
    if card is None:
        return [""], np.zeros(len(names), dtype=np.int64)
    limits = np.array(card["thresholds"])
    if limits.size != len(classes):
        raise InputError(
            f"sets.thresholds: must have one number for each of {len(classes)} classes; restore "
            f"the file or run `djgnn fit` again (got {limits.size})"
        )
    written = [name.replace("\\", "\\\\").replace("|", "\\|") for name in classes]
    sets, place = _sets(limits, shares, names)
    return ["|".join(written[c] for c in row) for row in sets], place


def sets_within(limits: Scores, shares: Shares, names: Sequence[str]) -> list[list[int]]:
    """The sets of nodes: the numbers of the classes up to their thresholds, the likeliest first.

    Shapes:
        limits ``[classes]``, shares ``[n, classes]``.
    """
    sets, place = _sets(limits, shares, names)
    return [sets[i] for i in place.tolist()]


def _sets(
    limits: Scores, shares: Shares, names: Sequence[str]
) -> tuple[list[list[int]], NDArray[np.int64]]:
    """The different sets, each made once, and which of them each node has."""
    order, cost = _costs(shares, draws(names))
    kept = np.where(cost <= limits[order], order, -1).astype(np.int16)
    # Most nodes have one of a few sets: rows are told apart by a number where they are short.
    width = kept.shape[1]
    if (width + 1) ** width < 2**62:
        code = (kept + 1).astype(np.int64) @ (width + 1) ** np.arange(width)
        _, first, place = np.unique(code, return_index=True, return_inverse=True)
    else:
        whole = np.ascontiguousarray(kept).view(np.dtype((np.void, kept.itemsize * width)))
        _, first, place = np.unique(whole.reshape(-1), return_index=True, return_inverse=True)
    return [[c for c in row if c >= 0] for row in kept[first].tolist()], place.reshape(-1)
