"""The work of `djgnn bench untuned` and `djgnn bench equal-budget`."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from djgnn.bench.budget import plan_budget
from djgnn.bench.document import write_document
from djgnn.bench.leaderboard import (
    UNTUNED,
    Rows,
    compose_leaderboard,
    plan_untuned,
    read_variants,
)
from djgnn.bench.spec import CellSpec, DataFacts
from djgnn.bench.store import FinishedCell, Store, finished_cells, make_folder, read_cells
from djgnn.bench.tables import TablePlan
from djgnn.cli.bench import BudgetOptions, LeaderboardOptions, RunOptions, UntunedOptions
from djgnn.cli.options import check_choice
from djgnn.cli.tables import parse_models, parse_names, parse_splits, run_cells, typed_command
from djgnn.errors import InputError


def run_untuned(board: UntunedOptions, options: RunOptions) -> dict[str, Any]:
    """Run the untuned leaderboard, or the variants of a file; returns what `--json` prints.

    Raises:
        InputError: For a wrong option, or an unknown model or set.
    """
    rows: Rows = {label: {} for label in parse_models(board.models, UNTUNED)}
    rows = read_variants(board.variants) if board.variants else rows
    plan = plan_untuned(rows, **_board_options(board), data=options.data)
    return _run_board(list(rows), plan.facts, lambda _: plan, lambda _: plan.specs, board, options)


def run_equal_budget(board: BudgetOptions, options: RunOptions) -> dict[str, Any]:
    """Run the searches, then their best trials; returns what `--json` prints.

    Raises:
        InputError: For a wrong option, an unknown model or set, or a missing package.
    """
    labels, own = parse_models(board.models), _board_options(board)
    budget = plan_budget(labels, **own, trials=board.trials, data=options.data)
    return _run_board(labels, budget.facts, budget.plan, budget.specs, board, options)


def _board_options(board: LeaderboardOptions) -> dict[str, Any]:
    """The options that the plans of both leaderboards have."""
    return {
        "datasets": parse_names(board.datasets),
        "splits": parse_splits(board.splits),
        "seeds": parse_splits(board.seeds, flag="--seeds") or (0,),
        "epochs": board.epochs,
    }


def _run_board(
    labels: Sequence[str],
    facts: Mapping[str, DataFacts],
    plan: Callable[[Store], TablePlan],
    known: Callable[[Store], Sequence[CellSpec]],
    board: LeaderboardOptions,
    options: RunOptions,
) -> dict[str, Any]:
    reference = board.reference or labels[0]
    earlier = earlier_cells(board.beside, labels, facts) if board.beside else []
    check_choice("--reference", reference, (*labels, *(cell.spec.label for cell in earlier)))

    def write(store: Store) -> list[Path]:
        own = plan(store)
        cells = [*finished_cells(own.specs, facts, store), *earlier]
        if earlier:
            names = ", ".join(dict.fromkeys(cell.spec.label for cell in earlier))
            taken = f"Taken from {board.beside}, not run here: {names}."
            specs = (*own.specs, *(cell.spec for cell in earlier))
            own = replace(own, specs=specs, remarks=(*own.remarks, taken))
        page = compose_leaderboard(own, cells, reference, typed_command())
        files = [store.write_results(cells), *write_document(page, store.folder)]
        if board.docs is not None:  # Markdown, drawings and figures
            make_folder(board.docs)
            kept = [file for file in files if file.suffix in (".md", ".svg", ".jsonl")]
            files += [Path(shutil.copy(file, board.docs)) for file in kept]
        return files

    return run_cells(known, facts, options, write)


def earlier_cells(
    path: Path, labels: Sequence[str], facts: Mapping[str, DataFacts]
) -> list[FinishedCell]:
    """The cells of a file with other labels, on the same data sets.

    Raises:
        InputError: If it is not such a file, or its data is not the same.
    """
    cells = [cell for cell in read_cells(path) if cell.spec.label not in labels]
    found = [cell for cell in cells if cell.spec.dataset in facts]
    for cell in found:
        if cell.records[0].data_sha256 != facts[cell.spec.dataset].sha256:
            raise InputError(
                f"{path}: {cell.spec.label} ran on another {cell.spec.dataset}; leave the file out "
                f"(got {cell.records[0].data_sha256})"
            )
    return found
