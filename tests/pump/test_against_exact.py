"""A pump that was really trained, against the exact minimum of its own loss."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from djgnn.model import DJGNN, graph_operators
from djgnn.spectral import fiedler_environment, minimize_trace_ratio, trace_ratio
from djgnn.training.config import TrainConfig
from djgnn.training.decoupled import train_pump


def trained_pump(a: np.ndarray, p: int, seed: int, epochs: int) -> np.ndarray:
    """U after gradient descent on trace ratio and orthogonality."""
    operators = graph_operators(sp.csr_array(a), dtype=torch.float64)
    model = DJGNN(1, 1, 2, a.shape[0], num_jumps=1, num_centers=p).double()
    model.reset_parameters(torch.Generator().manual_seed(seed))
    train_pump(model, (torch.zeros(a.shape[0], 1), operators), TrainConfig(pump_epochs=epochs))
    with torch.no_grad():
        return model.pump(operators.adjacency, operators.degree).u.numpy()


def random_graph(seed: int, n: int) -> np.ndarray:
    """A connected undirected graph: a ring and random chords."""
    rng = np.random.default_rng(seed)
    a = np.triu(rng.random((n, n)) < 3 / n, 1).astype(float)
    a[np.arange(n - 1), np.arange(1, n)] = 1
    a[0, n - 1] = 1
    return np.maximum(a, a.T)


@pytest.mark.parametrize("seed", range(6))
def test_the_exact_minimum_is_never_above_a_trained_pump(seed: int) -> None:
    n, p = 12 + 6 * seed, 2 + seed % 4
    a = random_graph(seed, n)
    exact = minimize_trace_ratio(a, p).ratio
    for epochs in (1, 200):
        u = trained_pump(a, p, seed, epochs)
        assert np.linalg.matrix_rank(u) == p
        assert trace_ratio(a, u, orthonormalize=True) >= exact - 1e-10


def test_training_brings_the_pump_towards_the_minimum() -> None:
    block = np.ones((10, 10)) - np.eye(10)
    a = np.kron(np.eye(3), block)
    a[0, 10] = a[10, 0] = a[10, 20] = a[20, 10] = 1
    exact = minimize_trace_ratio(a, 3).ratio
    before, after = (trained_pump(a, 3, 0, epochs) for epochs in (1, 400))
    first, last = (trace_ratio(a, u, orthonormalize=True) for u in (before, after))
    assert exact <= last < 0.1 * first
    assert last < exact + 0.05
    environment = fiedler_environment(a, after)
    assert environment.fiedler_share > 0.9
    assert (environment.centred_energies >= environment.fiedler_value - 1e-10).all()
