"""The pump against the exact theory, before and after supervised training.

    python benchmarks/fiedler.py [--data DIR] [--datasets texas,cora] [--epochs 300]
    python benchmarks/fiedler.py --bounds    # the exact minimum and its bounds alone, no pump

On every set the pump is measured untrained, trained alone by gradient descent on its two losses,
and trained jointly with the labels (preset `author`, the paper's configuration, split 0), once on
the symmetrised edges and once on the edges as given, as published. Everything is measured on the
largest component of the symmetrised graph, where the exact minimum of the trace ratio exists. The
script ends with status 1 if a pump was ever below that minimum.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from typing import Any

import numpy as np
import torch

from djgnn.errors import DisconnectedWarning
from djgnn.graph import Graph
from djgnn.spectral import (
    FiedlerEnvironment,
    fiedler_environment,
    largest_component,
    minimize_trace_ratio,
    symmetrize,
    trace_ratio_bounds,
)
from djgnn.training.config import RunConfig, resolve
from djgnn.training.decoupled import train_pump
from djgnn.training.inputs import build_djgnn, initialize
from djgnn.training.run import train

SETS = "texas,wisconsin,cornell_old,chameleon,cora"
COLUMNS = (
    "set", "pump", "rho* exact", "rho orthonormal", "rho raw", "columns", "lambda_2",
    "energies, centred", "nearest column", "Fiedler share", "orthogonality",
    "commute rank corr.", "test %",
)  # fmt: skip
BOUNDS = ("set", "lower", "rho*", "upper", "paper's lower", "updates", "lambda_2", "commute")


def bounds_row(name: str, whole: Any, width: int) -> str:
    """The exact minimum on the largest component, and how its distances go with commute times."""
    inside = largest_component(whole)
    part = whole[inside][:, inside]
    exact, bounds = minimize_trace_ratio(part, width), trace_ratio_bounds(part, width)
    e = fiedler_environment(part, exact.vectors)
    cells = (
        name, f"{bounds.lower:.4f}", f"{exact.ratio:.4f}", f"{bounds.upper:.4f}",
        f"{bounds.paper_lower:.4f}", str(len(exact.history) - 1), f"{e.fiedler_value:.4f}",
        f"{e.commute_rank_correlation:.2f}",
    )  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def recipe(name: str, epochs: int, adjacency: str) -> RunConfig:
    """The paper's configuration, at most `epochs` long, with a pump on these edges."""
    config = resolve("author", name, pump_adjacency=adjacency)
    shortened = min(config.training.epochs, epochs)
    return config.replace(epochs=shortened, pump_epochs=epochs)


def positions(module: torch.nn.Module, operators: object) -> np.ndarray:
    with torch.no_grad():
        return module.pump(operators.adjacency, operators.degree).u.double().numpy()  # type: ignore[attr-defined,union-attr,operator]


def pumps(graph: Graph, epochs: int, seed: int) -> list[tuple[str, np.ndarray, str]]:
    """Name, positions U and test accuracy of every pump that is measured."""
    config = recipe(graph.name, epochs, "symmetric")
    module, inputs = build_djgnn(config, graph)
    initialize(module, seed)
    found = [("untrained", positions(module, inputs[1]), "")]
    train_pump(module, inputs, config.training)
    found.append(("alone", positions(module, inputs[1]), ""))
    for adjacency in ("symmetric", "given"):
        config = recipe(graph.name, epochs, adjacency)
        module, inputs = build_djgnn(config, graph)
        fitted, result = train(module, inputs, graph, 0, config.training, seed)
        u = positions(fitted.module, inputs[1])
        found.append((f"joint, {adjacency}", u, f"{result.test:.1f}"))
    return found


def row(name: str, pump: str, exact: float, e: FiedlerEnvironment, test: str) -> str:
    centred = e.centred_energies
    cells = (
        name, pump, f"{exact:.4f}", f"{e.trace_ratio_orthonormal:.4f}", f"{e.trace_ratio:.4f}",
        str(e.rank), f"{e.fiedler_value:.4f}",
        f"{np.nanmin(centred):.3f} - {np.nanmax(centred):.3f}",
        f"{np.nanmin(e.fiedler_distances):.2f}", f"{e.fiedler_share:.3f}", f"{e.orthogonality:.2f}",
        f"{e.commute_rank_correlation:+.2f}", test,
    )  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data")
    parser.add_argument("--datasets", default=SETS)
    parser.add_argument("--epochs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--bounds", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore", DisconnectedWarning)
    columns = BOUNDS if options.bounds else COLUMNS
    print("| " + " | ".join(columns) + " |\n|" + " --- |" * len(columns))
    below = 0
    for name in options.datasets.split(","):
        graph = Graph.load(name, data=options.data)
        whole = symmetrize(graph)
        inside = largest_component(whole)
        width = resolve("author", name).model.num_centers
        if options.bounds:
            print(bounds_row(name, whole, width), flush=True)
            continue
        exact = minimize_trace_ratio(whole[inside][:, inside], width).ratio
        for pump, u, test in pumps(graph, options.epochs, options.seed):
            environment = fiedler_environment(whole, u, random_state=options.seed)
            below += environment.trace_ratio_orthonormal < exact - 1e-9
            print(row(name, pump, exact, environment, test), flush=True)
    if not options.bounds:
        print(f"pumps below the exact minimum: {below}")
    sys.exit(int(below > 0))


if __name__ == "__main__":
    main()
