"""What a stored recording must be like before anything is drawn from it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from djgnn.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_BYTES = 256 * 2**20
LAST_EPOCH = 2**31
LARGEST = 1e15
SHAPES: dict[str, tuple[str, ...]] = {
    "nodes": ("nodes",),
    "epochs": ("snapshots",),
    "u": ("snapshots", "nodes", "channels"),
    "ranks": ("snapshots", "nodes", "ranks"),
    "weight": ("snapshots", "nodes", "ranks"),
    "logits": ("snapshots", "nodes", "classes"),
    "scale": ("snapshots",),
    "seen": ("epochs",),
    "alpha": ("epochs", "branches"),
    "trace_ratio": ("epochs",),
    "orthogonality": ("epochs",),
}
WHOLE = ("nodes", "epochs", "ranks", "seen")
FINITE = ("u", "weight", "logits", "scale", "alpha")


def check_record(
    path: Path, arrays: Mapping[str, NDArray[Any]], sizes: Mapping[str, int]
) -> dict[str, NDArray[Any]]:
    """The arrays of a recording, if their types, shapes and ranges fit together and to the run.

    Args:
        path: The file, for messages.
        arrays: What it holds.
        sizes: Known lengths by name, `channels`, `ranks`, `classes` and `branches` (see `SHAPES`),
            and `num_nodes`, the nodes of the graph.

    Raises:
        InputError: With the file, the key and what was expected.
    """
    lengths = {name: size for name, size in sizes.items() if name != "num_nodes"}
    found = {}
    for key, names in SHAPES.items():
        if key not in arrays:
            raise InputError(f"{path}: key {key!r} is missing")
        found[key] = _typed(path, key, arrays[key])
        _check_shape(path, key, found[key].shape, names, lengths)
    for key in FINITE:
        if not (np.abs(found[key]) < LARGEST).all():
            raise InputError(
                f"{path}: key {key!r} must hold numbers below {LARGEST:g} (got others)"
            )
    num_nodes = sizes.get("num_nodes", np.iinfo(np.int64).max)
    for key in WHOLE:
        _check_range(path, key, found[key], num_nodes if key in ("nodes", "ranks") else LAST_EPOCH)
    for key in ("nodes", "epochs"):
        if (np.diff(found[key]) <= 0).any():
            raise InputError(f"{path}: key {key!r} must ascend, each value once")
    return found


def _typed(path: Path, key: str, array: NDArray[Any]) -> NDArray[Any]:
    kinds, words = ("iu", "whole numbers") if key in WHOLE else ("f", "floating point numbers")
    if array.dtype.kind not in kinds:
        raise InputError(f"{path}: key {key!r} must hold {words} (got {array.dtype})")
    kept = np.int64 if key in WHOLE else np.float64 if key == "scale" else np.float32
    with np.errstate(over="ignore"):  # infinity is looked for below
        return array.astype(kept)


def _check_shape(
    path: Path, key: str, shape: tuple[int, ...], names: tuple[str, ...], lengths: dict[str, int]
) -> None:
    """Equal names have equal lengths; one that is new is noted in `lengths`."""
    fits = len(shape) == len(names) and all(
        length > 0 and lengths.setdefault(name, length) == length
        for name, length in zip(names, shape, strict=True)
    )
    if not fits:
        wanted = ", ".join(f"{name} {lengths.get(name, '> 0')}" for name in names)
        raise InputError(f"{path}: key {key!r} must have the shape [{wanted}] (got {list(shape)})")


def _check_range(path: Path, key: str, values: NDArray[np.int64], below: int) -> None:
    low, high = int(values.min()), int(values.max())
    if low < 0 or high >= below:
        raise InputError(
            f"{path}: key {key!r} must lie from 0 to {below - 1} (got {low} to {high})"
        )
