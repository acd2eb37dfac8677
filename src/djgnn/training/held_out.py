"""What a finished model says about labelled nodes that it did not learn from."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from djgnn.graph import Graph
from djgnn.training.loop import Fitted


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Calibrated probabilities of labelled nodes, none of which was learned from.

    `source` says which: all labelled nodes, each by the members that it was held out of
    (``folds``), or the nodes of the test part, where there are any with a label, or else of the
    validation part. `alone` has the class that each kind of expert predicts; it is empty without
    folds.

    Shapes:
        nodes and y ``[m]``, shares ``[m, classes]``, alone ``[m]`` each.
    """

    source: Literal["folds", "test", "validation"]
    nodes: NDArray[np.int64]
    y: NDArray[np.int64]
    shares: NDArray[np.float32]
    alone: Mapping[str, NDArray[np.int64]]


def held_out(graph: Graph, fitted: Fitted, split: int = 0) -> HeldOut:
    """The held-out nodes of a finished run and their probabilities.

    Args:
        graph: With labels and the splits or folds of the run.
        fitted: The trained model.
        split: Which split it was trained on.
    """
    known = fitted.evidence
    if known is not None:
        shares = fitted.calibration.probabilities(known.logits.astype(np.float32))
        alone = {kind: logits.argmax(axis=1) for kind, logits in known.alone.items()}
        return HeldOut("folds", known.nodes, known.y, shares, alone)
    y = np.full(graph.num_nodes, -1) if graph.y is None else graph.y
    parts = graph.split(split)
    tested = bool((parts.test & (y >= 0)).any())
    nodes = np.flatnonzero((parts.test if tested else parts.val) & (y >= 0))
    shares = fitted.calibration.probabilities(fitted.logits.cpu().numpy()[nodes])
    return HeldOut("test" if tested else "validation", nodes, y[nodes], shares, {})
