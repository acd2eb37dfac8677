"""How much each choice of protocol moves the figures: docs/results/protocol.md.

    python benchmarks/protocol_effects --out DIR [--models ...] [--page docs/results/protocol.md]

Runs the cells of four comparisons and writes their page. It takes the options of a table: a killed
study is continued by the same command, `--export` and `--import` run it on another machine.
"""

from __future__ import annotations

import shlex
import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from effects import plan_effects, write_effects

from djgnn.cli.bench import Epochs, RunOptions, Splits
from djgnn.cli.options import Preset, Seed, option, with_options
from djgnn.cli.source import with_flags
from djgnn.cli.tables import parse_models, parse_splits, run_cells
from djgnn.cli.terminal import print_json
from djgnn.errors import InputError


def main(
    run: RunOptions,
    models: Annotated[str, option("all, or names with commas.")] = "djgnn,gcn,mlp,fsgnn,linkx",
    splits: Splits = "",
    epochs: Epochs = None,
    preset: Preset = "default",
    seed: Seed = 0,
    page: Annotated[Path | None, option("Also write the Markdown page here.")] = None,
) -> None:
    """How much each choice of protocol moves the figures."""
    command = shlex.join(["python", "benchmarks/protocol_effects", *sys.argv[1:]])
    try:
        plan = plan_effects(
            parse_models(models),
            parse_splits(splits),
            epochs=epochs,
            preset=preset,
            seed=seed,
            data=run.data,
        )
        write = partial(write_effects, plan, command=command, page=page)
        print_json(run_cells(lambda _: plan.specs, plan.facts, run, write), run.as_json)
    except InputError as error:
        print("error:", with_flags(str(error)), file=sys.stderr)
        raise typer.Exit(2) from None


if __name__ == "__main__":
    typer.run(with_options(main, out=Path("bench-effects")))
