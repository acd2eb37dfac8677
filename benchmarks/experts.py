"""What each part of the mixture of experts is worth, from trainings that are shared.

    python benchmarks/experts.py run --datasets texas,cora --splits 0-2 --workers 2 --out FILE.jsonl
    python benchmarks/experts.py table FILE.jsonl

Experts share nothing, so one training of each gives the mixture without any one of them exactly.
Rows of the table, as differences of the test score to the whole mixture, means over the splits:

- every expert left out in turn, and all experts with jumps;
- no product of experts; equal weights; all of it learned on the training nodes instead of the
  validation nodes; the best expert on validation alone;
- one epoch for all experts, by the validation score of the mixture at that epoch;
- one head: all branches of all experts (of the graph as given, and of the mean over neighbours in
  both directions) through one classifier, as the paper has it.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import log_softmax, softmax

from djgnn.graph import Graph
from djgnn.graph.registry import load
from djgnn.model import DJExperts
from djgnn.training.config import RunConfig, resolve
from djgnn.training.experts import fit_experts
from djgnn.training.inputs import build_djgnn
from djgnn.training.loop import Targets
from djgnn.training.mixture_weights import Mixing, learned, mixing_weights
from djgnn.training.progress import EpochRecord, Hooks
from djgnn.training.run import train
from djgnn.training.selection import decision, score
from rows import Rows, main

Floats = NDArray[np.float64]
JUMPING = ("jumps", "joint")
ONE_HEAD: dict[str, Any] = {
    "experts": (),
    "hops": 3,
    "diffusion": 10,
    "deep": 15,
    "homophilic_adjacency": "symmetric",
}


class Cell:
    """A split of a data set: its nodes, labels and how they are scored."""

    def __init__(self, graph: Graph, split: int, device: str) -> None:
        parts = graph.split(split)
        self.graph, self.targets = graph, Targets.of(graph, parts, device)
        self.nodes = [np.flatnonzero(mask) for mask in (parts.train, parts.val, parts.test)]
        self.labels = [graph.labels[nodes] for nodes in self.nodes]

    def score(self, shares: Floats, part: int) -> float:
        """The score of probabilities of the nodes of a part."""
        logits = torch.from_numpy(np.log(np.maximum(shares, 1e-300)))
        metric = self.graph.metric
        return score(decision(logits, metric).numpy(), self.labels[part], metric)

    def likelihood(self, shares: Floats, part: int) -> Floats:
        """What experts give to the labels of a part, ``[experts, nodes]``."""
        y = self.labels[part]
        return np.asarray(shares[:, np.arange(y.size), y])


def mixed(
    cell: Cell,
    by_part: list[Floats],
    chosen: list[int],
    learned_on: int = 1,
    product: bool = True,
) -> Floats:
    """Probabilities of the test nodes, of a mixture of some experts, from their logits."""
    found = learned(list(by_part[learned_on][chosen]), cell.labels[learned_on])
    if not product:
        weights = found.weights / max(1 - found.product, 1e-9)
        found = Mixing(weights, found.temperatures, 0 * found.powers, 0.0)
    return np.exp(found.mixed(list(by_part[2][chosen])))


def one_epoch(cell: Cell, epochs: dict[str, list[list[Floats]]]) -> float:
    """The test score at the one epoch with the best validation score of the mixture."""
    best, found = (-1.0, -np.inf), 0.0
    for t in range(max(len(each) for each in epochs.values())):
        val, test = (
            np.stack([each[min(t, len(each) - 1)][part] for each in epochs.values()])
            for part in (0, 1)
        )
        likelihood = cell.likelihood(val, 1)
        weights = mixing_weights(likelihood)
        shares = np.einsum("e,enc->nc", weights, val)
        merit = (cell.score(shares, 1), float(np.log(weights @ likelihood).mean()))
        if merit > best:
            best, found = merit, cell.score(np.einsum("e,enc->nc", weights, test), 2)
    return found


def left_out(cell: Cell, names: list[str], parts: list[Floats]) -> dict[str, float]:
    """The test scores of mixtures without something, from the logits of all experts."""
    every = list(range(len(names)))
    found = {"all": cell.score(mixed(cell, parts, every), 2)}
    for i, name in enumerate(names):
        rest = [j for j in every if j != i]
        found[f"without {name}"] = cell.score(mixed(cell, parts, rest), 2)
        found[f"{name} alone"] = cell.score(softmax(parts[2][i], axis=1), 2)
    rest = [j for j in every if names[j] not in JUMPING]
    found["without all jumps"] = cell.score(mixed(cell, parts, rest), 2)
    found["without the product"] = cell.score(mixed(cell, parts, every, product=False), 2)
    found["equal weights"] = cell.score(softmax(parts[2], axis=2).mean(axis=0), 2)
    found["learned on training nodes"] = cell.score(mixed(cell, parts, every, 0), 2)
    held_out = cell.likelihood(log_softmax(parts[1], axis=2), 1)
    best = int(np.argmax(held_out.mean(axis=1)))
    found["best expert alone"] = cell.score(softmax(parts[2][best], axis=1), 2)
    return found


def measure(name: str, split: int, seed: int, device: str) -> dict[str, Any]:
    """The test scores of all variants on one split."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    graph = load(name)
    cell, config = Cell(graph, split, device), resolve("default")
    module, inputs = build_djgnn(config, graph, device)
    assert isinstance(module, DJExperts)
    nodes = [torch.from_numpy(n).to(device) for n in cell.nodes[1:]]
    by_module = {id(expert): key for key, expert in module.experts.items()}
    epochs: dict[str, list[list[Floats]]] = defaultdict(list)

    def watch(_: EpochRecord, expert: Any, __: Any, logits: torch.Tensor) -> None:
        shares = [logits[part].double().softmax(dim=1).cpu().numpy() for part in nodes]
        epochs[by_module[id(expert)]].append(shares)

    fitted = fit_experts(module, inputs, cell.targets, config.training, seed, Hooks(observer=watch))
    module = fitted.module.eval()
    assert isinstance(module, DJExperts)
    with torch.no_grad():
        outputs = [e(*module.inputs_of(n, inputs))[0] for n, e in module.experts.items()]
    every = np.stack([each.log_softmax(dim=1).cpu().numpy() for each in outputs])
    found = left_out(cell, list(module.names), [every[:, n] for n in cell.nodes])
    found["one epoch for all"] = one_epoch(cell, epochs)
    single: RunConfig = config.replace(**ONE_HEAD)
    network, own = build_djgnn(single, graph, device)
    found["one head"] = train(network, own, graph, split, single.training, seed)[1].test
    weights = {record.name: record.weight for record in fitted.experts}
    dropped = {record.name: len(record.dropped) for record in fitted.experts if record.dropped}
    where = {"dataset": name, "split": split, "seed": seed, "seconds": fitted.seconds}
    return {**where, "test": found, "weights": weights, "dropped": dropped}


def table(rows: Rows) -> None:
    """Print the differences to the whole mixture as Markdown."""
    names = list(dict.fromkeys(row["dataset"] for row in rows))
    keys = list(dict.fromkeys(key for row in rows for key in row["test"]))
    print(f"| | {' | '.join(names)} | mean |\n| --- |{' ---: |' * (len(names) + 1)}")
    for key in keys:
        means = []
        for name in names:
            own = [r["test"] for r in rows if r["dataset"] == name and key in r["test"]]
            gaps = [t[key] - (0 if key == "all" else t["all"]) for t in own]
            means.append(float(np.mean(gaps)) if gaps else np.nan)
        shown = ["" if np.isnan(m) else f"{m:.1f}" if key == "all" else f"{m:+.1f}" for m in means]
        print(f"| {key} | {' | '.join(shown)} | {np.nanmean(means):.2f} |")


def wanted(options: argparse.Namespace) -> Iterator[tuple[str, int, int]]:
    """Every split of every set that has it."""
    first, _, last = options.splits.partition("-")
    for split in range(int(first), int(last or first) + 1):
        for name in options.datasets:
            if split < load(name).num_splits:
                yield name, split, options.seed


if __name__ == "__main__":
    sys.exit(main(__doc__, "split", wanted, measure, table, splits="0-2", seed=0))
