"""Lists of some classes are rows of the lists of all."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from djgnn.jumps import TwinClasses, class_ranks, rank_lists
from djgnn.jumps import ranks as ranks_module


def positions(kind: str) -> tuple[torch.Tensor, TwinClasses]:
    draw = np.random.default_rng(0)
    twins = TwinClasses.from_labels(draw.integers(0, 150, 200))
    points = torch.from_numpy(draw.normal(size=(twins.num_classes, 3)))
    if kind == "grid":  # ties everywhere
        points = points.round()
    if kind == "saturated":
        points = points.sign()
    return points[twins.class_of], twins


@pytest.mark.parametrize("kind", ["plain", "grid", "saturated"])
@pytest.mark.parametrize("engine", ["auto", "kdtree", "blockwise", "dense"])
@pytest.mark.parametrize("chosen", [[], [0], [5, 17, 80], None])
def test_some_are_as_all(
    kind: str, engine: str, chosen: list[int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    u, twins = positions(kind)
    if kind == "saturated":  # so few that merging coincident points pays
        monkeypatch.setattr(ranks_module, "ROW_ELEMENTS", 1)
    everything = list(range(twins.num_classes))
    classes = torch.tensor(everything if chosen is None else chosen, dtype=torch.int64)
    whole = rank_lists(u, twins, 6, engine).ranks
    assert torch.equal(class_ranks(u, twins, 6, classes, engine), whole[classes])


def test_no_ranks_and_no_numbers() -> None:
    u, twins = positions("plain")
    assert class_ranks(u, twins, 0, torch.tensor([1, 2])).shape == (2, 0)
    u[3] = float("nan")
    with pytest.raises(FloatingPointError, match="no longer finite"):
        class_ranks(u, twins, 2, torch.tensor([1]))
