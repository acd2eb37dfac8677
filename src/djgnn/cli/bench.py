"""The commands of `djgnn bench` and their options. Heavy imports happen inside the commands."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from djgnn.cli.options import AsJson, Data, Device, Preset, Quiet, Recipe, Seed, with_options
from djgnn.cli.terminal import print_json

bench = typer.Typer(help="Benchmarks under an honest protocol.", no_args_is_help=True)

Models = Annotated[
    str, typer.Option(help="all, or names with commas; djgnn:author names a preset.")
]
Splits = Annotated[str, typer.Option(help="Such as 0-9, or 0,2,5; all by default.")]
Epochs = Annotated[int | None, typer.Option(help="Most epochs of every model.")]


@dataclass(frozen=True)
class WorkOptions:
    """How cells are run, whatever for."""

    out: Annotated[Path, typer.Option(help="Folder; what was started there is continued.")]
    data: Data = None
    device: Device = "auto"
    workers: Annotated[
        int | None,
        typer.Option(help="Processes; as many as cores by default, one on a GPU; 0: this one."),
    ] = None
    imports: Annotated[
        list[Path] | None,
        typer.Option("--import", help="Take in results of `python -m djgnn.bench.worker`."),
    ] = None
    export: Annotated[
        Path | None,
        typer.Option(help="Write the cells that are missing to this file; run nothing."),
    ] = None
    any_code: Annotated[
        bool, typer.Option("--any-code", help="Take figures of other versions of the code too.")
    ] = False
    quiet: Quiet = False
    as_json: AsJson = False


@dataclass(frozen=True)
class RunOptions(WorkOptions):
    """How the cells of a table are run."""

    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Run failed splits again.")
    ] = False
    split_limit: Annotated[
        float | None,
        typer.Option(help="Give up a split after this many seconds; recorded as such."),
    ] = None


@dataclass(frozen=True)
class TableOptions:
    """What a table shows."""

    models: Models = "all"
    datasets: Annotated[
        str, typer.Option(help="Names with commas; the table's own by default.")
    ] = ""
    splits: Splits = ""
    epochs: Epochs = None
    protocol: Annotated[
        str, typer.Option(help="validation; oracle adds a table of the largest test scores.")
    ] = "validation"
    preset: Preset = "default"
    seed: Seed = 0
    tuned: Annotated[
        Path | None, typer.Option(help="Use the best configurations of `bench tune --out` folder.")
    ] = None
    budget_free: Annotated[
        bool,
        typer.Option("--budget-free", help="Allow searches of unequal size; the table says so."),
    ] = False
    reference: Annotated[
        str, typer.Option(help="The model the others are compared with; the first by default.")
    ] = ""


@dataclass(frozen=True, kw_only=True)
class TuneOptions(WorkOptions):
    """What is searched for, and how."""

    model: Annotated[str, typer.Option(help="A model, several with commas, or all.")]
    dataset: Annotated[str, typer.Option(help="A benchmark set, or several with commas.")]
    trials: Annotated[int, typer.Option(help="Trials of every model, in all processes together.")]
    storage: Annotated[
        str, typer.Option(help="postgresql://... to share a search; a file in --out by default.")
    ] = ""
    sampler: Annotated[str, typer.Option(help="tpe or random.")] = "tpe"
    pruner: Annotated[str, typer.Option(help="median, hyperband or none.")] = "median"
    splits: Splits = ""
    epochs: Epochs = None
    preset: Preset = "default"
    seed: Seed = 0


@bench.command("run")
@with_options
def run_one(
    model: Annotated[str, typer.Option(help="djgnn or a baseline, see docs/bench.md.")],
    dataset: Annotated[str, typer.Option(help="A benchmark set by name.")],
    recipe: Recipe,
    splits: Splits = "",
    protocol: Annotated[
        str, typer.Option(help="validation, or oracle (the largest test score; never honest).")
    ] = "validation",
    data: Data = None,
    seed: Seed = 0,
    device: Device = "auto",
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """One cell of a table: a model on a data set, over its splits."""
    from djgnn.cli.tables import run_bench

    found = run_bench(
        model,
        dataset,
        recipe,
        splits=splits,
        protocol=protocol,
        data=data,
        seed=seed,
        device=device,
        quiet=quiet or as_json,
    )
    print_json(found, as_json)


def _table_command(suite: str) -> Any:
    def command(table: TableOptions, run: RunOptions) -> None:
        from djgnn.cli.tables import run_table, table_request

        request = table_request(suite, table)
        found = run_table(request, run, protocol=table.protocol, reference=table.reference)
        print_json(found, run.as_json)

    return with_options(command, out=Path(f"bench-{suite}"))


for _name, _title in (
    ("table1", "The paper's Table 1, beside what it printed; resumable."),
    ("table2", "The paper's Table 2, or its stand-ins where its sets are missing; resumable."),
    ("filtered", "The Wikipedia graphs without duplicated nodes; resumable."),
):
    bench.command(_name, help=_title)(_table_command(_name))


def _effects(
    run: RunOptions,
    models: Models = "djgnn,gcn,mlp,fsgnn,linkx",
    splits: Splits = "",
    epochs: Epochs = None,
    preset: Preset = "default",
    seed: Seed = 0,
    page: Annotated[Path | None, typer.Option(help="Also write the Markdown page here.")] = None,
) -> None:
    """How much each choice of protocol moves the figures."""
    from djgnn.cli.tables import run_effects

    found = run_effects(models, splits, epochs, preset, seed, page, run)
    print_json(found, run.as_json)


def _tune(options: TuneOptions) -> None:
    """Search for a configuration on validation scores only."""
    from djgnn.cli.tune import run_tune

    print_json(run_tune(options), options.as_json)


bench.command("effects")(with_options(_effects, out=Path("bench-effects")))
bench.command("tune")(with_options(_tune, out=Path("bench-tune")))
