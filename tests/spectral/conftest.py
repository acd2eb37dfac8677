"""Random graphs; this folder on the path, where the oracles `langevin` and `walks` are."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

FOLDER = str(Path(__file__).parent)
if FOLDER not in sys.path:
    sys.path.insert(0, FOLDER)


def random_graph(
    seed: int, *, directed: bool | None = None, n: int | None = None, connected: bool = False
) -> sp.csr_array:
    """A small random graph; by its seed weighted or not, directed or not, whole or in pieces."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(5, 40)) if n is None else n
    density = rng.uniform(0.6, 3.0) / size if not connected else 4.0 / size
    matrix = (rng.random((size, size)) < density).astype(float)
    if seed % 2:
        matrix *= rng.uniform(0.1, 5.0, matrix.shape)
    if not (seed % 4 < 2 if directed is None else directed):
        matrix = np.triu(matrix) + np.triu(matrix, 1).T
    if connected:
        ring = np.roll(np.eye(size), 1, axis=1)
        chord = np.zeros_like(ring)
        chord[0, 2] = 1.0  # an odd cycle: not bipartite
        matrix = np.maximum(matrix, ring + ring.T + chord + chord.T)
        matrix = np.maximum(matrix, matrix.T)
    return sp.csr_array(matrix)


def two_communities(seed: int, size: int, inner: float, bridges: int) -> sp.csr_array:
    """Two random communities of equal size joined by a number of random edges."""
    rng = np.random.default_rng(seed)
    blocks = [np.triu(rng.random((size, size)) < inner, 1) for _ in range(2)]
    matrix = np.zeros((2 * size, 2 * size))
    matrix[:size, :size], matrix[size:, size:] = blocks
    matrix[rng.integers(0, size, bridges), size + rng.integers(0, size, bridges)] = 1
    return sp.csr_array(matrix + matrix.T)


@pytest.fixture
def make_graph():
    return random_graph


@pytest.fixture
def make_communities():
    return two_communities
