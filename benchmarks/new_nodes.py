"""New nodes: hide a tenth of a graph, train on the rest, predict the hidden ones as new nodes.

    python benchmarks/new_nodes.py [--data DIR] [--datasets pubmed,cora,squirrel] [--epochs N]

The hidden nodes are removed with all their edges. *transductive*: a model trained with them in the
graph, their labels unknown to it. Both are scored on the same hidden nodes and selected on the same
validation nodes. Only test nodes of split 0 are hidden, so no label used for training is lost.
Speed: new nodes a second, from the later graph to probabilities, with the stored model loaded.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch

from djgnn.graph import Graph
from djgnn.training.config import RunConfig, resolve
from djgnn.training.inputs import build_djgnn, choose_device
from djgnn.training.run import train
from djgnn.training.stored import StoredModel

BARS = {"pubmed": 1.5, "cora": 3.0, "squirrel": None}


def without(graph: Graph, hidden: np.ndarray) -> Graph:
    """The graph without some nodes and all their edges; the others keep their names."""
    keep = np.flatnonzero(~hidden)
    place = np.full(graph.num_nodes, -1)
    place[keep] = np.arange(keep.size)
    edges = place[graph.edge_index]
    masks = (m[keep] for m in (graph.train_mask, graph.val_mask, graph.test_mask))
    return Graph(
        edges[:, (edges >= 0).all(axis=0)],
        keep.size,
        graph.x[keep],
        graph.y[keep],
        None,
        *masks,
        node_names=tuple(np.array(graph.names())[keep].tolist()),
        class_names=tuple(graph.classes()),
        name=graph.name,
        card=graph.card,
    )


def fitted(graph: Graph, config: RunConfig, device: torch.device) -> StoredModel:
    """A model trained on split 0 of a graph."""
    module, inputs = build_djgnn(config, graph, device)
    model, _ = train(module, inputs, graph, 0, config.training, 0)
    card = {"calibration": {"temperature": model.temperature}, "result": {"split": 0}}
    return StoredModel(model.module.eval(), inputs, graph, config, card)


def measure(name: str, data: str | None, epochs: int | None, device: torch.device) -> str:
    graph = Graph.load(name, data=data)
    rng = np.random.default_rng(0)
    hidden = np.zeros(graph.num_nodes, dtype=bool)
    test = np.flatnonzero(graph.split(0).test)
    hidden[rng.choice(test, graph.num_nodes // 10, replace=False)] = True
    config = resolve("default", name, epochs=epochs)
    whole = fitted(graph, config, device).probabilities[hidden]
    stored = fitted(without(graph, hidden), config, device)
    stored.predict(graph)  # what is computed once for all arrivals
    begun = time.perf_counter()
    shares = stored.predict(graph)[hidden]
    seconds = time.perf_counter() - begun
    truth = graph.y[hidden]
    scores = [100 * float((s.argmax(axis=1) == truth).mean()) for s in (whole, shares)]
    gap, bar = scores[0] - scores[1], BARS.get(name)
    wanted = "" if bar is None else f"wanted at most {bar}"
    return (
        f"{name:10s} {int(hidden.sum()):6d} {scores[0]:13.2f} {scores[1]:9.2f} {gap:6.2f} "
        f"{hidden.sum() / seconds:12.0f}   {wanted}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data")
    parser.add_argument("--datasets", default=",".join(BARS))
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    print(f"{'set':10s} {'hidden':>6s} transductive  arrivals    gap nodes/second")
    for name in options.datasets.split(","):
        row = measure(name, options.data, options.epochs, choose_device(options.device))
        print(row, flush=True)


if __name__ == "__main__":
    main()
