"""`djgnn explain`: which experts, branches and neighbours made a prediction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.table import Table

from djgnn.cli.options import Device, Json, Run
from djgnn.cli.terminal import escape, print_json, wide_console
from djgnn.errors import InputError

if TYPE_CHECKING:
    from djgnn.model.explain import BranchPart, ExpertPart, Explanation

# Of the columns that wrap; the others are as wide as what stands in them.
LEAST_WIDTHS = {"branch": 10, "node": 14, "label": 8, "note": 8}
MATTERS, MOST_EXPERTS, MOST_ROWS = 0.1, 3, 5
"""Of a mixture, few neighbours are shown, of few experts that give a tenth of the answer."""
NO_PRODUCT = 5e-4
"""What the product of experts adds to a probability where it need not be shown."""


def explain(
    run: Run,
    node: Annotated[str, typer.Argument(help="Name of a node.")],
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Which experts, which jumps, which neighbours, how much: one prediction taken apart."""
    from djgnn.training.inputs import choose_device
    from djgnn.training.stored import load_model

    stored = load_model(run, choose_device(device))
    try:
        number = stored.graph.index_of(node)
    except InputError as error:
        only = "only nodes of the fitted graph can be explained, not later ones"
        raise InputError(f"{run}: {only}; {error}") from error
    shares, found = stored.probabilities[number].tolist(), stored.explain(number)
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
    parts: list[tuple[str, BranchPart]] = [(part.branch, part) for part in found.branches]
    if found.experts:
        experts = sorted(by_kind(found.experts), key=lambda part: -part.shares[first])
        console.print(_shares(experts, first, second))
        console.print(
            f"[dim]says: the expert's own probability of {escape(first)}. share: what it adds, "
            "alone and as its part of the product of experts, which is likely where they agree. "
            f"Shares are before calibration, which makes {chances[first]:.1%} of them. All "
            "experts, branches and neighbours: --json.[/dim]"
        )
        whole = sum(part.shares[first] for part in experts)
        matter = [part for part in experts if part.shares[first] >= MATTERS * whole][:MOST_EXPERTS]
        for part in matter:
            if len(part.branches) > 1:
                console.print(_added(part, first, second, f" of the expert {part.expert}"))
        parts = [
            (f"{part.expert} {branch.branch}" if len(part.branches) > 1 else part.expert, branch)
            for part in matter
            for branch in part.branches
        ]
    else:
        console.print(_added(found, first, second))
    used = [(name, part) for name, part in parts if part.alpha > 0]
    console.print(_neighbours(used, found.node, MOST_ROWS if found.experts else None))
    if any(near.twin or near.ties for _, part in used for near in part.neighbours):
        console.print(
            "[dim]twin: the same row of A, so the same place whatever was learned. tie of k: k "
            "nodes are at this distance and the one with the lowest number comes first.[/dim]"
        )


def by_kind(experts: Sequence[ExpertPart]) -> list[ExpertPart]:
    """The members of each kind of expert together, with the branches of the heaviest of them.

    Their own probabilities are means by weight.
    """
    from djgnn.model.experts import kind_of

    groups: dict[str, list[ExpertPart]] = {}
    for part in experts:
        groups.setdefault(kind_of(part.expert), []).append(part)
    found = []
    for kind, parts in groups.items():
        weight = sum(part.weight for part in parts)
        shares = {c: sum(part.shares[c] for part in parts) for c in parts[0].shares}
        alone = {c: sum(part.alone[c] for part in parts) for c in shares}
        own = {c: sum(p.weight * p.probabilities[c] for p in parts) / weight for c in shares}
        most = max(parts, key=lambda part: part.weight)
        sums: dict[str, Any] = {"weight": weight, "shares": shares, "alone": alone}
        found.append(replace(most, expert=kind, probabilities=own, **sums))
    return found


def _shares(experts: Sequence[ExpertPart], first: str, second: str) -> Table:
    """What every expert says of a class, and what it adds to the probabilities of two."""
    table = Table(title="What each expert says, and what it adds to the probability")
    agreed = sum(part.shares[first] - part.alone[first] for part in experts)
    more = ("alone", "in product") if agreed > NO_PRODUCT else ()
    shares = (f"share of {first}", f"share of {second}")
    table.add_column("expert", no_wrap=True)
    for column in ("weight", f"says {first}", *more, *shares):
        table.add_column(escape(column), justify="right")

    def added(part: ExpertPart) -> list[float]:
        alone = part.alone[first]
        apart = [alone, part.shares[first] - alone] if more else []
        return [*apart, part.shares[first], part.shares[second]]

    for part in experts:
        numbers = (part.weight, part.probabilities[first], *added(part))
        table.add_row(part.expert, *(f"{value:.3f}" for value in numbers))
    sums = map(sum, zip(*map(added, experts), strict=True))
    table.add_row("sum", "", "", *(f"{value:.3f}" for value in sums), style="bold")
    return table


def _added(found: Explanation | ExpertPart, first: str, second: str, of: str = "") -> Table:
    """What every branch of a network adds to the logits of two classes."""
    table = Table(
        title=f"What each branch{of} adds to the logits (lead: {escape(first)} - {escape(second)})"
    )
    for column in ("branch", "alpha", first, second, "lead"):
        table.add_column(escape(column), justify="left" if column == "branch" else "right")
    rows = [(p.branch, f"{p.alpha:.3f}", p.contributions) for p in found.branches if p.alpha > 0]
    for name, alpha, values in (*rows, ("bias", "", found.bias), ("logit", "", found.logits)):
        numbers = (values[first], values[second], values[first] - values[second])
        style = "bold" if name == "logit" else None
        table.add_row(name, alpha, *(f"{value:+.3f}" for value in numbers), style=style)
    return table


def _neighbours(
    parts: Sequence[tuple[str, BranchPart]], node: int, most: int | None = None
) -> Table:
    # Without padding and frame, all of it fits into 80 columns.
    title = "Which neighbours each branch uses, beside the node itself"
    table = Table(title=title, box=box.SIMPLE_HEAD, padding=0, show_edge=False)
    for column in ("branch", "node", "label", "part", "weight", "rank", "distance", "note"):
        justify: Any = "right" if column in ("weight", "rank", "distance") else "left"
        least = LEAST_WIDTHS.get(column)
        fold: dict[str, Any] = {"no_wrap": least is None, "overflow": "fold", "min_width": least}
        table.add_column(column, justify=justify, **fold)
    for name, part in parts:
        others = [near for near in part.neighbours if near.node != node]
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
            for near in others[:most]
        ] or [("[dim]-[/dim]",)]
        if more := part.neighbours_left_out + len(others[len(rows) :]):
            rows.append((f"[dim]and {more} more[/dim]",))
        for k, row in enumerate(rows):
            table.add_row(name if k == 0 else "", *row, end_section=k + 1 == len(rows))
    return table
