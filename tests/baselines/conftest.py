"""A small graph, and small baselines on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from djgnn.baselines import baseline_config, build_baseline, options_of
from djgnn.graph import Graph, heterophilic_sbm

SMALL = {"hidden_channels": 8, "num_chunks": 4, "heads": 2, "num_layers": 2}
Build = Callable[..., tuple[Any, tuple[Any, torch.Tensor]]]


def small(name: str, **changes: Any) -> Any:
    """A narrow configuration."""
    known = set(options_of(name).__dataclass_fields__)
    fitting = {key: value for key, value in SMALL.items() if key in known}
    return baseline_config(name, **{**fitting, **changes})


@pytest.fixture(scope="session")
def graph() -> Graph:
    """A directed graph with sparse features, some self loops and an isolated node."""
    made = heterophilic_sbm(60, hub_size=1)
    n = made.num_nodes
    edges = np.concatenate([made.edge_index, [[0, 5], [0, 5]]], axis=1)
    edges = edges[:, (edges != n - 1).all(axis=0)]
    x = np.where(np.abs(made.x) > 0.5, made.x, 0)
    return Graph(edges, n, x=sp.csr_array(x.astype(np.float32)), y=made.y)


@pytest.fixture(scope="session")
def built() -> Build:
    """Build a small baseline in evaluation mode, with the weights of seed 0."""

    def make(name: str, graph: Graph, **changes: Any) -> Any:
        module, inputs = build_baseline(small(name, **changes), graph)
        module.reset_parameters(torch.Generator().manual_seed(0))
        return module.eval(), inputs

    return make


def dense(x: Any) -> torch.Tensor:
    """Features as a plain tensor."""
    return x if isinstance(x, torch.Tensor) else x.to_dense()


def received(edge_index: torch.Tensor, num_nodes: int) -> torch.Tensor:
    """The dense matrix whose row i marks the sources of messages to node i."""
    matrix = torch.zeros(num_nodes, num_nodes)
    matrix[edge_index[1], edge_index[0]] = 1
    return matrix


def scaled(matrix: torch.Tensor) -> torch.Tensor:
    """D^-1/2 A D^-1/2 by row sums, empty rows left empty."""
    root = matrix.sum(dim=1).pow(-0.5)
    root[root.isinf()] = 0
    return root[:, None] * matrix * root


def looped(matrix: torch.Tensor) -> torch.Tensor:
    """The diagonal set to one."""
    return matrix - torch.diag(matrix.diagonal()) + torch.eye(len(matrix))
