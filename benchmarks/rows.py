"""Measurements as lines of JSON: `run` adds to a file what is not in it yet, `table` prints it."""

from __future__ import annotations

import argparse
import json
import multiprocessing
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from djgnn.training.inputs import choose_device

Rows = list[dict[str, Any]]


def read(path: Path) -> Rows:
    """What was measured so far."""
    lines = path.read_text("utf-8").splitlines() if path.is_file() else []
    return [json.loads(line) for line in lines]


def main(
    text: str,
    second: str,
    wanted: Callable[[argparse.Namespace], Iterable[tuple[Any, ...]]],
    measure: Callable[..., dict[str, Any]],
    table: Callable[[Rows], None],
    **more: Any,
) -> int:
    """The commands `run` and `table` of a script.

    Args:
        text: Its docstring.
        second: What a row is known by beside ``dataset``: ``seed`` or ``split``.
        wanted: What to measure, from the options: a data set, `second`, and what else `measure`
            takes before the device.
        measure: Makes a row.
        table: Prints all rows.
        **more: Further options of `run` with their defaults.
    """
    parser = argparse.ArgumentParser(description=text.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    runs = commands.add_parser("run")
    runs.add_argument("--datasets", required=True, type=lambda names: names.split(","))
    for name, default in more.items():
        runs.add_argument(f"--{name}", type=type(default), default=default)
    runs.add_argument("--workers", type=int, default=1)
    runs.add_argument("--device", default="auto")
    runs.add_argument("--out", type=Path, required=True)
    commands.add_parser("table").add_argument("out", type=Path)
    options = parser.parse_args()
    if options.command == "table":
        table(read(options.out))
        return 0
    done = {(row["dataset"], row[second]) for row in read(options.out)}
    device = choose_device(options.device).type
    spawn = multiprocessing.get_context("spawn")
    with spawn.Pool(options.workers) as pool, options.out.open("a", encoding="utf-8") as file:
        left = [each for each in wanted(options) if each[:2] not in done]
        for row in pool.imap_unordered(partial(_measured, measure, device), left):
            file.write(json.dumps(row) + "\n")
            file.flush()
    return 0


def _measured(
    measure: Callable[..., dict[str, Any]], device: str, each: tuple[Any, ...]
) -> dict[str, Any]:
    return measure(*each, device)
