"""One cell of a table: a model on a data set over its splits, with what is needed to trust it.

While a model is built and trained, the labels it may not see are not there: building gets no
label at all, training and selection get a graph whose test labels were overwritten. The real ones
are read once, when the model is finished.
"""

import copy
import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from djgnn.baselines import BaselineConfig, build_baseline
from djgnn.checking import json_values
from djgnn.graph import Graph
from djgnn.training.config import RunConfig, TrainConfig
from djgnn.training.inputs import build_djgnn
from djgnn.training.loop import Fitted
from djgnn.training.progress import Hooks, OnEpoch
from djgnn.training.provenance import PeakMemory, versions
from djgnn.training.run import train
from djgnn.training.selection import SplitResult, judge

Recipe = RunConfig | BaselineConfig


@dataclass(frozen=True)
class CellResult:
    """Figures of one cell, in percent; `to_dict` is what `djgnn bench run --json` prints.

    Example:
        >>> from djgnn.baselines import baseline_config
        >>> from djgnn.graph import heterophilic_sbm, random_splits
        >>> graph = random_splits(heterophilic_sbm(160), num_splits=2)
        >>> cell = run_cell("mlp", graph, baseline_config("mlp", epochs=3), [0, 1])
        >>> cell.to_dict()["test_mean"] == cell.mean("test")
        True
    """

    model: str
    dataset: str
    preset: str
    protocol: str
    metric: str
    seed: int
    splits: tuple[SplitResult, ...]
    seconds: float
    peak_memory_mib: float
    parameters: int
    data_sha256: str
    versions: dict[str, str]
    config: dict[str, Any]

    def mean(self, key: str) -> float:
        """Mean of a figure over the splits; NaN without any."""
        return float(np.mean([getattr(s, key) for s in self.splits])) if self.splits else np.nan

    def std(self, key: str) -> float:
        """Sample standard deviation (ddof=1) over the splits; 0 for one split."""
        values = [getattr(s, key) for s in self.splits]
        return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; ``None`` for figures that are not there."""
        means = {
            "validation_mean": self.mean("validation"),
            "test_mean": self.mean("test"),
            "test_std": self.std("test"),
            "oracle_mean": self.mean("oracle_test"),
            "oracle_std": self.std("oracle_test"),
        }
        plain: dict[str, Any] = json_values({**dataclasses.asdict(self), **means})
        return plain


@dataclass(frozen=True, eq=False)
class Built:
    """A model with its inputs, untrained; every split trains a copy of the module."""

    module: nn.Module
    inputs: tuple[Any, Any]
    training: TrainConfig
    device: torch.device

    @property
    def parameters(self) -> int:
        """Number of trainable weights."""
        return sum(p.numel() for p in self.module.parameters() if p.requires_grad)


def model_of(recipe: Recipe) -> str:
    """Which model a configuration is of."""
    return "djgnn" if isinstance(recipe, RunConfig) else recipe.model


def build(recipe: Recipe, graph: Graph, device: torch.device | str = "cpu") -> Built:
    """Build a model and its inputs for a graph, without looking at any label."""
    place, unlabelled = torch.device(device), hide_labels(graph)
    with isolated_randomness(0, place):
        if isinstance(recipe, RunConfig):
            module, inputs = build_djgnn(recipe, unlabelled, place)
            return Built(module, inputs, recipe.training, place)
        return Built(*build_baseline(recipe, unlabelled, place), recipe.training, place)


def train_split(
    built: Built, graph: Graph, split: int, seed: int = 0, progress: OnEpoch | None = None
) -> Fitted:
    """Train and select on one split; the labels of its test nodes are hidden.

    What was trained before leaves no trace: the module is a copy, and torch's global generator,
    which some layers draw from, starts from the seed and is put back afterwards.
    """
    module = copy.deepcopy(built.module)
    blind = hide_labels(graph, graph.split(split).test)
    with isolated_randomness(seed, built.device):
        return train(module, built.inputs, blind, split, built.training, seed, Hooks(progress))[0]


def run_split(
    built: Built, graph: Graph, split: int, seed: int = 0, progress: OnEpoch | None = None
) -> SplitResult:
    """Train on one split, then read its test labels and score, under both protocols."""
    fitted = train_split(built, graph, split, seed, progress)
    return judge(fitted, graph.labels[graph.split(split).test], graph.metric, split)


def hide_labels(graph: Graph, hidden: np.ndarray[Any, Any] | None = None) -> Graph:
    """The graph with class 0 in place of every label, or of those of the nodes `hidden`.

    The number of classes stays. Unlabelled nodes stay unlabelled.
    """
    if graph.y is None:
        return graph
    places = graph.y >= 0 if hidden is None else hidden & (graph.y >= 0)
    return dataclasses.replace(
        graph, y=np.where(places, 0, graph.y), class_names=tuple(graph.classes())
    )


@contextmanager
def isolated_randomness(seed: int, device: torch.device) -> Iterator[None]:
    """Start torch's global generators from `seed`, and put them back at the end."""
    devices = [torch.cuda.current_device()] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        yield


def run_cell(
    model: str,
    graph: Graph,
    config: Recipe,
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

    Raises:
        ValueError: If the configuration is one of another model.

    Example:
        >>> from djgnn.baselines import baseline_config
        >>> from djgnn.graph import heterophilic_sbm, random_splits
        >>> graph = random_splits(heterophilic_sbm(160), num_splits=2)
        >>> cell = run_cell("gcn", graph, baseline_config("gcn", epochs=3), [0, 1])
        >>> [result.split for result in cell.splits], 0 <= cell.mean("test") <= 100
        ([0, 1], True)
    """
    if model != model_of(config):
        raise ValueError(f"the configuration is one of {model_of(config)}, not of {model}")
    begun = time.perf_counter()
    memory = PeakMemory(torch.device(device).type)
    results = []
    built = build(config, graph, device)
    for split in splits:
        follow = progress(split) if progress is not None else None
        results.append(run_split(built, graph, split, seed, follow))
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
        parameters=built.parameters,
        data_sha256=graph.content_hash,
        versions=versions(),
        config=dataclasses.asdict(config),
    )
