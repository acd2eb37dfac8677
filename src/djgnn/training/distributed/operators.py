"""What one process holds of a graph: its own rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from djgnn.graph import Graph
from djgnn.graph.operator import SparseOperator
from djgnn.jumps import TwinClasses, single_classes, twin_classes
from djgnn.model import DJGNN
from djgnn.model.operators import gcn_normalize, treat
from djgnn.model.views import Features
from djgnn.training.config import RunConfig
from djgnn.training.distributed.group import Group
from djgnn.training.distributed.halo import HaloOperator
from djgnn.training.distributed.shard import Shard
from djgnn.training.distributed.view import ShardView
from djgnn.training.inputs import blank_djgnn, build_djgnn, dense_or_sparse, feature_matrix


@dataclass(frozen=True, eq=False)
class ShardOperators:
    """Constant parts of the rows of one process, and who has the others.

    Shapes:
        adjacency ``[own, n]``, degree ``[n]``, volume scalar, homophilic ``[own, own + seen]``;
        classes ``[m]`` (twin classes of the own nodes), place ``[own]`` (of each node in them).
    """

    group: Group
    shard: Shard
    adjacency: SparseOperator
    degree: Tensor
    volume: Tensor
    homophilic: HaloOperator
    twins: TwinClasses
    classes: Tensor
    place: Tensor

    @property
    def num_nodes(self) -> int:
        """Number of nodes n of the graph."""
        return self.shard.num_nodes

    def view(self, features: Features) -> ShardView:
        """All own rows; every process must call this at the same time."""
        return ShardView.of(features, self)

    def __repr__(self) -> str:
        shard = self.shard
        return f"ShardOperators({shard.first} to {shard.last} of {shard.num_nodes}, {self.twins})"


def distributed_djgnn(
    config: RunConfig, graph: Graph, group: Group, device: torch.device | str = "cpu"
) -> tuple[DJGNN, tuple[Any, Any]]:
    """A DJ-GNN for a graph, and its inputs: whole on a process alone, else its own rows.

    Raises:
        InputError: If the configuration asks for more jumps than the graph has nodes.
    """
    if group.alone:
        return build_djgnn(config, graph, device)
    return shard_djgnn(config, graph, group, device)


def shard_djgnn(
    config: RunConfig, graph: Graph, group: Group, device: torch.device | str = "cpu"
) -> tuple[DJGNN, tuple[Any, ShardOperators]]:
    """A DJ-GNN for a graph, and this process's rows of its inputs.

    The graph is read whole by every process; what is kept for training are its own rows.

    Raises:
        InputError: If the configuration asks for more jumps than the graph has nodes.
    """
    module = blank_djgnn(config, graph).to(device)
    edges = np.diff(graph.adjacency.indptr)
    shard = Shard.balanced(edges, group.size, group.rank)
    x = feature_matrix(graph)[shard.first : shard.last]
    operators = shard_operators(graph.adjacency, group, shard, config.model.treatment(), device)
    return module, (dense_or_sparse(x, device), operators)


def shard_operators(
    adjacency: Any,
    group: Group,
    shard: Shard,
    treatment: dict[str, Any],
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> ShardOperators:
    """Prepare the rows of one process.

    Args:
        adjacency: A as given, whole.
        group: The processes.
        shard: Whose nodes are whose.
        treatment: See :meth:`djgnn.model.ModelConfig.treatment`.
        device: Where the rows will live.
        dtype: Precision of the values.
    """
    own = slice(shard.first, shard.last)
    whole = treat(adjacency, treatment["pump_adjacency"])
    degree = np.asarray(whole.sum(axis=1)).reshape(-1)
    twins = twin_classes(whole) if treatment["twins"] else single_classes(whole.shape[0])
    classes, place = np.unique(twins.class_of.numpy()[own], return_inverse=True)
    adjacent = SparseOperator.from_scipy(whole[own], dtype, device)
    normalized = gcn_normalize(treat(adjacency, treatment["homophilic_adjacency"]))[own]
    return ShardOperators(
        group=group,
        shard=shard,
        adjacency=adjacent,
        degree=torch.from_numpy(degree).to(device=device, dtype=dtype),
        volume=torch.tensor(float(degree.sum()), dtype=dtype, device=device),
        homophilic=HaloOperator.of(group, shard, normalized, "homophilic", dtype, device),
        twins=twins.to(device),
        classes=torch.from_numpy(classes).to(device),
        place=torch.from_numpy(place.reshape(-1)).to(device),
    )
