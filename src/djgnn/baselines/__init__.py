"""The other systems, one interface: `build_baseline(config, graph) -> (module, inputs)`."""

import dataclasses
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import nn

from djgnn.baselines.base import Options
from djgnn.baselines.config import (
    BASELINES,
    BaselineConfig,
    baseline_config,
    model_class,
    options_of,
    published,
    search_space,
)
from djgnn.graph import Graph
from djgnn.model.operators import treat
from djgnn.training.inputs import features, num_features

__all__ = [
    "BASELINES",
    "BaselineConfig",
    "Options",
    "baseline_config",
    "build_baseline",
    "options_of",
    "published",
    "search_space",
]


def build_baseline(
    config: BaselineConfig, graph: Graph, device: torch.device | str = "cpu"
) -> tuple[nn.Module, tuple[Any, Any]]:
    """A baseline and its inputs: features, and edges along which messages flow.

    Example:
        >>> from djgnn.graph import heterophilic_sbm
        >>> module, (x, edge_index) = build_baseline(baseline_config("gcn"), heterophilic_sbm(160))
        >>> module(x, edge_index).shape[1]
        4
    """
    options = options_of(config.model)(**config.options)
    seen = treat_features(graph, options.features)
    sizes = (num_features(seen), seen.num_classes, seen.num_nodes)
    module = model_class(config.model)(options, *sizes)
    x = features(seen, device)
    edges = message_edges(seen, options.adjacency)
    return module.to(device), (x, torch.from_numpy(edges).to(device))


def treat_features(graph: Graph, treatment: str) -> Graph:
    """The graph with its features ``"raw"``, divided by their ``"row"`` sums, or left out."""
    if treatment == "raw" or graph.x is None:
        return graph
    if treatment == "identity":
        return dataclasses.replace(graph, x=None)
    x = sp.csr_array(graph.x)
    total = np.asarray(abs(x).sum(axis=1)).reshape(-1)
    scaled = sp.diags_array(1 / np.where(total > 0, total, 1)) @ x
    kept = scaled if isinstance(graph.x, sp.csr_array) else scaled.toarray()
    return dataclasses.replace(graph, x=kept.astype(np.float32))


def message_edges(graph: Graph, adjacency: str) -> np.ndarray[Any, np.dtype[np.int64]]:
    """PyG's edges, source first: node i receives from j if A[i, j], or A[j, i], or either.

    Shapes:
        result ``[2, E]``.
    """
    kind = "symmetric" if adjacency == "symmetric" else "given"
    target, source = treat(graph.adjacency, kind).nonzero()
    pair = (target, source) if adjacency == "transposed" else (source, target)
    return np.stack(pair).astype(np.int64)
