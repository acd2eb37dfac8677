"""No n x n tensor exists in a default training step, forward or backward."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from djgnn.graph.operator import SparseOperator
from djgnn.model import DJGNN, dense_forward, graph_operators

N = 2500


class Watch(TorchDispatchMode):
    """Records the largest tensor that any operation returns."""

    def __init__(self) -> None:
        super().__init__()
        self.largest = 0
        self.calls = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        self.calls += 1
        for leaf in tree_leaves(out):
            if isinstance(leaf, torch.Tensor):
                stored = leaf.values() if leaf.layout == torch.sparse_csr else leaf
                self.largest = max(self.largest, stored.numel())
        return out


def setting(engine: str = "auto"):
    graph = sp.random_array((N, N), density=4 / N, rng=0)
    graph.data[:] = 1
    x = sp.random_array((N, 300), density=0.02, rng=1, dtype=np.float32)
    model = DJGNN(300, 16, 4, num_nodes=N, num_jumps=5, engine=engine)
    return model, SparseOperator.from_scipy(x), graph_operators(graph), graph


def train_step(model, x, operators) -> None:
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    logits, pump_loss = model(x, operators)
    y = torch.arange(N) % 4
    (F.cross_entropy(logits, y) + pump_loss).backward()
    optimizer.step()


@pytest.mark.parametrize("engine", ["auto", "blockwise"])
def test_no_tensor_of_n_squared_elements(engine: str) -> None:
    model, x, operators, _ = setting(engine)
    train_step(model, x, operators)  # imports and caches
    tracemalloc.start()
    with Watch() as watch:
        train_step(model, x, operators)
    _, peak = tracemalloc.get_traced_memory()  # numpy and scipy allocate through here
    tracemalloc.stop()
    assert watch.calls > 100
    assert watch.largest < N * N
    assert peak < 4 * N * N


def test_not_even_where_every_row_is_tied() -> None:
    model, x, operators, _ = setting()
    with torch.no_grad():
        model.pump.weight.mul_(1e6)  # tanh at +-1 everywhere
    with Watch() as watch:
        train_step(model, x, operators)
    assert watch.largest < N * N


def test_the_watch_sees_the_dense_formulation() -> None:
    model, x, _, graph = setting()
    with Watch() as watch:
        logits, _ = dense_forward(model, x.to_dense(), torch.from_numpy(graph.toarray()).float())
        logits.sum().backward()
    assert watch.largest >= N * N
