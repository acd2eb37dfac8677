"""Run cells on a machine that has torch and PyG and nothing else of the command line.

    PYTHONPATH=src DJGNN_DATA=DATA python -m djgnn.bench.worker --out results.jsonl < cells.jsonl

Standard input: one cell per line, as `djgnn bench table1 --export cells.jsonl` writes them. Output:
one line per split, as `djgnn bench table1 --import results.jsonl` reads them. Splits that are in
the output file already are not run again, so the same command continues after a stop.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TextIO

from djgnn.bench.code_version import code_version
from djgnn.bench.plan import gather_facts, lost_records
from djgnn.bench.pool import Limits, Unit, run_units
from djgnn.bench.record import SplitRecord, read_records
from djgnn.bench.spec import CellSpec
from djgnn.errors import InputError
from djgnn.training.inputs import choose_device


def main(arguments: Sequence[str] | None = None, stdin: TextIO | None = None) -> int:
    """Run the cells of standard input; exit status 0 done, 1 something is left, 2 wrong input."""
    options = _parser().parse_args(arguments)
    try:
        return work(stdin or sys.stdin, options)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def work(lines: Iterable[str], options: argparse.Namespace) -> int:
    """Run what is missing; returns the exit status.

    Raises:
        InputError: If a line is no cell.
    """
    begun = time.monotonic()
    specs = read_specs(lines)
    facts, refused = gather_facts(sorted({spec.dataset for spec in specs}), options.data)
    for reason in refused.values():
        print(f"left out: {reason}", file=sys.stderr)
    known = _known(options.out, options.retry_failed)
    units = [
        (spec, split)
        for spec in specs
        if spec.dataset in facts
        for split in spec.splits
        if spec.key(split, facts[spec.dataset].sha256, code_version(spec.model)) not in known
    ]
    device = choose_device(options.device).type
    print(f"{len(units)} splits to run on {device}", file=sys.stderr, flush=True)
    finished = _run(units, lost_records(facts, device), options)
    left = len(units) - finished
    spent = time.monotonic() - begun
    print(f"{finished} splits in {spent:.0f} s, {left} left", file=sys.stderr)
    return 1 if left or refused else 0


def read_specs(lines: Iterable[str]) -> list[CellSpec]:
    """The cells of JSON lines.

    Raises:
        InputError: If a line is no cell.
    """
    specs = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            specs.append(CellSpec.from_dict(json.loads(line)))
        except ValueError as error:
            raise InputError(f"line {number}: {error}") from error
    return specs


def _run(units: list[Unit], lost: Any, options: argparse.Namespace) -> int:
    limits = Limits(split=options.split_limit, total=options.time_limit)
    run = run_units(
        units,
        workers=options.workers,
        device=options.device,
        data=options.data,
        limits=limits,
        lost=lost,
    )
    count = 0
    with _appended(options.out) as stream:
        for record in run:
            _write(stream, record)
            count += 1
            shown = f"{record.validation:.2f}" if record.done else record.outcome
            print(
                f"{count}/{len(units)} {record.label} {record.dataset} split {record.split}: "
                f"{shown} ({record.seconds:.1f} s)",
                file=sys.stderr,
                flush=True,
            )
    return count


def _write(stream: IO[str], record: SplitRecord) -> None:
    stream.write(record.to_json() + "\n")
    stream.flush()
    if stream is not sys.stdout:
        os.fsync(stream.fileno())


@contextmanager
def _appended(path: Path | None) -> Any:
    """The output, after whole lines only: half a line of a killed run is cut off."""
    if path is None:
        yield sys.stdout
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)
    with path.open("a", encoding="utf-8") as stream:
        yield stream


def _known(path: Path | None, retry_failed: bool) -> set[str]:
    if path is None or not path.is_file():
        return set()
    return {r.key for r in read_records(path) if r.done or not retry_failed}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m djgnn.bench.worker", description="Run cells of a table given as JSON lines."
    )
    parser.add_argument("--out", type=Path, help="append results here (default: standard output)")
    parser.add_argument("--workers", type=int, default=1, help="processes (default: 1)")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda (default: auto)")
    parser.add_argument("--data", type=Path, help="folder with <name>.npz, before $DJGNN_DATA")
    parser.add_argument("--time-limit", type=float, help="end everything after this many seconds")
    parser.add_argument("--split-limit", type=float, help="give up a split after this many seconds")
    parser.add_argument("--retry-failed", action="store_true", help="run failed splits again")
    return parser


if __name__ == "__main__":
    sys.exit(main())
