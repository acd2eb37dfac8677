"""Expected calibration error on test nodes, before and after temperature scaling on validation.

    python benchmarks/calibration.py [--data DIR] [--datasets A,B] [--splits 3] [--epochs N]

Preset `default`, means over the first splits; 15 bins of equal width.
"""

from __future__ import annotations

import argparse

import numpy as np

from djgnn.graph import Graph
from djgnn.training.config import resolve
from djgnn.training.folder import run_card
from djgnn.training.inputs import build_djgnn
from djgnn.training.run import train

SETS = (
    "texas,wisconsin,cornell,actor,chameleon,chameleon_filtered,squirrel_filtered,cora,citeseer,"
    "fb100_reed98"
)


def measure(name: str, data: str | None, splits: int, epochs: int | None) -> tuple[float, ...]:
    """Error before, error after, temperature; means over splits."""
    graph = Graph.load(name, data=data)
    config = resolve("default", name, epochs=epochs)
    module, inputs = build_djgnn(config, graph)
    found = []
    for split in range(min(splits, graph.num_splits)):
        model, result = train(module, inputs, graph, split, config.training, 0)
        card = run_card(graph, model, result, 0)["calibration"]
        found.append((card["test"]["error_before"], card["test"]["error"], card["temperature"]))
    return tuple(float(v) for v in np.mean(found, axis=0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data")
    parser.add_argument("--datasets", default=SETS)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--epochs", type=int)
    options = parser.parse_args()
    names, better = options.datasets.split(","), 0
    print(f"{'set':20s} before   after   temperature")
    for name in names:
        before, after, scale = measure(name, options.data, options.splits, options.epochs)
        better += after < before
        print(f"{name:20s} {before:6.4f}  {after:6.4f}  {scale:5.2f}", flush=True)
    print(f"lower after scaling on {better} of {len(names)} sets")


if __name__ == "__main__":
    main()
