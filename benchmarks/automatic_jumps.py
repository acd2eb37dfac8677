"""Automatic jumps beside fixed numbers of them, and how well the mixture knows what it knows.

    python benchmarks/automatic_jumps.py run --datasets texas,cora --splits 0-9 --out FILE.jsonl
    python benchmarks/automatic_jumps.py table FILE.jsonl

Experts share nothing, so those without jumps are trained once for a split, and those with jumps
once for every number of them. Of the fixed numbers the one with the best mean validation score of
the mixture is compared. The last columns are the expected calibration error of the mixture with
automatic jumps, in percent, on the test nodes of all splits together, and how many these are.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from djgnn.graph.registry import load
from djgnn.model import DJExperts
from djgnn.training.calibration import ReliabilityBin, calibration_error, reliability
from djgnn.training.config import resolve
from djgnn.training.expert_training import Training, seed_of
from djgnn.training.inputs import build_djgnn
from djgnn.training.mixture_weights import learned
from djgnn.training.progress import Hooks
from djgnn.training.run import train
from experts import JUMPING, Cell, wanted
from rows import Rows, main

NUMBERS = (1, 2, 3, 5, 8, 12, 24)


def measure(name: str, split: int, seed: int, device: str) -> dict[str, Any]:
    """Validation and test score of the mixture for every number of jumps."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    began, graph = time.perf_counter(), load(name)
    cell, config = Cell(graph, split, device), resolve("default")
    module, inputs = build_djgnn(config, graph, device)
    fitted = train(module, inputs, graph, split, config.training, seed)[0]
    shares = fitted.calibration.probabilities(fitted.logits.cpu().numpy()[cell.nodes[2]])
    bins = [(b.count, b.confidence, b.accuracy) for b in reliability(shares, cell.labels[2])]
    every = {key: each.cpu().numpy() for key, each in fitted.by_expert.items()}
    rival = min(each.validation_loss for each in fitted.experts if each.name not in JUMPING)
    scores = {"auto": scores_of(cell, every)}
    for number in NUMBERS:
        few = config.replace(experts=JUMPING, num_jumps=number)
        mixture, own = build_djgnn(few, graph, device)
        assert isinstance(mixture, DJExperts)
        for key in JUMPING:
            how = (own, cell.targets, few.training, seed_of(key, seed), 0, False)
            one = Training(key, mixture, *how).run(lambda: rival, Hooks())
            every[key] = one.logits.cpu().numpy()
        scores[str(number)] = scores_of(cell, every)
    where = {"dataset": name, "split": split, "seed": seed}
    return {**where, "seconds": time.perf_counter() - began, "scores": scores, "bins": bins}


def scores_of(cell: Cell, every: dict[str, Any]) -> list[float]:
    """Validation and test score of the mixture of these experts, from their logits."""
    held, tested = ([each[nodes] for each in every.values()] for nodes in cell.nodes[1:])
    found = learned(held, cell.labels[1])
    parts = (held, tested)
    return [cell.score(np.exp(found.mixed(part)), i) for i, part in enumerate(parts, 1)]


def table(rows: Rows) -> None:
    """Print means over splits as Markdown."""
    heads = ["splits", "auto", "best K", "test", "difference", "calibration error, %", "nodes"]
    print(f"| | {' | '.join(heads)} |\n| --- |{' ---: |' * len(heads)}")
    for name in sorted({row["dataset"] for row in rows}):
        own = [row for row in rows if row["dataset"] == name]
        means = {k: np.mean([row["scores"][k] for row in own], axis=0) for k in own[0]["scores"]}
        best = max((k for k in means if k != "auto"), key=lambda k: float(means[k][0]))
        auto, other = means["auto"][1], means[best][1]
        error, count = pooled(own)
        cells = [f"{len(own)}", f"{auto:.2f}", best, f"{other:.2f}", f"{auto - other:+.2f}"]
        print(f"| {name} | {' | '.join(cells)} | {100 * error:.2f} | {count} |")


def pooled(rows: Rows) -> tuple[float, int]:
    """The calibration error of the test nodes of all splits together, and their number."""
    found = []
    for b, parts in enumerate(zip(*(row["bins"] for row in rows), strict=True)):
        filled = [part for part in parts if part[0]]
        count = sum(part[0] for part in filled)
        means = [sum(p[0] * p[k] for p in filled) / count if count else None for k in (1, 2)]
        found.append(ReliabilityBin(b / len(rows[0]["bins"]), 0.0, count, *means))
    return calibration_error(tuple(found)), sum(b.count for b in found)


def every_split(options: argparse.Namespace) -> Iterator[tuple[str, int, int]]:
    """The largest sets first, whose splits take longest."""
    yield from sorted(wanted(options), key=lambda each: -load(each[0]).num_nodes)


if __name__ == "__main__":
    sys.exit(main(__doc__, "split", every_split, measure, table, splits="0-9", seed=0))
