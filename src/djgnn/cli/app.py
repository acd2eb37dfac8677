"""The commands. Heavy imports happen inside them, so that `--help` answers at once."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from djgnn import __version__
from djgnn.cli.bench import bench
from djgnn.cli.error_messages import describe
from djgnn.cli.explain import explain
from djgnn.cli.inspect import datasets, inspect
from djgnn.cli.options import Device, FitOptions, Quiet, Recipe, Seed, option, with_options
from djgnn.cli.predict import predict
from djgnn.cli.source import Source, read_ahead
from djgnn.cli.terminal import STOPPED, print_json
from djgnn.errors import InputError, printable

app = typer.Typer(
    help="Node classification when neighbours disagree: Diffusion-Jump GNNs.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.add_typer(bench, name="bench")


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[bool, option("Print the version.", "--version")] = False,
    as_json: Annotated[
        bool, option("With --version: all that a bug report needs, as JSON.", "--json")
    ] = False,
) -> None:
    """Node classification when neighbours disagree: Diffusion-Jump GNNs."""
    if as_json and not version:
        raise InputError("--json: belongs to --version, or after a command; say which")
    if version and as_json:
        from djgnn.training.provenance import environment

        print_json(environment(), True)
    elif version:
        print(f"djgnn {__version__}")
    elif context.invoked_subcommand is None:
        raise InputError("give a command; `djgnn --help` lists them")
    if version:
        raise typer.Exit


@app.command()
def demo(
    out: Annotated[Path, option("Folder for the run.")] = Path("demo-run"),
    seed: Seed = 0,
    device: Device = "cpu",
    quiet: Quiet = False,
) -> None:
    """The whole story on a generated graph: measures, DJ-GNN against MLP and GCN, predictions."""
    from djgnn.cli.demo import run_demo

    run_demo(out, seed=seed, device=device, quiet=quiet)


@app.command()
@with_options
def fit(source: Source, options: FitOptions, recipe: Recipe) -> None:
    """Train on a graph of your own or on a benchmark set; write model, predictions and card.

    Two tables and the column to predict are enough, nodes to predict have no label there:

    djgnn fit --edges friends.csv --nodes people.csv --label kind --out run
    """
    ahead = read_ahead(source)
    from djgnn.cli.fit import fit_source

    try:
        card, first = fit_source(source, recipe, options, ahead)
    except KeyboardInterrupt as error:
        if os.environ.get("RANK", "0") == "0":
            print(describe(error), file=sys.stderr)
        raise typer.Exit(STOPPED) from error
    print_json(card, options.as_json and first)
    if card["interrupted"]:
        raise typer.Exit(STOPPED)


for command in (predict, explain, datasets, inspect):
    app.command()(command)


@app.command()
def report(
    runs: Annotated[
        list[Path],
        typer.Argument(help="A run folder; or several, or JSON of `bench run`, to compare."),
    ],
    out: Annotated[
        Path | None, option("The page; RUN/report.html, or comparison.html, by default.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """One self-contained HTML page of a run, or a comparison of several."""
    from djgnn.report.page import write_comparison_page, write_run_page
    from djgnn.report.run_data import load_run
    from djgnn.training.card import RESULT

    if len(runs) == 1 and (runs[0].expanduser() / RESULT).is_file():
        page = write_run_page(load_run(runs[0]), out)
    else:
        for run in runs:
            if not run.expanduser().exists():
                raise InputError(f"{run}: there is no such run folder or file")
        page = write_comparison_page(runs, out or Path("comparison.html"))
    if not quiet:
        print(printable(str(page)))
