"""What `djgnn fit` gives on an own graph: half of the labels of a data set are hidden at random.

    python benchmarks/own_graphs.py run --datasets texas,cora --seeds 3 --workers 2 --out FILE.jsonl
    python benchmarks/own_graphs.py table FILE.jsonl

Per set and seed, accuracy on the hidden half: cross-fitted and with one split; the simple methods
(largest class, label propagation, boosting: the plain experts cross-fitted; a GCN with a quarter
of the labels set aside); the expected accuracy with its interval, what of it was measured and what
averaging is estimated to add and adds; coverage and size of the sets of classes at 0.9 and 0.8.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
import warnings
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from djgnn.baselines.config import baseline_config
from djgnn.bench.cell import build, train_split
from djgnn.cli.memory import largest_block, one_heap, training_memory
from djgnn.graph import Graph, random_splits
from djgnn.graph.registry import load
from djgnn.training.config import resolve
from djgnn.training.conformal import Promise, sets_card, sets_within
from djgnn.training.folds import with_splits
from djgnn.training.inputs import build_djgnn
from djgnn.training.progress import Hooks
from djgnn.training.run import train
from djgnn.training.verdict import verdict
from rows import Rows, main

COVERAGES = (0.9, 0.8)


def half_hidden(graph: Graph, name: str, seed: int) -> tuple[Graph, NDArray[np.int64]]:
    """The graph without splits and without half of its labels; the nodes that lost theirs."""
    y = np.array(graph.y)
    known = np.flatnonzero(y >= 0)
    draw = np.random.default_rng([seed, zlib.crc32(name.encode())])
    hidden = np.sort(draw.permutation(known)[: known.size // 2])
    y[hidden] = -1
    none = {"train_mask": None, "val_mask": None, "test_mask": None}
    card = {**graph.card, "metric": "accuracy"}
    return dataclasses.replace(graph, y=y, card=card, **none), hidden


def fitted_run(own: Graph, folds: int, seed: int, device: str) -> tuple[Any, Any, Any, Any]:
    """Train as `djgnn fit` does, with its memory."""
    graph, config = with_splits(own, resolve("full"), folds, seed)
    module, inputs = build_djgnn(config, graph, device)
    one_heap()
    with training_memory(largest_block(config, graph, device)) as release:
        hooks = Hooks(on_epoch=lambda _, record: release(record.epoch), on_end=lambda _: release(0))
        fitted, result = train(module, inputs, graph, 0, config.training, seed, hooks)
    return graph, config, fitted, result


def measure(name: str, seed: int, device: str) -> dict[str, Any]:
    """All figures of one set and seed."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    whole = load(name)
    own, hidden = half_hidden(whole, name, seed)
    truth = np.asarray(whole.y)[hidden]

    def right(answers: NDArray[Any]) -> float:
        return 100 * float(np.mean(answers == truth))

    begun = time.perf_counter()
    graph, config, fitted, result = fitted_run(own, 4, seed, device)
    spent = time.perf_counter() - begun
    found: dict[str, Any] = {"dataset": name, "seed": seed, "hidden": hidden.size, "seconds": spent}
    found["folds"] = right(fitted.logits.argmax(dim=1).cpu().numpy()[hidden])
    found["weights"] = {r.name: r.weight for r in fitted.experts if r.weight > 0.0025}
    shares = fitted.calibration.probabilities(fitted.logits.cpu().numpy()[hidden])
    names = [graph.names()[i] for i in hidden.tolist()]
    for coverage in COVERAGES:
        card = sets_card(graph, fitted, result.split, Promise(coverage=coverage))
        assert card is not None
        sets = sets_within(np.asarray(card["thresholds"]), shares, names)
        inside = [c in chosen for c, chosen in zip(truth.tolist(), sets, strict=True)]
        sizes = {"covered": float(np.mean(inside)), "size": float(np.mean([len(s) for s in sets]))}
        sizes["empty"] = float(np.mean([not chosen for chosen in sets]))
        found[f"sets {coverage}"] = {**sizes, "plain_size": card["plain_mean_size"]}
    judged = verdict(graph, fitted, result.split, config.training.epochs)
    assert judged is not None
    keys = ("expected", "low", "high", "measured", "gain", "graph_helps")
    found["verdict"] = {k: judged[k] for k in keys}
    module, inputs = fitted.module, build_djgnn(config, graph, device)[1]
    module.eval()
    simple, nodes = {}, torch.from_numpy(hidden).to(device)
    with torch.no_grad():
        said = {n: module.experts[n](*module.inputs_of(n, inputs))[0][nodes] for n in module.names}
        for kind in ("shares", "propagation", "boosting"):
            each = [said[n].softmax(dim=1) for n in module.names if n.startswith(f"{kind}-")]
            simple[kind] = right(torch.stack(each).mean(dim=0).argmax(dim=1).cpu().numpy())
        folds = [torch.full_like(nodes, k) for k in range(module.folds)]
        singles = [module.combine(list(said.values()), k).argmax(dim=1) for k in folds]
    found["one member"] = float(np.mean([right(each.cpu().numpy()) for each in singles]))
    split = random_splits(own, train=0.75, val=0.25, random_state=seed)
    recipe = baseline_config("gcn")
    logits = train_split(build(recipe, split, device), split, 0, seed).logits
    simple["gcn"] = right(logits.argmax(dim=1).cpu().numpy()[hidden])
    found["simple"] = simple
    one = fitted_run(own, 1, seed, device)[2]
    found["one split"] = right(one.logits.argmax(dim=1).cpu().numpy()[hidden])
    return found


def table(rows: Rows) -> None:
    """Print means over seeds as Markdown, then what all runs say together."""
    heads = ["cross-fitted", "one split", "best simple", "measured", "gain", "true gain"]
    heads += ["expected", "covered 0.9", "size", "plain", "covered 0.8", "empty 0.8", "seconds"]
    print(f"| | {' | '.join(heads)} |\n| --- |{' ---: |' * len(heads)}")
    for name in dict.fromkeys(row["dataset"] for row in rows):
        own = [row for row in rows if row["dataset"] == name]
        simple = {kind: np.mean([r["simple"][kind] for r in own]) for kind in own[0]["simple"]}
        best = max(simple, key=lambda kind: simple[kind])
        sets, fewer = ([r[f"sets {coverage}"] for r in own] for coverage in COVERAGES)
        figures = ("measured", "gain", "expected")
        said = {key: np.mean([r["verdict"][key] for r in own]) for key in figures}
        cells = [
            f"{np.mean([r['folds'] for r in own]):.1f}",
            f"{np.mean([r['one split'] for r in own]):.1f}",
            f"{best} {simple[best]:.1f}",
            f"{said['measured']:.1f}",
            f"{said['gain']:.1f}",
            f"{np.mean([r['folds'] - r['one member'] for r in own]):.1f}",
            f"{said['expected']:.1f}",
            f"{100 * np.mean([s['covered'] for s in sets]):.1f}",
            f"{np.mean([s['size'] for s in sets]):.2f}",
            f"{np.mean([s['plain_size'] for s in sets]):.2f}",
            f"{100 * np.mean([s['covered'] for s in fewer]):.1f}",
            f"{100 * np.mean([s['empty'] for s in fewer]):.1f}",
            f"{np.mean([r['seconds'] for r in own]):.0f}",
        ]
        print(f"| {name} | {' | '.join(cells)} |")
    best_simple = np.array([max(r["simple"].values()) for r in rows])
    folds, one = (np.array([r[key] for r in rows]) for key in ("folds", "one split"))
    expected = np.array([r["verdict"]["expected"] for r in rows])
    error = np.sqrt(folds * (100 - folds) / np.array([r["hidden"] for r in rows]))
    low, high = (np.array([r["verdict"][key] for r in rows]) for key in ("low", "high"))
    print(f"\nahead of the best simple method by {np.mean(folds - best_simple):+.2f} on average")
    print(f"below it by more than one standard error: {np.sum(folds < best_simple - error)} runs")
    print(f"cross-fitting ahead of one split by {np.mean(folds - one):+.2f}")
    measured = np.array([r["verdict"]["measured"] for r in rows])
    print(f"expected less true accuracy: mean {np.mean(expected - folds):+.2f}")
    print(f"measured out of fold less true accuracy: mean {np.mean(measured - folds):+.2f}")
    print(f"intervals that hold the true accuracy: {np.mean((low <= folds) & (folds <= high)):.1%}")
    for coverage in COVERAGES:
        held = [r[f"sets {coverage}"]["covered"] for r in rows]
        print(f"coverage promised {coverage}: {np.mean(held):.3f}, least {np.min(held):.3f}")


def wanted(options: argparse.Namespace) -> Iterator[tuple[str, int]]:
    """Every seed of every set."""
    for seed in range(options.seeds):
        yield from ((name, seed) for name in options.datasets)


if __name__ == "__main__":
    sys.exit(main(__doc__, "seed", wanted, measure, table, seeds=3))
