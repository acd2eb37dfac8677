"""Labels changed at random: how many are among as many that the model suspects most.

    python benchmarks/wrong_labels.py [--data DIR] [--datasets A,B] [--share 0.05] [--seeds 1]
        [--experts A,B] [--epochs N]

All labels are given, the share of them is changed to another class, `fit` cross-fits the preset
`full`, and its list of suspects is compared with what was changed. By chance the figure is the
share. The other columns rank by what else one might: the margin to the likeliest other class, and
the probability of the label less the mean of its class.
"""

from __future__ import annotations

import argparse
import dataclasses
import time

import numpy as np

from djgnn.graph import Graph
from djgnn.training.config import RunConfig, resolve
from djgnn.training.folds import with_splits
from djgnn.training.held_out import HeldOut, held_out
from djgnn.training.inputs import build_djgnn
from djgnn.training.run import train
from djgnn.training.suspects import suspects


def changed(graph: Graph, share: float, seed: int) -> tuple[Graph, np.ndarray]:
    """The graph without splits and with other labels for some nodes, and which."""
    rng, y = np.random.default_rng(seed), np.array(graph.y)
    known = np.flatnonzero(y >= 0)
    nodes = rng.choice(known, round(share * known.size), replace=False)
    y[nodes] = (y[nodes] + rng.integers(1, graph.num_classes, nodes.size)) % graph.num_classes
    bare = dataclasses.replace(graph, y=y, train_mask=None, val_mask=None, test_mask=None)
    return bare, nodes


def others(held: HeldOut) -> dict[str, np.ndarray]:
    """Nodes in other orders of suspicion."""
    rows, shares = np.arange(held.y.size), held.shares.astype(np.float64)
    own, rest = shares[rows, held.y], shares.copy()
    rest[rows, held.y] = -1
    count = np.maximum(np.bincount(held.y, minlength=shares.shape[1]), 1)
    mean = np.bincount(held.y, own, shares.shape[1]) / count
    ranks = {"margin": own - rest.max(axis=1), "class": own - mean[held.y]}
    return {name: held.nodes[np.argsort(rank, kind="stable")] for name, rank in ranks.items()}


def measure(graph: Graph, config: RunConfig, share: float, seed: int) -> dict[str, float]:
    """Shares of the changed labels among as many suspects; how many look wrong; seconds."""
    start = time.perf_counter()
    graph, wrong = changed(graph, share, seed)
    graph, config = with_splits(graph, config, seed=seed)
    module, inputs = build_djgnn(config, graph)
    fitted, _ = train(module, inputs, graph, 0, config.training, seed)
    held = held_out(graph, fitted)
    found = suspects(graph, held)
    number = {name: i for i, name in enumerate(graph.names())}
    order = {"suspects": np.array([number[each.node] for each in found]), **others(held)}
    hits = {name: float(np.isin(nodes[: wrong.size], wrong).sum()) for name, nodes in order.items()}
    looks = np.array([number[each.node] for each in found if each.looks_wrong], dtype=np.int64)
    return {
        **{name: hit / wrong.size for name, hit in hits.items()},
        "look": looks.size,
        "right": float(np.isin(looks, wrong).mean()) if looks.size else float("nan"),
        "seconds": time.perf_counter() - start,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data")
    parser.add_argument("--datasets", default="cora,pubmed,squirrel_filtered")
    parser.add_argument("--share", type=float, default=0.05)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--experts", help="Of the preset full, all by default.")
    parser.add_argument("--epochs", type=int)
    options = parser.parse_args()
    config = resolve("full")
    if options.epochs:
        config = config.replace(epochs=options.epochs)
    if options.experts:
        config = config.replace(experts=tuple(options.experts.split(",")))
    print(f"{'set':18s} seed  suspects  margin   class  look wrong  of them changed  seconds")
    for name in options.datasets.split(","):
        graph = Graph.load(name, data=options.data)
        for seed in range(options.seeds):
            m = measure(graph, config, options.share, seed)
            print(
                f"{name:18s} {seed:4d}  {m['suspects']:8.3f}  {m['margin']:6.3f}  {m['class']:6.3f}"
                f"  {m['look']:10.0f}  {m['right']:15.3f}  {m['seconds']:7.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
