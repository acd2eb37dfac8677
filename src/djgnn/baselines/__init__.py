"""The other systems, one file each, one interface: `build(config, graph) -> module`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import nn

from djgnn.baselines.config import BaselineConfig
from djgnn.graph import Graph
from djgnn.model.operators import treat
from djgnn.training.inputs import features

BASELINES = ("mlp", "gcn")

__all__ = ["BASELINES", "BaselineConfig", "build_baseline"]


def build_baseline(
    name: str, config: BaselineConfig, graph: Graph, device: torch.device | str = "cpu"
) -> tuple[nn.Module, tuple[Any, Any]]:
    """A baseline by name, and its inputs.

    Raises:
        ValueError: If there is no such baseline.
    """
    if name not in BASELINES:
        raise ValueError(f"model must be one of djgnn, {', '.join(BASELINES)} (got '{name}')")
    module: nn.Module = import_module(f"djgnn.baselines.{name}").build(config, graph)
    edges = np.stack(treat(graph.adjacency, config.adjacency).nonzero()).astype(np.int64)
    x = features(graph, device, sparse=bool(module.sparse_features))
    return module.to(device), (x, torch.from_numpy(edges).to(device))
