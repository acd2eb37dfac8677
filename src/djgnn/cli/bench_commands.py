"""The commands of `djgnn bench` that run more than one cell. No heavy imports here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

Models = Annotated[
    str, typer.Option(help="all, or names with commas; djgnn:author names a preset.")
]
Datasets = Annotated[str, typer.Option(help="Names with commas; the table's own by default.")]
Splits = Annotated[str, typer.Option(help="Such as 0-9, or 0,2,5; all by default.")]
Epochs = Annotated[int | None, typer.Option(help="Most epochs of every model.")]
Protocol = Annotated[
    str, typer.Option(help="validation; oracle adds a table of the largest test scores.")
]
Preset = Annotated[str, typer.Option(help="The DJ-GNN's preset: default, author or paper.")]
LARGEST_SEED = 2**62
Seed = Annotated[int, typer.Option(help="Seed of weights and dropout.", min=0, max=LARGEST_SEED)]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Workers = Annotated[
    int | None,
    typer.Option(help="Processes; as many as cores by default, one on a GPU; 0: this one."),
]
Data = Annotated[Path | None, typer.Option(help="Folder with <name>.npz files, looked in first.")]
Tuned = Annotated[
    Path | None, typer.Option(help="Use the best configurations of `bench tune --out` folder.")
]
BudgetFree = Annotated[
    bool, typer.Option("--budget-free", help="Allow searches of unequal size; the table says so.")
]
Retry = Annotated[bool, typer.Option("--retry-failed", help="Run failed splits again.")]
SplitLimit = Annotated[
    float | None, typer.Option(help="Give up a split after this many seconds; recorded as such.")
]
Import = Annotated[
    list[Path] | None,
    typer.Option("--import", help="Take in results of `python -m djgnn.bench.worker`."),
]
Export = Annotated[
    Path | None, typer.Option(help="Write the cells that are missing to this file; run nothing.")
]
AnyCode = Annotated[
    bool, typer.Option("--any-code", help="Take figures of other versions of the code too.")
]
Reference = Annotated[
    str, typer.Option(help="The model the others are compared with; the first by default.")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print nothing but results and errors.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def register(bench: typer.Typer) -> None:
    """Add the commands to the sub-application `bench`."""
    for name, title in (
        ("table1", "The paper's Table 1, beside what it printed; resumable."),
        ("table2", "The paper's Table 2, or its stand-ins where its sets are missing; resumable."),
        ("filtered", "The Wikipedia graphs without duplicated nodes; resumable."),
    ):
        bench.command(name, help=title)(_table_command(name))
    bench.command("effects", help="How much each choice of protocol moves the figures.")(effects)
    bench.command("tune", help="Search for a configuration on validation scores only.")(tune)


def _table_command(suite: str) -> Any:
    def command(
        models: Models = "all",
        datasets: Datasets = "",
        splits: Splits = "",
        epochs: Epochs = None,
        protocol: Protocol = "validation",
        preset: Preset = "default",
        seed: Seed = 0,
        device: Device = "auto",
        workers: Workers = None,
        out: Annotated[Path, typer.Option(help="Folder; a started table is continued.")] = Path(
            f"bench-{suite}"
        ),
        data: Data = None,
        tuned: Tuned = None,
        budget_free: BudgetFree = False,
        retry_failed: Retry = False,
        split_limit: SplitLimit = None,
        import_: Import = None,
        export: Export = None,
        any_code: AnyCode = False,
        reference: Reference = "",
        quiet: Quiet = False,
        as_json: AsJson = False,
    ) -> None:
        from djgnn.cli.tables import RunOptions, run_table, table_request

        request = table_request(
            suite, models, datasets, splits, epochs, preset, seed, tuned, budget_free
        )
        options = RunOptions(
            out=out,
            data=data,
            device=device,
            workers=workers,
            retry_failed=retry_failed,
            split_limit=split_limit,
            imports=import_,
            export=export,
            any_code=any_code,
            quiet=quiet or as_json,
        )
        found = run_table(request, options, protocol=protocol, reference=reference)
        if as_json:
            print(json.dumps(found, ensure_ascii=False))

    return command


def effects(
    models: Models = "djgnn,gcn,mlp,fsgnn,linkx",
    splits: Splits = "",
    epochs: Epochs = None,
    preset: Preset = "default",
    seed: Seed = 0,
    device: Device = "auto",
    workers: Workers = None,
    out: Annotated[Path, typer.Option(help="Folder; a started study is continued.")] = Path(
        "bench-effects"
    ),
    page: Annotated[Path | None, typer.Option(help="Also write the Markdown page here.")] = None,
    data: Data = None,
    retry_failed: Retry = False,
    split_limit: SplitLimit = None,
    import_: Import = None,
    export: Export = None,
    any_code: AnyCode = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Oracle against validation, two Cornells, directed against symmetric, filtered or not."""
    from djgnn.cli.tables import RunOptions, parse_models, run_effects, wanted_splits

    options = RunOptions(
        out=out,
        data=data,
        device=device,
        workers=workers,
        retry_failed=retry_failed,
        split_limit=split_limit,
        imports=import_,
        export=export,
        any_code=any_code,
        quiet=quiet or as_json,
    )
    found = run_effects(
        parse_models(models), wanted_splits(splits), epochs, preset, seed, page, options
    )
    if as_json:
        print(json.dumps(found, ensure_ascii=False))


def tune(
    model: Annotated[str, typer.Option(help="A model, several with commas, or all.")],
    dataset: Annotated[str, typer.Option(help="A benchmark set, or several with commas.")],
    trials: Annotated[int, typer.Option(help="Trials of every model, in all processes together.")],
    out: Annotated[Path, typer.Option(help="Folder; a started search is continued.")] = Path(
        "bench-tune"
    ),
    storage: Annotated[
        str, typer.Option(help="postgresql://... to share a search; a file in --out by default.")
    ] = "",
    sampler: Annotated[str, typer.Option(help="tpe or random.")] = "tpe",
    pruner: Annotated[str, typer.Option(help="median, hyperband or none.")] = "median",
    splits: Splits = "",
    epochs: Epochs = None,
    preset: Preset = "default",
    seed: Seed = 0,
    device: Device = "auto",
    workers: Workers = None,
    data: Data = None,
    import_: Import = None,
    export: Export = None,
    any_code: AnyCode = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Search for a configuration on validation scores only."""
    from djgnn.cli.tune import TuneOptions, run_tune

    found = run_tune(
        TuneOptions(
            model=model,
            dataset=dataset,
            trials=trials,
            out=out,
            storage=storage,
            sampler=sampler,
            pruner=pruner,
            splits=splits,
            epochs=epochs,
            preset=preset,
            seed=seed,
            device=device,
            workers=workers,
            data=data,
            imports=import_,
            export=export,
            any_code=any_code,
            quiet=quiet or as_json,
        )
    )
    if as_json:
        print(json.dumps(found, ensure_ascii=False))
