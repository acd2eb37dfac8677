"""`djgnn bench table1`, `table2`, `filtered` and `effects`: run what is missing, write the page."""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from djgnn.bench.plan import DataFacts, missing_units, run_plan
from djgnn.bench.pool import Limits
from djgnn.bench.record import SplitRecord
from djgnn.bench.spec import MODELS, CellSpec
from djgnn.bench.store import FinishedCell, Store
from djgnn.bench.tables import TableRequest, plan_table, write_table
from djgnn.cli.options import parse_splits
from djgnn.cli.text import escape
from djgnn.errors import InputError
from djgnn.graph.files import atomic_write
from djgnn.training.inputs import choose_device
from djgnn.training.selection import PROTOCOLS


@dataclass(frozen=True)
class RunOptions:
    """How cells are run, whatever table they are for."""

    out: Path
    data: Path | None = None
    device: str = "auto"
    workers: int | None = None
    retry_failed: bool = False
    split_limit: float | None = None
    imports: Sequence[Path] | None = None
    export: Path | None = None
    any_code: bool = False
    quiet: bool = False

    def processes(self) -> int:
        """As many as there are cores, one on a GPU, unless told."""
        if self.workers is not None:
            if self.workers < 0:
                raise InputError(f"--workers: must not be negative (got {self.workers})")
            return self.workers
        if choose_device(self.device).type == "cuda":
            return 1
        cores = getattr(os, "sched_getaffinity", None)
        return len(cores(0)) if cores else os.cpu_count() or 1


def table_request(
    suite: str,
    models: str,
    datasets: str,
    splits: str,
    epochs: int | None,
    preset: str,
    seed: int,
    tuned: Path | None,
    budget_free: bool,
) -> TableRequest:
    """A request from the texts of the command line."""
    return TableRequest(
        suite=suite,
        models=parse_models(models),
        datasets=tuple(parse_names(datasets)) or None,
        splits=wanted_splits(splits),
        epochs=epochs,
        preset=preset,
        seed=seed,
        tuned=tuned,
        budget_free=budget_free,
    )


def run_table(
    request: TableRequest, options: RunOptions, *, protocol: str, reference: str
) -> dict[str, Any]:
    """Run a table and return what `--json` prints.

    Raises:
        InputError: For a wrong option, an unknown model or set, or unequal budgets.
    """
    if protocol not in PROTOCOLS:
        raise InputError(f"--protocol: must be one of {', '.join(PROTOCOLS)} (got '{protocol}')")
    reference = reference or request.models[0]
    if reference not in request.models:
        raise InputError(f"--reference: must be one of the models run (got '{reference}')")
    plan = plan_table(request, options.data)
    store = Store(options.out, options.any_code)

    def write() -> list[Path]:
        return write_table(
            plan, store, protocol=protocol, reference=reference, command=command_line()
        )

    return run_cells(plan.specs, plan.facts, store, options, write)


def run_effects(
    models: tuple[str, ...],
    splits: tuple[int, ...] | None,
    epochs: int | None,
    preset: str,
    seed: int,
    page: Path | None,
    options: RunOptions,
) -> dict[str, Any]:
    """Run the study of protocol effects and return what `--json` prints."""
    from djgnn.bench.effects import plan_effects, write_effects

    plan = plan_effects(models, splits, epochs=epochs, preset=preset, seed=seed, data=options.data)
    store = Store(options.out, options.any_code)

    def write() -> list[Path]:
        return write_effects(plan, store, command=command_line(), page=page)

    return run_cells(plan.specs, plan.facts, store, options, write)


def run_cells(
    specs: Sequence[CellSpec],
    facts: Mapping[str, DataFacts],
    store: Store,
    options: RunOptions,
    write: Callable[[], list[Path]],
) -> dict[str, Any]:
    """Take in, then export or run what is missing; the page is written in any case."""
    console = Console(stderr=True, highlight=False, quiet=options.quiet, soft_wrap=True)
    if options.imports:
        console.print(f"{store.take_in(options.imports)} splits taken in")
    if options.export is not None:
        return _export(specs, facts, store, options, console)
    begun = time.perf_counter()

    def follow(number: int, total: int, record: SplitRecord) -> None:
        shown = f"{record.validation:.2f}" if record.done else record.outcome
        console.print(
            f"{number}/{total}  {record.label} on {record.dataset}, split {record.split}: "
            f"validation {escape(shown)}  ({time.perf_counter() - begun:.0f} s)"
        )

    try:
        cells = run_plan(
            specs,
            facts,
            store,
            workers=options.processes(),
            device=options.device,
            data=options.data,
            limits=Limits(split=options.split_limit),
            retry_failed=options.retry_failed,
            follow=follow,
        )
    finally:
        files = write()
    _print(cells, files, options.quiet)
    return {"cells": [cell.to_dict() for cell in cells], "files": [str(file) for file in files]}


def parse_models(text: str) -> tuple[str, ...]:
    """``all`` or names with commas.

    Example:
        >>> parse_models("djgnn:author, gcn")
        ('djgnn:author', 'gcn')
    """
    return MODELS if text.strip() == "all" else tuple(dict.fromkeys(parse_names(text)))


def wanted_splits(text: str) -> tuple[int, ...] | None:
    """Numbers of splits, ``None`` for all.

    Example:
        >>> wanted_splits("0-2,5"), wanted_splits("")
        ((0, 1, 2, 5), None)
    """
    return tuple(parse_splits(text, 10_000, "a data set")) if text else None


def command_line() -> str:
    """The command as it was typed, less the place of the program."""
    return shlex.join(["djgnn", *sys.argv[1:]])


def parse_names(text: str) -> list[str]:
    """Names with commas between them."""
    return [name.strip() for name in text.split(",") if name.strip()]


def _export(
    specs: Sequence[CellSpec],
    facts: Mapping[str, DataFacts],
    store: Store,
    options: RunOptions,
    console: Console,
) -> dict[str, Any]:
    """Write the cells that are missing, with the splits that are."""
    splits: dict[int, list[int]] = {}
    for spec, split in missing_units(specs, facts, store, options.retry_failed):
        splits.setdefault(specs.index(spec), []).append(split)
    lines = [{**specs[place].to_dict(), "splits": left} for place, left in splits.items()]
    assert options.export is not None
    with atomic_write(options.export) as file:
        file.write("".join(json.dumps(line) + "\n" for line in lines).encode("utf-8"))
    count = sum(len(left) for left in splits.values())
    console.print(f"{len(lines)} cells, {count} splits written to {escape(str(options.export))}")
    return {"exported_cells": len(lines), "exported_splits": count}


def _print(cells: Sequence[FinishedCell], files: Sequence[Path], quiet: bool) -> None:
    if quiet:
        return
    console = Console(highlight=False, soft_wrap=True)
    for cell in cells:
        name = f"{cell.spec.label} on {escape(cell.spec.dataset)}"
        if cell.complete:
            result = cell.result()
            console.print(f"{name}: test {result.mean('test'):.2f} ± {result.std('test'):.2f}")
        for failure in cell.failures:
            console.print(f"{name}, split {failure.split}: {escape(failure.outcome)}")
    console.print("written: " + ", ".join(escape(str(file)) for file in files))
