"""`djgnn explain`: which branches and which neighbours made a prediction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.table import Table

from djgnn.cli.options import Device, Json, Run
from djgnn.cli.terminal import escape, print_json, wide_console
from djgnn.errors import InputError

if TYPE_CHECKING:
    from djgnn.model.explain import Explanation

# Of the columns that wrap; the others are as wide as what stands in them.
LEAST_WIDTHS = {"node": 14, "label": 8, "note": 8}


def explain(
    run: Run,
    node: Annotated[str, typer.Argument(help="Name of a node.")],
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Which jumps, which neighbours, how much: one prediction taken apart."""
    from djgnn.training.inputs import choose_device
    from djgnn.training.stored import load_model

    stored = load_model(run, choose_device(device))
    try:
        number = stored.graph.index_of(node)
    except InputError as error:
        raise InputError(f"{run}: {error}") from error
    found, shares = stored.explain(number), stored.probabilities[number].tolist()
    chances = dict(zip(stored.graph.classes(), shares, strict=True))
    if not as_json:
        _print(found, chances)
    print_json({**found.to_dict(), "probabilities": chances}, as_json)


def _print(found: Explanation, chances: dict[str, float]) -> None:
    console = wide_console()
    ranked = sorted(chances, key=chances.__getitem__, reverse=True)
    first, second = ranked[0], ranked[min(1, len(ranked) - 1)]
    label = "unknown" if found.label is None else found.label
    console.print(
        f"[bold]{escape(found.name)}[/bold]: predicted [bold]{escape(first)}[/bold] "
        f"({chances[first]:.1%}), then {escape(second)} ({chances[second]:.1%}); "
        f"label: {escape(label)}"
    )
    table = Table(
        title=f"What each branch adds to the logits (lead: {escape(first)} - {escape(second)})"
    )
    for column in ("branch", "alpha", first, second, "lead"):
        table.add_column(escape(column), justify="left" if column == "branch" else "right")
    rows = [(part.branch, f"{part.alpha:.3f}", part.contributions) for part in found.branches]
    for name, alpha, values in (*rows, ("bias", "", found.bias), ("logit", "", found.logits)):
        numbers = (values[first], values[second], values[first] - values[second])
        style = "bold" if name == "logit" else None
        table.add_row(name, alpha, *(f"{value:+.3f}" for value in numbers), style=style)
    console.print(table)
    console.print(_neighbours(found))
    if any(near.twin or near.ties for part in found.branches for near in part.neighbours):
        console.print(
            "[dim]twin: the same row of A, so the same place whatever was learned. tie of k: k "
            "nodes are at this distance and the one with the lowest number comes first.[/dim]"
        )


def _neighbours(found: Explanation) -> Table:
    # Without padding and frame, all of it fits into 80 columns.
    title = "Which neighbours each branch uses, beside the node itself"
    table = Table(title=title, box=box.SIMPLE_HEAD, padding=0, show_edge=False)
    for column in ("branch", "node", "label", "part", "weight", "rank", "distance", "note"):
        justify: Any = "right" if column in ("weight", "rank", "distance") else "left"
        least = LEAST_WIDTHS.get(column)
        fold: dict[str, Any] = {"no_wrap": least is None, "overflow": "fold", "min_width": least}
        table.add_column(column, justify=justify, **fold)
    for part in found.branches:
        rows: list[tuple[str, ...]] = [
            (
                escape(near.name),
                escape(near.label or ""),
                near.part,
                f"{near.weight:.4f}",
                "" if near.rank is None else str(near.rank),
                "" if near.distance is None else f"{near.distance:.3g}",
                ", ".join(["twin"] * near.twin + [f"tie of {near.ties + 1}"] * bool(near.ties)),
            )
            for near in part.neighbours
            if near.node != found.node
        ] or [("[dim]-[/dim]",)]
        if part.neighbours_left_out:
            rows.append((f"[dim]and {part.neighbours_left_out} of less weight[/dim]",))
        for k, row in enumerate(rows):
            table.add_row(part.branch if k == 0 else "", *row, end_section=k + 1 == len(rows))
    return table
