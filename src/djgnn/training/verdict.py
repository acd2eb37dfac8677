"""The verdict on a run: the score to expect, what simpler means give, and whether the graph helps.

Everything is read from labelled nodes that were not learned from (:mod:`djgnn.training.held_out`),
but for what averaging adds (:mod:`djgnn.training.out_of_fold`).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NotRequired, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import log_softmax

from djgnn import checking
from djgnn.graph import Graph
from djgnn.graph.checks import BINARY, METRIC_NAMES, Metric
from djgnn.graph.convert import overflow_remark
from djgnn.model.config import PLAIN_NAMES
from djgnn.model.experts import kind_of
from djgnn.training.held_out import held_out
from djgnn.training.loop import Fitted
from djgnn.training.selection import decision, resampled, score

DRAWS = 100
"""Resamples of the bootstrap, for scores that are not means over nodes."""
Z = 1.959964
"""Standard deviations of a 95% interval."""
LEAST_GAIN = 0.05
"""Points that the text mentions."""
DOUBT = 0.5
"""The standard error of what averaging adds, as a part of it."""
SURE = 2.0
"""Standard errors by which a score must be ahead of another."""
FEW_LABELS, WIDE, HEAVY = 5, 20.0, 0.1
"""Labels of a class, points of an interval, and weight of an expert that warnings begin at."""
COLDEST, HOTTEST = 0.1, 10.0
"""Temperatures beyond which logits mean nothing."""


class Verdict(TypedDict):
    """The field `verdict` of a card; figures in percent, null where there is none.

    `expected` is what was `measured` on `nodes` that were not learned from and, of a cross-fitted
    run, the `gain` of averaging its members; the interval is for the nodes without a label.
    """

    text: checking.Text
    metric: Metric
    expected: checking.Score
    low: checking.Score
    high: checking.Score
    measured: checking.Score
    gain: float
    nodes: checking.Natural
    source: Literal["folds", "test", "validation"]
    largest_class: checking.Score | None
    features: checking.Score | None
    propagation: checking.Score | None
    graph_helps: bool | None
    at_chance: NotRequired[bool]
    warnings: list[checking.Text]


@dataclass(frozen=True, eq=False)
class _Held:
    """Labelled nodes that were not learned from, and what each model decides on them."""

    source: str
    metric: str
    y: NDArray[np.int64]
    by: Mapping[str, NDArray[Any]]

    def score(self, who: str) -> float | None:
        """In percent; ``None`` where there is none."""
        found = score(self.by[who], self.y, self.metric) if who in self.by else math.nan
        return None if math.isnan(found) else found

    def errors(self, *who: str) -> NDArray[np.float64]:
        """Scores of the same resamples, for each of `who`, ``[who, draws]``."""
        return resampled([self.by[w] for w in who], self.y, self.metric, DRAWS)

    def ahead(self, other: str) -> bool:
        """Whether the model is ahead of another, node by node, by two standard errors.

        Accuracy is compared as McNemar does: of the nodes that one of them alone gets right.
        """
        if self.metric == "accuracy":
            ours, theirs = (self.by[who] == self.y for who in ("model", other))
            won, lost = int((ours & ~theirs).sum()), int((theirs & ~ours).sum())
            return won - lost > SURE * math.sqrt(won + lost)
        first, second = self.score("model"), self.score(other)
        if first is None or second is None:
            return False
        drawn = self.errors("model", other)
        return first - second > SURE * float(np.nanstd(drawn[0] - drawn[1]))


def verdict(graph: Graph, fitted: Fitted, split: int, epochs: int) -> dict[str, Any] | None:
    """What to expect of a run on nodes without a label, in numbers and in words.

    Args:
        graph: With labels.
        fitted: The trained model.
        split: Which split it was trained on.
        epochs: Most epochs of a network.

    Returns:
        See :class:`Verdict`; ``None`` where no labelled node is left to judge by.
    """
    held, labels = _held(graph, fitted, split), _learned(graph, split)
    measured = held.score("model")
    if measured is None:
        return None
    gain = 0.0 if fitted.evidence is None else fitted.evidence.gain
    expected = min(100.0, max(0.0, measured + gain))
    unknown = int((np.asarray(graph.y) < 0).sum())
    low, high = _interval(held, expected, unknown, DOUBT * gain)
    chance = not held.ahead("largest_class")
    helps = held.ahead("features") if "features" in held.by and graph.num_edges else None
    found: dict[str, Any] = {
        "text": "",
        "metric": graph.metric,
        "expected": expected,
        "low": low,
        "high": high,
        "measured": measured,
        "gain": gain,
        "nodes": int(held.y.size),
        "source": held.source,
        **{who: held.score(who) for who in ("largest_class", "features", "propagation")},
        "graph_helps": helps,
        "at_chance": chance,
    }
    found["text"] = _text(found, 1 if fitted.evidence is None else fitted.evidence.members)
    found["warnings"] = _warnings(found, graph, fitted, labels, epochs)
    return found


def _learned(graph: Graph, split: int) -> NDArray[np.int64]:
    """Labels of each class that a run learned from or was chosen on, ``[classes]``."""
    y, parts = np.asarray(graph.y), graph.split(split)
    return np.bincount(y[(parts.train | parts.val) & (y >= 0)], minlength=graph.num_classes)


def _held(graph: Graph, fitted: Fitted, split: int) -> _Held:
    known, judged = fitted.evidence, held_out(graph, fitted, split)
    rows, labels = judged.nodes, judged.y
    logits = fitted.logits.cpu().numpy()[rows] if known is None else known.logits
    alone = {kind: each.cpu().numpy()[rows] for kind, each in fitted.alone.items()}
    alone |= {} if known is None else known.alone
    largest = int(_learned(graph, split).argmax())
    by = {
        "model": _decided(logits, graph),
        "largest_class": np.full(labels.size, 0.0 if graph.metric in BINARY else largest),
    }
    if "propagation" in alone and graph.num_edges:
        by["propagation"] = _decided(alone["propagation"], graph)
    if "features" in alone and graph.num_features:
        by["features"] = _best_of_features(alone, labels, graph)
    return _Held(judged.source, graph.metric, labels, by)


def _decided(logits: NDArray[Any], graph: Graph) -> NDArray[Any]:
    return decision(torch.from_numpy(logits), graph.metric).numpy()


def _best_of_features(
    alone: Mapping[str, NDArray[Any]], y: NDArray[np.int64], graph: Graph
) -> NDArray[Any]:
    """The best that is known without edges: a perceptron, boosted trees, or their mean."""
    given = [log_softmax(alone[k], axis=1) for k in ("features", "feature_trees") if k in alone]
    if len(given) > 1:
        given.append(np.logaddexp(*given))
    rivals = [_decided(each, graph) for each in given]
    return max(rivals, key=lambda each: score(each, y, graph.metric))


def _interval(held: _Held, expected: float, unknown: int, error: float) -> tuple[float, float]:
    r"""A 95% interval for the score on the `unknown` nodes without a label.

    Of accuracy, p expected from m judged nodes, it has every q on u unknown ones with

    .. math::
        (q - p)^2 \le z^2 (\bar p (1 - \bar p) (1 / m + 1 / u) + \sigma^2), \quad
        \bar p = (m p + u q) / (m + u),

    where :math:`\sigma` is the `error` of what averaging adds. Without it that is Wilson's interval
    for many unknown nodes, or for none: then it is of any further ones. Other scores have an
    interval from the bootstrap.
    """
    m = held.y.size
    spread = 1 / m + (1 / unknown if unknown else 0.0)
    if held.metric == "accuracy":
        p, k, b = expected / 100, Z**2 * spread, unknown / (m + unknown) if unknown else 1.0
        fixed = (1 - b) * p
        square, linear = 1 + k * b**2, 2 * p + k * b * (1 - 2 * fixed)
        rest = p**2 - k * fixed * (1 - fixed) - (Z * error / 100) ** 2
        root = math.sqrt(max(0.0, linear**2 - 4 * square * rest))
        low, high = (100 * (linear + sign * root) / (2 * square) for sign in (-1, 1))
    else:
        half = Z * math.hypot(float(np.nanstd(held.errors("model"))) * math.sqrt(m * spread), error)
        low, high = expected - half, expected + half
    return max(0.0, min(low, expected)), min(100.0, max(high, expected))


def _text(found: Mapping[str, Any], members: int) -> str:
    unit = "%" if found["metric"] == "accuracy" else f" {METRIC_NAMES[found['metric']]}"
    names = {
        "largest_class": "guessing the largest class",
        "features": "features alone",
        "propagation": "label propagation",
    }
    beside = [f"{name}: {found[k]:.1f}" for k, name in names.items() if found[k] is not None]
    end = {True: " The graph helps.", False: " The graph does not help: features alone do as well."}
    last = end.get(found["graph_helps"], "")
    if found["at_chance"]:
        others = [found[who] or 0.0 for who in ("features", "propagation")]
        ahead = max(others) > (found["largest_class"] or 0.0) + LEAST_GAIN
        last = " Nothing helps: it is no better than guessing the largest class."
        last = (
            " It is not ahead of guessing the largest class by more than chance." if ahead else last
        )
    said, made = "; ".join(beside), ""
    if abs(found["gain"]) >= LEAST_GAIN:
        made = (
            f": {found['measured']:.1f} on nodes not learned from, {found['gain']:+.1f} for "
            f"averaging {members} members"
        )
    return (
        f"{found['expected']:.1f}{unit} expected ({found['low']:.1f} to {found['high']:.1f}){made}."
        f" {said[:1].upper()}{said[1:]}.{last}"
    )


def _warnings(
    found: Mapping[str, Any],
    graph: Graph,
    fitted: Fitted,
    labels: NDArray[np.int64],
    epochs: int,
) -> list[str]:
    """Warnings about a run, each with what to do."""
    said, y = [], np.asarray(graph.y)
    if found["at_chance"]:
        said.append(
            "the expected score is at chance; look for columns or edges that have to do with the "
            "label, and check that the label is the right column"
        )
    if found["source"] == "validation":
        said.append(
            "the expected score is that of the validation nodes, on which epochs were chosen, and "
            "may flatter; folds do not, nor does the score on test nodes"
        )
    capped = [] if fitted.interrupted else _capped(fitted, epochs)
    if capped:
        said.append(
            f"the best epoch of {', '.join(capped)} is the last of {epochs}; allow more epochs"
        )
    heat = fitted.calibration.temperature
    if not COLDEST <= heat <= HOTTEST:
        said.append(
            f"the temperature of the calibration is {heat:.3g}, far from 1: probabilities were far "
            "off before it; look for features of extreme size, or label more nodes"
        )
    if fitted.diverged:
        cure = overflow_remark(graph) or "lower the learning rate or scale the features"
        said.append(f"left out, as their training diverged: {', '.join(fitted.diverged)}; {cure}")
    count = zip(graph.classes(), labels.tolist(), strict=True)
    few = [f"{name} ({number})" for name, number in count if number < FEW_LABELS]
    if few:
        more = f" and {len(few) - 5} more" if len(few) > 5 else ""
        said.append(
            f"classes with fewer than {FEW_LABELS} labels: {', '.join(few[:5])}{more}; label more "
            "of them, or join them with others"
        )
    width = found["high"] - found["low"]
    if width > WIDE:
        unknown = int((y < 0).sum())
        few_unknown = 0 < unknown < found["nodes"]
        why = f"{unknown} nodes without a label" if few_unknown else f"{found['nodes']} labels"
        cure = "so few may turn out either way" if few_unknown else "label more nodes"
        said.append(f"the interval is {width:.0f} points wide, it rests on {why}; {cure}")
    return said


def _capped(fitted: Fitted, epochs: int) -> list[str]:
    """The networks of some weight whose best epoch is the last that they may have."""
    weight: dict[str, float] = {}
    late = set()
    for record in fitted.experts:
        kind = kind_of(record.name)
        weight[kind] = weight.get(kind, 0.0) + record.weight
        if record.epoch + 1 >= epochs and kind not in PLAIN_NAMES:
            late.add(kind)
    if not fitted.experts:
        return ["the network"] if fitted.epoch + 1 >= epochs else []
    return [kind for kind in weight if kind in late and weight[kind] >= HEAVY]
