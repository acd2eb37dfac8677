"""The work of `djgnn bench`: run what is missing, print, write the page."""

import os
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from djgnn.baselines import BASELINES
from djgnn.bench import CellResult, run_cell
from djgnn.bench.document import write_document
from djgnn.bench.page import compose
from djgnn.bench.pool import run_plan
from djgnn.bench.record import SplitRecord
from djgnn.bench.search import Search, make_search, need_optuna
from djgnn.bench.spec import MODELS, CellSpec, DataFacts, gather_facts
from djgnn.bench.standings import failure_lines
from djgnn.bench.store import Store, finished_cells, missing_units
from djgnn.bench.tables import chosen_splits, plan_table, search_folder
from djgnn.bench.tune import run_search, write_search
from djgnn.cli.bench import CellOptions, RunOptions, TableOptions, TuneOptions
from djgnn.cli.memory import largest_block, training_memory
from djgnn.cli.options import Recipe, check_choice
from djgnn.cli.terminal import epochs, escape
from djgnn.errors import InputError
from djgnn.graph import Graph
from djgnn.graph.files import atomic_write
from djgnn.training.config import RunConfig
from djgnn.training.inputs import choose_device
from djgnn.training.selection import PROTOCOLS

DATABASE = "studies.db"


def run_bench(options: CellOptions, recipe: Recipe) -> dict[str, Any]:
    """Run one cell and return what `--json` prints.

    Raises:
        InputError: For an unknown model, protocol, data set or split.
    """
    model, quiet = options.model, options.quiet or options.as_json
    check_choice("--model", model, ("djgnn", *BASELINES))
    check_choice("--protocol", options.protocol, PROTOCOLS)
    graph = Graph.load(options.dataset, data=options.data)
    if not graph.num_splits:
        raise InputError(f"{graph.name}: has no splits to run over; add masks to its file")
    every = range(graph.num_splits)
    chosen = parse_splits(options.splits, len(every), graph.name) or every
    settled = recipe.resolve(graph.name, model)
    where, largest = choose_device(options.device), 0
    if isinstance(settled, RunConfig):
        largest = largest_block(settled, graph, where.type)
    with epochs(quiet) as follow, training_memory(largest) as release:
        cell = run_cell(
            model,
            graph,
            settled,
            chosen,
            protocol=options.protocol,
            seed=options.seed,
            device=where,
            progress=lambda split: follow(f"split {split}", release),
        )
    if not quiet:
        _print_cell(cell, graph)
    return cell.to_dict()


def _print_cell(cell: CellResult, graph: Graph) -> None:
    """A table of the splits, the honest figure first, the oracle's labelled as such."""
    table = Table(title=f"{cell.model} ({cell.preset}) on {escape(cell.dataset)}, {cell.metric} %")
    for column in ("split", "epoch", "validation", "test", "oracle test", "seconds"):
        table.add_column(column, justify="right")
    for s in cell.splits:
        figures = (f"{v:.2f}" for v in (s.validation, s.test, s.oracle_test))
        table.add_row(str(s.split), str(s.epoch), *figures, f"{s.seconds:.1f}")
    console = Console(highlight=False)
    console.print(table)
    console.print(f"validation-selected test: {cell.mean('test'):.2f} +- {cell.std('test'):.2f}")
    if cell.protocol == "oracle":
        console.print(
            f"oracle (largest test score of all epochs, not comparable with honest figures): "
            f"{cell.mean('oracle_test'):.2f} +- {cell.std('oracle_test'):.2f}"
        )
    for remark in graph.card.get("oddities", ()):
        console.print(f"[dim]note: {escape(remark)}[/dim]")
    if graph.card.get("counterpart"):
        console.print(f"[dim]read beside: {escape(str(graph.card['counterpart']))}[/dim]")


def run_table(suite: str, table: TableOptions, options: RunOptions) -> dict[str, Any]:
    """Run a table and return what `--json` prints.

    Raises:
        InputError: For a wrong option, an unknown model or set, or unequal budgets.
    """
    models = parse_models(table.models)
    reference = table.reference or models[0]
    check_choice("--protocol", table.protocol, PROTOCOLS)
    check_choice("--reference", reference, models)
    plan = plan_table(
        suite,
        models,
        parse_names(table.datasets),
        splits=parse_splits(table.splits),
        tuned=table.tuned,
        budget_free=table.budget_free,
        data=options.data,
        epochs=table.epochs,
        preset=table.preset,
        seed=table.seed,
    )

    def write(store: Store) -> list[Path]:
        cells = finished_cells(plan.specs, plan.facts, store)
        page = compose(plan, cells, table.protocol, reference, typed_command())
        return [store.write_results(cells), *write_document(page, store.folder)]

    return run_cells(lambda _: plan.specs, plan.facts, options, write)


def typed_command() -> str:
    """The command as it was typed, without the path of the program."""
    return shlex.join(["djgnn", *sys.argv[1:]])


def run_cells(
    plan: Callable[[Store], Sequence[CellSpec]],
    facts: Mapping[str, DataFacts],
    options: RunOptions,
    write: Callable[[Store], list[Path]],
) -> dict[str, Any]:
    """Take in results, then export or run what is missing; returns what `--json` prints.

    Args:
        plan: The cells that are known with the results in a store. More may be known when they
            are finished; then these are run too.
        facts: Facts of every data set among them.
        options: How they are run.
        write: Writes the page from what is finished, which may be less than everything.
    """
    store, quiet = Store(options.out, options.any_code), options.quiet or options.as_json
    console = Console(stderr=True, highlight=False, quiet=quiet, soft_wrap=True)
    if options.imports:
        console.print(f"{store.import_records(options.imports)} splits taken in")
    specs, retry = plan(store), options.retry_failed
    if options.export is not None:
        splits: dict[int, tuple[CellSpec, list[int]]] = {}
        units = missing_units(specs, facts, store, retry)
        for spec, split in units:
            splits.setdefault(id(spec), (spec, []))[1].append(split)
        left = [replace(spec, splits=tuple(found)) for spec, found in splits.values()]
        with atomic_write(options.export) as stream:
            stream.write("".join(spec.to_json() + "\n" for spec in left).encode("utf-8"))
        file = escape(str(options.export))
        console.print(f"{len(left)} cells, {len(units)} splits written to {file}")
        return {"exported_cells": len(left), "exported_splits": len(units)}
    begun = time.perf_counter()

    def follow(number: int, total: int, record: SplitRecord) -> None:
        shown = f"{record.validation:.2f}" if record.done else record.outcome
        console.print(
            f"{number}/{total}  {escape(f'{record.label} on {record.dataset}')}, split "
            f"{record.split}: "
            f"validation {escape(shown)}  ({time.perf_counter() - begun:.0f} s)"
        )

    run = partial(
        run_plan,
        facts=facts,
        store=store,
        workers=processes(options),
        device=options.device,
        data=options.data,
        split_limit=options.split_limit,
        follow=follow,
    )
    try:
        finished = run(specs, retry_failed=retry)
        while len(more := plan(store)) > len(specs):
            finished, specs = run(more), more
    finally:
        files = write(store)
    finished = [cell for cell in finished if cell.spec.evaluate]
    console = Console(highlight=False, soft_wrap=True, quiet=quiet)
    for cell in finished:
        if cell.complete:
            name, result = escape(f"{cell.spec.label} on {cell.spec.dataset}"), cell.result()
            console.print(f"{name}: test {result.mean('test'):.2f} ± {result.std('test'):.2f}")
        for line in failure_lines([cell]):
            console.print(escape(line))
    console.print("written: " + ", ".join(escape(str(file)) for file in files))
    return {"cells": [cell.to_dict() for cell in finished], "files": [str(f) for f in files]}


def run_tune(options: TuneOptions) -> dict[str, Any]:
    """Run every search that is asked for and return what `--json` prints.

    Raises:
        InputError: For a wrong option, an unknown model or data set, or a missing package.
    """
    need_optuna()
    facts, refused = gather_facts(parse_names(options.dataset), options.data)
    if refused:
        raise InputError(next(iter(refused.values())))
    searches = [
        make_search(
            label,
            dataset,
            chosen_splits(parse_splits(options.splits), fact),
            epochs=options.epochs,
            preset=options.preset,
            any_code=options.any_code,
            sampler=options.sampler,
            pruner=options.pruner,
            seed=options.seed,
            data_sha256=fact.sha256,
        )
        for dataset, fact in facts.items()
        for label in parse_models(options.model)
    ]
    quiet = options.quiet or options.as_json
    console = Console(stderr=True, highlight=False, quiet=quiet, soft_wrap=True)
    cards = [_search(search, options, console) for search in searches]
    out = Console(highlight=False, soft_wrap=True, quiet=quiet)
    for card in cards:
        out.print(
            f"{escape(card['model'])} on {escape(card['dataset'])}: validation "
            f"{card['validation_mean']:.2f}, trial {card['best_trial']} of {card['trials']} "
            f"({card['pruned']} pruned, {card['fail']} failed); {escape(card['folder'])}"
        )
    return {"searches": cards}


def _search(search: Search, options: TuneOptions, console: Console) -> dict[str, Any]:
    url = options.storage or f"sqlite:///{(options.out / DATABASE).expanduser().absolute()}"
    name = escape(f"{search.label} on {search.dataset}")
    console.print(f"{name}: {options.trials} trials, {search.sampler}")

    def follow(trial: Any) -> None:
        shown = f"{trial.value:.2f}" if trial.state.name == "COMPLETE" else ""
        console.print(f"  trial {trial.number}: {trial.state.name.lower()} {shown}")

    run_search(
        search,
        url,
        options.trials,
        options.out,
        workers=processes(options),
        device=options.device,
        data=options.data,
        follow=follow,
        any_code=options.any_code,
    )
    folder = search_folder(options.out, search.label, search.dataset)
    return {**write_search(search, url, options.trials, folder), "folder": str(folder)}


def processes(options: RunOptions | TuneOptions) -> int:
    """As many as there are cores, one on a GPU, unless told."""
    if options.workers is not None:
        return options.workers
    if choose_device(options.device).type == "cuda":
        return 1
    cores = getattr(os, "sched_getaffinity", None)
    return len(cores(0)) if cores else os.cpu_count() or 1


def parse_models(text: str, every: tuple[str, ...] = MODELS) -> tuple[str, ...]:
    """Names with commas; ``all``, or nothing, for all of them.

    Example:
        >>> parse_models("djgnn:author, gcn")
        ('djgnn:author', 'gcn')
    """
    return parse_names(text) if text.strip() not in ("", "all") else every


def parse_names(text: str) -> tuple[str, ...]:
    """Names with commas between them, each once."""
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def parse_splits(
    text: str, count: int = 10_000, name: str = "a data set", flag: str = "--splits"
) -> tuple[int, ...] | None:
    """``0-9`` or ``0,2,5`` or both; ``None``, which means all, for an empty text.

    Raises:
        InputError: If it is not such a list, or a split does not exist.

    Example:
        >>> parse_splits("0-2,7", 10, "cora")
        (0, 1, 2, 7)
    """
    if not text:
        return None
    chosen: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise InputError(f"{flag}: must be like 0-9 or 0,2,5 (got '{text}')")
        chosen += range(int(first), int(last if dash else first) + 1)
    if not chosen or max(chosen) >= count:
        raise InputError(f"{flag}: {name} has 0 to {count - 1} (got '{text}')")
    return tuple(dict.fromkeys(chosen))
