"""The commands. Heavy imports happen inside them, so that `--help` answers at once."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from djgnn import __version__
from djgnn.cli.bench_commands import LARGEST_SEED, register
from djgnn.cli.source import Source, with_source

app = typer.Typer(
    help="Node classification when neighbours disagree: Diffusion-Jump GNNs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
bench = typer.Typer(help="Benchmarks under an honest protocol.", no_args_is_help=True)
register(bench)
app.add_typer(bench, name="bench")

Data = Annotated[Path | None, typer.Option(help="Folder with <name>.npz files, looked in first.")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Seed = Annotated[
    int, typer.Option(help="Seed of splits, weights and dropout.", min=0, max=LARGEST_SEED)
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print nothing but results and errors.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Preset = Annotated[str, typer.Option(help="default, author (published code) or paper (its text).")]
Config = Annotated[Path | None, typer.Option(help="YAML configuration; replaces the preset.")]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", help="Change one option, KEY=VALUE; may be repeated."),
]


def _version(value: bool) -> None:
    if value:
        print(f"djgnn {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Node classification when neighbours disagree: Diffusion-Jump GNNs."""


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the run.")] = Path("demo-run"),
    seed: Seed = 0,
    device: Device = "cpu",
    quiet: Quiet = False,
) -> None:
    """The whole story on a generated graph: measures, DJ-GNN against MLP and GCN, predictions."""
    from djgnn.cli.demo import run_demo

    run_demo(out, seed=seed, device=device, quiet=quiet)


@app.command()
@with_source
def fit(
    out: Annotated[Path, typer.Option(help="Folder for the run; must not exist yet.")],
    source: Source,
    split: Annotated[int, typer.Option(help="Which stored split.")] = 0,
    preset: Preset = "default",
    config: Config = None,
    change: Changes = None,
    batch_size: Annotated[
        int | None, typer.Option(help="Train in mini-batches of so many nodes; all by default.")
    ] = None,
    seed: Seed = 0,
    device: Device = "auto",
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a run that is there already.")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a run that was stopped.")
    ] = False,
    checkpoint_every: Annotated[
        float, typer.Option(help="Seconds between two checkpoints.", min=0)
    ] = 10.0,
    report: Annotated[
        bool, typer.Option("--report/--no-report", help="Write the run's page, report.html.")
    ] = True,
    record: Annotated[
        bool, typer.Option("--record", help="Keep snapshots of training for the report's player.")
    ] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Train on a graph of your own or on a benchmark set; write model, predictions and card."""
    from djgnn.cli.fit import check_out, finished, goes_on, run_fit, trainable
    from djgnn.cli.options import configuration
    from djgnn.cli.signals import STOPPED
    from djgnn.cli.source import load, remark_on
    from djgnn.training.distributed import join

    with join(device) as group:
        resume = group.shared(lambda: resume or goes_on(out, group, overwrite))
        group.shared(lambda: check_out(out, overwrite, resume))
        own = [] if batch_size is None else [f"batch_size={batch_size}"]
        recipe = configuration(preset, source.dataset, config, [*(change or []), *own])
        graph = group.in_turn(lambda: trainable(load(source), source, seed))
        if group.first:
            remark_on(graph)
        card = group.shared(lambda: finished(out, graph, recipe, split, seed) if resume else None)
        if card is not None and group.first and not (quiet or as_json):
            print(f"{out}: complete already, nothing to resume")
        if card is None:
            card = run_fit(
                graph,
                recipe,
                out,
                group=group,
                split=split,
                seed=seed,
                device=device,
                overwrite=overwrite,
                resume=resume,
                every=checkpoint_every,
                record=record,
                report=report,
                quiet=quiet or as_json,
            )
    if as_json and group.first:
        print(json.dumps(card, ensure_ascii=False))
    if card["interrupted"]:
        raise typer.Exit(STOPPED)


@app.command()
@with_source
def predict(
    run: Annotated[Path, typer.Argument(help="A folder written by `djgnn fit`.")],
    source: Source,
    out: Annotated[Path | None, typer.Option(help="Write to this file instead.")] = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """The stored predictions of a run; or those of new nodes, without retraining."""
    from djgnn.cli.predict import check_target, predictions
    from djgnn.graph.files import atomic_write

    if out is not None:
        check_target(out, run)
    text = predictions(run, source, device, as_json)
    if out is None:
        sys.stdout.write(text)
        return
    with atomic_write(out) as file:
        file.write(text.encode("utf-8"))


@app.command()
def explain(
    run: Annotated[Path, typer.Argument(help="A folder written by `djgnn fit`.")],
    node: Annotated[str, typer.Argument(help="Name of a node.")],
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Which jumps, which neighbours, how much: one prediction taken apart."""
    from djgnn.cli.explain import run_explain

    found = run_explain(run, node, device, quiet=as_json)
    if as_json:
        print(json.dumps(found, ensure_ascii=False))


@app.command()
def datasets(data: Data = None, as_json: AsJson = False) -> None:
    """What data sets are known, and which are here."""
    from djgnn.cli.datasets import list_datasets

    list_datasets(data, as_json)


@app.command()
@with_source
def inspect(
    source: Source,
    preset: Preset = "default",
    config: Config = None,
    change: Changes = None,
    cost: Annotated[
        bool, typer.Option("--cost/--no-cost", help="Run a few epochs to tell what a fit costs.")
    ] = True,
    seed: Seed = 0,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """What a graph is like: size, twins, leaks, heterophily, and what a fit on it would cost."""
    from djgnn.cli.inspect import run_inspect
    from djgnn.cli.options import configuration
    from djgnn.cli.source import load, remark_on

    recipe = configuration(preset, source.dataset, config, change)
    graph = load(source)
    remark_on(graph)
    found = run_inspect(graph, recipe, seed=seed, device=device, cost=cost, quiet=as_json)
    if as_json:
        print(json.dumps(found, ensure_ascii=False))


@app.command()
def report(
    runs: Annotated[
        list[Path],
        typer.Argument(help="A run folder; or several, or JSON of `bench run`, to compare."),
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="The page; RUN/report.html, or comparison.html, by default."),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """One self-contained HTML page of a run, or a comparison of several."""
    from djgnn.cli.report import run_report

    run_report(runs, out=out, quiet=quiet)


@app.command()
def sbm(
    out: Annotated[Path, typer.Option(help="Folder of the study; a started one is continued.")],
    quick: Annotated[
        bool, typer.Option("--quick", help="A tiny version that takes seconds and proves nothing.")
    ] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """The block-model study of Appendix B: accuracy against heterophily and spectral gap."""
    from djgnn.cli.sbm import run_sbm

    found = run_sbm(out, quick=quick, quiet=quiet or as_json)
    if as_json:
        print(json.dumps(found, ensure_ascii=False))


@bench.command("run")
def bench_run(
    model: Annotated[str, typer.Option(help="djgnn or a baseline, see docs/bench.md.")],
    dataset: Annotated[str, typer.Option(help="A benchmark set by name.")],
    splits: Annotated[str, typer.Option(help="Such as 0-9, or 0,2,5; all by default.")] = "",
    protocol: Annotated[
        str, typer.Option(help="validation, or oracle (the largest test score; never honest).")
    ] = "validation",
    preset: Preset = "default",
    config: Config = None,
    change: Changes = None,
    data: Data = None,
    seed: Seed = 0,
    device: Device = "auto",
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """One cell of a table: a model on a data set, over its splits."""
    from djgnn.cli.bench import run_bench

    result: dict[str, Any] = run_bench(
        model=model,
        dataset=dataset,
        splits=splits,
        protocol=protocol,
        preset=preset,
        config=config,
        change=change,
        data=data,
        seed=seed,
        device=device,
        quiet=quiet or as_json,
    )
    if as_json:
        print(json.dumps(result))
