"""What a finished model says about labelled nodes that it did not learn from."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from djgnn.errors import InputError
from djgnn.graph import Graph
from djgnn.graph.files import readable_file
from djgnn.training.checkpoint import written
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
    y = graph.labels
    parts = graph.split(split)
    tested = bool((parts.test & (y >= 0)).any())
    nodes = np.flatnonzero((parts.test if tested else parts.val) & (y >= 0))
    shares = fitted.calibration.probabilities(fitted.logits.cpu().numpy()[nodes])
    return HeldOut("test" if tested else "validation", nodes, y[nodes], shares, {})


def write_held_out(held: HeldOut, path: Path) -> None:
    """Write the nodes and their probabilities; what each kind of expert says is left out."""
    with written(path):
        save_file({"nodes": held.nodes, "shares": held.shares}, path)


def read_held_out(path: Path, graph: Graph) -> HeldOut:
    """What :func:`write_held_out` wrote of a cross-fitted run.

    Raises:
        InputError: If the file is missing, damaged, or of another graph.
    """
    try:
        found = load_file(readable_file(path))
        nodes, shares = np.unique(found["nodes"]), found["shares"]
        y = np.asarray(graph.y)[found["nodes"]]
        if shares.shape != (nodes.size, graph.num_classes) or (y < 0).any():
            raise ValueError(f"shape {list(shares.shape)}")
        if not bool(((shares >= 0) & (shares <= 1)).all()):
            raise ValueError("probabilities below 0, above 1 or missing")
    except (InputError, IndexError, KeyError, OSError, SafetensorError, ValueError) as error:
        raise InputError(
            f"{path}: damaged, missing, or not of this graph; restore the file or fit again "
            f"(got {' '.join(str(error).split())[:200]})"
        ) from error
    return HeldOut("folds", found["nodes"], y, shares, {})
