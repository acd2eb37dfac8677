"""What networks on a GPU need is made beside the first trainings: matrices, and kernels."""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
import torch

from djgnn.graph import Graph, Split
from djgnn.graph.operator import SparseOperator
from djgnn.jumps.triton_search import ALL_PAIRS, triton_available
from djgnn.model import DJGNN
from djgnn.model.branches import DeepBranch
from djgnn.model.dropout import keep_share
from djgnn.model.residual import ROWS, WIDTHS, ResidualLayer
from djgnn.training.config import RunConfig, TrainConfig
from djgnn.training.expert_training import Training
from djgnn.training.inputs import build_djgnn, initialize, seeded
from djgnn.training.optimizer import Adam
from djgnn.training.passes import ViewPasses
from djgnn.training.targets import Targets

NODES, NEIGHBOURS, FEATURES, EPOCHS = 2 * ALL_PAIRS, 4, 16, 3
"""Of the random graph that kernels are compiled on, whose nodes are too many for all pairs."""


@contextmanager
def early(trainings: Sequence[Training], wanted: bool) -> Iterator[None]:
    """While the context is open, a thread makes what the trainings will need; it ends with it.

    Args:
        trainings: What will be trained.
        wanted: Whether there is anything to gain.
    """
    over = threading.Event()
    with ThreadPoolExecutor(1) as beside:
        if wanted:
            beside.submit(_prepare, trainings, over.is_set)
        try:
            yield
        finally:
            over.set()


def _prepare(trainings: Sequence[Training], stop: Callable[[], bool]) -> None:
    """The operators of all networks, then the kernels of the deep one and of those with jumps."""
    networks: list[tuple[DJGNN, Training]] = []
    for each in trainings:
        expert: Any = each.mixture.experts[each.name]
        if isinstance(expert, DJGNN) and not stop():
            each.mixture.inputs_of(each.name, each.inputs)
            networks.append((expert, each))
    for network, each in networks:
        if triton_available() and not stop():
            device = each.targets.train.device
            for branch in network.parts:
                if isinstance(branch, DeepBranch) and branch.weight.shape[1] in WIDTHS:
                    compile_layer(branch, device)
            if each.jumps:
                compile_kernels(network, device)


def compile_layer(branch: DeepBranch, device: torch.device) -> None:
    """A residual layer in one piece on a few rows, both ways, and without gradients."""
    width = branch.weight.shape[1]
    h, layer = torch.ones(ROWS, width, device=device), torch.zeros(width, 2 * width, device=device)
    norm, bias = torch.zeros(2, width, device=device), torch.zeros(width, device=device)
    given = [part.requires_grad_() for part in (h, norm, layer, bias)]
    itself = SparseOperator.from_scipy(sp.eye_array(ROWS, format="csr"), torch.float32, device)
    share = keep_share(branch.dropout)
    out: Any = ResidualLayer.apply(*given, itself, share, seeded(0, device))  # type: ignore[no-untyped-call]
    out.sum().backward()
    with torch.no_grad():
        ResidualLayer.apply(*given, itself, 1.0, None)  # type: ignore[no-untyped-call]


def compile_kernels(network: DJGNN, device: torch.device) -> None:
    """A few epochs of a small network of the same kind, on a random graph.

    Triton compiles a kernel when it is first launched, which takes seconds, and keeps it on the
    disk for later runs.
    """
    drawn = np.random.default_rng(0)
    edges, x = drawn.integers(NODES, size=(2, NEIGHBOURS * NODES)), drawn.random((NODES, FEATURES))
    y, half = np.arange(NODES) % network.out_channels, np.arange(NODES) % 2 == 0
    graph = Graph(edges, NODES, x=x.astype(np.float32), y=y)
    module, inputs = build_djgnn(RunConfig(network.config), graph, device)
    initialize(module, 0)
    small, training = cast(DJGNN, module), TrainConfig()
    targets = Targets.of(graph, Split(half, ~half, np.zeros_like(half)), device)
    passes = ViewPasses(small, small.view(*inputs), targets, training)
    optimizer, generator = Adam(small.parameters()), seeded(0, device)
    for _ in range(EPOCHS):
        passes.evaluate()
        passes.update(optimizer, generator)
