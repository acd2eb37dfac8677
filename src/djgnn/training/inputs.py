"""From a `Graph` to what a module takes: features and structure on a device."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from threading import Thread
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Generator, Tensor, nn

from djgnn.errors import InputError
from djgnn.graph import Graph
from djgnn.graph.operator import SparseOperator
from djgnn.model import DJGNN, DJExperts
from djgnn.model.operators import Parts, direction_tells, is_directed
from djgnn.training.config import RunConfig

if TYPE_CHECKING:
    from djgnn.training.distributed.group import Group


def choose_device(name: str = "auto") -> torch.device:
    """``auto`` takes the GPU if there is one.

    Raises:
        InputError: If CUDA is asked for and not there.
    """
    if name not in ("auto", "cpu", "cuda"):
        raise InputError(f"device: must be auto, cpu or cuda (got {name!r})")
    there = torch.cuda.is_available()
    if name == "cuda" and not there:
        raise InputError("device: cuda was asked for, but no GPU is visible; use cpu or auto")
    return torch.device("cuda" if there and name != "cpu" else "cpu")


def start_gpu(name: str = "auto") -> None:
    """Begin to start the GPU that ``auto`` or ``cuda`` takes, which lasts a second or two."""
    if name != "cpu" and torch.cuda.is_available():

        def start() -> None:
            with suppress(Exception):  # whoever needs it first says what is wrong
                torch.empty(1, device="cuda")

        Thread(target=start).start()


def features(graph: Graph, device: torch.device | str = "cpu") -> Tensor | SparseOperator:
    """Node features; sparse ones stay sparse.

    A graph without features gets the identity: every node is known by its own column, and the
    branches learn from structure alone.
    """
    return dense_or_sparse(feature_matrix(graph), device)


def feature_matrix(graph: Graph) -> Any:
    """What :func:`features` puts on a device, as it is."""
    return sp.eye_array(graph.num_nodes, format="csr") if graph.x is None else graph.x


def dense_or_sparse(x: Any, device: torch.device | str = "cpu") -> Tensor | SparseOperator:
    """A feature matrix on a device; a sparse one stays sparse."""
    if isinstance(x, sp.csr_array):
        return SparseOperator.from_scipy(x, torch.float32, device)
    return torch.from_numpy(np.array(x)).to(device)


def num_features(graph: Graph) -> int:
    """Columns of :func:`features`."""
    return graph.num_nodes if graph.x is None else graph.num_features


def build_djgnn(
    config: RunConfig,
    graph: Graph,
    device: torch.device | str = "cpu",
    group: Group | None = None,
) -> tuple[DJGNN | DJExperts, tuple[Any, Any]]:
    """A DJ-GNN for a graph, one network or a mixture of experts, and its inputs.

    Args:
        config: What to build.
        graph: The graph.
        device: Where.
        group: The processes that share the rows; by default this one has them all. Then only the
            graph of the first process counts.

    Raises:
        InputError: If the configuration asks for more jumps than the graph has nodes.
    """
    if group is not None and not group.alone:
        from djgnn.training.distributed.view import shard_djgnn

        return shard_djgnn(config, graph, group, device)
    with torch.device(device):  # weights that are drawn again for a training are drawn there
        module = blank_djgnn(config, graph)
    return module, djgnn_inputs(module, graph, device)


def djgnn_inputs(
    module: DJGNN | DJExperts, graph: Graph, device: torch.device | str = "cpu"
) -> tuple[Any, Any]:
    """The features of a graph, and the operators of a DJ-GNN, in one process."""
    return features(graph, device), module.operators(Parts(graph.adjacency, device=device))


@dataclass(frozen=True)
class Facts:
    """What the size of a DJ-GNN depends on, beside its configuration."""

    name: str
    num_features: int
    num_classes: int
    num_nodes: int
    directed: bool
    directions: bool

    @classmethod
    def of(cls, graph: Graph) -> Facts:
        """Those of a graph."""
        sizes = (num_features(graph), graph.num_classes, graph.num_nodes)
        both = (graph.adjacency, sp.csr_array(graph.adjacency.T))
        return cls(graph.name, *sizes, is_directed(*both), direction_tells(*both))


def blank_djgnn(config: RunConfig, graph: Graph | Facts) -> DJGNN | DJExperts:
    """A DJ-GNN of the sizes of a graph.

    Raises:
        InputError: If the configuration asks for more jumps than the graph has nodes.
    """
    c, facts = config.model, Facts.of(graph) if isinstance(graph, Graph) else graph
    sizes = (facts.num_features, c.hidden_channels, facts.num_classes, facts.num_nodes)
    try:
        if c.experts:
            return DJExperts(*sizes, facts.directed, config=c, directions=facts.directions)
        return DJGNN(*sizes, c.num_jumps, config=c)
    except ValueError as error:
        raise InputError(f"{facts.name}: {error}") from error


def seeded(seed: int, device: torch.device | str = "cpu") -> Generator:
    """A generator of one device, from a seed."""
    return Generator(device).manual_seed(seed)


def initialize(module: nn.Module, seed: int) -> None:
    """Draw the weights on the CPU, so that a seed means the same on every device."""
    device = next(module.parameters()).device
    module.cpu()
    module.reset_parameters(seeded(seed))  # type: ignore[operator]
    module.to(device)
