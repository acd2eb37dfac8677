"""Tiny data sets and quick models for the tests of this room."""

from __future__ import annotations

import gc
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from djgnn.bench.record import SplitRecord
from djgnn.bench.spec import DataFacts, make_spec
from djgnn.bench.store import FinishedCell
from djgnn.graph import Graph, heterophilic_sbm, random_splits, write_npz

FACTS = {
    name: DataFacts(name, "0" * 64, "accuracy", ((87, 59, 37), (87, 59, 37)))
    for name in ("texas", "cornell")
}


def tiny_graph(seed: int = 0, num_splits: int = 3) -> Graph:
    """A generated graph whose splits all have the same test nodes."""
    graph = random_splits(heterophilic_sbm(40, hub_size=1, random_state=seed), num_splits=1)
    rng = np.random.default_rng(seed)
    test = graph.split(0).test
    rest = np.flatnonzero(~test & (graph.y >= 0))
    masks = np.zeros((3, graph.num_nodes, num_splits), dtype=bool)
    for split in range(num_splits):
        order = rng.permutation(rest)
        masks[0, order[: len(order) * 2 // 3], split] = True
        masks[1, order[len(order) * 2 // 3 :], split] = True
        masks[2, test, split] = True
    return replace(graph.with_masks(*masks), name="own")


def finished_cell(model: str, dataset: str, tests: list[float], seed: int = 0) -> FinishedCell:
    """A finished cell with these test scores."""
    spec = make_spec(model, dataset, tuple(range(len(tests))), seed=seed)
    records = []
    for split, test in enumerate(tests):
        scores = {"validation": 50.0, "test": None if math.isnan(test) else test}
        result = {"split": split, **scores, "oracle_test": scores["test"], "epoch": 1, "seconds": 1}
        records.append(
            SplitRecord(
                key=f"{model}{dataset}{split}", label=model, dataset=dataset, seed=seed,
                split=split, status="done", reason="", result=result, parameters=1,
                sizes=(87, 59, 37),
                peak_memory_mib=1.0, seconds=1.0, device="cpu", metric="accuracy",
                config=spec.config, data_sha256="0" * 64, code="1", versions={},
            )
        )  # fmt: skip
    return FinishedCell(spec, tuple(records))


@pytest.fixture(scope="session", autouse=True)
def frozen_imports() -> None:
    """Every run collects garbage first; what was imported is none and need not be looked at."""
    import torch

    torch.optim.Adam([torch.zeros(1, requires_grad=True)])
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def tiny() -> Graph:
    return tiny_graph()


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory, tiny: Graph) -> Path:
    """A folder with the data set `own`."""
    path = tmp_path_factory.mktemp("data")
    write_npz(tiny, path / "own.npz")
    return path
