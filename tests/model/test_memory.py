"""No n x n tensor exists in a default training step, and nothing that a batch does not need."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from tests.oracles import dense_forward
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from djgnn.graph.operator import SparseOperator
from djgnn.model import DJGNN, DJExperts, graph_operators
from djgnn.model.batches import BatchedDJGNN
from djgnn.model.operators import Parts

N = 2500


class Watch(TorchDispatchMode):
    """Records the largest tensor that any operation returns; those without `whole` rows apart.

    Parts of the matrices in `held` are not new.
    """

    def __init__(self, whole: int = 0, held: tuple[SparseOperator, ...] = ()) -> None:
        super().__init__()
        self.whole = whole
        self.held = {
            part.data_ptr()
            for m in (operator.matrix for operator in held)
            for part in (m.values(), m.col_indices(), m.crow_indices())
        }
        self.largest = self.largest_other = 0
        self.calls = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        self.calls += 1
        for leaf in tree_leaves(out):
            if isinstance(leaf, torch.Tensor):
                stored = leaf.values() if leaf.layout == torch.sparse_csr else leaf
                if stored.data_ptr() in self.held:
                    continue
                self.largest = max(self.largest, stored.numel())
                if not {self.whole, self.whole + 1} & set(leaf.shape):
                    self.largest_other = max(self.largest_other, stored.numel())
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


def test_nor_in_a_step_of_all_experts() -> None:
    _, x, _, graph = setting()
    model = DJExperts(300, 16, 4, num_nodes=N)
    operators = model.operators(Parts(graph))
    train_step(model, x, operators)
    with Watch() as watch:
        train_step(model, x, operators)
    assert watch.calls > 1000
    assert watch.largest < N * N


def test_a_deep_layer_keeps_a_table_and_a_byte_per_entry() -> None:
    _, x, _, graph = setting()
    sizes = []
    for layers in (4, 12):
        made = DJGNN(300, 16, 4, num_nodes=N, jumps=False, homophilic=False, deep=layers)
        held: dict[int, int] = {}

        def keep(value: torch.Tensor, held: dict[int, int] = held) -> torch.Tensor:
            storage = value.untyped_storage()
            held[storage.data_ptr()] = storage.nbytes()
            return value

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda value: value):
            logits, _ = made(x, graph_operators(graph))
        sizes.append(sum(held.values()))
        logits.sum().backward()
    weights = 4 * 16 * (2 * 16 + 3)
    assert sizes[1] - sizes[0] < 8 * (N * 16 * 5 + weights + 1000)


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


def batch_step(n: int, batch_size: int = 40) -> tuple[int, int, int]:
    """Elements of the largest tensor of a batch, with and without a row per node; peak of numpy."""
    graph = sp.random_array((n, n), density=4 / n, rng=0)
    graph.data[:] = 1
    x = SparseOperator.from_scipy(sp.random_array((n, 300), density=0.02, rng=1, dtype=np.float32))
    model = DJGNN(300, 16, 4, num_nodes=n, num_jumps=5)
    operators = graph_operators(graph)
    batched = BatchedDJGNN(model, x, operators)
    held = (x, operators.adjacency, operators.homophilic, batched.hop)
    tables, nodes = batched.tables(), torch.arange(0, n, n // batch_size)[:batch_size]

    def step() -> None:
        moved = (batched.positions(nodes) * tables.gradient[nodes]).sum()
        loss = F.cross_entropy(batched.logits(nodes, tables), nodes % 4)
        (loss + moved).backward()
        model.zero_grad(set_to_none=True)

    step()
    tracemalloc.start()
    with Watch(n, held) as watch:
        step()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert watch.calls > 100
    return watch.largest, watch.largest_other, peak


def test_a_batch_costs_what_it_holds_however_large_the_graph() -> None:
    """Beside its gradients of n x hidden weights, a batch has no tensor that grows with n."""
    small, large = batch_step(N), batch_step(4 * N)
    assert small[0] <= 16 * N
    assert large[0] <= 16 * 4 * N
    assert large[1] < 1.25 * small[1]
    assert large[2] - small[2] < 100 * 3 * N  # numpy: the pointers of a few sparse matrices


def test_the_watch_sees_what_a_whole_step_costs() -> None:
    model, x, operators, _ = setting()
    with Watch(N) as watch:
        train_step(model, x, operators)
    assert watch.largest > 16 * N  # X W of all branches
