"""The run folder: everything that a finished run leaves, written as a whole or not at all."""

from __future__ import annotations

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
from typing import Annotated, Any, Literal, TypedDict

import numpy as np
from msgspec import Meta
from safetensors.torch import save_file
from torch import nn

from djgnn.checking import Natural, NonNegative, Number, Score, Seed, Text, check_file, json_values
from djgnn.errors import InputError
from djgnn.graph import Graph, write_npz
from djgnn.graph.files import read_limited
from djgnn.training import calibration
from djgnn.training.config import RunConfig
from djgnn.training.loop import Fitted
from djgnn.training.predictions import prediction_csv
from djgnn.training.progress import EpochRecord
from djgnn.training.provenance import versions
from djgnn.training.run import probabilities
from djgnn.training.selection import SplitResult

FORMAT = "djgnn-run-1"
RESULT, PREDICTIONS = "result.json", "predictions.csv"
CONFIG, WEIGHTS, GRAPH = "config.yaml", "weights.safetensors", "graph.npz"
CARD_BYTES, TABLE_BYTES = 2**26, 2**33


class _Data(TypedDict):
    name: Text
    sha256: Text
    num_nodes: Natural
    num_edges: Natural
    num_features: Natural
    classes: list[Text]


class _Result(TypedDict):
    split: Natural
    validation: Score | None
    test: Score | None
    oracle_test: Score | None
    epoch: Natural
    seconds: NonNegative


class _Calibration(TypedDict):
    temperature: Annotated[float, Meta(ge=1e-6, le=1e300, description="a positive number")]


class Card(TypedDict):
    """What ``result.json`` of a run must hold; fields that are not named are left alone."""

    data: _Data
    metric: Literal["accuracy", "roc_auc"]
    protocol: Text
    seed: Seed
    interrupted: bool
    result: _Result
    calibration: _Calibration
    structure_gate: dict[str, Score | None] | None
    alpha: dict[str, Number]
    versions: dict[str, Text]


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
        card = json.loads(read_limited(target / RESULT, CARD_BYTES))
    except (InputError, RecursionError, ValueError):
        card = None
    # What may be replaced: a run, or the cell of a table.
    known = isinstance(card, dict) and (
        card.get("format") == FORMAT or card.keys() >= {"model", "dataset", "seed", "failures"}
    )
    if not known:
        raise InputError(
            f"{path}: exists already and is not a run folder, so it is never replaced; name another"
        )
    if not overwrite:
        raise InputError(
            f"{path}: exists already; name another folder, or pass `overwrite=` to replace it"
        )


def write_run(
    folder: Path, graph: Graph, config: RunConfig, fitted: Fitted, result: SplitResult, seed: int
) -> dict[str, Any]:
    """Write a finished run into a folder (see :func:`new_folder`) and return its card."""
    card = run_card(graph, fitted, result, seed)
    write_model(folder, graph, config, fitted.module, card)
    write_history(folder / "history.csv", fitted.history)
    text = prediction_csv(graph, probabilities(fitted), graph.split(result.split))
    (folder / PREDICTIONS).write_text(text, "utf-8")
    return card


def run_card(graph: Graph, fitted: Fitted, result: SplitResult, seed: int) -> dict[str, Any]:
    """What a run says about itself."""
    parts = graph.split(result.split)
    y = np.full(graph.num_nodes, -1) if graph.y is None else graph.y
    by_part = {"validation": parts.val, "test": parts.test}
    logits = fitted.logits.cpu().numpy()
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
        "protocol": "validation",
        "seed": seed,
        "interrupted": fitted.interrupted,
        "result": json_values(result.to_dict()),
        "calibration": calibration.calibration_card(logits, y, by_part, fitted.temperature),
        "structure_gate": fitted.gate,
        "alpha": branch_weights(fitted),
        "versions": versions(),
    }


def write_model(
    folder: Path, graph: Graph, config: RunConfig, module: nn.Module, card: dict[str, Any]
) -> None:
    """Write what a model needs to predict again: graph, options, weights and card."""
    chosen = dataclasses.replace(config, model=getattr(module, "config", config.model))
    (folder / CONFIG).write_text(chosen.to_yaml(), "utf-8")
    (folder / RESULT).write_text(json.dumps(card, indent=2, ensure_ascii=False) + "\n", "utf-8")
    write_npz(graph, folder / GRAPH)
    weights = {name: value.contiguous() for name, value in module.state_dict().items()}
    save_file(weights, folder / WEIGHTS, {"format": FORMAT})


def branch_weights(fitted: Fitted) -> dict[str, float]:
    """The learned mixing weight of every branch, by name."""
    module: Any = fitted.module
    return dict(zip(module.branch_names, module.mixture.alpha.tolist(), strict=True))


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
    if not isinstance(card, dict) or card.get("format") != FORMAT:
        raise InputError(f"{path}: not the card of a run of this version (wants {FORMAT!r})")
    check_file(card, Card, path, "restore the file or run `djgnn fit` again")
    return card


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


def write_history(path: Path, history: Sequence[EpochRecord]) -> None:
    """Write one row per epoch as CSV."""
    names = [f.name for f in dataclasses.fields(EpochRecord)]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows([getattr(record, name) for name in names] for record in history)


def read_history(folder: str | Path) -> tuple[EpochRecord, ...]:
    """The epochs of a stored run.

    Raises:
        InputError: If the file is missing or damaged.
    """
    path = Path(folder).expanduser() / "history.csv"
    try:
        text = read_limited(path, TABLE_BYTES).decode("utf-8")
        rows = list(csv.DictReader(io.StringIO(text, newline="")))
        names = [f.name for f in dataclasses.fields(EpochRecord)]
        return tuple(
            EpochRecord(int(np.int64(row["epoch"])), *(float(row[key]) for key in names[1:]))
            for row in rows
        )
    except (InputError, ValueError, TypeError, KeyError, OverflowError, csv.Error) as error:
        raise InputError(f"{path}: damaged or missing ({error}); fit again") from error
