"""The Triton search against the dense oracle: on a GPU, or in Triton's interpreter on a CPU."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
from tests.oracles import dense_rank_lists

from djgnn.jumps import SearchMemory, TwinClasses, engines, rank_lists, tiles, triton_search
from djgnn.jumps.tiles import TiledPoints, kd_order
from djgnn.jumps.triton_search import triton_available

pytest.importorskip("triton")

GPU = triton_available()
DEVICE = "cuda" if GPU else "cpu"
POINTS = 6000 if GPU else 64  # the interpreter takes a millisecond for a few operations
KINDS = (
    ("uniform", "clustered", "saturated", "lattice", "duplicated")
    if GPU
    else ("saturated", "lattice")
)
PATHS = ("all pairs", "tiles", "products")


def draw(kind: str, n: int, p: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    points = torch.randn(n, p, generator=generator)
    if kind == "uniform":
        points = torch.rand(n, p, generator=generator) * 2 - 1
    elif kind == "clustered":
        points = torch.tanh(points[:50][torch.arange(n) % 50] + 0.02 * points)
    elif kind == "saturated":
        points = torch.tanh(7 * points)
    elif kind == "lattice":
        points = torch.randint(0, 7, (n, p), generator=generator).float()
    elif kind == "duplicated":
        points = points[torch.randint(n // 8, (n,), generator=generator)]
    return points.to(DEVICE)


def alone(n: int) -> TwinClasses:
    return TwinClasses.from_labels(np.arange(n)).to(DEVICE)


def right(
    points: torch.Tensor, twins: TwinClasses, num_ranks: int, memory: SearchMemory | None = None
) -> bool:
    u = points[twins.class_of]
    found = rank_lists(u, twins, num_ranks, "triton", memory).index
    return torch.equal(found, dense_rank_lists(u, num_ranks, twins))


@pytest.fixture(autouse=True)
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a CPU: kernels there too, and tiles so small that few points fill several chunks."""
    if not GPU:
        monkeypatch.setattr(engines, "uses_triton", lambda _: True)
        monkeypatch.setattr(TiledPoints, "CHUNK", 4)
        monkeypatch.setattr(triton_search, "TILE", 8)


def take(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if path != "all pairs":
        monkeypatch.setattr(triton_search, "ALL_PAIRS", 0)
    if path == "products":
        monkeypatch.setattr(triton_search, "_products_win", lambda *_: True)


def test_kernels_run_here() -> None:
    from djgnn.jumps.triton_kernels import nearest_kernel

    kind = type(nearest_kernel).__name__
    assert kind == ("JITFunction" if GPU else "InterpretedFunction")


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("kind", KINDS)
def test_lists_are_those_of_the_oracle(
    kind: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    take(path, monkeypatch)
    for p in (2, 5, 16) if GPU else (3,):
        points, twins = draw(kind, POINTS, p), alone(POINTS)
        assert right(points, twins, 5)


@pytest.mark.parametrize("kind", ["uniform", "lattice"])
def test_long_lists_have_tiles_of_their_own(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    take("tiles", monkeypatch)
    ranks = 32
    if not GPU:
        ranks = 5
        monkeypatch.setattr(triton_search, "LONG", ranks)
        monkeypatch.setattr(triton_search, "LONG_ROWS", 4)
        monkeypatch.setattr(triton_search, "LONG_TILE", 16)
    memory, twins = SearchMemory(), alone(POINTS)
    points = draw(kind, POINTS, 3)
    for step in range(2):
        assert right(points + 0.001 * step * points.square(), twins, ranks, memory), step


def test_other_points_may_coincide_than_in_the_search_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    take("tiles", monkeypatch)
    memory, twins, sorts = SearchMemory(), alone(POINTS), []
    monkeypatch.setattr(tiles, "kd_order", lambda *given: sorts.append(0) or kd_order(*given))
    steps = ([], [(0, 1), (7, 40)], [(1, 40), (2, 3)], [], [(0, 1)])
    points = draw("uniform", POINTS, 3)
    for step, pairs in enumerate(steps):
        moved = points + 0.001 * step * points.square()
        for a, b in pairs:
            moved[a] = moved[b]
        assert right(moved, twins, 5, memory), step
        assert memory.order is not None
        assert len(memory.order) == len(moved.unique(dim=0))
    assert len(sorts) == 1  # what is known is used, whatever coincides
    assert right(draw("uniform", POINTS // 2, 3), alone(POINTS // 2), 5, memory)  # another graph


@pytest.mark.parametrize("path", ["all pairs", "tiles"])
def test_twins_share_their_lists(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    take(path, monkeypatch)
    for name in ("ROWS", "FEW_ROWS"):  # few rows: several programs share the points
        monkeypatch.setattr(triton_search, name, 8)
    labels = np.random.default_rng(0).integers(0, POINTS // 2, POINTS)
    twins = TwinClasses.from_labels(labels).to(DEVICE)
    points = draw("uniform", twins.num_classes, 3)
    assert right(points, twins, 6)


def test_lists_known_before_only_bound_those_of_all_pairs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(triton_search, "FEW_ROWS", 8)
    labels = np.random.default_rng(0).integers(0, POINTS // 2, POINTS)
    twins, memory = TwinClasses.from_labels(labels).to(DEVICE), SearchMemory()
    points = draw("uniform", twins.num_classes, 3)
    for step in range(3):
        moved = points + 0.01 * step * points.square()
        moved[step] = moved[step + 1]
        assert right(moved, twins, 6, memory), step
        assert memory.lists is not None
        assert bool((memory.lists >= 0).all())
    held = memory.lists
    assert right(draw("lattice", twins.num_classes, 3), twins, 6, memory)  # far from there
    assert memory.lists is held  # where a CUDA graph looks for it
    other = TwinClasses.from_labels(np.arange(twins.num_classes)).to(DEVICE)
    assert right(points, other, 6, memory)  # as many classes, of other nodes
    assert right(points, other, 4, memory)


def test_what_is_known_is_used() -> None:
    """Beyond the bound nothing is looked for: with a wrong one there are gaps."""
    points = draw("uniform", 40, 2)
    known = torch.arange(40, dtype=torch.int32, device=DEVICE)[:, None]  # each node itself
    names, _ = triton_search.nearest_of_all_pairs(points, 3, known)
    assert ((names < 40).sum(dim=1) == 1).all()


@pytest.mark.parametrize("whole", [True, False])
def test_the_order_of_the_points_changes_no_list(
    whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Points on a line, tiles shuffled: neighbours across their borders are in far tiles."""
    take("tiles", monkeypatch)
    tile = triton_search.TILE
    monkeypatch.setattr(triton_search, "ROWS", tile)
    monkeypatch.setattr(triton_search, "PROGRAMS", 1)  # one program visits all tiles
    generator = torch.Generator().manual_seed(0)
    n = 8 * tile
    place = torch.arange(n) + 0.3 * torch.rand(n, generator=generator)
    points = torch.stack([place, -0.5 * place], dim=1).to(DEVICE)
    order = torch.randperm(n, generator=generator)
    if whole:
        order = torch.arange(n).view(8, tile)[torch.randperm(8, generator=generator)].view(-1)
    memory = SearchMemory(order=order.to(DEVICE))
    assert right(points, alone(n), 2, memory)
    assert memory.age == 1


def test_double_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    take("tiles", monkeypatch)
    wide = 60 if GPU else 5
    points, twins = draw("uniform", POINTS, 3).double(), alone(POINTS)
    points[1] = points[0] + 1e-12
    assert right(points, twins, wide)


def test_distances_that_float32_cannot_tell_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Certified lists alone are kept; the other rows are searched again in float64."""
    take("tiles", monkeypatch)
    points, twins = draw("uniform", POINTS, 3), alone(POINTS)
    points = (100 + 1e-4 * points).contiguous()
    assert right(points, twins, 5)


@pytest.mark.parametrize("path", PATHS)
def test_fewer_points_than_a_tile(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    take(path, monkeypatch)
    for n in (1, 3):
        points = draw("uniform", n, 2)
        assert right(points, alone(n), n)


def test_boxes_exclude_little_in_many_dimensions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton_search, "PRODUCT_POINTS", 0)
    for p, wanted in ((2, False), (12, True)):
        points = draw("uniform", POINTS, p)
        tiled = TiledPoints.build(points, 8, kd_order(points, 8))
        assert triton_search._products_win(tiled, points, 5) is wanted


@pytest.mark.filterwarnings("ignore:All-NaN")
def test_positions_that_are_not_finite_name_only_nodes() -> None:
    points = torch.full((40, 3), torch.nan, device=DEVICE)
    found = triton_search.gpu_rank_lists(points, alone(40), 5)
    assert bool(((found >= 0) & (found < 40)).all())


@pytest.mark.skipif(not GPU, reason="no GPU with Triton")
def test_a_captured_search_is_the_search() -> None:
    points, twins = draw("clustered", 6000, 3), alone(6000)
    u = points.clone()
    rank_lists(u, twins, 5)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = rank_lists(u, twins, 5).ranks
    for at in range(4):
        u.copy_(points + 0.02 * at * torch.sin(40 * points))
        graph.replay()
        assert torch.equal(found, dense_rank_lists(u, 5))


def test_importing_djgnn_does_not_import_triton() -> None:
    code = "import sys, djgnn.model, djgnn.training.run; print('triton' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"
