"""The commands of `djgnn bench` and their options. Heavy imports happen inside the commands."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from djgnn.cli.options import Data, Device, Json, Preset, Quiet, Recipe, Seed, option, with_options
from djgnn.cli.terminal import print_json

bench = typer.Typer(help="Benchmarks under an honest protocol.", no_args_is_help=True)

Splits = Annotated[str, option("Such as 0-9, or 0,2,5; all by default.")]
Epochs = Annotated[int | None, option("Most epochs of every model.")]


@dataclass(frozen=True)
class CellOptions:
    """One cell: a model on a data set."""

    model: Annotated[str, option("djgnn or a baseline, see docs/bench.md.")]
    dataset: Annotated[str, option("A benchmark set by name.")]
    splits: Splits = ""
    protocol: Annotated[
        str, option("validation, or oracle (the largest test score; never honest).")
    ] = "validation"
    data: Data = None
    seed: Seed = 0
    device: Device = "auto"
    quiet: Quiet = False
    as_json: Json = False


@dataclass(frozen=True)
class WorkOptions:
    """How cells are run, whatever for."""

    out: Annotated[Path, option("Folder; what was started there is continued.")]
    data: Data = None
    device: Device = "auto"
    workers: Annotated[
        int | None, option("Processes; one per core by default, one on a GPU; 0: this one.", min=0)
    ] = None
    any_code: Annotated[
        bool, option("Take figures of other versions of the code too.", "--any-code")
    ] = False
    quiet: Quiet = False
    as_json: Json = False


@dataclass(frozen=True)
class RunOptions(WorkOptions):
    """How the cells of a table are run."""

    imports: Annotated[
        list[Path] | None, option("Take in results of `python -m djgnn.bench.worker`.", "--import")
    ] = None
    export: Annotated[Path | None, option("Write the missing cells here; run nothing.")] = None
    retry_failed: Annotated[bool, option("Run failed splits again.", "--retry-failed")] = False
    split_limit: Annotated[
        float | None, option("Give up a split after this many seconds; recorded as such.")
    ] = None


@dataclass(frozen=True)
class TableOptions:
    """What a table shows."""

    models: Annotated[str, option("all, or names with commas; djgnn:author names a preset.")]
    splits: Splits = ""
    epochs: Epochs = None
    preset: Preset = "default"
    seed: Seed = 0
    datasets: Annotated[str, option("Names with commas; the table's own by default.")] = ""
    protocol: Annotated[
        str, option("validation; oracle adds a table of the largest test scores.")
    ] = "validation"
    tuned: Annotated[Path | None, option("Use the best configurations of a `bench tune`.")] = None
    budget_free: Annotated[
        bool, option("Allow searches of unequal size; the table says so.", "--budget-free")
    ] = False
    reference: Annotated[
        str, option("The model the others are compared with; the first by default.")
    ] = ""


@dataclass(frozen=True)
class LeaderboardOptions:
    """What a leaderboard shows."""

    models: Annotated[str, option("all, or names with commas.")] = "all"
    datasets: Annotated[str, option("Names with commas; the leaderboard's own by default.")] = ""
    splits: Splits = ""
    seeds: Annotated[str, option("Such as 0-2; figures are averaged over them.")] = "0"
    epochs: Epochs = None
    reference: Annotated[
        str, option("The row the others are compared with; the first by default.")
    ] = ""
    docs: Annotated[
        Path | None, option("Also write the page, its drawing and results.jsonl here.")
    ] = None
    beside: Annotated[
        Path | None, option("An earlier results.jsonl; its other rows are shown too.")
    ] = None


@dataclass(frozen=True)
class UntunedOptions(LeaderboardOptions):
    """The rows of the untuned leaderboard may also come from a file."""

    variants: Annotated[
        Path | None, option("YAML file of rows instead: MODEL:NAME and the options it changes.")
    ] = None


@dataclass(frozen=True)
class BudgetOptions(LeaderboardOptions):
    """What every system may spend."""

    trials: Annotated[int, option("Trials of every system on every set.", min=1)] = 20


@dataclass(frozen=True, kw_only=True)
class TuneOptions(WorkOptions):
    """What is searched for, and how."""

    model: Annotated[str, option("A model, several with commas, or all.")]
    dataset: Annotated[str, option("A benchmark set, or several with commas.")]
    trials: Annotated[int, option("Trials of every model, in all processes together.", min=1)]
    storage: Annotated[
        str, option("postgresql://... to share a search; a file in --out by default.")
    ] = ""
    sampler: Annotated[str, option("tpe or random.")] = "tpe"
    pruner: Annotated[str, option("median, hyperband or none.")] = "median"
    splits: Splits = ""
    epochs: Epochs = None
    preset: Preset = "default"
    seed: Seed = 0


def _run(options: CellOptions, recipe: Recipe) -> None:
    """One cell of a table: a model on a data set, over its splits."""
    from djgnn.cli.tables import run_bench

    print_json(run_bench(options, recipe), options.as_json)


def _tune(options: TuneOptions) -> None:
    """Search for a configuration on validation scores only."""
    from djgnn.cli.tables import run_tune

    print_json(run_tune(options), options.as_json)


def _untuned(board: UntunedOptions, run: RunOptions) -> None:
    """All systems by average rank, each with one configuration for all sets; resumable."""
    from djgnn.cli.leaderboards import run_untuned

    print_json(run_untuned(board, run), run.as_json)


def _equal_budget(board: BudgetOptions, run: RunOptions) -> None:
    """All systems by average rank, each searched with as many random trials; resumable."""
    from djgnn.cli.leaderboards import run_equal_budget

    print_json(run_equal_budget(board, run), run.as_json)


def _table(suite: str) -> Any:
    def command(table: TableOptions, run: RunOptions) -> None:
        from djgnn.cli.tables import run_table

        print_json(run_table(suite, table, run), run.as_json)

    return with_options(command, models="all", out=Path(f"bench-{suite}"))


bench.command("run")(with_options(_run))
bench.command("tune")(with_options(_tune, out=Path("bench-tune")))
bench.command("untuned")(with_options(_untuned, out=Path("bench-untuned")))
bench.command("equal-budget")(with_options(_equal_budget, out=Path("bench-equal-budget")))
for _suite, _title in (
    ("table1", "The paper's Table 1, beside what it printed; resumable."),
    ("table2", "The paper's Table 2, or its stand-ins where its sets are missing; resumable."),
    ("filtered", "The Wikipedia graphs without duplicated nodes; resumable."),
):
    bench.command(_suite, help=_title)(_table(_suite))
