"""The GPU search against the dense oracle; skipped without a GPU."""

from __future__ import annotations

import pytest
import torch
from tests.oracles import dense_rank_lists

from djgnn.jumps import SearchMemory, gpu_ranks, rank_lists, single_classes, warm_search
from djgnn.jumps.triton_search import triton_available
from djgnn.jumps.twins import TwinClasses

pytestmark = pytest.mark.skipif(not triton_available(), reason="no GPU with Triton")


def draw(kind: str, n: int, p: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    points = torch.randn(n, p, generator=generator)
    if kind == "uniform":
        return (torch.rand(n, p, generator=generator) * 2 - 1).cuda()
    if kind == "clustered":
        return torch.tanh(points[:50][torch.arange(n) % 50] + 0.02 * points).cuda()
    if kind == "saturated":
        return torch.tanh(7 * points).cuda()
    if kind == "lattice":
        return torch.randint(0, 7, (n, p), generator=generator).float().cuda()
    return points[torch.randint(n // 8, (n,), generator=generator)].cuda()


@pytest.mark.parametrize("few", [True, False])
@pytest.mark.parametrize("p", [2, 5, 16])
@pytest.mark.parametrize("kind", ["uniform", "clustered", "saturated", "lattice", "duplicated"])
def test_lists_are_the_oracle_s(
    kind: str, p: int, few: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warm_search, "FROM", 2000)
    if not few:
        monkeypatch.setattr(gpu_ranks, "ALL_PAIRS", 0)
    u, alone = draw(kind, 6000, p), single_classes(6000).to("cuda")
    expected = dense_rank_lists(u, 8, alone)[alone.representative]
    memory = SearchMemory()
    for _ in range(2):
        assert torch.equal(rank_lists(u, alone, 8, "triton", memory).ranks, expected)


@pytest.mark.parametrize("twins", [False, True])
@pytest.mark.parametrize("kind", ["uniform", "clustered", "lattice", "duplicated"])
def test_moving_points_keep_the_oracle_s_lists(
    kind: str, twins: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some crawl, some run, some jump; sorted in space anew from time to time."""
    monkeypatch.setattr(warm_search, "FROM", 2000)
    n, generator = 9000, torch.Generator("cuda").manual_seed(0)
    labels = torch.arange(n) % 4500 if twins else torch.arange(n)
    classes = TwinClasses.from_labels(labels.numpy()).to("cuda")
    points = draw(kind, classes.num_classes, 4)
    memory = SearchMemory()
    for at in range(8):
        u = points[classes.class_of]
        expected = dense_rank_lists(u, 6, classes)[classes.representative]
        assert torch.equal(rank_lists(u, classes, 6, "triton", memory).ranks, expected)
        pace = 0.1 * torch.rand(len(points), 1, generator=generator, device="cuda") ** 6
        points = points + pace * torch.randn(points.shape, generator=generator, device="cuda")
        points[at] = points[-at - 1]
        if at % 3 == 2:
            memory.renew(points)


def test_a_captured_search_is_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_search, "FROM", 2000)
    points = draw("clustered", 6000, 3)
    alone, memory, u = single_classes(6000).to("cuda"), SearchMemory(), points.clone()
    for _ in range(2):
        rank_lists(u, alone, 5, "triton", memory)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = rank_lists(u, alone, 5, "triton", memory).ranks
    for at in range(6):
        u.copy_(points + 0.02 * at * torch.sin(40 * points))
        if at % 2:
            memory.renew(u)
        graph.replay()
        assert torch.equal(found, dense_rank_lists(u, 5, alone)[alone.representative])


def test_positions_that_are_no_numbers_name_nobody_beyond_a_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(warm_search, "FROM", 2000)
    u, alone, memory = draw("uniform", 5000, 3), single_classes(5000).to("cuda"), SearchMemory()
    for _ in range(2):
        rank_lists(u, alone, 5, "triton", memory)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = rank_lists(u, alone, 5, "triton", memory).ranks
    good = u.clone()
    u.fill_(torch.nan)
    graph.replay()
    assert bool(((found >= 0) & (found < 5000)).all())
    u.copy_(good)
    graph.replay()
    assert torch.equal(found, dense_rank_lists(u, 5, alone)[alone.representative])


def test_twins_share_their_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    labels = torch.arange(5000) % 1500
    twins = TwinClasses.from_labels(labels.numpy()).to("cuda")
    u = draw("uniform", 1500, 3)[labels]
    expected = dense_rank_lists(u, 9, twins)[twins.representative]
    assert torch.equal(rank_lists(u, twins, 9, "triton").ranks, expected)
    monkeypatch.setattr(gpu_ranks, "ALL_PAIRS", 0)
    assert torch.equal(rank_lists(u, twins, 9, "triton").ranks, expected)


def test_double_precision_and_wide_lists() -> None:
    u, alone = draw("uniform", 5000, 5).double(), single_classes(5000).to("cuda")
    expected = dense_rank_lists(u, 60, alone)[alone.representative]
    assert torch.equal(rank_lists(u, alone, 60, "triton").ranks, expected)
