"""`djgnn bench run`: one cell, printed for people or as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from djgnn.baselines import BASELINES
from djgnn.bench import CellResult, run_cell
from djgnn.bench.cell import Recipe
from djgnn.bench.spec import read_recipe
from djgnn.cli.memory import largest_block, training_memory
from djgnn.cli.options import (
    baseline_configuration,
    configuration,
    parse_changes,
    parse_splits,
)
from djgnn.cli.progress import epochs
from djgnn.cli.text import escape
from djgnn.errors import InputError
from djgnn.graph import Graph
from djgnn.training.config import RunConfig
from djgnn.training.inputs import choose_device
from djgnn.training.selection import PROTOCOLS


def run_bench(
    *,
    model: str,
    dataset: str,
    splits: str,
    protocol: str,
    preset: str,
    config: Path | None,
    change: list[str] | None,
    data: Path | None,
    seed: int,
    device: str,
    quiet: bool,
) -> dict[str, Any]:
    """Run one cell and return what `--json` prints.

    Raises:
        InputError: For an unknown model, protocol, data set or split.
    """
    if model not in ("djgnn", *BASELINES):
        raise InputError(f"--model: must be one of djgnn, {', '.join(BASELINES)} (got '{model}')")
    if protocol not in PROTOCOLS:
        raise InputError(f"--protocol: must be one of {', '.join(PROTOCOLS)} (got '{protocol}')")
    graph = Graph.load(dataset, data=data)
    if not graph.num_splits:
        raise InputError(f"{graph.name}: has no splits to run over; add masks to its file")
    chosen = parse_splits(splits, graph.num_splits, graph.name)
    recipe = _recipe(model, graph.name, preset, config, change)
    where = choose_device(device)
    largest = 0
    if isinstance(recipe, RunConfig):
        largest = largest_block(recipe, graph.num_nodes, where.type)
    with epochs(quiet) as display, training_memory(largest) as release:
        cell = run_cell(
            model,
            graph,
            recipe,
            chosen,
            protocol=protocol,
            seed=seed,
            device=where,
            progress=lambda split: display.follow(f"split {split}", release),
        )
    if not quiet:
        print_cell(cell, graph)
    return cell.to_dict()


def _recipe(
    model: str, dataset: str, preset: str, config: Path | None, change: list[str] | None
) -> Recipe:
    """The DJ-GNN's preset or a baseline's published settings, or those of a file, with changes."""
    if model == "djgnn":
        return configuration(preset, dataset, config, change)
    if config is None:
        return baseline_configuration(model, dataset, change)
    try:
        return read_recipe(model, config).replace(**parse_changes(change))
    except InputError:
        raise
    except (TypeError, ValueError) as error:
        raise InputError(f"configuration: {error}") from error


def print_cell(cell: CellResult, graph: Graph) -> None:
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
