"""`djgnn inspect` and `djgnn datasets`: what a graph is like, and which sets are known and here."""

from dataclasses import asdict
from datetime import timedelta
from importlib import import_module
from time import perf_counter, process_time
from typing import Annotated, Any

from rich.console import Console
from rich.table import Table

from djgnn.cli.options import Data, Device, Json, Recipe, Seed, option, with_options
from djgnn.cli.source import Source, load, say_reading
from djgnn.cli.terminal import escape, print_json, warn, wide_console
from djgnn.errors import InputError

UNLABELLED = " No node has a label: name the column of the classes with --label."


@with_options
def inspect(
    source: Source,
    recipe: Recipe,
    cost: Annotated[bool, option("Run a few epochs to tell what a fit costs.")] = True,
    seed: Seed = 0,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """What a graph is like: size, twins, leaks, heterophily, and what a fit on it would cost."""
    start = perf_counter() - process_time()  # of the process, if it had a core to itself
    from djgnn.cli.memory import largest_block, training_memory
    from djgnn.report.graph_card import measure_graph
    from djgnn.training.estimate import estimate
    from djgnn.training.folds import with_splits
    from djgnn.training.inputs import choose_device

    config, graph = recipe.resolve(source.dataset), load(source)
    said = say_reading(graph, as_json)
    if cost:  # a fit imports it as well: not counted among the measures
        import_module("sklearn.cluster")
    read = perf_counter() - start
    with Console(stderr=True).status("measuring the graph") as status:
        found = {**measure_graph(graph, seed), "reading": said, "cost": None}
        measured = perf_counter() - start - read
        if cost and graph.y is not None:
            status.update("training for a moment, to tell what a fit costs here (--no-cost)")
            where = choose_device(device)
            try:
                ready, config = with_splits(graph, config, seed=seed)
                with training_memory(largest_block(config, ready, where.type)):
                    about = (ready, config, 0, where, read, measured, seed)
                    found["cost"] = asdict(estimate(*about))
            except InputError:
                pass  # nothing to learn from: `fit` says what is missing
            except FloatingPointError as error:
                warn(f"what a fit costs is not known: {error}")
    if not as_json:
        _print(found)
    print_json(found, as_json)


def _print(found: dict[str, Any]) -> None:
    from djgnn.report.graph_card import card_rows

    console = wide_console()
    table = Table(title=escape(found["name"]), show_header=False)
    rows, cost = list(card_rows(found)), found["cost"]
    if cost is not None:
        runs = f"{cost['trainings']} x {cost['epochs']} epochs of {cost['seconds_per_epoch']:.3g} s"
        keys = ("expected_seconds", "seconds", "least_seconds")
        whole, most, least = (timedelta(seconds=round(cost[k])) for k in keys)
        where = "GPU" if cost["device"] == "cuda" else f"CPU threads: {cost['threads']}"
        parts = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in cost["phases"].items())
        time = f"about {whole} h from the command to the page ({parts}; {where})"
        bounds = f"at most {most} h ({runs}); {least} h if all stop at once"
        memory = f"about {cost['peak_mib']:,.0f} MiB"
        rows += [("fit here, time", time), ("its networks", bounds), ("fit here, memory", memory)]
    for name, value in rows:
        table.add_row(escape(name), escape(value))
    console.print(table)
    if found["leak"] is not None and found["leak"]["warning"]:
        console.print(
            f"[bold]Leaking duplicates[/bold]: {found['leak']['share']:.0%} of the test nodes have "
            "a training node with the same row of A and the same label. Scores on this graph "
            "measure memory; read them beside a version without duplicates."
        )
    if found["heterophily"] is None:
        hint = "" if found["labels"]["known"] or not found["reading"]["notes"] else UNLABELLED
        console.print(
            "Left out: homophily, label informativeness and R need edges between labelled nodes "
            f"of two classes.{hint}"
        )


def datasets(data: Data = None, as_json: Json = False) -> None:
    """What data sets are known, and which are here."""
    from djgnn.graph.registry import available, folders, known

    here, cards = available(data), known()
    rows: list[dict[str, Any]] = [
        {
            "name": name,
            "path": str(here[name]) if name in here else None,
            "card": cards[name].as_dict() if name in cards else None,
        }
        for name in sorted(set(here) | set(cards))
    ]
    if as_json:
        print_json(rows, as_json)
        return
    table = Table(title="data sets")
    for column in ("name", "here", "nodes", "edges", "features", "classes", "metric", "title"):
        number = column in ("nodes", "edges", "features", "classes")
        table.add_column(column, justify="right" if number else "left")
    for row in rows:
        card = cards.get(row["name"])
        facts = ["", "", "", "", "", "own file"]
        if card is not None:
            counts = (card.num_nodes, card.num_edges, card.num_features, card.num_classes)
            facts = [*(f"{c:,}" for c in counts), card.metric, card.title]
        table.add_row(escape(row["name"]), "yes" if row["path"] else "", *map(escape, facts))
    console = Console(highlight=False)
    console.print(table)
    console.print("looked in: " + ", ".join(escape(str(f)) for f in folders(data)))
    console.print("The others are downloaded on first use where a package offers them.")
