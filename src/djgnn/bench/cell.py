"""One cell of a table: a model on a data set over its splits, with what is needed to trust it."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from djgnn.baselines import BaselineConfig, build_baseline
from djgnn.graph import Graph
from djgnn.training.config import RunConfig, TrainConfig
from djgnn.training.inputs import build_djgnn
from djgnn.training.provenance import PeakMemory, versions
from djgnn.training.run import train
from djgnn.training.selection import SplitResult


@dataclass(frozen=True)
class CellResult:
    """Figures of one cell, in percent; `to_dict` is what `djgnn bench run --json` prints."""

    model: str
    dataset: str
    preset: str
    protocol: str
    seed: int
    metric: str
    splits: tuple[SplitResult, ...]
    seconds: float
    peak_memory_mib: float
    data_sha256: str
    versions: dict[str, str]
    config: dict[str, Any]

    def mean(self, key: str) -> float:
        """Mean of a figure over the splits."""
        return float(np.mean([getattr(s, key) for s in self.splits]))

    def std(self, key: str) -> float:
        """Sample standard deviation (ddof=1) over the splits; 0 for one split."""
        values = [getattr(s, key) for s in self.splits]
        return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "model": self.model,
            "dataset": self.dataset,
            "preset": self.preset,
            "protocol": self.protocol,
            "metric": self.metric,
            "seed": self.seed,
            "splits": [s.to_dict() for s in self.splits],
            "validation_mean": self.mean("validation"),
            "test_mean": self.mean("test"),
            "test_std": self.std("test"),
            "oracle_mean": self.mean("oracle_test"),
            "oracle_std": self.std("oracle_test"),
            "seconds": self.seconds,
            "peak_memory_mib": self.peak_memory_mib,
            "data_sha256": self.data_sha256,
            "versions": self.versions,
            "config": self.config,
        }


def run_cell(
    model: str,
    graph: Graph,
    config: RunConfig | BaselineConfig,
    splits: Sequence[int],
    *,
    protocol: str = "validation",
    seed: int = 0,
    device: torch.device | str = "cpu",
    progress: Callable[[int], Any] | None = None,
) -> CellResult:
    """Train a model on each split from the same seed and collect the figures.

    Args:
        model: ``"djgnn"`` or a baseline.
        graph: The data set.
        config: Its configuration.
        splits: Which splits.
        protocol: What the caller will call the result; both figures are always there.
        seed: Seed of weights and dropout, the same for every split.
        device: Where to train.
        progress: Called with a split's number before it is trained; may return a callback for
            its epochs.
    """
    begun = time.perf_counter()
    memory = PeakMemory(torch.device(device).type)
    results = []
    module, inputs, training = _build(model, config, graph, device)
    for split in splits:
        follow = progress(split) if progress is not None else None
        _, result = train(module, inputs, graph, split, training, seed, follow)
        results.append(result)
    return CellResult(
        model=model,
        dataset=graph.name,
        preset=config.preset if isinstance(config, RunConfig) else "baseline",
        protocol=protocol,
        seed=seed,
        metric=graph.metric,
        splits=tuple(results),
        seconds=time.perf_counter() - begun,
        peak_memory_mib=memory.mib(),
        data_sha256=graph.content_hash,
        versions=versions(),
        config=dataclasses.asdict(config),
    )


def _build(
    model: str, config: RunConfig | BaselineConfig, graph: Graph, device: torch.device | str
) -> tuple[nn.Module, tuple[Any, Any], TrainConfig]:
    if isinstance(config, RunConfig):
        return (*build_djgnn(config, graph, device), config.training)
    if config.model != model:
        raise ValueError(f"the configuration is one of {config.model}, not of {model}")
    return (*build_baseline(config, graph, device), config.training)
