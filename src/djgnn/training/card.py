"""The card of a run, ``result.json``: what it holds, and the hashes of the other files."""

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict

from djgnn import checking
from djgnn.checking import check_file
from djgnn.errors import InputError
from djgnn.graph.checks import Metric
from djgnn.graph.files import atomic_write, file_hash, read_limited, readable_file
from djgnn.graph.npz import RUN_FILE
from djgnn.training.conformal import SetsCard
from djgnn.training.next_steps import NextSteps
from djgnn.training.verdict import Verdict

FORMAT = "djgnn-run-1"
RESULT, REPORT, RECORD = "result.json", "report.html", "record.npz"
PREDICTIONS, HISTORY = "predictions.csv", "history.csv"
CONFIG, WEIGHTS, GRAPH = "config.yaml", "weights.safetensors", RUN_FILE
HELD_OUT = "held_out.safetensors"
READ = {PREDICTIONS, HISTORY, CONFIG, WEIGHTS, GRAPH, HELD_OUT, RECORD}
"""Files that are read again."""

CARD_BYTES = 2**26
REMEDY = "restore the file or run `djgnn fit` again"


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


class _Reading(TypedDict):
    notes: list[checking.Text]
    columns: list[checking.Text]
    warnings: list[checking.Text]


class Phase(TypedDict):
    """What a phase of `djgnn fit` took: seconds, and the most memory that was in use in it."""

    name: checking.Text
    seconds: checking.NonNegative
    peak_mib: checking.NonNegative
    gpu_peak_mib: NotRequired[checking.NonNegative]
    cpu_seconds: NotRequired[checking.NonNegative]


class Card(NextSteps):
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
    sets: NotRequired[SetsCard | None]
    reading: NotRequired[_Reading]
    fingerprint: NotRequired[checking.Text]
    threads: NotRequired[checking.Count]
    phases: NotRequired[list[Phase]]
    files: NotRequired[dict[str, checking.Text]]
    versions: dict[str, checking.Text]


def own_file(folder: Path, name: str) -> Path:
    """The path of an ordinary file in a run folder; a link could lead anywhere.

    Raises:
        InputError: If it is missing, a link, a folder, a device or a pipe, or not readable.
    """
    path = folder / name
    if path.name != name:
        raise InputError(f"{folder / RESULT}: damaged, names a file elsewhere (got {name[:60]!r})")
    if path.is_symlink():
        raise InputError(
            f"{path}: is a link, not an ordinary file of the run; copy the file itself there"
        )
    return readable_file(path)


def write_card(
    folder: Path, card: dict[str, Any], hashes: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Write the card, after all other files of a run: it has their hashes, and its own.

    Args:
        folder: The run.
        card: The rest of the card.
        hashes: Those of files that were hashed when they were written.

    Returns:
        The card as written.
    """
    names = sorted(path.name for path in folder.iterdir() if path.name != RESULT)
    return _write(folder, {**card, "files": _digests(folder, names, hashes)})


def amend_card(folder: Path, card: dict[str, Any], *names: str, **fields: Any) -> dict[str, Any]:
    """Write the card anew, with more files and fields.

    Returns:
        The card as written.
    """
    files = {**card.get("files", {}), **_digests(folder, names)}
    return _write(folder, {**card, **fields, "files": files})


def check_files(
    folder: Path,
    card: dict[str, Any],
    but: str = "",
    only: str = "",
    hashes: Callable[[], Mapping[str, str]] = dict,
) -> None:
    """Refuse a run folder that has other files than it was written with.

    A page that was deleted is not missed. Files that are never read again may be added. Cards of
    version 0.1 have no hashes, but links are refused there as well.

    Args:
        folder: The run.
        card: Its card.
        but: A file that may be what it is.
        only: The one file to check, if not all.
        hashes: Gives those of files that were hashed ahead, see `hash_ahead`.

    Raises:
        InputError: With the name of the first file that is missing, a link, or another one.
    """
    sealed, vouched, there = "files" in card, dict(card.get("files", {})), []
    names = {name for name in READ if os.path.lexists(folder / name)} | vouched.keys()
    for name in [only] if only else sorted(names - {RESULT, but}):
        if name == REPORT and not (folder / name).exists():
            continue
        try:
            own_file(folder, name)
        except InputError as error:
            raise InputError(f"{error}; {REMEDY}") from error
        if sealed and name not in vouched:
            raise InputError(f"{folder / name}: the card does not vouch for this file; {REMEDY}")
        there.append(name)
    if not sealed:
        return
    for name, found in _digests(folder, there, hashes()).items():
        if found != vouched[name]:
            raise InputError(
                f"{folder / name}: damaged, not the file that this run wrote; {REMEDY}"
            )


def is_sealed(folder: Path, card: dict[str, Any], name: str) -> bool:
    """Whether a file of a run is there, as the card has it."""
    path = folder / name
    return path.is_file() and file_hash(path) == card.get("files", {}).get(name)


def read_card(folder: str | Path) -> dict[str, Any]:
    """The card of a run folder, if it is as it was written.

    Raises:
        InputError: If it is not a complete run folder.
    """
    place = Path(folder).expanduser()
    path = place / RESULT
    try:
        card = json.loads(read_limited(own_file(place, RESULT), CARD_BYTES))
    except (RecursionError, ValueError) as error:
        what = "damaged" if path.is_file() else "not a run folder"
        raise InputError(
            f"{path}: {what}, it cannot be read; give a folder written by `djgnn fit` "
            f"(got {str(error)[:200]})"
        ) from error
    check_file(card, Card, path, REMEDY)
    if ("files" in card or "verdict" in card) and _own_digest(card) != card.get("files", {}).get(
        RESULT
    ):
        raise InputError(f"{path}: damaged, not the card that this run wrote; {REMEDY}")
    return dict(card)


def _write(folder: Path, card: dict[str, Any]) -> dict[str, Any]:
    card = json.loads(json.dumps(card))  # as it will be read
    card["files"][RESULT] = _own_digest(card)
    with atomic_write(folder / RESULT) as stream:
        text = json.dumps(card, indent=2, ensure_ascii=False) + "\n"
        stream.write(text.encode("utf-8"))
    return card


def _digests(
    folder: Path, names: Sequence[str], known: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Hashes of files by name, those that are not known of several at the same time."""
    known = known or {}
    with ThreadPoolExecutor(4) as pool:
        found = pool.map(lambda name: known.get(name) or file_hash(folder / name), names)
        return dict(zip(names, found, strict=True))


def _own_digest(card: dict[str, Any]) -> str:
    """Of a card without this very hash, however it is laid out."""
    files = {name: of for name, of in card.get("files", {}).items() if name != RESULT}
    text = json.dumps({**card, "files": files}, sort_keys=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()
