"""The run folder: everything that a finished run leaves, written as a whole or not at all."""

import csv
import dataclasses
import io
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from torch import Tensor, nn

from djgnn.checking import json_values, shorten
from djgnn.errors import InputError, OutputError
from djgnn.graph import Graph, Split, all_held_out, write_npz
from djgnn.graph.files import file_hash, flush, read_limited
from djgnn.model import DJGNN, DJExperts
from djgnn.model.experts import kind_of, networks
from djgnn.training.calibration import calibration_card
from djgnn.training.card import (
    CARD_BYTES,
    CONFIG,
    FORMAT,
    GRAPH,
    HELD_OUT,
    HISTORY,
    PREDICTIONS,
    REMEDY,
    RESULT,
    WEIGHTS,
    check_files,
    own_file,
    read_card,
    write_card,
)
from djgnn.training.checkpoint import save_tensors
from djgnn.training.config import RunConfig
from djgnn.training.conformal import Promise, sets_card
from djgnn.training.held_out import HeldOut, held_out, write_held_out
from djgnn.training.loop import Fitted
from djgnn.training.next_steps import write_next_steps
from djgnn.training.output_lock import retire
from djgnn.training.predictions import COLUMNS, flag_codes, prediction_table, table_csv
from djgnn.training.progress import EpochRecord
from djgnn.training.provenance import versions
from djgnn.training.selection import SplitResult
from djgnn.training.verdict import verdict

TABLE_BYTES = 2**33


@dataclasses.dataclass(frozen=True, eq=False)
class Answers:
    """What a run says about its nodes.

    Attributes:
        logits: Of every expert, ``[n, classes]``.
        shares: Calibrated probabilities, ``[n, classes]``.
        table: ``predictions.csv`` without the probabilities of all classes.
        trained: The model and its inputs, where they are at hand.
    """

    logits: dict[str, Tensor]
    shares: NDArray[np.float32]
    table: pl.DataFrame
    trained: tuple[Any, Any] | None = None


@contextmanager
def new_folder(path: str | Path, overwrite: bool = False) -> Iterator[Path]:
    """A folder that appears under its name only once everything is in it.

    Args:
        path: Where the run will be.
        overwrite: Replace a run that is there already; anything else is never replaced.

    Raises:
        InputError: If something is there that may not be replaced.
        OutputError: If nothing can be written there.
    """
    target = Path(os.path.realpath(Path(path).expanduser()))  # a link is followed, and stays
    check_free(target, overwrite)
    mark = secrets.token_hex(4)
    staging, old = (target.with_name(f".{target.name}.{mark}.{kind}") for kind in ("part", "old"))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        staging.mkdir()
    except OSError as error:
        raise OutputError(
            f"{path}: cannot be written; name another folder, or allow writing in {target.parent} "
            f"(got {error.strerror or error})"
        ) from error
    try:
        yield staging
        for file in (*staging.iterdir(), staging):  # a crash of the machine leaves all or nothing
            flush(file)
        check_free(target, overwrite)  # something may have appeared there in the meantime
        if target.exists():
            os.replace(target, old)
        os.replace(staging, target)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        if old.exists() and not target.exists():
            os.replace(old, target)
        raise
    retire(old, target)


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
    folder: Path,
    graph: Graph,
    config: RunConfig,
    fitted: Fitted,
    result: SplitResult,
    seed: int,
    promise: Promise | None = None,
    more: Mapping[str, Any] | None = None,
    on_answers: Callable[[Answers], None] | None = None,
    in_turn: bool = False,
) -> dict[str, Any]:
    """Write a finished run into a folder (see :func:`new_folder`) and return its card.

    `more` are fields of the card that were found elsewhere; `on_answers` is given what the run
    says about its nodes. Large files are written while others are made, which takes the memory of
    all of them; or `in_turn`.
    """
    with ThreadPoolExecutor(1 if in_turn else 3) as beside:
        stored = [
            beside.submit(_store_graph, folder, graph),
            beside.submit(_store_weights, folder, fitted.module),
        ]
        shares = fitted.calibration.probabilities(fitted.logits.cpu().numpy())
        held = held_out(graph, fitted, result.split)
        steps = beside.submit(write_next_steps, folder, graph, held, shares)
        if in_turn:  # wait for all of them
            beside.shutdown()
        card = run_card(graph, config, fitted, result, seed, promise)
        parts = parts_of(graph, fitted.module, result.split)
        anchors = parts.train if parts.train.any() else parts.val
        table = prediction_table(graph, shares, card["sets"], parts, flag_codes(graph, anchors))
        (folder / PREDICTIONS).write_text(table_csv(table), "utf-8")
        if on_answers is not None:
            on_answers(Answers(dict(fitted.by_expert), shares, table.select(COLUMNS)))
        card |= steps.result() | dict(more or {})
        hashes = dict(each.result() for each in stored)
    return _seal(folder, config, fitted.module, card, fitted.history, held, hashes)


def parts_of(graph: Graph, module: nn.Module, split: int) -> Split:
    """The parts of a run; of a cross-fitted one every labelled node was held out once."""
    folded = isinstance(module, DJExperts) and module.folds > 1
    return all_held_out(graph) if folded else graph.split(split)


def run_card(
    graph: Graph,
    config: RunConfig,
    fitted: Fitted,
    result: SplitResult,
    seed: int,
    promise: Promise | None = None,
) -> dict[str, Any]:
    """What a run says about itself.

    `alpha` has the weights of a mixture's experts, or of the branches of one network; `product` is
    how much of them they have as parts of the product, `offsets` what classes are raised by.
    """
    module: Any = fitted.module
    parts = parts_of(graph, module, result.split)
    mixed = isinstance(module, DJExperts)
    names = module.names if mixed else module.branch_names
    alpha = module.influence()[:, 0, 0] if mixed else module.mixture.alpha
    weights: dict[str, float] = {}
    for name, weight in zip(names, alpha.tolist(), strict=True):
        kind = kind_of(name) if mixed else name
        weights[kind] = weights.get(kind, 0.0) + weight
    y = graph.labels
    offsets = None
    if mixed and module.offsets.any():
        offsets = dict(zip(graph.classes(), module.offsets.tolist(), strict=True))
    by_part, logits = {"validation": parts.val, "test": parts.test}, fitted.logits.cpu().numpy()
    return {
        "format": FORMAT,
        "data": {
            "name": graph.name.encode("utf-8", "replace").decode("utf-8"),  # that of a file
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
        "verdict": verdict(graph, fitted, result.split, config.training.epochs),
        "sets": sets_card(graph, fitted, result.split, promise),
        "calibration": calibration_card(logits, y, by_part, fitted.calibration),
        "alpha": weights,
        "product": float(module.product) if mixed else None,
        "offsets": offsets,
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
    held: HeldOut | None,
) -> dict[str, Any]:
    """Write what a model needs to predict again: graph, options and weights; its epochs.

    Of a cross-fitted one also its predictions of held-out nodes. The card comes last: it has
    the hash of every file that is in the folder by then.

    Returns:
        The card as written.
    """
    hashes = dict([_store_graph(folder, graph), _store_weights(folder, module)])
    return _seal(folder, config, module, card, history, held, hashes)


def _store_graph(folder: Path, graph: Graph) -> tuple[str, str]:
    """Write the graph; gives the name of the file and its hash."""
    write_npz(graph, folder / GRAPH)
    return GRAPH, file_hash(folder / GRAPH)


def _store_weights(folder: Path, module: nn.Module) -> tuple[str, str]:
    """Write the weights, down to the disk; gives the name of the file and its hash."""
    save_tensors(module.state_dict(), folder / WEIGHTS, {"format": FORMAT})
    flush(folder / WEIGHTS)
    return WEIGHTS, file_hash(folder / WEIGHTS)


def _seal(
    folder: Path,
    config: RunConfig,
    module: nn.Module,
    card: dict[str, Any],
    history: Sequence[EpochRecord],
    held: HeldOut | None,
    hashes: Mapping[str, str],
) -> dict[str, Any]:
    """Write the small files, and the card last; some hashes are known."""
    chosen = dataclasses.replace(config, model=getattr(module, "config", config.model))
    (folder / CONFIG).write_text(chosen.to_yaml(), "utf-8")
    if held is not None and held.source == "folds":
        write_held_out(held, folder / HELD_OUT)
    with (folder / HISTORY).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(f.name for f in dataclasses.fields(EpochRecord))
        writer.writerows(map(dataclasses.astuple, history))
    return write_card(folder, card, hashes)


def read_predictions(
    folder: str | Path, hashes: Callable[[], Mapping[str, str]] = dict
) -> list[list[str]]:
    """The stored predictions of a run: the names of its columns, then a row for every node.

    Args:
        folder: The run.
        hashes: Gives those of files that were hashed ahead.

    Raises:
        InputError: If it is not a complete run folder, or the table is not one of this run.
    """
    place = Path(folder).expanduser()
    card = read_card(place)
    check_files(place, card, hashes=hashes)
    return list(prediction_rows(place, card))


def prediction_rows(place: Path, card: dict[str, Any]) -> Iterator[list[str]]:
    """The rows of :func:`read_predictions`, of a run whose files were checked, one by one."""
    path, rows, number = place / PREDICTIONS, _table_rows(place), 1
    wanted = [*COLUMNS, *(f"p({name})" for name in card["data"]["classes"])]
    header = next(rows, [])
    if "files" not in card and header[:4] == wanted[:4]:  # version 0.1 had fewer columns
        wanted = header
    if header != wanted:
        got = shorten(",".join(header))
        raise InputError(f"{path}: damaged, it has other columns; {REMEDY} (got {got})")
    yield header
    for number, row in enumerate(rows, start=2):
        if len(row) != len(wanted):
            raise InputError(
                f"{path}: damaged, row {number} must have {len(wanted)} fields; {REMEDY} "
                f"(got {len(row)})"
            )
        yield row
    count = card["data"]["num_nodes"]
    if number != count + 1:
        raise InputError(
            f"{path}: damaged, it must have one row for each of {count} nodes; {REMEDY} "
            f"(got {number - 1})"
        )


def _table_rows(place: Path) -> Iterator[list[str]]:
    try:
        content = io.BytesIO(read_limited(own_file(place, PREDICTIONS), TABLE_BYTES))
        # names keep their line ends
        yield from csv.reader(io.TextIOWrapper(content, "utf-8", newline=""))
    except (InputError, UnicodeDecodeError, csv.Error) as error:
        path = place / PREDICTIONS
        raise InputError(f"{path}: damaged, it cannot be read ({error}); {REMEDY}") from error


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
