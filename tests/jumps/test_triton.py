"""The GPU search against the dense oracle; skipped without a GPU."""

from __future__ import annotations

import pytest
import torch

from djgnn.jumps import SearchMemory, gpu_ranks, rank_lists, single_classes
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
    if not few:
        monkeypatch.setattr(gpu_ranks, "FEW", 0)
    u, alone = draw(kind, 6000, p), single_classes(6000).to("cuda")
    expected = rank_lists(u, alone, 8, "dense").ranks
    memory = SearchMemory()
    for _ in range(2):
        assert torch.equal(rank_lists(u, alone, 8, "triton", memory).ranks, expected)


def test_twins_share_their_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    labels = torch.arange(5000) % 1500
    twins = TwinClasses.from_labels(labels.numpy()).to("cuda")
    u = draw("uniform", 1500, 3)[labels]
    expected = rank_lists(u, twins, 9, "dense").ranks
    assert torch.equal(rank_lists(u, twins, 9, "triton").ranks, expected)
    monkeypatch.setattr(gpu_ranks, "FEW", 0)
    assert torch.equal(rank_lists(u, twins, 9, "triton").ranks, expected)


def test_double_precision_and_wide_lists() -> None:
    u, alone = draw("uniform", 5000, 5).double(), single_classes(5000).to("cuda")
    expected = rank_lists(u, alone, 60, "dense").ranks
    assert torch.equal(rank_lists(u, alone, 60, "triton").ranks, expected)
