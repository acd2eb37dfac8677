"""The run folder: everything that a finished run leaves, written as a whole or not at all."""

import csv
import dataclasses
import io
import json
import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict

import numpy as np
from numpy.typing import NDArray
from safetensors.torch import save_file
from scipy.sparse.csgraph import connected_components
from torch import nn

from djgnn import checking
from djgnn.checking import check_file, json_values
from djgnn.errors import InputError
from djgnn.graph import Graph, Split, all_held_out, write_npz
from djgnn.graph.checks import Metric
from djgnn.graph.files import read_limited
from djgnn.model import DJGNN, DJExperts
from djgnn.model.experts import kind_of, networks
from djgnn.training.calibration import calibration_card
from djgnn.training.config import RunConfig
from djgnn.training.loop import Fitted
from djgnn.training.next_steps import write_next_steps
from djgnn.training.progress import EpochRecord
from djgnn.training.provenance import versions
from djgnn.training.selection import SplitResult
from djgnn.training.verdict import Verdict, verdict

FORMAT = "djgnn-run-1"
RESULT, PREDICTIONS, HISTORY = "result.json", "predictions.csv", "history.csv"
CONFIG, WEIGHTS, GRAPH = "config.yaml", "weights.safetensors", "graph.npz"
COLUMNS = ("node", "prediction", "probability", "margin", "label", "part", "flags")
CARD_BYTES, TABLE_BYTES = 2**26, 2**33


class _Data(TypedDict):
    name: checking.Text
    sha256: checking.Text
    num_nodes: checking.Natural
    num_edges: checking.Natural
    num_features: checking.Natural
    classes: list[checking.Text]


class _Result(TypedDict):
    split: checking.Natural
    validation: checking.Score | None
    test: checking.Score | None
    oracle_test: checking.Score | None
    epoch: checking.Natural
    seconds: checking.NonNegative


class _Curve(TypedDict):
    confidence: list[checking.Share]
    accuracy: list[checking.Share]


class _Calibration(TypedDict):
    temperature: checking.Positive
    curve: NotRequired[_Curve]


class _Expert(TypedDict):
    name: checking.Text
    weight: checking.Number
    epoch: checking.Natural
    epochs: checking.Natural
    validation: checking.Score | None
    validation_loss: checking.Number | None
    seconds: checking.NonNegative
    dropped: list[checking.Text]


class _Jumps(TypedDict):
    expert: checking.Text
    used: checking.Natural
    reach: checking.Natural
    dropped: list[checking.Text]


class Card(TypedDict):
    """What ``result.json`` of a run must hold; fields that are not named are left alone."""

    format: Literal["djgnn-run-1"]
    data: _Data
    metric: Metric
    protocol: checking.Text
    seed: checking.Seed
    interrupted: bool
    result: _Result
    calibration: _Calibration
    alpha: dict[str, checking.Number]
    experts: NotRequired[list[_Expert]]
    jumps: NotRequired[list[_Jumps] | None]
    verdict: NotRequired[Verdict | None]
    versions: dict[str, checking.Text]


@contextmanager
def new_folder(path: str | Path, overwrite: bool = False) -> Iterator[Path]:
    """A folder that appears under its name only once everything is in it.

    Args:
        path: Where the run will be.
        overwrite: Replace a run that is there already; anything else is never replaced.

    Raises:
        InputError: If something is there that may not be replaced, or cannot be written.
    """
    target = Path(os.path.realpath(Path(path).expanduser()))  # a link is followed, and stays
    check_free(target, overwrite)
    mark = secrets.token_hex(4)
    staging, old = (target.with_name(f".{target.name}.{mark}.{kind}") for kind in ("part", "old"))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        staging.mkdir()
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from error
    try:
        yield staging
        check_free(target, overwrite)  # something may have appeared there in the meantime
        if target.exists():
            os.replace(target, old)
        os.replace(staging, target)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise
    shutil.rmtree(old, ignore_errors=True)


def check_free(path: str | Path, overwrite: bool = False) -> None:
    """Refuse a place where a run may not be written, before any work is done.

    Raises:
        InputError: If it is taken.
    """
    target = Path(os.path.realpath(Path(path).expanduser()))
    above = next(place for place in target.parents if place.exists())
    if not above.is_dir():
        raise InputError(f"{path}: cannot be written, {above} is a file; name another folder")
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return
    try:
        known = json.loads(read_limited(target / RESULT, CARD_BYTES))["format"] == FORMAT
    except (LookupError, RecursionError, TypeError, ValueError):
        known = False
    if not known or not overwrite:
        why = "" if known else " and is not a run folder, so it is never replaced"
        also = ", or pass `overwrite=` to replace it" if known else ""
        raise InputError(f"{path}: exists already{why}; name another folder{also}")


def write_run(
    folder: Path, graph: Graph, config: RunConfig, fitted: Fitted, result: SplitResult, seed: int
) -> dict[str, Any]:
    """Write a finished run into a folder (see :func:`new_folder`) and return its card."""
    card = run_card(graph, config, fitted, result, seed)
    shares = fitted.calibration.probabilities(fitted.logits.cpu().numpy())
    card |= write_next_steps(folder, graph, fitted, shares, result.split)
    write_model(folder, graph, config, fitted.module, card, fitted.history)
    parts = parts_of(graph, fitted.module, result.split)
    text = prediction_csv(graph, shares, parts, parts.train if parts.train.any() else parts.val)
    (folder / PREDICTIONS).write_text(text, "utf-8")
    return card


def parts_of(graph: Graph, module: nn.Module, split: int) -> Split:
    """The parts of a run; of a cross-fitted one every labelled node was held out once."""
    folded = isinstance(module, DJExperts) and module.folds > 1
    return all_held_out(graph) if folded else graph.split(split)


def run_card(
    graph: Graph, config: RunConfig, fitted: Fitted, result: SplitResult, seed: int
) -> dict[str, Any]:
    """What a run says about itself.

    `alpha` has the weights of a mixture's experts, or of the branches of one network.
    """
    module: Any = fitted.module
    parts = parts_of(graph, module, result.split)
    mixed = isinstance(module, DJExperts)
    names = module.names if mixed else module.branch_names
    alpha = module.weights if mixed else module.mixture.alpha
    weights: dict[str, float] = {}
    for name, weight in zip(names, alpha.tolist(), strict=True):
        kind = kind_of(name) if mixed else name
        weights[kind] = weights.get(kind, 0.0) + weight
    y = np.full(graph.num_nodes, -1) if graph.y is None else graph.y
    by_part, logits = {"validation": parts.val, "test": parts.test}, fitted.logits.cpu().numpy()
    return {
        "format": FORMAT,
        "data": {
            "name": graph.name,
            "sha256": graph.content_hash,
            "num_nodes": graph.num_nodes,
            "num_edges": graph.num_edges,
            "num_features": graph.num_features,
            "classes": list(graph.classes()),
        },
        "metric": graph.metric,
        "protocol": "cross-fitting" if fitted.evidence is not None else "validation",
        "seed": seed,
        "interrupted": fitted.interrupted,
        "result": json_values(result.to_dict()),
        "verdict": verdict(graph, fitted, parts, config.training.epochs),
        "calibration": calibration_card(logits, y, by_part, fitted.calibration),
        "alpha": weights,
        "experts": json_values([dataclasses.asdict(record) for record in fitted.experts]),
        "jumps": jumps_card(module),
        "versions": versions(),
    }


def jumps_card(module: DJGNN | DJExperts) -> list[dict[str, Any]] | None:
    """Of every network with jumps: how many it uses, the largest rank they reach, those dropped.

    A jump counts if it keeps any rank and has any weight. ``None`` where nothing jumps.
    """
    found = []
    for network in networks(module):
        own, alpha = network.module, network.module.mixture.alpha.tolist()
        jumps = list(zip(own.branch_names, own.branches, alpha, strict=False))
        used = [ranks for _, ranks, a in jumps if ranks and a > 0]
        if jumps:
            found.append(
                {
                    "expert": network.name,
                    "used": len(used),
                    "reach": max((max(ranks) for ranks in used), default=0),
                    "dropped": [name for name, _, a in jumps if a == 0],
                }
            )
    return found or None


def write_model(
    folder: Path,
    graph: Graph,
    config: RunConfig,
    module: nn.Module,
    card: dict[str, Any],
    history: Sequence[EpochRecord],
) -> None:
    """Write what a model needs to predict again: graph, options, weights and card; its epochs."""
    chosen = dataclasses.replace(config, model=getattr(module, "config", config.model))
    (folder / CONFIG).write_text(chosen.to_yaml(), "utf-8")
    (folder / RESULT).write_text(json.dumps(card, indent=2, ensure_ascii=False) + "\n", "utf-8")
    write_npz(graph, folder / GRAPH)
    weights = {name: value.contiguous() for name, value in module.state_dict().items()}
    save_file(weights, folder / WEIGHTS, {"format": FORMAT})
    with (folder / HISTORY).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(f.name for f in dataclasses.fields(EpochRecord))
        writer.writerows(map(dataclasses.astuple, history))


def read_card(folder: str | Path) -> dict[str, Any]:
    """The card of a run folder.

    Raises:
        InputError: If it is not a complete run folder.
    """
    path = Path(folder).expanduser() / RESULT
    try:
        card = json.loads(read_limited(path, CARD_BYTES))
    except (RecursionError, ValueError) as error:
        what = "damaged" if path.is_file() else "not a run folder"
        raise InputError(
            f"{path}: {what}, it cannot be read; give a folder written by `djgnn fit` "
            f"(got {str(error)[:200]})"
        ) from error
    check_file(card, Card, path, "restore the file or run `djgnn fit` again")
    return dict(card)


def read_predictions(folder: str | Path) -> str:
    """The stored predictions of a run, as CSV text.

    Raises:
        InputError: If it is not a complete run folder.
    """
    read_card(folder)
    path = Path(folder).expanduser() / PREDICTIONS
    try:
        return read_limited(path, TABLE_BYTES).decode("utf-8")  # names keep their line ends
    except (InputError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({error}); run `djgnn fit` again") from error


def read_history(folder: str | Path) -> tuple[EpochRecord, ...]:
    """The epochs of a stored run; version 0.1 did not write whose they were.

    Raises:
        InputError: If the file is missing or damaged.
    """
    path = Path(folder).expanduser() / HISTORY
    numbers = [f.name for f in dataclasses.fields(EpochRecord) if f.name not in ("epoch", "expert")]
    try:
        text = read_limited(path, TABLE_BYTES).decode("utf-8")
        return tuple(
            EpochRecord(
                epoch=int(np.int64(row["epoch"])),
                expert=row.get("expert") or "",
                **{key: float(row[key]) for key in numbers},
            )
            for row in csv.DictReader(io.StringIO(text, newline=""))
        )
    except (InputError, ValueError, TypeError, KeyError, OverflowError, csv.Error) as error:
        raise InputError(f"{path}: damaged or missing ({error}); fit again") from error


def prediction_csv(
    graph: Graph,
    shares: NDArray[np.float32],
    split: Split | None = None,
    anchors: NDArray[np.bool_] | None = None,
    only: NDArray[np.int64] | None = None,
) -> str:
    """Predictions as CSV: node, prediction, probability, margin, then the rest.

    `margin` is the probability's lead over the second class; `flags` see :func:`node_flags`; the
    columns ``p(class)`` have all probabilities.

    Args:
        graph: Names, labels and edges.
        shares: Probabilities.
        split: Whose parts are written down; ``None`` leaves that column empty.
        anchors: Nodes that a node must be linked with to be reached; the training nodes by
            default.
        only: Nodes to write; all by default.

    Shapes:
        shares ``[n, classes]``, anchors ``[n]``.
    """
    rows = np.arange(graph.num_nodes)
    second, probability = np.sort(shares, axis=1)[:, -2:].T
    best, margin = shares.argmax(axis=1), probability - second
    part = np.full(graph.num_nodes, "", dtype="<U10")
    if split is not None:
        part[split.train], part[split.val], part[split.test] = "train", "validation", "test"
    classes, names = graph.classes(), graph.names()
    flags = node_flags(graph, part == "train" if anchors is None else anchors)
    known = np.full(graph.num_nodes, -1) if graph.y is None else graph.y
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([*COLUMNS, *(f"p({name})" for name in classes)])
    for i in (rows if only is None else only).tolist():
        label = "" if known[i] < 0 else classes[known[i]]
        numbers = (f"{probability[i]:.6f}", f"{margin[i]:.6f}")
        every = (f"{share:.6f}" for share in shares[i])
        writer.writerow([names[i], classes[best[i]], *numbers, label, part[i], flags[i], *every])
    return file.getvalue()


def node_flags(graph: Graph, anchors: NDArray[np.bool_]) -> list[str]:
    """What makes the prediction of a node weak, in words.

    ``isolated``: no edge. ``featureless``: all features zero. ``unreached``: no path to an anchor,
    whatever the direction of the edges; its prediction comes from features and jumps alone.

    Example:
        >>> graph = Graph(np.array([[0], [1]]), num_nodes=3)
        >>> node_flags(graph, np.array([True, False, False]))
        ['', '', 'isolated unreached']
    """
    flags = {"isolated": np.bincount(graph.edge_index.reshape(-1), minlength=graph.num_nodes) == 0}
    if graph.x is not None:
        flags["featureless"] = np.asarray(abs(graph.x).sum(axis=1)).reshape(-1) == 0
    flags["unreached"] = ~reached(graph, anchors)
    return [" ".join(n for n, mask in flags.items() if mask[i]) for i in range(graph.num_nodes)]


def reached(graph: Graph, anchors: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Nodes in a component with an anchor; all of them where there is no anchor at all."""
    if not anchors.any():
        return np.ones(graph.num_nodes, dtype=np.bool_)
    _, component = connected_components(graph.adjacency, directed=False)
    return np.asarray(np.isin(component, np.unique(component[anchors])))
