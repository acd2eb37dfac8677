"""Expected calibration error on test nodes, before and after temperature scaling on validation.

    python benchmarks/calibration.py [--data DIR] [--datasets A,B] [--splits 10] [--epochs N]

Preset `default`; the test nodes of the first splits are pooled, since a few nodes per bin are too
noisy (37 test nodes in texas); 15 bins of equal width.
"""

from __future__ import annotations

import argparse

import numpy as np

from djgnn.graph import Graph
from djgnn.training.calibration import calibration_error, probabilities, reliability
from djgnn.training.config import resolve
from djgnn.training.inputs import build_djgnn
from djgnn.training.run import train

SETS = (
    "texas,wisconsin,cornell,actor,chameleon,chameleon_filtered,squirrel_filtered,cora,citeseer,"
    "fb100_reed98"
)


def measure(name: str, data: str | None, splits: int, epochs: int | None) -> tuple[float, ...]:
    """Test nodes, error before, error after, mean temperature."""
    graph = Graph.load(name, data=data)
    config = resolve("default", name, epochs=epochs)
    module, inputs = build_djgnn(config, graph)
    before, after, labels, scales = [], [], [], []
    for split in range(min(splits, graph.num_splits)):
        model, _ = train(module, inputs, graph, split, config.training, 0)
        test = graph.split(split).test
        logits = model.logits.numpy()[test]
        before.append(probabilities(logits))
        after.append(probabilities(logits, model.calibration.temperature))
        labels.append(graph.y[test])
        scales.append(model.calibration.temperature)
    y = np.concatenate(labels)
    errors = [calibration_error(reliability(np.concatenate(s), y)) for s in (before, after)]
    return y.size, *errors, float(np.mean(scales))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data")
    parser.add_argument("--datasets", default=SETS)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--epochs", type=int)
    options = parser.parse_args()
    names, better = options.datasets.split(","), 0
    print(f"{'set':20s}  nodes  before   after   temperature")
    for name in names:
        nodes, before, after, scale = measure(name, options.data, options.splits, options.epochs)
        better += after < before
        print(f"{name:20s} {nodes:6d}  {before:6.4f}  {after:6.4f}  {scale:5.2f}", flush=True)
    print(f"lower after scaling on {better} of {len(names)} sets")


if __name__ == "__main__":
    main()
