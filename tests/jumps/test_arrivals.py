"""New nodes ranked against the stored U: the oracle sorts everything."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from djgnn.jumps import TwinClasses, arrival_ranks, single_classes


def oracle(new: torch.Tensor, u: torch.Tensor, num_ranks: int) -> list[list[int]]:
    """Sort the known nodes and the new node itself by (distance, number), one by one."""
    lists = []
    for i, point in enumerate(new.double()):
        d = (u.double() - point).square().sum(dim=1).sqrt().tolist()
        known = sorted((d[j], j) for j in range(len(u)))
        own = (0.0, len(u) + i)
        lists.append([j for _, j in sorted([*known, own])][:num_ranks])
    return lists


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(1, 30),
    m=st.integers(0, 8),
    p=st.integers(1, 3),
    levels=st.integers(1, 4),
)
def test_equals_the_full_sort_whatever_the_ties(
    seed: int, n: int, m: int, p: int, levels: int
) -> None:
    rng = np.random.default_rng(seed)
    points = rng.integers(0, levels, (n, p)).astype(np.float32)
    u = torch.from_numpy(points)
    new = torch.from_numpy(rng.integers(0, levels, (m, p)).astype(np.float32))
    _, labels = np.unique(points, axis=0, return_inverse=True)
    # Some of the nodes at one position are twins, some are there by chance.
    classes = TwinClasses.from_labels(labels.reshape(-1) * 2 + rng.integers(0, 2, n))
    num_ranks = int(rng.integers(0, n + 2))
    found = arrival_ranks(new, u, classes, num_ranks)
    assert found.shape == (m, num_ranks)
    assert found.tolist() == oracle(new, u, num_ranks)


@pytest.mark.parametrize("p", [2, 12])
def test_many_dimensions_go_by_blocks(p: int) -> None:
    generator = torch.Generator().manual_seed(0)
    u, new = (torch.randn(count, p, generator=generator) for count in (200, 30))
    found = arrival_ranks(new, u, single_classes(200), 6)
    assert found.tolist() == oracle(new, u, 6)
    assert (found[:, 0] == 200 + torch.arange(30)).all()
