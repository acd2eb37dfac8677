"""Run cells on a machine that has torch and PyG and nothing else of the command line.

    PYTHONPATH=src DJGNN_DATA=DATA python -m djgnn.bench.worker --out results.jsonl < cells.jsonl

Standard input: one cell per line, as `djgnn bench table1 --export cells.jsonl` writes them. Output:
one line per split, as `djgnn bench table1 --import results.jsonl` reads them. Splits that are in
the output file already are not run again, so the same command continues after a stop.
"""

import argparse
import os
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path

from djgnn.bench.pool import run_units
from djgnn.bench.record import read_records
from djgnn.bench.spec import CellSpec, code_version, gather_facts
from djgnn.errors import InputError, printable
from djgnn.training.inputs import choose_device


def main(arguments: Sequence[str] | None = None, stdin: Iterable[str] | None = None) -> int:
    """Run the cells of standard input; exit status 0 done, 1 something is left, 2 wrong input."""
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
    try:
        return run_lines(sys.stdin if stdin is None else stdin, parser.parse_args(arguments))
    except InputError as error:
        _say(f"error: {error}")
    except UnicodeDecodeError as error:
        _say(f"error: standard input: is not UTF-8; give cells as --export writes them ({error})")
    return 2


def _say(text: str) -> None:
    """Print a line on standard error; a terminal gets no control characters."""
    print(printable(text), file=sys.stderr, flush=True)


def run_lines(lines: Iterable[str], options: argparse.Namespace) -> int:
    """Run what is missing of the cells in JSON lines; returns the exit status.

    Raises:
        InputError: If a line is not a cell, or the output holds something else than records.
    """
    begun = time.monotonic()
    specs = []
    for number, line in enumerate(lines, start=1):
        try:
            specs += [CellSpec.from_json(line)] if line.strip() else []
        except InputError as error:
            raise InputError(f"line {number}: {error}") from error
    facts, refused = gather_facts(sorted({spec.dataset for spec in specs}), options.data)
    for reason in refused.values():
        _say(f"left out: {reason}")
    known = set()
    if options.out is not None and options.out.is_file():
        records = read_records(options.out)
        known = {r.key for r in records if r.done or not options.retry_failed}
        with options.out.open("r+b") as file:  # half a line of a killed run is cut off
            file.truncate(file.read().rfind(b"\n") + 1)
    units = [
        (spec, split)
        for spec in specs
        if spec.dataset in facts
        for split in spec.splits
        if spec.key(split, facts[spec.dataset].sha256, code_version()) not in known
    ]
    device = choose_device(options.device).type
    _say(f"{len(units)} splits to run on {device}")
    run = run_units(
        units,
        facts,
        workers=options.workers,
        device=options.device,
        data=options.data,
        split_limit=options.split_limit,
        total_limit=options.time_limit,
    )
    count = 0
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
    with (
        nullcontext(sys.stdout)
        if options.out is None
        else options.out.open("a", encoding="utf-8") as stream
    ):
        for count, record in enumerate(run, start=1):
            stream.write(record.to_json() + "\n")
            stream.flush()
            if stream is not sys.stdout:
                os.fsync(stream.fileno())
            shown = f"{record.validation:.2f}" if record.done else record.outcome
            _say(
                f"{count}/{len(units)} {record.label} {record.dataset} split {record.split}: "
                f"{shown} ({record.seconds:.1f} s)"
            )
    left, spent = len(units) - count, time.monotonic() - begun
    _say(f"{count} splits in {spent:.0f} s, {left} left")
    return 1 if left or refused else 0


if __name__ == "__main__":
    sys.exit(main())
