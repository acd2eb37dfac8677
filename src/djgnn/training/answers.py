"""Predictions of a stored model for the nodes asked for, and their accuracy."""

import dataclasses
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from djgnn.errors import DJGNNWarning, InputError
from djgnn.graph import Graph
from djgnn.graph.classifier_inputs import is_graph, labelled_graph, node_numbers
from djgnn.graph.labels import as_objects, codes_of, in_order, one_per_node, unknown_among
from djgnn.training.conformal import Promise, adaptive_scores, draws, sets_within, thresholds
from djgnn.training.stored import StoredModel


@dataclass(frozen=True, eq=False)
class Answer:
    """What a model says about some nodes of a graph.

    `own_classes` is what the graph's own labels stand for.

    Shapes:
        shares ``[rows, classes]``, calibrated probabilities; nodes ``[rows]``, the numbers of the
        nodes in their graph; place ``[rows]``, those in the fitted graph, -1 where they are new.
    """

    shares: NDArray[np.float32]
    graph: Graph
    own_classes: NDArray[Any]
    nodes: NDArray[np.int64]
    place: NDArray[np.int64]


def answer(stored: StoredModel, asked: Any = None, own: bool = False) -> Answer:
    """The probabilities of nodes.

    Args:
        stored: The trained model.
        asked: Nodes of the fitted graph, by number or name; or that graph (the default): all of its
            nodes; or a later one: its new nodes, or all if none is new.
        own: Whether the labels of that graph are wanted as well.

    Raises:
        InputError: For nodes that are not there, and for a graph that has nothing to do with the
            fitted one.
    """
    known = stored.graph
    if not is_graph(asked):
        nodes = np.arange(known.num_nodes) if asked is None else node_numbers(known, asked)
        return Answer(stored.probabilities[nodes], known, stored.classes, nodes, nodes)
    graph, classes = labelled_graph(asked, known=known, own=own)
    nodes = np.arange(graph.num_nodes)
    if graph.without_labels().content_hash == stored.structure_sha256:
        return Answer(stored.probabilities.copy(), graph, classes, nodes, nodes)
    place = stored.places(graph)
    nodes = np.flatnonzero(place < 0) if (place < 0).any() else nodes
    return Answer(stored.predict(graph)[nodes], graph, classes, nodes, place[nodes])


def answered_sets(stored: StoredModel, asked: Any, promise: Promise) -> list[NDArray[Any]]:
    """The classes of nodes that hold the right one as often as promised, the likeliest first.

    Args:
        stored: The trained model.
        asked: As in :func:`answer`.
        promise: How often, of all nodes or of every class.

    Raises:
        InputError: If no labelled node was held out to calibrate on.
    """
    held, names = stored.judged, stored.graph.names()
    if not held.y.size:
        raise InputError(
            "predict_set: no labelled node was held out; fit with folds, or with validation nodes"
        )
    scores = adaptive_scores(held.shares, draws([names[i] for i in held.nodes.tolist()]))
    limits, found = thresholds(scores, held.y, promise), answer(stored, asked)
    names = found.graph.names()
    sets = sets_within(limits, found.shares, [names[i] for i in found.nodes.tolist()])
    return [stored.classes[chosen] for chosen in sets]


def accuracy(stored: StoredModel, asked: Any, y: Any = None, weight: Any = None) -> float:
    """The share of the known labels that a model predicts, see :meth:`djgnn.DJClassifier.score`.

    Args:
        stored: The trained model.
        asked: As in :func:`answer`.
        y: Labels of these nodes, or of all nodes of their graph.
        weight: Of each label.

    Raises:
        InputError: If there is not one label, or weight, per node, or none is known.
    """
    found = answer(stored, asked, own=y is None or isinstance(asked, Graph))
    if y is None and not (asked is None or is_graph(asked)):
        raise InputError("y: give the labels of the nodes in X, one for each")
    if y is None:
        found, truth = _not_learned(stored, found)
    else:
        truth = _given(found, y, asked is None or is_graph(asked))
    known = ~unknown_among(truth)
    if not known.any():
        raise InputError("y: no label is known; give some to compare with")
    codes = codes_of(truth[known].tolist(), stored.classes.tolist())
    if (codes < 0).any():
        warnings.warn(
            f"y: {int((codes < 0).sum())} of {codes.size} labels are not a class of the model "
            f"and count as missed; its classes are {stored.classes.tolist()[:5]} "
            f"(got {truth[known][codes < 0][0]!r})",
            DJGNNWarning,
            stacklevel=3,
        )
    given = np.ones(known.size) if weight is None else np.asarray(weight, dtype=np.float64)
    rows = _rows(found, given) if given.size in (known.size, found.graph.num_nodes) else None
    weights = np.zeros(1) if rows is None else rows[known]
    if not (weights >= 0).all() or not 0 < weights.sum() < np.inf:
        raise InputError(
            "sample_weight: must have one weight per node, finite, not negative, and positive "
            f"for some node of known label (got shape {list(given.shape)})"
        )
    return float(np.average(found.shares.argmax(axis=1)[known] == codes, weights=weights))


def _not_learned(stored: StoredModel, found: Answer) -> tuple[Answer, NDArray[Any]]:
    """A graph's own labels, ``None`` for nodes that were learned from.

    Of a graph with the split that was learned from only test nodes keep theirs. Where that leaves
    no label, the validation nodes keep theirs; those of a cross-fitted model are answered out of
    their fold.
    """
    labels, split = _own(found), stored.parts
    known = found.place >= 0
    hidden = known & (split.train | split.val)[found.place]
    if found.graph is not stored.graph and found.graph.num_splits:
        own = found.graph.split(0)
        if np.array_equal(hidden, (own.train | own.val)[found.nodes]):
            hidden = ~own.test[found.nodes]
    if unknown_among(labels[~hidden]).all():
        held = stored.judged
        row = np.full(stored.graph.num_nodes, -1)
        row[held.nodes] = np.arange(held.nodes.size)
        judged = np.where(known, row[found.place], -1)
        hidden, shares = known & (judged < 0), found.shares.copy()
        shares[judged >= 0] = held.shares[judged[judged >= 0]]
        found = dataclasses.replace(found, shares=shares)
    labels[hidden] = None
    return found, labels


def _own(found: Answer) -> NDArray[Any]:
    """The labels that the graph itself has."""
    if found.graph.y is None:
        raise InputError("y: give one label per node; the graph has none of its own")
    return as_objects([*found.own_classes.tolist(), None])[found.graph.y[found.nodes]]


def _given(found: Answer, y: Any, by_name: bool) -> NDArray[Any]:
    """Labels as they are given; ``graph.y`` of a graph with names of classes means these names."""
    names = found.graph.names()
    if not (hasattr(y, "__len__") and len(y) == len(names)):
        names = [names[node] for node in found.nodes]
    labels = _rows(found, in_order(y, names) if by_name else one_per_node(y, len(names)))
    coded = labels.dtype.kind in "iu" and found.own_classes.dtype.kind == "U"
    same = found.graph.y is not None and np.array_equal(labels, found.graph.y[found.nodes])
    return _own(found) if coded and same else labels


def _rows(found: Answer, values: NDArray[Any]) -> NDArray[Any]:
    """Of values per node of the graph those of the nodes asked for."""
    return values if values.size == found.nodes.size else values[found.nodes]
